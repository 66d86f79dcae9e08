//! Random accesses to control and status registers whose behaviour QEMU's virt machine and loiter
//! share, interrupts that a hart sends itself, and changes of mode within a block.

use loiter_isa::Op;

use super::exclusions::Exclusion;
use super::writer::{Mode, Writer};

pub(crate) const FFLAGS: u16 = 0x001;
pub(crate) const FRM: u16 = 0x002;
pub(crate) const FCSR: u16 = 0x003;
pub(crate) const MSTATUS: u16 = 0x300;
pub(crate) const MEDELEG: u16 = 0x302;
pub(crate) const MIDELEG: u16 = 0x303;
pub(crate) const MIE: u16 = 0x304;
pub(crate) const MTVEC: u16 = 0x305;
pub(crate) const MCOUNTEREN: u16 = 0x306;
pub(crate) const MEPC: u16 = 0x341;
pub(crate) const MIP: u16 = 0x344;
pub(crate) const SSTATUS: u16 = 0x100;
pub(crate) const SIE: u16 = 0x104;
pub(crate) const STVEC: u16 = 0x105;
pub(crate) const SCOUNTEREN: u16 = 0x106;
pub(crate) const SEPC: u16 = 0x141;
pub(crate) const SIP: u16 = 0x144;
pub(crate) const SENVCFG: u16 = 0x10a;
pub(crate) const SSCRATCH: u16 = 0x140;
pub(crate) const SCAUSE: u16 = 0x142;
pub(crate) const STVAL: u16 = 0x143;
pub(crate) const STIMECMP: u16 = 0x14d;
pub(crate) const SATP: u16 = 0x180;
pub(crate) const MISA: u16 = 0x301;
pub(crate) const MENVCFG: u16 = 0x30a;
pub(crate) const MSCRATCH: u16 = 0x340;
pub(crate) const MCAUSE: u16 = 0x342;
pub(crate) const MTVAL: u16 = 0x343;
pub(crate) const PMPCFG0: u16 = 0x3a0;
pub(crate) const PMPADDR0: u16 = 0x3b0;

/// Supervisor software interrupt, in mip, mie and mideleg.
pub(crate) const SSI: u8 = 2;
/// Supervisor interrupts enabled, in a status register.
pub(crate) const SUPERVISOR_ENABLE: u8 = 1 << 1;
/// Machine interrupts enabled, in mstatus.
pub(crate) const MACHINE_ENABLE: u8 = 1 << 3;
/// All supervisor interrupts.
const SUPERVISOR_INTERRUPTS: i64 = 0x222;
/// The field FS of a status register.
pub(crate) const FS: i64 = 3 << 13;
const DIRTY_STATE: i64 = i64::MIN | FS;
/// SIE and SPIE; SPP, SUM and MXR.
const SSTATUS_FREE: i64 = 0xc_0122;
/// SIE, MIE, SPIE, MPIE; SPP, SUM and MXR.
const MSTATUS_FREE: i64 = 0xc_01aa;
/// Those, MPP, TVM, TW, TSR, and the register widths.
const MSTATUS_READ: i64 = 0xa_007c_19aa;
const SSTATUS_READ: i64 = 0x2_000c_0122;

/// How a register can be used.
#[derive(Clone, Copy)]
enum Use {
    /// Holds any value.
    Free,
    /// Holds any even value.
    Even,
    /// Any of the low bits may be written.
    Low(u8),
    /// Reads as it always does, and may not be written.
    ReadOnly,
    /// Reads as it always does, whatever is written.
    Fixed,
    /// Any of the first bits may be set and cleared, the second are compared.
    Bits(i64, i64),
    /// As `Bits`, all to be cleared afterwards.
    Passing(i64, i64),
    /// Reads as something that nobody compares, in lower modes with permission only.
    Clock,
    /// Counts instructions retired; the same permission.
    Retired,
    /// The same, and can be set.
    SetRetired,
    /// Always zero: written with zero.
    Zero,
}

