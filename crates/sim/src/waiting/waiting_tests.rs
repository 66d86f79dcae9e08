use std::ops::Range;

use loiter_isa::{Inst, Op, decode};
use loiter_machine::{Machine, MachineConfig, RAM_BASE, SymbolFile};
use loiter_types::PhysAddr;

use super::find::Finder;
use super::loops;
use super::table::Table;
use crate::symbols::Symbols;

/// `_raw_spin_lock` of Debian's kernel 6.12 without what stands around the lock: the ticket is taken, and if it is not
/// served, the loop with `lr` and `wrs.nto` is entered, which an alternative jump at 0x12 replaces by that with `pause`
/// at 0x66 where the hart has no Zawrs.
const TICKET_LOCK: [u16; 46] = [
    0x0001, 0x0001, 0x411c, // 0x04 lw a5,0(a0)
    0x9693, 0x0307, // sll a3,a5,0x30
    0x92c1, // srl a3,a3,0x30
    0x2781, // sext.w a5,a5
    0x0163, 0x02d7, // 0x0e beq a4,a3, 0x30
    0x006f, 0x0540, // 0x12 j 0x66
    0x26af, 0x1005, // lr.w a3,(a0)
    0x8ebd, // xor a3,a3,a5
    0xe299, // bnez a3, 0x22
    0x0073, 0x00d0, // 0x1e wrs.nto
    0x411c, // 0x22 lw a5,0(a0)
    0x9693, 0x0307, 0x92c1, 0x2781, // its half again
    0x13e3, 0xfed7, // 0x2c bne a4,a3, 0x12
    0x000f, 0x0220, // 0x30 fence r,r
    0x0001, 0x0001, 0x0001, 0x0001, 0x0001, 0x0001, 0x0001, 0x0001, 0x0001, 0x0001, 0x0001, 0x0001,
    0x0001, 0x0001, 0x0001, 0x0001, 0x0001, 0x0001, 0x0001, // to 0x5a
    0x8082, // 0x5a ret
];
const SLOW: [u16; 8] = [
    0x0001, 0x0001, 0x0001, 0x0001, 0x0001, // to 0x66
    0x000f, 0x0100, // 0x66 pause
    0xbf69, // 0x6a j 0x04
];
/// Where the jump to the slow path stands.
const JUMP: usize = 9;
const NOP: [u16; 2] = [0x0013, 0x0000];

fn ticket_lock() -> Vec<u16> {
    [&TICKET_LOCK[..], &SLOW[..]].concat()
}

fn decoded(halves: &[u16]) -> Vec<(u64, Inst)> {
    let mut code = Vec::new();
    let mut at = 0;
    while at < halves.len() {
        let high = halves.get(at + 1).copied().unwrap_or(0);
        let inst = decode(u32::from(halves[at]) | u32::from(high) << 16);
        code.push((2 * at as u64, inst));
        at += usize::from(inst.len) / 2;
    }
    code
}

fn waits(inst: &Inst) -> bool {
    matches!(inst.op, Op::Pause | Op::WrsNto)
}

/// One range.
fn one(range: Range<u64>) -> Vec<Range<u64>> {
    std::iter::once(range).collect()
}

#[test]
fn a_ticket_lock_waits_in_its_loops_whichever_of_them_is_patched_in() {
    let mut lock = ticket_lock();
    let code = decoded(&lock);
    assert!(
        code.iter()
            .any(|(at, inst)| *at == 0x66 && inst.op == Op::Pause)
    );
    assert!(
        code.iter()
            .any(|(at, inst)| *at == 0x1e && inst.op == Op::WrsNto)
    );
    assert_eq!(
        loops::innermost_around(&code, 0, waits),
        [0x04..0x30, 0x66..0x6c],
        "as it was compiled: both"
    );
    lock[JUMP..JUMP + 2].copy_from_slice(&NOP);
    assert_eq!(
        loops::innermost_around(&decoded(&lock), 0, waits),
        one(0x12..0x30),
        "on a hart that has Zawrs"
    );
}

#[test]
fn a_wait_without_a_loop_is_no_loop() {
    // pause; ret
    let code = decoded(&[0x000f, 0x0100, 0x8082]);
    assert_eq!(loops::innermost_around(&code, 0, waits), []);
    // pause; j to itself
    let code = decoded(&[0x000f, 0x0100, 0xbff5]);
    assert_eq!(loops::innermost_around(&code, 0, waits), one(0..6));
}

#[test]
fn the_innermost_loop_waits_and_not_those_around_it() {
    // 0: nop; 2: pause; 6: bnez a0, 2; 8: bnez a1, 0; a: ret
    let code = decoded(&[0x0001, 0x000f, 0x0100, 0xfd75, 0xfde5, 0x8082]);
    assert_eq!(code[2].1.imm, -4);
    assert_eq!(code[3].1.imm, -8);
    assert_eq!(loops::innermost_around(&code, 0, waits), one(2..8));
}

