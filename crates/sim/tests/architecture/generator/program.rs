//! A whole program: start-up, blocks in all modes with a checksum behind each, and the end.

use loiter_isa::Op;

use super::asm::{Assembler, GP, Label};
use super::checksum::{self, Told};
use super::elf::{Segment, executable};
use super::exclusions::{Exclusion, Target};
use super::handler;
use super::layout::{self, RETURN_FLAG};
use super::state::{
    FS, MACHINE_ENABLE, MCOUNTEREN, MEDELEG, MEPC, MIDELEG, MIE, MIP, MSTATUS, MTVEC, PMPADDR0,
    PMPCFG0, SCOUNTEREN, SEPC, SSI, SSTATUS, STVEC,
};
use super::writer::{Item, Mode, Writer};

pub(super) const WORK_BEGIN: u16 = 0x03;
pub(super) const WORK_END: u16 = 0x04;
const REGION_BEGINS: u16 = 0x01;
const REPORT_NAME: u16 = 0x09;
pub(super) const MHARTID: u16 = 0xf14;
pub(super) const FINISHER: i64 = 0x10_0000;
pub(super) const PASS: i64 = 0x5555;
/// Where harts count themselves done.
const DONE: i64 = 0x8080_0000;
const T0: u8 = 5;
const T1: u8 = 6;
/// TVM, TW and TSR.
const TRAPPING: [i64; 3] = [1 << 20, 1 << 21, 1 << 22];
const SPP: i64 = 1 << 8;
/// Exceptions of which each block delegates some: all but page faults and machine-mode calls.
const DELEGABLE: i64 = 0x3ff;

/// What to generate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) seed: u64,
    /// Harts that run a program of their own each; others sleep.
    pub(crate) harts: usize,
    /// Blocks of each hart.
    pub(crate) blocks: usize,
    /// Items of each block.
    pub(crate) items: u64,
    pub(crate) target: Target,
}

/// A block of a hart's program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) mode: Mode,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// A generated program.
pub(crate) struct Program {
    pub(crate) seed: u64,
    pub(crate) elf: Vec<u8>,
    pub(crate) text: Segment,
    /// The blocks of each hart.
    pub(crate) blocks: Vec<Vec<Block>>,
}

/// Routines that all harts share.
struct Routines {
    checksum: Label,
    machine_handler: Label,
    supervisor_handler: Label,
    park: Label,
}

/// Generates a program. It prints checksums if it is for a single hart, and reports them to loiter
/// in any case.
pub(crate) fn generate(settings: Settings) -> Program {
    let mut writer = Writer::new(settings.seed, layout::CODE, settings.target);
    let asm = &mut writer.asm;
    asm.symbol("_start");
    let starts: Vec<Label> = (0..settings.harts).map(|_| asm.label()).collect();
    asm.csrr(T0, MHARTID);
    for (hart, &start) in starts.iter().enumerate() {
        let next = asm.label();
        asm.li(T1, hart as i64);
        asm.branch(Op::Bne, T0, T1, next);
        asm.j(start);
        asm.bind(next);
    }
    let routines = routines(asm, settings);
    let mut data = Vec::new();
    let mut blocks = Vec::new();
    for (hart, start) in starts.into_iter().enumerate() {
        writer.hart = hart;
        writer.asm.bind(start);
        writer.asm.symbol(&format!("hart{hart}"));
        blocks.push(writer.hart_program(settings, &routines));
        data.push(layout::data(hart, &mut writer.random));
    }
    let symbols = writer.asm.symbols.clone();
    let text = Segment {
        address: layout::CODE,
        bytes: writer.asm.finish(),
    };
    let segments: Vec<&Segment> = std::iter::once(&text).chain(&data).collect();
    Program {
        seed: settings.seed,
        elf: executable(&segments, &symbols),
        text,
        blocks,
    }
}