/// Registers by the lowest mode that has them.
const REGISTERS: &[(Mode, u16, Use)] = &[
    (Mode::User, 0xc00, Use::Clock),
    (Mode::User, 0xc01, Use::Clock),
    (Mode::User, 0xc02, Use::Retired),
    (
        Mode::Supervisor,
        SSTATUS,
        Use::Bits(SSTATUS_FREE, SSTATUS_READ),
    ),
    (Mode::Supervisor, SCOUNTEREN, Use::Low(7)),
    (Mode::Supervisor, 0x10a, Use::Low(1)),
    (Mode::Supervisor, 0x140, Use::Free),
    (Mode::Supervisor, SEPC, Use::Even),
    (Mode::Supervisor, 0x142, Use::Free),
    (Mode::Supervisor, 0x143, Use::Free),
    (Mode::Supervisor, SATP, Use::Zero),
    (
        Mode::Supervisor,
        SIE,
        Use::Bits(SUPERVISOR_INTERRUPTS, SUPERVISOR_INTERRUPTS),
    ),
    (Mode::Supervisor, SIP, Use::Bits(2, SUPERVISOR_INTERRUPTS)),
    (Mode::Machine, MISA, Use::Fixed),
    (
        Mode::Machine,
        MSTATUS,
        Use::Bits(MSTATUS_FREE, MSTATUS_READ),
    ),
    (Mode::Machine, MEDELEG, Use::Bits(0xb3ff, 0xb3ff)),
    (
        Mode::Machine,
        MIDELEG,
        Use::Bits(SUPERVISOR_INTERRUPTS, SUPERVISOR_INTERRUPTS),
    ),
    (
        Mode::Machine,
        MIE,
        Use::Passing(SUPERVISOR_INTERRUPTS, 0xaaa),
    ),
    (
        Mode::Machine,
        MIP,
        Use::Passing(SUPERVISOR_INTERRUPTS, SUPERVISOR_INTERRUPTS),
    ),
    (Mode::Machine, MCOUNTEREN, Use::Low(7)),
    (Mode::Machine, 0xb00, Use::Clock),
    (Mode::Machine, 0xb02, Use::SetRetired),
    // Which of the other fields there are differs.
    (Mode::Machine, MENVCFG, Use::Bits(1, 1)),
    (Mode::Machine, 0x340, Use::Free),
    (Mode::Machine, MEPC, Use::Even),
    (Mode::Machine, 0x342, Use::Free),
    (Mode::Machine, 0x343, Use::Free),
    (Mode::Machine, 0xf11, Use::ReadOnly),
    (Mode::Machine, 0xf14, Use::ReadOnly),
    (Mode::Machine, 0xf15, Use::ReadOnly),
];

/// Registers that privileged programs need as they are, or change by items of their own.
const KEPT: &[u16] = &[SSCRATCH, SATP, MSCRATCH];

impl Writer {
    /// Reads or changes rounding mode and flags.
    pub(super) fn float_state(&mut self) {
        let number = self.random.pick(&[FFLAGS, FRM, FCSR]);
        self.access(number);
        if number != FFLAGS && self.random.chance(80) {
            // Most of the time the rounding mode is one that exists.
            let mode = self.random.below(5) as u8;
            self.asm.csr(Op::Csrrwi, 0, FRM, mode);
        }
    }

    /// Any CSR instruction on `number`.
    fn access(&mut self, number: u16) {
        let op = self.random.pick(&self.tables.csrs);
        let bits = self.fill(op);
        self.asm.word(bits & 0xf_ffff | u32::from(number) << 20);
    }

    /// Something with registers of the present mode.
    pub(super) fn control_state(&mut self) {
        match self.random.below(10) {
            0 if self.mode > Mode::User => self.float_off(),
            1 if self.mode == Mode::Machine => self.interrupt_oneself(),
            2 if self.mode > Mode::User => self.sleep_with_interrupt_pending(),
            3 if self.mode > Mode::User => self.translation_fence(),
            4 if self.mode > Mode::User => self.vectors(),
            5 if self.mode == Mode::Machine => self.return_to_machine_mode(),
            _ => self.control_register(),
        }
    }

