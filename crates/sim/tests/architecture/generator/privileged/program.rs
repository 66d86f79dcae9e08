//! A whole privileged program: start-up, rounds of blocks, and the end.

use loiter_isa::Op;

use super::super::asm::{GP, Label, RA};
use super::super::checksum::{self, Told};
use super::super::elf::{Segment, executable};
use super::super::exclusions::{Exclusion, Target};
use super::super::layout::{self as data, MULTIPLIER, RETURN_FLAG};
use super::super::program::{Block, FINISHER, MHARTID, PASS, Program, WORK_BEGIN, WORK_END};
use super::super::state::{FS, MEPC, MSCRATCH, MSTATUS, SEPC, SSCRATCH};
use super::super::writer::{Item, Mode, Writer};
use super::arena::{Arena, MPRV};
use super::environment::{Environments, Protection};
use super::frames;
use super::handler::handlers;
use super::layout::{
    CODE_BYTES, CODE_FRAMES, DATA_FRAMES, ENVIRONMENT, ENVIRONMENTS, LOG, LOG_CURSOR, RAM, ROUNDS,
    SPAN, TABLES, frame,
};
use super::log::{self, KIND_SHIFT, Kind};
use super::monitor::{ENTRY, KEPT, MODE, Monitor, POINTER, RECORD, monitor};
use super::spaces::Spaces;

const REPORT_NAME: u16 = 0x09;
const T0: u8 = 5;
const T1: u8 = 6;
const T2: u8 = 7;
const S0: u8 = 8;
const S1: u8 = 9;

/// What to generate, for a single hart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrivilegedSettings {
    pub(crate) seed: u64,
    pub(crate) blocks: usize,
    /// Items of each block.
    pub(crate) items: u64,
    /// How often all blocks run.
    pub(crate) rounds: u64,
    /// Address spaces.
    pub(crate) spaces: u64,
    pub(crate) target: Target,
    /// Whether the registers after each block are in the log one by one.
    pub(crate) registers: bool,
}

/// A leaf of a page table, as it was at the start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaf {
    /// Where it lies.
    pub(crate) at: u64,
    pub(crate) level: usize,
    pub(crate) value: u64,
}

/// A program and what is known of it.
pub(crate) struct PrivilegedProgram {
    pub(crate) program: Program,
    /// The entries of the arena.
    pub(crate) leaves: Vec<Leaf>,
}

/// What blocks call.
struct Routines {
    monitor: Monitor,
    checksum: Label,
}

/// Generates a program.
pub(crate) fn generate_privileged(settings: PrivilegedSettings) -> PrivilegedProgram {
    let mut writer = Writer::new(settings.seed, RAM, settings.target);
    let random = &mut writer.random;
    let protections = [Protection::Open, Protection::Pages, Protection::Fine];
    let protection = random.pick(&protections);
    // Only where all is open do accesses cross pages; what an access does that finds nothing in one of
    // two pages is an implementation's choice.
    let nowhere = protection != Protection::Open;
    let spaces = Spaces::new(settings.spaces, nowhere, settings.target, random);
    let identity = random.chance(50);
    let mut environments = Environments {
        random: &mut *random,
        spaces: &spaces,
        protection,
        target: settings.target,
        identity,
        locked: Vec::new(),
    };
    if protection != Protection::Open && environments.random.chance(50) {
        environments.locked = (0..2).map(|_| environments.region(true)).collect();
    }
    let table = environments.bytes();
    let frames = frames::segments(random);
    let mut segments = vec![
        Segment {
            address: TABLES,
            bytes: spaces.bytes(),
        },
        Segment {
            address: ENVIRONMENTS,
            bytes: table,
        },
        data::data(0, random),
    ];
    segments.extend(frames);
    let leaves = leaves(&spaces);
    writer.arena = Some(Arena { spaces, protection });
    let blocks = writer.privileged(settings);
    let symbols = writer.asm.symbols.clone();
    let text = Segment {
        address: RAM,
        bytes: writer.asm.finish(),
    };
    assert!(text.bytes.len() as u64 <= CODE_BYTES);
    let all: Vec<&Segment> = std::iter::once(&text).chain(&segments).collect();
    PrivilegedProgram {
        program: Program {
            seed: settings.seed,
            elf: executable(&all, &symbols),
            text,
            blocks: vec![blocks],
        },
        leaves,
    }
}

