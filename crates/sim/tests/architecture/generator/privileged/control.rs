//! Random changes of privileged state, registers that are not for the present mode, and interrupts
//! at points that the architecture defines.

use loiter_isa::Op;

use super::super::state::{
    MACHINE_ENABLE, MIE, MIP, MSTATUS, SIE, SIP, SSI, SSTATUS, STIMECMP, SUPERVISOR_ENABLE,
};
use super::super::writer::{Mode, Writer};

const SUM_MXR: i64 = 3 << 18;
const MSIP: u8 = 1 << 3;
const MTIP: i64 = 1 << 7;
const STIP: i64 = 1 << 5;
const CLINT: i64 = 0x0200_0000;
const MTIMECMP: i64 = CLINT + 0x4000;
/// Unprivileged and supervisor registers that neither QEMU 7.2's rv64 nor loiter has: of vectors, the
/// entropy source, code tables, state enable, indirect access, debugging, and in between.
const NOBODYS: [u16; 16] = [
    0x008, 0x00f, 0x015, 0x017, 0x011, 0x05c, 0x400, 0x4ff, 0x800, 0x8ff, 0x110, 0x145, 0x15d,
    0x181, 0x5a8, 0x9c0,
];
const COUNTERS: u16 = 0xc00;

impl Writer {
    /// SUM and MXR.
    pub(crate) fn rights(&mut self) {
        let number = match self.mode {
            Mode::User => return self.arena_accesses(),
            Mode::Supervisor => SSTATUS,
            Mode::Machine => MSTATUS,
        };
        let mask = self.scratch(&[]);
        let bits = self.random.next() as i64 & SUM_MXR;
        self.asm.li(mask, bits);
        let op = self.random.pick(&[Op::Csrrs, Op::Csrrc]);
        self.asm.csr(op, 0, number, mask);
        self.arena_accesses();
    }

    /// A register that this mode may not access, or that does not exist.
    pub(crate) fn any_register(&mut self) {
        let privilege = self.mode.field() as u64;
        let number = loop {
            let number = self.random.below(0x1000) as u16;
            let needed = u64::from(number >> 8 & 3);
            if needed > privilege {
                break number;
            }
            if self.random.chance(20) {
                break self.random.pick(&NOBODYS);
            }
        };
        self.csr_instruction(number);
    }

    /// A counter, which lower modes see with permission only. What it counts is nobody's business.
    pub(crate) fn counter(&mut self) {
        let number = COUNTERS + self.random.below(32) as u16;
        self.asm.csrr(0, number);
    }

    /// Interrupts that become pending and enabled step by step.
    pub(crate) fn interrupts(&mut self) {
        match self.mode {
            Mode::User => self.counter(),
            Mode::Supervisor => self.supervisor_interrupts(),
            Mode::Machine if self.random.chance(50) => self.interrupt_oneself(),
            Mode::Machine => self.device_interrupt(),
        }
    }

    fn supervisor_interrupts(&mut self) {
        let (mask, due) = {
            let mask = self.scratch(&[]);
            (mask, self.scratch(&[mask]))
        };
        let timer = self.random.chance(50);
        let bits = if timer { STIP } else { i64::from(SSI) };
        self.asm.csr(Op::Csrrci, 0, SSTATUS, SUPERVISOR_ENABLE);
        self.asm.li(mask, bits);
        let mut steps = [0, 1, 2];
        for n in (1..steps.len()).rev() {
            steps.swap(n, self.random.below(n as u64 + 1) as usize);
        }
        self.nested(&[mask], |writer| {
            for step in steps {
                match step {
                    0 => writer.asm.csr(Op::Csrrs, 0, SIE, mask),
                    // Due since ever.
                    1 if timer => writer.asm.csrw(STIMECMP, 0),
                    1 => writer.asm.csr(Op::Csrrs, 0, SIP, mask),
                    _ => writer.asm.csr(Op::Csrrsi, 0, SSTATUS, SUPERVISOR_ENABLE),
                }
                writer.compressed_integer();
            }
        });
        self.asm.li(due, -1);
        self.asm.csrw(STIMECMP, due);
        self.asm.csr(Op::Csrrci, 0, SIP, SSI);
    }

    /// The software or timer interrupt of machine mode. A store to a device takes effect at once,
    /// but when it interrupts is defined only once an instruction that enables it has passed.
    fn device_interrupt(&mut self) {
        let (address, value) = {
            let address = self.scratch(&[]);
            (address, self.scratch(&[address]))
        };
        self.asm.csr(Op::Csrrci, 0, MSTATUS, MACHINE_ENABLE);
        if self.random.chance(50) {
            self.asm.li(address, CLINT);
            self.asm.li(value, 1);
            self.asm.s(Op::Sw, value, 0, address);
            self.asm.csr(Op::Csrrsi, 0, MIE, MSIP);
            self.asm.csr(Op::Csrrsi, 0, MSTATUS, MACHINE_ENABLE);
            self.asm.csr(Op::Csrrci, 0, MSTATUS, MACHINE_ENABLE);
            self.asm.csrr(value, MIP);
            self.asm.s(Op::Sw, 0, 0, address);
            return;
        }
        self.asm.li(address, MTIMECMP);
        self.asm.s(Op::Sd, 0, 0, address);
        self.asm.li(value, MTIP);
        self.asm.csr(Op::Csrrs, 0, MIE, value);
        self.asm.csr(Op::Csrrsi, 0, MSTATUS, MACHINE_ENABLE);
        self.asm.csr(Op::Csrrci, 0, MSTATUS, MACHINE_ENABLE);
        self.asm.csrr(value, MIP);
        self.asm.li(value, -1);
        self.asm.s(Op::Sd, value, 0, address);
    }

    /// `wfi`, where it continues at once or is illegal.
    pub(crate) fn wait(&mut self) {
        match self.mode {
            Mode::User => self.asm.bare(Op::Wfi),
            _ => self.sleep_with_interrupt_pending(),
        }
    }
}