    fn control_register(&mut self) {
        let mode = self.mode;
        let kept = if self.arena.is_some() { KEPT } else { &[] };
        let mine =
            |&&(lowest, number, _): &&(Mode, u16, Use)| lowest <= mode && !kept.contains(&number);
        let count = REGISTERS.iter().filter(mine).count() as u64;
        let chosen = self.random.below(count) as usize;
        let &(_, number, usage) = REGISTERS
            .iter()
            .filter(mine)
            .nth(chosen)
            .expect("chosen among them");
        match usage {
            Use::Free | Use::Fixed => self.access(number),
            Use::Even => self.even(number),
            Use::Low(bits) => {
                let op = self.random.pick(&[Op::Csrrwi, Op::Csrrsi, Op::Csrrci]);
                let register = self.destination();
                let value = self.random.below(u64::from(bits) + 1) as u8;
                self.asm.csr(op, register, number, value);
            }
            Use::ReadOnly => {
                let register = self.destination();
                self.asm.csrr(register, number);
            }
            Use::Clock => self.asm.csrr(0, number),
            Use::Retired | Use::SetRetired if self.target.excludes(Exclusion::Retired) => {
                self.asm.csrr(0, number);
            }
            Use::Retired => {
                let register = self.destination();
                self.asm.csrr(register, number);
            }
            Use::SetRetired => self.access(number),
            Use::Zero => {
                let register = self.destination();
                self.asm.csrw(number, 0);
                self.asm.csrr(register, number);
            }
            Use::Bits(free, compared) => self.bits(number, free, compared),
            Use::Passing(free, compared) => {
                self.bits(number, free, compared);
                self.asm.csrw(number, 0);
            }
        }
    }

    fn even(&mut self, number: u16) {
        let (value, from) = (self.scratch(&[]), self.source());
        if self.target.excludes(Exclusion::OddExceptionPc) {
            self.asm.i(Op::Andi, value, from, -2);
        } else {
            self.asm.mv(value, from);
        }
        let register = self.destination();
        self.asm.csr(Op::Csrrw, register, number, value);
        let register = self.destination();
        self.asm.csrr(register, number);
    }

    /// Sets or clears some of the `free` bits of `number`, then reads the `compared` ones.
    fn bits(&mut self, number: u16, free: i64, compared: i64) {
        let (mask, value) = {
            let mask = self.scratch(&[]);
            (mask, self.scratch(&[mask]))
        };
        let status = number == MSTATUS || number == SSTATUS;
        let dirty = status && !self.target.excludes(Exclusion::DirtyState);
        self.asm.li(mask, free & self.random.next() as i64);
        let op = self.random.pick(&[Op::Csrrs, Op::Csrrc]);
        self.asm.csr(op, 0, number, mask);
        self.asm
            .li(mask, compared | if dirty { DIRTY_STATE } else { 0 });
        self.asm.csrr(value, number);
        self.asm.r(Op::And, value, value, mask);
    }

    fn status(&self) -> u16 {
        if self.mode == Mode::Machine {
            MSTATUS
        } else {
            SSTATUS
        }
    }

    /// Floating-point instructions while the unit is off: each traps.
    fn float_off(&mut self) {
        let (status, mask) = (self.status(), self.scratch(&[]));
        self.asm.li(mask, FS);
        self.asm.csr(Op::Csrrc, 0, status, mask);
        self.nested(&[mask], |writer| {
            for _ in 0..1 + writer.random.below(3) {
                match writer.random.below(4) {
                    0 => writer.access(FFLAGS),
                    1 => writer.refresh_float(),
                    _ => writer.float(),
                }
            }
        });
        self.asm.csr(Op::Csrrs, 0, status, mask);
    }