fn routines(asm: &mut Assembler, settings: Settings) -> Routines {
    asm.symbol("park");
    let park = asm.bound();
    asm.bare(Op::Wfi);
    asm.j(park);
    asm.symbol("machine_handler");
    let machine_handler = handler::machine(asm, settings.target);
    asm.symbol("supervisor_handler");
    let supervisor_handler = handler::supervisor(asm, settings.target);
    let told = if settings.harts == 1 {
        Told::Console
    } else {
        Told::Nowhere
    };
    Routines {
        checksum: checksum::routine(asm, told),
        machine_handler,
        supervisor_handler,
        park,
    }
}

impl Writer {
    fn hart_program(&mut self, settings: Settings, routines: &Routines) -> Vec<Block> {
        self.start_up(routines);
        let mut blocks = Vec::new();
        for n in 0..settings.blocks {
            if n == settings.blocks / 2 {
                self.asm.probe(REGION_BEGINS, 0);
            }
            blocks.push(self.block(settings.items));
            checksum::call(&mut self.asm, routines.checksum);
        }
        self.finish(settings, routines);
        blocks
    }

    /// Trap vectors, floating point on, access to all memory for all modes, registers from the pool.
    fn start_up(&mut self, routines: &Routines) {
        self.asm.li(GP, layout::gp(self.hart) as i64);
        self.asm.la(T0, routines.machine_handler);
        self.asm.csrw(MTVEC, T0);
        self.asm.la(T0, routines.supervisor_handler);
        self.asm.csrw(STVEC, T0);
        self.asm.li(T0, -1);
        self.asm.csrw(PMPADDR0, T0);
        self.asm.li(T0, 0x1f);
        self.asm.csrw(PMPCFG0, T0);
        self.asm.li(T0, FS);
        self.asm.csr(Op::Csrrs, 0, MSTATUS, T0);
        self.asm.csr(Op::Csrrwi, 0, MCOUNTEREN, 7);
        self.asm.csr(Op::Csrrwi, 0, SCOUNTEREN, 7);
        let (name, over) = (self.asm.label(), self.asm.label());
        self.asm.la(T0, name);
        self.asm.probe(REPORT_NAME, T0);
        self.asm.j(over);
        self.asm.bind(name);
        self.asm.bytes(b"checksum\0\0\0\0");
        self.asm.bind(over);
        for register in 0..32 {
            let offset = self.pool_offset();
            self.asm.i(Op::Fld, register, GP, offset);
            if register != GP {
                let offset = self.pool_offset();
                self.asm.i(Op::Ld, register, GP, offset);
            }
        }
    }

    /// Random items in a random mode, between two work marks.
    fn block(&mut self, items: u64) -> Block {
        let modes = [Mode::Machine, Mode::Supervisor, Mode::User];
        let mode = self.random.pick(&modes);
        self.asm.probe(WORK_BEGIN, 0);
        let start = self.asm.here();
        if mode == Mode::Machine {
            self.items(items);
        } else {
            let way_back = self.random.pick(&[Mode::User, Mode::Supervisor]);
            self.lower(mode, way_back, items);
        }
        let end = self.asm.here();
        self.asm.probe(WORK_END, 0);
        Block { mode, start, end }
    }

    /// Items in a lower mode; from supervisor mode perhaps on into user mode, as `last` has it.
    fn lower(&mut self, mode: Mode, last: Mode, items: u64) {
        let into_user = mode == Mode::Supervisor && last == Mode::User;
        let ways: &[(i64, Item)] = &[
            (2, |writer| writer.asm.word(0xffff_ffff)),
            (3, |writer| writer.asm.bare(Op::Ebreak)),
            (
                if mode == Mode::User || into_user {
                    8
                } else {
                    9
                },
                |writer| {
                    writer.asm.bare(Op::Ecall);
                },
            ),
        ];
        let (cause, way_out) = self.random.pick(ways);
        let mut delegated = self.random.next() as i64 & DELEGABLE & !(1 << cause);
        if self.target.excludes(Exclusion::AtomicCause) {
            // Access faults of loads (5) and of stores and atomics (7) go to the same mode.
            delegated = delegated & !0x80 | (delegated & 0x20) << 2;
        }
        self.prepare_lower(delegated, into_user);
        let entry = self.asm.label();
        self.enter(mode, entry);
        self.asm.bind(entry);
        self.mode = mode;
        self.items(items / if into_user { 2 } else { 1 });
        if into_user {
            let entry = self.asm.label();
            self.return_to_user(entry);
            self.asm.bind(entry);
            self.mode = Mode::User;
            self.items(items / 2);
        }
        let flag = self.scratch(&[]);
        self.asm.li(flag, 1);
        self.asm.s(Op::Sd, flag, RETURN_FLAG, GP);
        way_out(self);
        self.mode = Mode::Machine;
        self.asm.csrw(MIE, 0);
        self.asm.csr(Op::Csrrci, 0, MIP, SSI);
    }