const MAP: &str = "\
ffffffff80000000 T _start
ffffffff80001000 T _raw_spin_lock
ffffffff80001080 t poll_idle.isra.0
ffffffff800010a0 t poll_idle.cold
ffffffff80001100 T __switch_to
ffffffff80001110 B _end
";

fn kernel() -> (Machine, Symbols) {
    let mut machine = Machine::new(&MachineConfig::default()).unwrap();
    let at = machine.kernel_addr().0 + 0x1000;
    let bytes: Vec<u8> = ticket_lock()
        .iter()
        .flat_map(|half| half.to_le_bytes())
        .collect();
    let place = machine.ram.slice_mut(PhysAddr(at), bytes.len() as u64);
    place.unwrap().copy_from_slice(&bytes);
    let map = SymbolFile::parse("System.map", MAP.as_bytes()).unwrap();
    (machine, Symbols::new(vec![map]))
}

/// Name, kind and ranges of what a table marks.
type Found = (String, &'static str, Vec<Range<u64>>);

/// What a table comes to in [`kernel`].
fn find(text: &str) -> Result<Vec<Found>, String> {
    let (machine, symbols) = kernel();
    let finder = Finder::new(&symbols, &machine);
    let found = Table::parse(text)?.find(&finder)?;
    let rows = found.into_iter();
    Ok(rows
        .map(|found| (found.name, found.kind.word(), found.ranges))
        .collect())
}

#[test]
fn a_table_names_functions_loops_and_ranges() {
    let base = 0xffff_ffff_8000_0000_u64;
    let at = |begin: u64, end: u64| base + begin..base + end;
    let found = find(
        "[[function]]
         name = '_raw_spin_lock'
         kind = 'lock'
         loops_with = ['pause', 'wrs']
         [[function]]
         name = 'poll_idle'
         kind = 'idle'
         [[function]]
         name = 'no_such'
         kind = 'lock'
         optional = true
         [[range]]
         begin = '__switch_to+0x4'
         end = '0xffffffff80001108'
         kind = 'switch'",
    );
    let found = found.unwrap();
    let ranges: Vec<_> = found
        .iter()
        .map(|(_, kind, ranges)| (*kind, ranges.clone()))
        .collect();
    assert_eq!(
        ranges,
        [
            ("lock", vec![at(0x1004, 0x1030), at(0x1066, 0x106c)]),
            ("idle", vec![at(0x1080, 0x10a0), at(0x10a0, 0x1100)]),
            ("switch", vec![at(0x1104, 0x1108)]),
        ]
    );
    let (machine, symbols) = kernel();
    let finder = Finder::new(&symbols, &machine);
    let lock = finder.physical(&at(0x1004, 0x1030)).unwrap();
    assert_eq!(lock.start, machine.kernel_addr().0 + 0x1004);
    assert_eq!(
        finder.physical(&(RAM_BASE..RAM_BASE + 4)),
        Some(RAM_BASE..RAM_BASE + 4)
    );
    assert_eq!(finder.physical(&(0x10..0x20)), None);
}

#[test]
fn a_table_that_does_not_fit_is_refused_in_words() {
    let refuses = |text: &str, words: &[&str]| {
        let problem = find(text).expect_err(text);
        for word in words {
            assert!(problem.contains(word), "{word} in: {problem}");
        }
    };
    refuses("", &["names no [[function]]"]);
    refuses(
        "[[function]]\nname = 'x'\nkind = 'lock'\nlops = 1",
        &["line 4", "loops_with"],
    );
    refuses("[[function]]\nname = 'x'", &["kind"]);
    refuses(
        "[[function]]\nname = '_raw_spin_luck'\nkind = 'lock'",
        &["\"_raw_spin_luck\"; nearest: _raw_spin_lock", "optional"],
    );
    refuses(
        "[[function]]\nname = 'poll_idle'\nkind = 'luck'",
        &["poll_idle: unknown kind \"luck\"; nearest: lock"],
    );
    refuses(
        "[[function]]\nname = '__switch_to'\nkind = 'lock'\nloops_with = ['wrs', 'div']",
        &["__switch_to: no loop in it has wrs or div"],
    );
    refuses(
        "[[function]]\nname = '__switch_to'\nkind = 'lock'\nloops_with = ['pawse']",
        &["unknown waiting method \"pawse\"; nearest: pause"],
    );
    let range = |begin: &str, end: &str| {
        format!("[[range]]\nbegin = '{begin}'\nend = '{end}'\nkind = 'lock'")
    };
    refuses(
        &range("0x80000010", "0x80000010"),
        &["ends where it begins"],
    );
    refuses(&range("0x80000011", "0x80000020"), &["odd address"]);
    refuses(
        &range("poll_idel.isra.0", "0x80000020"),
        &["nearest: poll_idle.isra.0"],
    );
    refuses(&range("_start+x", "0x80000020"), &["\"x\" is no number"]);
}
