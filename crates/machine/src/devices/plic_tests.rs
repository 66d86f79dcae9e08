use loiter_isa::Width;
use loiter_types::HartId;

use super::{CONTEXT_BYTES, CONTEXT_OFFSET, ENABLE_BYTES, ENABLE_OFFSET, PENDING_OFFSET};
use super::{Device, LAST_SOURCE, MEIP, Plic, SEIP};

const A: HartId = HartId(0);
const B: HartId = HartId(1);
/// Contexts: machine and supervisor mode of A, then of B.
const A_M: u64 = 0;
const A_S: u64 = 1;
const B_S: u64 = 3;

fn priority(plic: &mut Plic, source: u64, value: u64) {
    plic.store(4 * source, Width::W, value).unwrap();
}

fn enable(plic: &mut Plic, context: u64, source: u64) {
    let offset = ENABLE_OFFSET + ENABLE_BYTES * context + source / 32 * 4;
    let old = plic.load(offset, Width::W).unwrap();
    plic.store(offset, Width::W, old | 1 << (source % 32))
        .unwrap();
}

fn threshold(plic: &mut Plic, context: u64, value: u64) {
    plic.store(CONTEXT_OFFSET + CONTEXT_BYTES * context, Width::W, value)
        .unwrap();
}

fn claim(plic: &mut Plic, context: u64) -> u64 {
    plic.load(CONTEXT_OFFSET + CONTEXT_BYTES * context + 4, Width::W)
        .unwrap()
}

fn complete(plic: &mut Plic, context: u64, source: u64) {
    let offset = CONTEXT_OFFSET + CONTEXT_BYTES * context + 4;
    plic.store(offset, Width::W, source).unwrap();
}

/// Two harts; source 10 has priority 3 and is enabled for supervisor mode of A.
fn plic() -> Plic {
    let mut plic = Plic::new(2);
    priority(&mut plic, 10, 3);
    enable(&mut plic, A_S, 10);
    plic
}

#[test]
fn an_interrupt_reaches_the_contexts_that_enable_it() {
    let mut plic = plic();
    enable(&mut plic, 2, 10);
    assert_eq!((plic.lines(A), plic.lines(B)), (0, 0));
    plic.set_level(10, true);
    assert_eq!((plic.lines(A), plic.lines(B)), (SEIP, MEIP));
    assert_eq!(plic.generation(), 2);
    assert_eq!(plic.load(PENDING_OFFSET, Width::W), Some(1 << 10));
    assert_eq!(claim(&mut plic, A_M), 0, "not enabled there");
    assert_eq!(claim(&mut plic, A_S), 10);
    assert_eq!(
        (plic.lines(A), plic.lines(B)),
        (0, 0),
        "only one can claim it"
    );
    assert_eq!(claim(&mut plic, 2), 0);
    assert_eq!(plic.load(PENDING_OFFSET, Width::W), Some(0));
}

#[test]
fn a_level_that_stays_high_interrupts_again_after_completion() {
    let mut plic = plic();
    plic.set_level(10, true);
    assert_eq!(claim(&mut plic, A_S), 10);
    plic.set_level(10, false);
    plic.set_level(10, true);
    assert_eq!(plic.lines(A), 0, "in service");
    complete(&mut plic, A_S, 10);
    assert_eq!(plic.lines(A), SEIP);
    assert_eq!(claim(&mut plic, A_S), 10);
    plic.set_level(10, false);
    complete(&mut plic, A_S, 10);
    assert_eq!(plic.lines(A), 0);
    complete(&mut plic, A_S, 10);
    assert_eq!(claim(&mut plic, A_S), 0, "nothing was in service");
}

#[test]
fn what_has_been_accepted_stays_pending_when_the_level_falls() {
    let mut plic = plic();
    plic.set_level(10, true);
    plic.set_level(10, false);
    assert_eq!(plic.lines(A), SEIP);
    assert_eq!(claim(&mut plic, A_S), 10);
}

