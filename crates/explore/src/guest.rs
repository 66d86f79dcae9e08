//! Programs for bare RISC-V harts, as ELF files.
//!
//! | function      | is called                                                                                   |
//! |---------------|---------------------------------------------------------------------------------------------|
//! | `setup()`     | before all others, by itself; need not be there                                             |
//! | `thread(n)`   | on every hart, with its number; without it harts begin at the ELF's entry, with that in a0  |
//! | `check(n)`    | when all harts have ended, by itself, with their number; need not be there                  |
//!
//! A hart ends when its function returns, at `wfi`, or at a jump to itself. It fails at `ebreak`, as `__builtin_trap` is.

use loiter_machine::ElfImage;

use crate::memory::Location;
use crate::program::{Entry, Program, Segment};

/// Where functions return to.
const END: u64 = 0xffff_ffff_ffff_f000;

/// Bytes of each stack, and what is left free below.
const STACK_BYTES: u64 = 0x4000;

const RA: u8 = 1;
const SP: u8 = 2;
const GP: u8 = 3;
const A0: u8 = 10;

/// Makes a program for `harts` harts of an ELF file.
#[must_use]
pub fn guest(image: &ElfImage, harts: usize) -> Program {
    let mut program = Program::default();
    for segment in &image.segments {
        let mut bytes = image.data(segment).to_vec();
        bytes.resize(segment.mem_bytes as usize, 0);
        program.segments.push(Segment {
            addr: segment.vaddr.0,
            bytes,
            writable: segment.writable,
        });
    }
    let ends = program
        .segments
        .iter()
        .map(|s| s.addr + s.bytes.len() as u64);
    let first = (ends.max().unwrap_or(0) / STACK_BYTES + 2) * STACK_BYTES;
    let symbol = |name| image.symbols.by_name(name).map(|addr| addr.0);
    let global = symbol("__global_pointer$");
    let mut entry = |pc: u64, argument: u64, number: u64| {
        let bottom = first + 2 * STACK_BYTES * number;
        program.segments.push(Segment {
            addr: bottom,
            bytes: vec![0; STACK_BYTES as usize],
            writable: true,
        });
        let mut registers = vec![(RA, END), (SP, bottom + STACK_BYTES), (A0, argument)];
        registers.extend(global.map(|gp| (GP, gp)));
        Entry {
            pc,
            end: END,
            registers,
            observed: Vec::new(),
            stack: bottom..bottom + STACK_BYTES,
        }
    };
    let begin = symbol("thread").unwrap_or(image.entry.0);
    let harts = harts as u64;
    let threads = (0..harts).map(|n| entry(begin, n, n)).collect();
    let setup = symbol("setup").map(|pc| entry(pc, harts, harts));
    let check = symbol("check").map(|pc| entry(pc, harts, harts + 1));
    program.threads = threads;
    program.setup = setup;
    program.check = check;
    program
}

/// Writes bytes into the memory that a program begins with.
pub(crate) fn patch(program: &mut Program, written: &[(Location, u64)]) {
    for &(location, value) in written {
        let holds = |s: &&mut Segment| {
            s.addr <= location.addr && location.addr - s.addr < s.bytes.len() as u64
        };
        if let Some(segment) = program.segments.iter_mut().find(holds) {
            let at = (location.addr - segment.addr) as usize;
            let len = usize::from(location.bytes);
            segment.bytes[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
        }
    }
}
