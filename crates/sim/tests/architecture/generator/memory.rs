//! Random accesses to the window: loads, stores, atomics, reservations, fences, and new code.

use loiter_hart::access_width;
use loiter_isa::{Class, Op, decode};

use super::asm::{GP, Label};
use super::layout::{WINDOW, WINDOW_BYTES};
use super::tables::writes_float;
use super::writer::Writer;

/// Reservations on different lines are farther apart than this.
const LINE_BYTES: i32 = 64;
/// What waiting for flags looks at.
const FLAG_BYTES: i32 = 64;
/// Codes of probes that mean something; others are plain hints.
const PROBES: std::ops::RangeInclusive<i32> = 0x01..=0x0a;

/// Bytes that `op` accesses.
pub(super) fn bytes_of(op: Op) -> i32 {
    access_width(op).expect("accesses memory").bytes() as i32
}

impl Writer {
    /// A load or store, by `gp` or by a register that depends on data.
    pub(super) fn load_or_store(&mut self) {
        let load = self.random.chance(60);
        let ops = if load {
            &self.tables.loads
        } else {
            &self.tables.stores
        };
        let op = self.random.pick(ops);
        let width = bytes_of(op);
        let aligned = self.random.chance(70);
        let (base, imm) = if self.random.chance(40) {
            (GP, self.window_offset(width, aligned))
        } else {
            self.data_dependent(width, aligned)
        };
        if !load {
            let value = self.source();
            return self.asm.s(op, value, imm, base);
        }
        let register = if writes_float(op) {
            self.source()
        } else {
            self.destination()
        };
        self.asm.i(op, register, base, imm);
    }

    /// A base register in the upper half of the window that depends on data, and an immediate that
    /// keeps within the window.
    fn data_dependent(&mut self, width: i32, aligned: bool) -> (u8, i32) {
        let base = self.scratch(&[]);
        let from = self.source();
        let step = if aligned { -width } else { -1 };
        self.asm
            .i(Op::Andi, base, from, (WINDOW_BYTES / 2 - 8) & step);
        self.asm.r(Op::Add, base, base, GP);
        (base, self.random.between(WINDOW, 0) & step)
    }

    /// A compressed load or store.
    pub(super) fn compressed_load_or_store(&mut self) {
        let memory = |class| matches!(class, Class::Load | Class::Store);
        let op = self.random.pick(&self.tables.compressed_ops(memory));
        let Some(half) = self.fill_short(op, |writer, inst| writer.may_write(inst.rs1)) else {
            return;
        };
        let inst = decode(u32::from(half));
        let width = bytes_of(op);
        let aligned = self.random.chance(80);
        let offset = self.window_offset(width, aligned);
        self.point(inst.rs1, offset - inst.imm);
        self.asm.half(half);
    }

    /// A register that points to `width` aligned bytes of the window.
    fn aligned_base(&mut self, width: i32, others: &[u8]) -> u8 {
        let base = self.scratch(others);
        if self.random.chance(50) {
            let offset = self.window_offset(width, true);
            self.point(base, offset);
        } else {
            let from = self.source();
            self.asm
                .i(Op::Andi, base, from, (WINDOW_BYTES / 2 - 1) & -width);
            self.asm.r(Op::Add, base, base, GP);
        }
        base
    }

    /// One atomic read-modify-write.
    pub(super) fn atomic(&mut self) {
        let op = self.random.pick(&self.tables.atomics);
        let base = self.aligned_base(bytes_of(op), &[]);
        let bits = self.fill(op);
        self.asm.word(with_base(bits, base));
    }

