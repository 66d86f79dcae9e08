//! Random accesses to the arena: loads, stores, atomics and jumps that the address space in force
//! allows or not, and changes of the spaces themselves.

use loiter_isa::Op;

use super::super::asm::{GP, RA};
use super::super::memory::{bytes_of, with_base};
use super::super::state::{MSTATUS, SATP, SEPC, SSTATUS};
use super::super::tables::writes_float;
use super::super::writer::{Mode, Writer};
use super::environment::Protection;
use super::frames::{self, RESULT};
use super::layout::{CODE_FRAMES, DATA_FRAMES, SPAN, USER_STEP, frame};
use super::spaces::{Kind, Spaces};

pub(super) const MPRV: i64 = 1 << 17;
const SUM_MXR: i64 = 3 << 18;
const MPP: i64 = 3 << 11;
pub(super) const SPP: i64 = 1 << 8;
/// Bits of a leaf that a program flips: V, R, W, X, U, A, D.
const FLIPPED: u64 = 0xdf;

/// What a writer of privileged programs knows of memory.
pub(crate) struct Arena {
    pub(super) spaces: Spaces,
    pub(super) protection: Protection,
}

impl Writer {
    fn arena(&self) -> &Arena {
        self.arena.as_ref().expect("the program is privileged")
    }

    /// An address of the arena for an access of `width` bytes: aligned or not, at an edge of a page,
    /// not canonical, beyond all memory.
    fn arena_address(&mut self, width: i32, aligned: bool) -> u64 {
        let width = width as u64;
        let (page, goes_on) = self.arena_page(Kind::Data);
        let protection = self.arena().protection;
        let aligned = aligned || protection == Protection::Fine;
        let may_cross = !aligned && goes_on && protection == Protection::Open;
        let offset = match self.random.below(10) {
            0..3 if may_cross => SPAN[0] - 1 - self.random.below(width.max(2) - 1),
            0..3 => SPAN[0] - width,
            3 => 0,
            _ => self.random.below(SPAN[0] - width + 1),
        };
        let offset = if aligned {
            offset & !(width - 1)
        } else {
            offset
        };
        let address = page + offset;
        if self.random.chance(4) {
            // Not canonical, or in machine mode nowhere.
            return address ^ 1 << (39 + self.random.below(25));
        }
        address
    }

    /// A page of `kind` as this mode addresses it, and whether the next one is of that kind too.
    fn arena_page(&mut self, kind: Kind) -> (u64, bool) {
        let physical = if self.mode == Mode::Machine { 60 } else { 5 };
        if self.random.chance(physical) {
            let frames: &[u64] = match kind {
                Kind::Data => &DATA_FRAMES,
                Kind::Code => &CODE_FRAMES,
            };
            let n = self.random.pick(frames);
            return (frame(n), frames.contains(&(n + 1)));
        }
        let arena = self.arena.as_ref().expect("the program is privileged");
        arena.spaces.plan.page(kind, &mut self.random)
    }

    /// A few accesses; in machine mode perhaps with the rights of another mode.
    pub(crate) fn arena_accesses(&mut self) {
        if self.mode != Mode::Machine || self.random.chance(40) {
            return self.arena_access();
        }
        let mask = self.scratch(&[]);
        let modes = [Mode::User, Mode::Supervisor, Mode::Machine];
        let as_mode = self.random.pick(&modes).field() << 11;
        let rights = self.random.next() as i64 & SUM_MXR;
        self.asm.li(mask, MPP | SUM_MXR);
        self.asm.csr(Op::Csrrc, 0, MSTATUS, mask);
        self.asm.li(mask, MPRV | as_mode | rights);
        self.asm.csr(Op::Csrrs, 0, MSTATUS, mask);
        // A trap on the way ends in machine mode with the rights of user mode.
        self.nested(&[mask], |writer| {
            for _ in 0..1 + writer.random.below(3) {
                writer.arena_access();
            }
        });
        self.asm.li(mask, MPRV);
        self.asm.csr(Op::Csrrc, 0, MSTATUS, mask);
    }