fn leaves(spaces: &Spaces) -> Vec<Leaf> {
    let value = |at: u64| {
        let n = (at - TABLES) / 8;
        spaces.tables[n as usize / 512][n as usize % 512]
    };
    let entries = spaces.entries.iter();
    entries
        .map(|entry| Leaf {
            at: entry.at,
            level: entry.level,
            value: value(entry.at),
        })
        .collect()
}

impl Writer {
    fn privileged(&mut self, settings: PrivilegedSettings) -> Vec<Block> {
        self.asm.symbol("_start");
        let (start, park) = (self.asm.label(), self.asm.label());
        self.asm.csrr(T0, MHARTID);
        self.asm.branch(Op::Bne, T0, 0, park);
        // Farther than a branch goes where registers are told.
        self.asm.j(start);
        self.asm.symbol("park");
        self.asm.bind(park);
        self.asm.bare(Op::Wfi);
        self.asm.j(park);
        let handlers = handlers(&mut self.asm, settings.target);
        let told = if settings.registers {
            Told::LogOfRegisters
        } else {
            Told::Log
        };
        let routines = Routines {
            monitor: monitor(&mut self.asm, handlers),
            checksum: checksum::routine(&mut self.asm, told),
        };
        self.asm.bind(start);
        self.privileged_start_up(settings.rounds);
        let round = self.asm.bound();
        let blocks = (0..settings.blocks)
            .map(|n| self.privileged_block(n, settings.items, &routines))
            .collect();
        self.privileged_end(round, park);
        blocks
    }

    fn privileged_start_up(&mut self, rounds: u64) {
        let asm = &mut self.asm;
        asm.li(GP, data::gp(0) as i64);
        for (value, place) in [
            (LOG, LOG_CURSOR),
            (ENVIRONMENTS, ENVIRONMENT),
            (rounds, ROUNDS),
        ] {
            asm.li(T0, value as i64);
            asm.s(Op::Sd, T0, place, GP);
        }
        asm.csrw(MSCRATCH, GP);
        asm.csrw(SSCRATCH, GP);
        asm.li(T0, FS);
        asm.csr(Op::Csrrs, 0, MSTATUS, T0);
        let (name, over) = (asm.label(), asm.label());
        asm.la(T0, name);
        asm.probe(REPORT_NAME, T0);
        asm.j(over);
        asm.bind(name);
        asm.bytes(b"log\0");
        asm.bind(over);
        for register in 0..32 {
            let offset = self.pool_offset();
            self.asm.i(Op::Fld, register, GP, offset);
            if register != GP {
                let offset = self.pool_offset();
                self.asm.i(Op::Ld, register, GP, offset);
            }
        }
    }

    /// A block in a random mode, in whatever environment is next.
    fn privileged_block(&mut self, n: usize, items: u64, routines: &Routines) -> Block {
        let modes = [
            Mode::Machine,
            Mode::Supervisor,
            Mode::Supervisor,
            Mode::User,
        ];
        let mode = self.random.pick(&modes);
        let into_user = mode == Mode::Supervisor && self.random.chance(35);
        let call = if mode == Mode::User || into_user {
            8
        } else {
            9
        };
        let ways: &[(u32, Item)] = &[
            (2, |writer| writer.asm.word(0xffff_ffff)),
            (3, |writer| writer.asm.bare(Op::Ebreak)),
            (call, |writer| writer.asm.bare(Op::Ecall)),
        ];
        let (cause, way_out) = self.random.pick(ways);
        self.asm.probe(WORK_BEGIN, 0);
        let start = self.enter_block(n, mode, 1 << cause, routines);
        self.mode = mode;
        if into_user {
            self.items(items / 2);
            self.drop_to_user();
            self.items(items - items / 2);
        } else {
            self.items(items);
        }
        let end = self.asm.here();
        if mode != Mode::Machine {
            let flag = self.scratch(&[]);
            self.asm.li(flag, 1);
            self.asm.s(Op::Sd, flag, RETURN_FLAG, GP);
            way_out(self);
        }
        self.mode = Mode::Machine;
        self.asm.jal(RA, routines.monitor.leave);
        self.asm.probe(WORK_END, 0);
        checksum::call(&mut self.asm, routines.checksum);
        Block { mode, start, end }
    }