    /// `lr` and `sc`: a constrained loop, a pair without a loop, or an `sc` that must fail; or the hardware
    /// lock, where there is one.
    pub(super) fn reservation(&mut self) {
        if self.target.has(Op::LockAcquire) && self.random.chance(40) {
            return self.hardware_lock();
        }
        let (lr, sc) = self.random.pick(&[(Op::LrW, Op::ScW), (Op::LrD, Op::ScD)]);
        let base = self.aligned_base(bytes_of(lr), &[]);
        let retry = self.asm.bound();
        self.nested(&[base], |writer| {
            let bits = writer.fill(lr);
            writer.asm.word(with_base(bits, base));
            for _ in 0..writer.random.below(4) {
                writer.plain_integer();
            }
        });
        if self.random.chance(15) {
            return self.hopeless_store_conditional(sc);
        }
        let failed = self.scratch(&[base]);
        let value = self.source();
        self.asm.r(sc, failed, base, value);
        match self.random.below(3) {
            0 => self.asm.branch(Op::Bne, failed, 0, retry),
            1 if (8..16).contains(&failed) => self.asm.short(Op::Bne, failed, retry),
            _ => {}
        }
    }

    /// The hardware lock: taken when it is free, given back; or flags, of which one is set. What is held, or
    /// is zero, is given up when the time is over, for nobody else is there.
    fn hardware_lock(&mut self) {
        let base = self.scratch(&[]);
        let line = self.window_offset(FLAG_BYTES, true);
        self.point(base, line);
        let limit = self.scratch(&[base]);
        let most = self.random.between(1, 300);
        self.asm.li(limit, most.into());
        let (late, over) = (self.asm.label(), self.asm.label());
        let acquires = self.random.chance(60);
        if self.random.chance(50) {
            // Free, or without a flag.
            for offset in (0..FLAG_BYTES).step_by(8) {
                self.asm.s(Op::Sd, 0, offset, base);
            }
        }
        let op = if acquires {
            Op::LockAcquire
        } else {
            Op::LockWait
        };
        self.asm.branch(op, base, limit, late);
        self.nested(&[base], Writer::integer);
        if acquires {
            self.asm.r(Op::LockRelease, 0, base, 0);
        }
        self.asm.j(over);
        self.asm.bind(late);
        self.nested(&[base], Writer::integer);
        self.asm.bind(over);
    }

    /// An integer operation that a constrained loop may hold: neither multiplies nor divides.
    fn plain_integer(&mut self) {
        let op = self.any_integer_op();
        if op.class() == Class::Alu {
            let bits = self.fill(op);
            self.asm.word(bits);
        }
    }

    /// An `sc` to a line that is not reserved: it ends the reservation and fails.
    fn hopeless_store_conditional(&mut self, sc: Op) {
        let base = self.scratch(&[]);
        self.point(base, WINDOW + WINDOW_BYTES + LINE_BYTES);
        let (failed, value) = (self.destination(), self.source());
        self.asm.r(sc, failed, base, value);
    }

    /// A fence, a pause, or a hint.
    pub(super) fn fence_or_hint(&mut self) {
        let op = self.random.pick(&[
            Op::Fence,
            Op::FenceTso,
            Op::FenceI,
            Op::Pause,
            Op::Probe,
            Op::WrsSto,
            Op::WrsNto,
        ]);
        if !self.target.has(op) {
            return;
        }
        let bits = self.fill(op);
        if op == Op::Probe && PROBES.contains(&decode(bits).imm) {
            return;
        }
        if matches!(op, Op::WrsNto | Op::WrsSto) {
            // Without a reservation, waiting for its loss ends at once.
            self.hopeless_store_conditional(Op::ScD);
        }
        self.asm.word(bits);
    }

    /// Overwrites an instruction ahead with another one, then runs it.
    pub(super) fn new_code(&mut self) {
        let (pointer, word) = {
            let pointer = self.scratch(&[]);
            (pointer, self.scratch(&[pointer]))
        };
        let place: Label = self.asm.label();
        let op = self.any_integer_op();
        let new = self.fill(op);
        self.asm.la(pointer, place);
        self.asm.li(word, i64::from(new as i32));
        self.asm.s(Op::Sw, word, 0, pointer);
        self.asm.bare(Op::FenceI);
        self.asm.bind(place);
        let op = self.any_integer_op();
        let old = self.fill(op);
        self.asm.word(old);
    }
}

/// The encoding `bits` with base register `rs1`.
pub(super) fn with_base(bits: u32, rs1: u8) -> u32 {
    bits & !(0x1f << 15) | u32::from(rs1) << 15
}