#[test]
fn only_an_enabled_context_completes() {
    let mut plic = plic();
    plic.set_level(10, true);
    assert_eq!(claim(&mut plic, A_S), 10);
    for (context, source) in [(B_S, 10), (A_S, 0), (A_S, 11), (A_S, 96), (A_S, u64::MAX)] {
        complete(&mut plic, context, source);
        assert_eq!(plic.lines(A), 0, "context {context}, source {source}");
    }
    complete(&mut plic, A_S, 10);
    assert_eq!(plic.lines(A), SEIP);
}

#[test]
fn the_threshold_masks_what_is_not_above_it() {
    let mut plic = plic();
    plic.set_level(10, true);
    threshold(&mut plic, A_S, 3);
    assert_eq!(plic.lines(A), 0);
    threshold(&mut plic, A_S, 2);
    assert_eq!(plic.lines(A), SEIP);
    threshold(&mut plic, A_S, 7);
    assert_eq!(claim(&mut plic, A_S), 10, "a claim heeds no threshold");
}

#[test]
fn the_highest_priority_first_then_the_lowest_number() {
    let mut plic = plic();
    for (source, level) in [(9, 3), (40, 5), (95, 7), (33, 0)] {
        priority(&mut plic, source, level);
        enable(&mut plic, A_S, source);
        plic.set_level(source as u32, true);
    }
    plic.set_level(10, true);
    let claimed: Vec<u64> = (0..5).map(|_| claim(&mut plic, A_S)).collect();
    assert_eq!(claimed, [95, 40, 9, 10, 0], "priority 0 never interrupts");
}

#[test]
fn registers_keep_what_they_have_bits_for() {
    let mut plic = Plic::new(2);
    for source in [1, LAST_SOURCE as u64] {
        priority(&mut plic, source, u64::MAX);
        assert_eq!(plic.load(4 * source, Width::W), Some(7));
    }
    threshold(&mut plic, B_S, 0x19);
    let offset = CONTEXT_OFFSET + CONTEXT_BYTES * B_S;
    assert_eq!(plic.load(offset, Width::W), Some(1));
    let enables = ENABLE_OFFSET + ENABLE_BYTES * B_S;
    for (word, expected) in [(0, 0xffff_fffe), (1, 0xffff_ffff), (2, 0xffff_ffff), (3, 0)] {
        plic.store(enables + 4 * word, Width::W, u64::MAX).unwrap();
        assert_eq!(plic.load(enables + 4 * word, Width::W), Some(expected));
    }
}

#[test]
fn what_is_reserved_reads_as_zero_and_ignores_writes() {
    let mut plic = plic();
    for offset in [
        0,
        4 * (LAST_SOURCE as u64 + 1),
        PENDING_OFFSET,
        PENDING_OFFSET + 12,
        ENABLE_OFFSET + 4 * ENABLE_BYTES,
        CONTEXT_OFFSET - 4,
        CONTEXT_OFFSET + 8,
        CONTEXT_OFFSET + 4 * CONTEXT_BYTES,
        CONTEXT_OFFSET + 4 * CONTEXT_BYTES + 4,
        0x3ff_fffc,
    ] {
        plic.store(offset, Width::W, 7).unwrap();
        assert_eq!(plic.load(offset, Width::W), Some(0), "{offset:#x}");
    }
    for width in [Width::B, Width::H, Width::D] {
        assert_eq!(plic.load(0x28, width), None);
        assert_eq!(plic.store(0x28, width, 0), None);
    }
}

#[test]
fn contexts_of_many_harts_have_registers_of_their_own() {
    let mut plic = Plic::new(256);
    let last = 511;
    priority(&mut plic, 11, 1);
    enable(&mut plic, last, 11);
    plic.set_level(11, true);
    assert_eq!(plic.lines(HartId(255)), SEIP);
    assert!((0..255).all(|hart| plic.lines(HartId(hart)) == 0));
    assert_eq!(claim(&mut plic, last), 11);
}