    /// Into the next environment and `mode`, by either return instruction. Returns where the block's
    /// own code begins.
    fn enter_block(&mut self, n: usize, mode: Mode, kept: i64, routines: &Routines) -> u64 {
        let entry = self.asm.label();
        self.asm.la(ENTRY, entry);
        self.asm.li(MODE, mode.field());
        self.asm.li(KEPT, kept);
        self.asm
            .li(RECORD, (Kind::Block as i64) << KIND_SHIFT | n as i64);
        self.asm.jal(RA, routines.monitor.enter);
        let by_sret = mode != Mode::Machine && self.random.chance(40);
        let (shift, pc, leave) = if by_sret {
            (8, SEPC, Op::Sret)
        } else {
            (11, MEPC, Op::Mret)
        };
        self.asm.i(Op::Slli, MODE, MODE, shift);
        self.asm.csr(Op::Csrrs, 0, MSTATUS, MODE);
        let takes_rights = !self.target.excludes(Exclusion::RightsAfterReturn);
        if mode != Mode::Machine && takes_rights && self.random.chance(25) {
            self.asm.li(KEPT, MPRV);
            self.asm.csr(Op::Csrrs, 0, MSTATUS, KEPT);
        }
        self.asm.csrw(pc, ENTRY);
        self.asm.mv(GP, POINTER);
        self.asm.bare(leave);
        self.asm.bind(entry);
        self.asm.here()
    }

    /// Another round, or the hashes of all memory and the end.
    fn privileged_end(&mut self, round: Label, park: Label) {
        let asm = &mut self.asm;
        let over = asm.label();
        asm.i(Op::Ld, T0, GP, ROUNDS);
        asm.i(Op::Addi, T0, T0, -1);
        asm.s(Op::Sd, T0, ROUNDS, GP);
        asm.branch(Op::Beq, T0, 0, over);
        asm.la(T0, round);
        asm.i(Op::Jalr, 0, T0, 0);
        asm.bind(over);
        let arena = self.arena.as_ref().expect("the program is privileged");
        let tables = arena.spaces.tables.len() as u64;
        let frames = DATA_FRAMES.iter().chain(&CODE_FRAMES);
        let mut pieces: Vec<(u64, u64)> = frames.map(|&n| (frame(n), 1)).collect();
        pieces.push((TABLES, tables));
        for (address, pages) in pieces {
            self.hash_pages(address, pages);
        }
        self.asm.li(T0, FINISHER);
        self.asm.li(T1, PASS);
        self.asm.s(Op::Sw, T1, 0, T0);
        self.asm.j(park);
    }

    /// A record for each of so many pages from `address` on.
    fn hash_pages(&mut self, address: u64, pages: u64) {
        const HASH: u8 = 13;
        const FACTOR: u8 = 14;
        const FIRST: u8 = 16;
        let asm = &mut self.asm;
        asm.li(S0, address as i64);
        asm.li(S1, (address + pages * SPAN[0]) as i64);
        asm.i(Op::Ld, FACTOR, GP, MULTIPLIER);
        asm.li(T2, SPAN[0] as i64 - 1);
        let page = asm.bound();
        asm.li(HASH, 0);
        asm.mv(FIRST, S0);
        let next = asm.bound();
        // What may not be read keeps the word before it.
        asm.i(Op::Ld, T0, S0, 0);
        asm.mix(HASH, T0, FACTOR, T1);
        asm.i(Op::Addi, S0, S0, 8);
        asm.r(Op::And, T1, S0, T2);
        asm.branch(Op::Bne, T1, 0, next);
        log::begin(asm, POINTER);
        asm.li(T0, Kind::Memory.word());
        log::word(asm, POINTER, 0, T0);
        log::word(asm, POINTER, 1, FIRST);
        log::word(asm, POINTER, 2, HASH);
        log::word(asm, POINTER, 3, 0);
        log::end(asm, POINTER);
        asm.branch(Op::Bltu, S0, S1, page);
    }
}