    /// Delegation, trapping of instructions, perhaps an interrupt that waits for the lower mode.
    fn prepare_lower(&mut self, delegated: i64, returns_to_user: bool) {
        let interrupts = i64::from(SSI) & self.random.next() as i64;
        let undelegated = delegated == 0 && interrupts == 0;
        let mut trapping = 0;
        for (n, bit) in TRAPPING.into_iter().enumerate() {
            // With TSR the handler of supervisor mode could not return.
            let returns = n == 2;
            if self.random.chance(25) && !(returns && (returns_to_user || !undelegated)) {
                trapping |= bit;
            }
        }
        let value = self.scratch(&[]);
        for (number, bits) in [(MEDELEG, delegated), (MIDELEG, interrupts)] {
            self.asm.li(value, bits);
            self.asm.csrw(number, value);
        }
        self.asm.li(value, TRAPPING.iter().sum());
        self.asm.csr(Op::Csrrc, 0, MSTATUS, value);
        self.asm.li(value, trapping);
        self.asm.csr(Op::Csrrs, 0, MSTATUS, value);
        if self.random.chance(30) {
            // Taken as soon as the lower mode is entered, if it can be there.
            self.asm.csr(Op::Csrrci, 0, MSTATUS, MACHINE_ENABLE);
            self.asm.csr(Op::Csrrsi, 0, MIE, SSI);
            self.asm.csr(Op::Csrrsi, 0, MIP, SSI);
        }
    }

    /// Enters `mode` from machine mode, by either return instruction.
    fn enter(&mut self, mode: Mode, entry: Label) {
        let pointer = self.scratch(&[]);
        let by_sret = self.random.chance(40);
        let (clear, set, pc, leave) = if by_sret {
            (SPP, mode.field() << 8, SEPC, Op::Sret)
        } else {
            (3 << 11, mode.field() << 11, MEPC, Op::Mret)
        };
        self.asm.li(pointer, clear);
        self.asm.csr(Op::Csrrc, 0, MSTATUS, pointer);
        self.asm.li(pointer, set);
        self.asm.csr(Op::Csrrs, 0, MSTATUS, pointer);
        self.asm.la(pointer, entry);
        self.asm.csrw(pc, pointer);
        self.asm.bare(leave);
    }

    /// From supervisor mode to user mode.
    fn return_to_user(&mut self, entry: Label) {
        let pointer = self.scratch(&[]);
        self.asm.li(pointer, SPP);
        self.asm.csr(Op::Csrrc, 0, SSTATUS, pointer);
        self.asm.la(pointer, entry);
        self.asm.csrw(SEPC, pointer);
        self.asm.bare(Op::Sret);
    }

    fn finish(&mut self, settings: Settings, routines: &Routines) {
        self.asm.csrw(MIE, 0);
        self.asm.li(T0, DONE);
        self.asm.li(T1, 1);
        self.asm.r(Op::AmoaddD, 0, T0, T1);
        if self.hart != 0 {
            return self.asm.j(routines.park);
        }
        self.asm.li(T1, settings.harts as i64);
        let wait = self.asm.bound();
        self.asm.i(Op::Ld, 7, T0, 0);
        self.asm.branch(Op::Bne, 7, T1, wait);
        self.asm.li(T0, FINISHER);
        self.asm.li(T1, PASS);
        self.asm.s(Op::Sw, T1, 0, T0);
        self.asm.j(routines.park);
    }
}