    fn arena_access(&mut self) {
        let base = self.scratch(&[]);
        let aligned = self.random.chance(60);
        match self.random.below(10) {
            0..4 => {
                let op = self.random.pick(&self.tables.loads);
                let imm = self.arena_base(base, bytes_of(op), aligned);
                let register = if writes_float(op) {
                    self.source()
                } else {
                    self.destination()
                };
                self.asm.i(op, register, base, imm);
            }
            4..7 => {
                let (op, value) = (self.random.pick(&self.tables.stores), self.source());
                let imm = self.arena_base(base, bytes_of(op), aligned);
                self.asm.s(op, value, imm, base);
            }
            7 | 8 => {
                let op = self.random.pick(&self.tables.atomics);
                let aligned = self.random.chance(85);
                let address = self.arena_address(bytes_of(op), aligned);
                self.asm.li(base, address as i64);
                let bits = self.fill(op);
                self.asm.word(with_base(bits, base));
            }
            _ => {
                let (lr, sc) = self.random.pick(&[(Op::LrW, Op::ScW), (Op::LrD, Op::ScD)]);
                let address = self.arena_address(bytes_of(lr), true);
                self.asm.li(base, address as i64);
                let (first, failed) = (self.scratch(&[base]), self.scratch(&[base]));
                self.asm.r(lr, first, base, 0);
                let value = self.source();
                self.asm.r(sc, failed, base, value);
            }
        }
    }

    /// `base` near an address of the arena, and the immediate that reaches it.
    fn arena_base(&mut self, base: u8, width: i32, aligned: bool) -> i32 {
        let address = self.arena_address(width, aligned);
        let imm = self.random.between(-2048, 2047);
        self.asm.li(base, (address as i64).wrapping_sub(imm.into()));
        imm
    }

    /// A jump into the arena, which comes back.
    pub(crate) fn arena_jump(&mut self) {
        if !self.may_write(RA) || !self.may_write(RESULT) {
            return;
        }
        let crossing = self.random.chance(40);
        let (page, goes_on) = loop {
            let place = self.arena_page(Kind::Code);
            if place.1 || !crossing {
                break place;
            }
        };
        debug_assert!(goes_on || !crossing);
        let mut address = page + frames::entry(crossing, &mut self.random);
        if self.random.chance(4) {
            address ^= 1 << (39 + self.random.below(25));
        }
        let pointer = self.scratch(&[RA, RESULT]);
        self.asm.li(pointer, address as i64);
        if self.mode == Mode::Supervisor && self.random.chance(20) {
            return self.jump_by_return(pointer);
        }
        self.asm.i(Op::Jalr, RA, pointer, 0);
    }

    /// In supervisor and machine mode: code in the arena changes, then a jump into it, or elsewhere.
    pub(crate) fn change_code(&mut self) {
        if self.mode != Mode::User {
            let (pointer, word) = {
                let pointer = self.scratch(&[]);
                (pointer, self.scratch(&[pointer]))
            };
            let place = frame(self.random.pick(&CODE_FRAMES)) + frames::END;
            let imm = self.random.between(-2048, 2047);
            self.asm.li(pointer, place as i64);
            self.asm
                .li(word, i64::from(frames::end_instruction(imm) as i32));
            self.asm.s(Op::Sw, word, 0, pointer);
            self.asm.bare(Op::FenceI);
        }
        self.arena_jump();
    }

    /// `sret` to `pointer`, in supervisor mode.
    fn jump_by_return(&mut self, pointer: u8) {
        let next = self.asm.label();
        self.asm.csrw(SEPC, pointer);
        self.asm.la(RA, next);
        self.asm.li(pointer, SPP);
        self.asm.csr(Op::Csrrs, 0, SSTATUS, pointer);
        self.asm.bare(Op::Sret);
        self.asm.bind(next);
    }

