//! Small programs written by hand for several harts: who runs what, barriers, delays, reports.
//!
//! Registers: `gp` points to the shared data, `tp` counts barriers, `t4` to `t6` belong to the
//! helpers; the rest is the test's.

use loiter_isa::Op;
use loiter_isa::csr::number::MSCRATCH;
use loiter_sim::RunResult;

use crate::generator::asm::{Assembler, GP, Label};
use crate::generator::elf::{Segment, executable};

/// First byte of code.
const CODE: u64 = 0x8000_0000;
/// First byte of the shared data; zero at the start.
pub(crate) const DATA: u64 = 0x8080_0000;
/// Where harts that have arrived at a barrier are counted, and how many barriers have opened.
const ARRIVED: i32 = 0;
const OPENED: i32 = 64;
/// Offset from `gp` of the first byte that the helpers do not use.
pub(crate) const FREE: i32 = 128;

pub(crate) const TP: u8 = 4;
pub(crate) const T0: u8 = 5;
pub(crate) const T1: u8 = 6;
pub(crate) const T2: u8 = 7;
pub(crate) const S0: u8 = 8;
pub(crate) const S1: u8 = 9;
pub(crate) const A0: u8 = 10;
pub(crate) const A1: u8 = 11;
pub(crate) const A2: u8 = 12;
const T4: u8 = 29;
const T5: u8 = 30;
const T6: u8 = 31;

/// MIE of `mstatus`.
pub(crate) const MACHINE_ENABLE: u8 = 1 << 3;
pub(crate) const CLINT: i64 = 0x0200_0000;
pub(crate) const MTIMECMP: i64 = CLINT + 0x4000;
pub(crate) const MTIME: i64 = CLINT + 0xbff8;

const FINISHER: i64 = 0x10_0000;
const PASS: i64 = 0x5555;
const REPORT_VALUE: u16 = 0x0a;
/// `fence rw,rw`
pub(crate) const FULL_FENCE: u32 = 0x0330_000f;

/// A program in the making.
pub(crate) struct Guest {
    pub(crate) asm: Assembler,
    roles: Vec<Label>,
}

impl Guest {
    /// A program in which each of `harts` has a role of its own; all others sleep for ever.
    pub(crate) fn new(harts: &[usize]) -> Self {
        let mut asm = Assembler::new(CODE);
        asm.symbol("_start");
        asm.li(GP, DATA as i64);
        asm.li(TP, 0);
        let roles: Vec<Label> = harts.iter().map(|_| asm.label()).collect();
        for (&hart, &role) in harts.iter().zip(&roles) {
            let next = asm.label();
            asm.li(T0, hart as i64);
            asm.branch(Op::Bne, A0, T0, next);
            asm.j(role);
            asm.bind(next);
        }
        let mut guest = Self { asm, roles };
        guest.sleep_for_ever();
        guest
    }

    /// `wfi` in a loop.
    pub(crate) fn sleep_for_ever(&mut self) {
        self.asm.symbol("sleep_for_ever");
        let again = self.asm.bound();
        self.asm.bare(Op::Wfi);
        self.asm.j(again);
    }

    /// The code of the hart that was named `n`th begins here.
    pub(crate) fn role(&mut self, n: usize) {
        self.asm.bind(self.roles[n]);
        self.asm.symbol(&format!("role{n}"));
    }

    /// `rd = gp + offset`, any offset.
    pub(crate) fn address(&mut self, rd: u8, offset: i32) {
        self.asm.li(rd, offset.into());
        self.asm.r(Op::Add, rd, rd, GP);
    }

    /// A barrier for `harts` harts.
    pub(crate) fn barrier(&mut self, harts: usize) {
        let (last, wait, passed) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.asm.i(Op::Addi, TP, TP, 1);
        self.asm.word(FULL_FENCE);
        self.asm.li(T5, 1);
        self.asm.i(Op::Addi, T4, GP, ARRIVED);
        self.asm.r(Op::AmoaddD, T5, T4, T5);
        self.asm.li(T6, harts as i64 - 1);
        self.asm.branch(Op::Beq, T5, T6, last);
        self.asm.bind(wait);
        self.asm.i(Op::Ld, T5, GP, OPENED);
        self.asm.branch(Op::Blt, T5, TP, wait);
        self.asm.j(passed);
        self.asm.bind(last);
        self.asm.s(Op::Sd, 0, ARRIVED, GP);
        self.asm.word(FULL_FENCE);
        self.asm.s(Op::Sd, TP, OPENED, GP);
        self.asm.bind(passed);
        self.asm.word(FULL_FENCE);
    }

    /// Executes as many `nop`s as `count` says, at most `most`.
    pub(crate) fn nops(&mut self, count: u8, most: usize) {
        self.some_of(count, most, |asm| asm.i(Op::Addi, 0, 0, 0));
    }

    /// Reads `mscratch` as often as `count` says, at most `most` times; nothing is fetched after a read
    /// of a CSR on an out-of-order core.
    pub(crate) fn csr_reads(&mut self, count: u8, most: usize) {
        self.some_of(count, most, |asm| asm.csrr(T4, MSCRATCH));
    }

    /// Executes `one`, an instruction of four bytes, as often as `count` says, at most `most` times.
    fn some_of(&mut self, count: u8, most: usize, one: impl Fn(&mut Assembler)) {
        let end = self.asm.label();
        self.asm.la(T4, end);
        self.asm.i(Op::Slli, T5, count, 2);
        self.asm.r(Op::Sub, T4, T4, T5);
        self.asm.i(Op::Jalr, 0, T4, 0);
        for _ in 0..most {
            one(&mut self.asm);
        }
        self.asm.bind(end);
    }

    /// `state` becomes the next of a random sequence, `rd` some of its bits: less than 2^`bits`.
    pub(crate) fn random(&mut self, rd: u8, state: u8, bits: i32) {
        self.asm.li(T5, 0x5851_f42d_4c95_7f2d);
        self.asm.r(Op::Mul, state, state, T5);
        self.asm.i(Op::Addi, state, state, 1013);
        self.asm.i(Op::Srli, rd, state, 64 - bits);
    }

    /// Runs `body` as often as `count` says, counting `counter` up from 0.
    pub(crate) fn repeat(&mut self, counter: u8, count: i64, body: impl FnOnce(&mut Self)) {
        self.asm.li(counter, 0);
        let again = self.asm.bound();
        body(self);
        self.asm.i(Op::Addi, counter, counter, 1);
        self.asm.li(T4, count);
        self.asm.branch(Op::Blt, counter, T4, again);
    }

    /// Reports the value of `register`.
    pub(crate) fn report(&mut self, register: u8) {
        self.asm.probe(REPORT_VALUE, register);
    }

    /// Ends the machine with success.
    pub(crate) fn pass(&mut self) {
        self.asm.li(T0, FINISHER);
        self.asm.li(T1, PASS);
        self.asm.s(Op::Sw, T1, 0, T0);
        self.sleep_for_ever();
    }

    /// The program as a file.
    pub(crate) fn elf(mut self) -> Vec<u8> {
        let symbols = self.asm.symbols.clone();
        let text = Segment {
            address: CODE,
            bytes: self.asm.finish(),
        };
        executable(&[&text], &symbols)
    }
}

/// The values that `hart` reported.
pub(crate) fn reports(result: &RunResult, hart: usize) -> Vec<u64> {
    let reports = result.reports.iter();
    let of_hart = reports.filter(|report| usize::from(report.hart) == hart);
    of_hart.map(|report| report.value).collect()
}
