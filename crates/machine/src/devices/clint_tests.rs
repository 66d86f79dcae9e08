use loiter_isa::Width;
use loiter_types::HartId;

use super::{Clint, Device, MSIP, MTIME_OFFSET, MTIMECMP_OFFSET, MTIP, STIP, VSTIP};

const A: HartId = HartId(0);
const B: HartId = HartId(1);

fn clint() -> Clint {
    Clint::new(2)
}

fn mtimecmp(hart: HartId) -> u64 {
    MTIMECMP_OFFSET + 8 * u64::from(hart.0)
}

#[test]
fn nothing_is_pending_at_reset() {
    let mut clint = clint();
    clint.set_ticks(1 << 60);
    assert_eq!((clint.lines(A), clint.lines(B)), (0, 0));
    assert_eq!(clint.deadline(), None);
    assert_eq!(clint.generation(), 0);
}

#[test]
fn software_interrupt_reaches_its_hart_only() {
    let mut clint = clint();
    clint.store(4, Width::W, 0xffff_ffff).unwrap();
    assert_eq!((clint.lines(A), clint.lines(B)), (0, MSIP));
    assert_eq!(
        clint.load(4, Width::W),
        Some(1),
        "bits 31:1 are hard-wired to zero"
    );
    assert_eq!(clint.generation(), 1);
    clint.store(4, Width::W, 1).unwrap();
    assert_eq!(clint.generation(), 1, "nothing changed");
    clint.store(4, Width::W, 0xfffe).unwrap();
    assert_eq!(clint.lines(B), 0);
    assert_eq!(clint.generation(), 2);
}

#[test]
fn timer_fires_at_its_tick_and_not_before() {
    let mut clint = clint();
    clint.store(mtimecmp(A), Width::D, 100).unwrap();
    clint.store(mtimecmp(B), Width::D, 50).unwrap();
    assert_eq!(clint.deadline(), Some(50));
    clint.set_ticks(49);
    assert_eq!((clint.lines(A), clint.lines(B)), (0, 0));
    clint.set_ticks(50);
    assert_eq!((clint.lines(A), clint.lines(B)), (0, MTIP));
    assert_eq!(clint.deadline(), Some(100));
    clint.set_ticks(99);
    assert_eq!(clint.lines(A), 0);
    clint.set_ticks(101);
    assert_eq!(clint.lines(A), MTIP);
    assert_eq!(clint.deadline(), None);
    clint.store(mtimecmp(A), Width::D, 102).unwrap();
    assert_eq!(
        clint.lines(A),
        0,
        "a later deadline takes the interrupt back"
    );
    clint.store(mtimecmp(A), Width::D, 101).unwrap();
    assert_eq!(clint.lines(A), MTIP, "one that has passed fires at once");
}

#[test]
fn sixty_four_bit_registers_by_halves() {
    let mut clint = clint();
    clint.store(mtimecmp(B), Width::W, 0x89ab_cdef).unwrap();
    clint.store(mtimecmp(B) + 4, Width::W, 0x0123_4567).unwrap();
    assert_eq!(
        clint.load(mtimecmp(B), Width::D),
        Some(0x0123_4567_89ab_cdef)
    );
    assert_eq!(clint.load(mtimecmp(B), Width::W), Some(0x89ab_cdef));
    assert_eq!(clint.load(mtimecmp(B) + 4, Width::W), Some(0x0123_4567));
    assert_eq!(
        clint.load(mtimecmp(A), Width::D),
        Some(u64::MAX),
        "its neighbour is untouched"
    );
}

#[test]
fn a_store_to_mtime_shifts_time() {
    let mut clint = clint();
    clint.set_ticks(1000);
    clint.store(mtimecmp(A), Width::D, 20).unwrap();
    assert_eq!(clint.lines(A), MTIP);
    clint.store(MTIME_OFFSET, Width::D, 5).unwrap();
    assert_eq!(clint.lines(A), 0);
    assert_eq!(clint.deadline(), Some(1015), "in the caller's ticks");
    clint.set_ticks(1014);
    assert_eq!((clint.mtime(), clint.lines(A)), (19, 0));
    clint.set_ticks(1015);
    assert_eq!((clint.mtime(), clint.lines(A)), (20, MTIP));
    assert_eq!(clint.load(MTIME_OFFSET, Width::D), Some(20));
    clint.store(MTIME_OFFSET + 4, Width::W, 1).unwrap();
    assert_eq!(clint.load(MTIME_OFFSET + 4, Width::W), Some(1));
    assert_eq!(clint.mtime(), (1 << 32) + 20);
}

#[test]
fn registers_of_absent_harts_are_zero() {
    let mut clint = clint();
    for offset in [8, 0x3ffc, 0x4010, 0xbff0, 0xc000, 0xfff8] {
        assert_eq!(clint.store(offset, Width::W, 1), Some(()), "{offset:#x}");
        assert_eq!(clint.load(offset, Width::W), Some(0), "{offset:#x}");
    }
    assert_eq!(clint.generation(), 0);
}

#[test]
fn unsupported_widths_fault() {
    let mut clint = clint();
    for (offset, widths) in [
        (0, &[Width::B, Width::H, Width::D][..]),
        (MTIMECMP_OFFSET, &[Width::B, Width::H]),
        (MTIME_OFFSET, &[Width::B, Width::H]),
        (0xc000, &[Width::B, Width::H]),
    ] {
        for &width in widths {
            assert_eq!(clint.load(offset, width), None, "{offset:#x} {width:?}");
            assert_eq!(clint.store(offset, width, 0), None, "{offset:#x} {width:?}");
        }
    }
}

#[test]
fn the_supervisor_timer_has_a_comparator_and_a_deadline_of_its_own() {
    let mut clint = Clint::new(2);
    let hart = HartId::new(1);
    clint.set_ticks(10);
    clint.set_stimecmp(hart, 15);
    assert_eq!(clint.deadline(), Some(15));
    clint.set_ticks(14);
    assert_eq!(clint.lines(hart), 0);
    clint.set_ticks(15);
    assert_eq!(clint.lines(hart), STIP);
    assert_eq!(clint.lines(HartId::new(0)), 0);
    assert_eq!(clint.deadline(), None, "what has fired is not due");
    clint.set_stimecmp(hart, u64::MAX);
    assert_eq!((clint.lines(hart), clint.stimecmp(hart)), (0, u64::MAX));
}

#[test]
fn the_timer_of_a_guest_counts_in_the_time_of_the_guest() {
    let mut clint = Clint::new(2);
    let hart = HartId::new(1);
    clint.set_ticks(10);
    clint.set_vstimecmp(hart, 115, 100);
    assert_eq!(clint.deadline(), Some(15));
    clint.set_ticks(14);
    assert_eq!(clint.lines(hart), 0);
    clint.set_ticks(15);
    assert_eq!((clint.lines(hart), clint.deadline()), (VSTIP, None));
    clint.set_vstimecmp(hart, 115, 100_u64.wrapping_neg());
    assert_eq!(
        clint.lines(hart),
        VSTIP,
        "its time is before 0, which is late"
    );
    clint.set_vstimecmp(hart, u64::MAX, 0);
    assert_eq!(clint.lines(hart), 0);
}