    /// In supervisor and machine mode: an entry of a page table changes, with the fence that this
    /// needs; then an access, to see it.
    pub(crate) fn change_entry(&mut self) {
        if self.mode == Mode::User {
            return self.arena_access();
        }
        let arena = self.arena.as_ref().expect("the program is privileged");
        let (globals, entries) = (arena.spaces.globals, &arena.spaces.entries);
        let entry = self.random.pick(entries);
        let pointer = self.scratch(&[]);
        let value = self.scratch(&[pointer]);
        self.asm.li(pointer, entry.at as i64);
        if entry.level == 0 && self.random.chance(60) {
            let flip = self.scratch(&[pointer, value]);
            self.asm.i(Op::Ld, value, pointer, 0);
            let bits = self.random.next() & self.random.next() & FLIPPED;
            self.asm.li(flip, bits as i64);
            self.asm.r(Op::Xor, value, value, flip);
        } else {
            let arena = self.arena.as_ref().expect("the program is privileged");
            let spaces = &arena.spaces;
            let leaf = spaces.random_leaf(entry.level, entry.kind, &mut self.random);
            self.asm.li(value, leaf as i64);
        }
        self.asm.s(Op::Sd, value, 0, pointer);
        self.asm.li(pointer, entry.page as i64);
        // Entries above the last level may have been pointers, which only a fence for all addresses
        // orders; global pages belong to no address space.
        let all = entry.level > 0 || self.random.chance(30);
        let address = if all { 0 } else { pointer };
        let asid = if globals || self.random.chance(50) {
            0
        } else {
            value
        };
        self.asm.li(value, entry.asid as i64);
        self.asm.r(Op::SfenceVma, 0, address, asid);
        if entry.kind == Kind::Data {
            let (op, offset) = (self.random.pick(&self.tables.loads), 8);
            let register = if writes_float(op) {
                self.source()
            } else {
                self.destination()
            };
            self.asm.i(op, register, pointer, offset);
            if self.random.chance(50) {
                let value = self.source();
                self.asm.s(Op::Sd, value, 16, pointer);
            }
        }
    }

    /// In supervisor and machine mode: another address space; where all of them can be told apart,
    /// without a fence.
    pub(crate) fn switch_space(&mut self) {
        if self.mode == Mode::User {
            return self.arena_access();
        }
        let arena = self.arena.as_ref().expect("the program is privileged");
        let (globals, all) = (arena.spaces.globals, &arena.spaces.satp);
        let satp = self.random.pick(all);
        let (value, old) = (self.scratch(&[]), self.destination());
        let over = self.asm.label();
        if self.mode == Mode::Supervisor {
            // Without translation, user mode does not find its code where address spaces have it.
            self.asm.csrr(value, SATP);
            self.asm.branch(Op::Beq, value, 0, over);
        }
        self.asm.li(value, satp as i64);
        self.asm.csr(Op::Csrrw, old, SATP, value);
        if globals || self.random.chance(50) {
            self.asm.bare(Op::SfenceVma);
        }
        self.asm.bind(over);
        self.arena_access();
    }

    /// From supervisor mode to user mode, where `gp` is another one.
    pub(super) fn drop_to_user(&mut self) {
        let (step, pointer) = {
            let step = self.scratch(&[]);
            (step, self.scratch(&[step]))
        };
        let entry = self.asm.label();
        self.asm.li(pointer, SPP);
        self.asm.csr(Op::Csrrc, 0, SSTATUS, pointer);
        self.asm.i(Op::Ld, step, GP, USER_STEP);
        self.asm.la(pointer, entry);
        self.asm.r(Op::Add, pointer, pointer, step);
        self.asm.csrw(SEPC, pointer);
        self.asm.r(Op::Add, GP, GP, step);
        self.asm.bare(Op::Sret);
        self.asm.bind(entry);
        self.mode = Mode::User;
    }
}
