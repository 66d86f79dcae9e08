//! Comparing what a program told on two machines, block by block.

use loiter_isa::{disassemble, length};
use loiter_sim::RunResult;

use crate::generator::{Block, Program};

/// What the four numbers of a checksum are about.
const PARTS: [&str; 4] = [
    "integer registers",
    "floating-point registers and fcsr",
    "memory",
    "traps",
];
/// Instructions of a block that a report shows.
const SHOWN: usize = 400;

/// The four checksums after each block.
pub(crate) type Checksums = Vec<[u64; 4]>;

/// Reads what a single hart printed.
pub(crate) fn printed(console: &str) -> Checksums {
    let line = |line: &str| {
        let mut words = line
            .split(' ')
            .map(|word| u64::from_str_radix(word, 16).unwrap_or_else(|_| panic!("{line:?}")));
        std::array::from_fn(|_| words.next().unwrap_or_else(|| panic!("{line:?}")))
    };
    console.lines().map(line).collect()
}

/// What `hart` reported by probes.
pub(crate) fn reported(result: &RunResult, hart: usize) -> Checksums {
    let values: Vec<u64> = result
        .reports
        .iter()
        .filter(|report| usize::from(report.hart) == hart && report.name == "checksum")
        .map(|report| report.value)
        .collect();
    assert!(values.len().is_multiple_of(4));
    values
        .chunks(4)
        .map(|four| std::array::from_fn(|n| four[n]))
        .collect()
}

/// Instructions that `hart` had retired at each begin and end of a block.
pub(crate) fn retired(result: &RunResult, hart: usize) -> Vec<u64> {
    result
        .marks
        .iter()
        .filter(|mark| usize::from(mark.hart) == hart)
        .filter(|mark| matches!(mark.kind, "work_begin" | "work_end"))
        .map(|mark| mark.retired)
        .collect()
}

/// Instructions retired within blocks, the checksums' own left out.
pub(crate) fn retired_in_blocks(result: &RunResult, hart: usize) -> u64 {
    let marks = retired(result, hart);
    marks.chunks(2).map(|pair| pair[1] - pair[0]).sum()
}

/// Compares checksums. If they differ, says after which block first, and shows the block.
pub(crate) fn difference(
    program: &Program,
    hart: usize,
    expected: (&str, &Checksums),
    found: (&str, &Checksums),
) -> Option<String> {
    let blocks = &program.blocks[hart];
    let pairs = expected.1.iter().zip(found.1);
    let first = pairs.clone().position(|(a, b)| a != b);
    let Some(n) = first else {
        let counts = [expected.1.len(), found.1.len()];
        if counts == [blocks.len(); 2] {
            return None;
        }
        let block = counts[0].min(counts[1]).min(blocks.len() - 1);
        return Some(format!(
            "seed {} hart {hart}: {} and {} told of {counts:?} blocks of {}\n{}",
            program.seed,
            expected.0,
            found.0,
            blocks.len(),
            listing(program, &blocks[block])
        ));
    };
    let (a, b) = (&expected.1[n], &found.1[n]);
    let mut text = format!(
        "seed {} hart {hart}: after block {n} of {} ({:?} mode)\n",
        program.seed,
        blocks.len(),
        blocks[n].mode
    );
    for ((part, a), b) in PARTS.into_iter().zip(a).zip(b) {
        let verdict = if a == b { "same" } else { "DIFFERENT" };
        text += &format!(
            "{verdict:>9} {part}: {a:016x} {}, {b:016x} {}\n",
            expected.0, found.0
        );
    }
    Some(text + &listing(program, &blocks[n]))
}

/// Asserts that the same instructions retired up to each mark.
pub(crate) fn assert_same_retired(
    program: &Program,
    hart: usize,
    expected: &RunResult,
    found: &RunResult,
) {
    let (expected, found) = (retired(expected, hart), retired(found, hart));
    let first = expected.iter().zip(&found).position(|(a, b)| a != b);
    if let Some(n) = first {
        panic!(
            "seed {} hart {hart}: {} instructions retired in the reference engine and {} on the \
             timing core at the {} of block {}\n{}",
            program.seed,
            expected[n],
            found[n],
            ["begin", "end"][n % 2],
            n / 2,
            listing(program, &program.blocks[hart][n / 2])
        );
    }
    assert_eq!(expected.len(), found.len(), "seed {}", program.seed);
}

/// The instructions of a block.
fn listing(program: &Program, block: &Block) -> String {
    let mut pc = block.start;
    let mut text = String::new();
    for _ in 0..SHOWN {
        if pc >= block.end {
            break;
        }
        let at = (pc - program.text.address) as usize;
        let bytes = &program.text.bytes[at..];
        let bits = u32::from_le_bytes(std::array::from_fn(|n| *bytes.get(n).unwrap_or(&0)));
        let bytes = length(bits as u16);
        let digits = 2 * usize::from(bytes);
        let shown = if bytes == 2 { bits & 0xffff } else { bits };
        text += &format!("{pc:x}: {shown:0digits$x} {}\n", disassemble(bits, pc));
        pc += u64::from(bytes);
    }
    text
}