    /// A software interrupt, taken by machine mode unless delegated, masked or not.
    pub(super) fn interrupt_oneself(&mut self) {
        self.asm.csr(Op::Csrrci, 0, MIDELEG, SSI);
        let delegate = self.random.chance(30);
        if delegate {
            self.asm.csr(Op::Csrrsi, 0, MIDELEG, SSI);
        }
        let mut steps = [(MIE, SSI), (MIP, SSI), (MSTATUS, MACHINE_ENABLE)];
        for n in (1..steps.len()).rev() {
            steps.swap(n, self.random.below(n as u64 + 1) as usize);
        }
        for (number, bit) in steps {
            self.asm.csr(Op::Csrrsi, 0, number, bit);
            self.compressed_integer();
        }
        self.asm.csrw(MIE, 0);
        self.asm.csr(Op::Csrrci, 0, MIP, SSI);
        self.asm.csr(Op::Csrrci, 0, MSTATUS, MACHINE_ENABLE);
    }

    /// `wfi` while an interrupt pends that is enabled but not taken: it continues at once.
    pub(super) fn sleep_with_interrupt_pending(&mut self) {
        if self.mode == Mode::Machine {
            self.asm.csr(Op::Csrrci, 0, MSTATUS, MACHINE_ENABLE);
            self.asm.csr(Op::Csrrsi, 0, MIE, SSI);
            self.asm.csr(Op::Csrrsi, 0, MIP, SSI);
            self.asm.bare(Op::Wfi);
            self.asm.csrw(MIE, 0);
            self.asm.csr(Op::Csrrci, 0, MIP, SSI);
            return;
        }
        // In supervisor mode this only works, and only sleeps, where the interrupt is delegated. A
        // program cannot see there whether it is, and reads it off a bit that sticks only then.
        let (enabled, over) = (self.scratch(&[]), self.asm.label());
        self.asm.csr(Op::Csrrci, 0, SSTATUS, SUPERVISOR_ENABLE);
        self.asm.csr(Op::Csrrsi, 0, SIE, SSI);
        self.asm.csr(Op::Csrrsi, 0, SIP, SSI);
        self.asm.csrr(enabled, SIP);
        self.asm.i(Op::Andi, enabled, enabled, SSI.into());
        self.asm.branch(Op::Beq, enabled, 0, over);
        self.asm.bare(Op::Wfi);
        self.asm.bind(over);
        self.asm.csr(Op::Csrrci, 0, SIE, SSI);
        self.asm.csr(Op::Csrrci, 0, SIP, SSI);
    }

    /// `sfence.vma`, which traps in supervisor mode if `mstatus.TVM` says so.
    fn translation_fence(&mut self) {
        let bits = self.fill(Op::SfenceVma);
        self.asm.word(bits);
    }

    /// Writes a trap vector, reads it back, and restores it by swapping.
    fn vectors(&mut self) {
        let number = match self.mode {
            Mode::Machine => self.random.pick(&[MTVEC, STVEC]),
            _ => STVEC,
        };
        let (old, new) = {
            let old = self.scratch(&[]);
            (old, self.scratch(&[old]))
        };
        // Bit 1 is reserved; what a hart makes of it is its own affair.
        let value = self.random.next() & !2;
        self.asm.li(new, value as i64);
        self.asm.csr(Op::Csrrw, old, number, new);
        self.asm.csrr(new, number);
        // Direct and vectored mode take turns: the table serves both.
        let flip = self.random.between(0, 1);
        self.asm.i(Op::Xori, old, old, flip);
        self.asm.csrw(number, old);
    }

    /// `mret` from machine mode to machine mode.
    fn return_to_machine_mode(&mut self) {
        let (pointer, next) = (self.scratch(&[]), self.asm.label());
        self.asm.li(pointer, Mode::Machine.field() << 11);
        self.asm.csr(Op::Csrrs, 0, MSTATUS, pointer);
        self.asm.la(pointer, next);
        self.asm.csrw(MEPC, pointer);
        self.asm.bare(Op::Mret);
        for _ in 0..self.random.below(4) {
            self.asm.half(0);
        }
        self.asm.bind(next);
    }
}
