//! Both sides of each rule: what breaks a watch and what must not.

use loiter_types::{HartId, PhysAddr};

use super::BITS;
use super::{HartWatch, WatchState, Watches};

const LINE: u64 = 64;
const BASE: u64 = 0x8000_0000;
const A: HartId = HartId(0);
const B: HartId = HartId(1);
const C: HartId = HartId(2);

fn watches() -> Watches {
    Watches::new(3, LINE.trailing_zeros())
}

/// As a store does it: the filter first, the exact path behind it.
fn store(watches: &mut Watches, by: HartId, addr: u64, bytes: u64) {
    if watches.may_concern(PhysAddr(addr)) {
        watches.stored(Some(by), PhysAddr(addr), bytes);
    }
}

fn lost(watches: &mut Watches) -> Vec<HartId> {
    watches.take_lost().collect()
}

#[test]
fn another_harts_store_breaks_and_its_own_does_not() {
    let mut w = watches();
    w.arm(A, PhysAddr(BASE + 8));
    assert_eq!(w.state(A), WatchState::Held);
    store(&mut w, A, BASE + 16, 8);
    assert!(w.is_held(A, PhysAddr(BASE + 8)));
    assert!(!w.any_lost());
    store(&mut w, B, BASE + 56, 8);
    assert!(!w.is_held(A, PhysAddr(BASE + 8)));
    assert_eq!(w.state(A), WatchState::Lost);
    assert_eq!(lost(&mut w), [A]);
    assert_eq!(lost(&mut w), [], "named once");
    assert!(
        w.filter.iter().all(|&word| word == 0),
        "a lost watch leaves the fast path"
    );
}

#[test]
fn line_boundaries() {
    for (addr, bytes, breaks) in [
        (BASE + LINE - 8, 8, false),
        (BASE + LINE - 7, 8, true),
        (BASE + LINE - 1, 1, false),
        (BASE + LINE - 1, 2, true),
        (BASE + LINE - 16, 16, false),
        (BASE + LINE - 15, 16, true),
        (BASE + LINE, 1, true),
        (BASE + 2 * LINE - 1, 1, true),
        (BASE + 2 * LINE - 1, 8, true),
        (BASE + 2 * LINE, 8, false),
    ] {
        let mut w = watches();
        w.arm(A, PhysAddr(BASE + LINE + 24));
        store(&mut w, B, addr, bytes);
        assert_eq!(
            w.state(A) == WatchState::Lost,
            breaks,
            "{bytes} bytes at {addr:#x}"
        );
    }
}

#[test]
fn a_store_across_two_lines_breaks_both() {
    let mut w = watches();
    w.arm(A, PhysAddr(BASE));
    w.arm(C, PhysAddr(BASE + LINE));
    store(&mut w, B, BASE + LINE - 4, 8);
    assert_eq!(lost(&mut w), [A, C]);
}

#[test]
fn the_storing_harts_own_watch_survives_while_others_break() {
    let mut w = watches();
    for hart in [A, B, C] {
        w.arm(hart, PhysAddr(BASE));
    }
    store(&mut w, B, BASE, 8);
    assert_eq!(lost(&mut w), [A, C]);
    assert!(w.is_held(B, PhysAddr(BASE)));
}

#[test]
fn a_collision_in_the_filter_is_harmless() {
    let mut w = watches();
    w.arm(A, PhysAddr(BASE));
    let colliding = BASE + BITS as u64 * LINE;
    assert!(
        w.may_concern(PhysAddr(colliding)),
        "or this test shows nothing"
    );
    store(&mut w, B, colliding, 8);
    assert!(w.is_held(A, PhysAddr(BASE)));

    w.arm(C, PhysAddr(colliding));
    w.disarm(C);
    store(&mut w, B, BASE, 8);
    assert_eq!(
        lost(&mut w),
        [A],
        "disarming a colliding line hid the first"
    );
}

#[test]
fn arming_again_moves_the_watch() {
    let mut w = watches();
    w.arm(A, PhysAddr(BASE));
    w.arm(A, PhysAddr(BASE + 8 * LINE));
    store(&mut w, B, BASE, 8);
    assert!(!w.is_held(A, PhysAddr(BASE)));
    assert!(w.is_held(A, PhysAddr(BASE + 8 * LINE)));
    store(&mut w, B, BASE + 8 * LINE, 8);
    assert_eq!(lost(&mut w), [A]);
}

#[test]
fn a_loss_is_forgotten_by_whoever_arms_or_disarms() {
    let mut w = watches();
    w.arm(A, PhysAddr(BASE));
    w.arm(C, PhysAddr(BASE));
    store(&mut w, B, BASE, 8);
    w.arm(A, PhysAddr(BASE));
    w.disarm(C);
    assert_eq!(lost(&mut w), []);
    assert!(w.is_held(A, PhysAddr(BASE)));
    assert_eq!(w.state(C), WatchState::Idle);
}

#[test]
fn losses_nobody_asks_for_do_not_pile_up() {
    let mut w = watches();
    let room = w.lost.capacity();
    for _ in 0..1000 {
        w.arm(A, PhysAddr(BASE));
        store(&mut w, B, BASE, 8);
    }
    assert_eq!(w.lost.capacity(), room);
    assert_eq!(lost(&mut w), [A]);
}

#[test]
fn a_pinned_line_stays_in_the_filter() {
    let mut w = watches();
    w.pin(PhysAddr(BASE));
    w.arm(A, PhysAddr(BASE));
    w.disarm(A);
    assert!(w.may_concern(PhysAddr(BASE)));
    assert!(
        w.may_concern(PhysAddr(BASE - 1)),
        "a misaligned store from the line below"
    );
    assert!(!w.may_concern(PhysAddr(BASE + LINE)));
}

#[test]
fn watches_come_back_with_what_nobody_has_been_told() {
    let mut w = watches();
    w.pin(PhysAddr(BASE + 4 * LINE));
    w.arm(A, PhysAddr(BASE));
    w.arm(C, PhysAddr(BASE));
    store(&mut w, B, BASE, 8);
    w.arm(B, PhysAddr(BASE + 2 * LINE));
    let state = w.save();
    let mut back = watches();
    back.arm(A, PhysAddr(BASE + 9 * LINE));
    back.restore(&state).unwrap();
    assert_eq!(back.save(), state);
    assert_eq!(
        (&back.filter, &back.lines, &back.held),
        (&w.filter, &w.lines, &w.held)
    );
    assert!(back.may_concern(PhysAddr(BASE + 4 * LINE)));
    assert!(!back.may_concern(PhysAddr(BASE + 9 * LINE)), "forgotten");
    assert_eq!(lost(&mut back), [A, C]);
    store(&mut back, A, BASE + 2 * LINE, 1);
    assert_eq!(lost(&mut back), [B]);
    assert!(!back.may_concern(PhysAddr(BASE + 2 * LINE)));
}

#[test]
fn impossible_watches_are_refused() {
    let mut w = watches();
    w.arm(A, PhysAddr(u64::MAX));
    w.arm(B, PhysAddr(BASE));
    store(&mut w, A, BASE, 8);
    let good = w.save();
    watches().restore(&good).unwrap();
    let refuse = |change: &dyn Fn(&mut super::WatchesState)| {
        let mut state = good.clone();
        change(&mut state);
        let mut w = watches();
        let problem = w.restore(&state).unwrap_err();
        assert_eq!(w.save(), watches().save(), "unchanged");
        problem
    };
    assert!(refuse(&|state| state.harts.push(HartWatch::Idle)).contains("4 harts"));
    assert!(refuse(&|state| state.harts[0] = HartWatch::Held(1 << 58)).contains("watch on line"));
    assert!(refuse(&|state| state.lost.push(HartId(1))).contains("hart 1"));
    assert!(refuse(&|state| state.lost.push(HartId(0))).contains("hart 0"));
    assert!(refuse(&|state| state.lost.push(HartId(3))).contains("hart 3"));
    assert!(refuse(&|state| state.pinned.push(1 << 58)).contains("for ever"));
}

/// The filter against the exact answer, over random operations; now and then the filtered ones are
/// saved and restored.
#[test]
fn the_filter_never_hides_a_watched_line() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let (mut filtered, mut exact) = (watches(), watches());
    let mut losses = 0;
    for _ in 0..100_000 {
        let hart = HartId(random(3) as u16);
        let addr = BASE + random(2) * BITS as u64 * LINE + random(100 * LINE);
        match random(4) {
            0 => {
                filtered.arm(hart, PhysAddr(addr));
                exact.arm(hart, PhysAddr(addr));
            }
            1 => {
                filtered.disarm(hart);
                exact.disarm(hart);
            }
            _ => {
                let bytes = 1 << random(5);
                store(&mut filtered, hart, addr, bytes);
                exact.stored(Some(hart), PhysAddr(addr), bytes);
            }
        }
        if random(16) == 0 {
            let state = filtered.save();
            filtered = watches();
            filtered.restore(&state).unwrap();
        }
        let named = lost(&mut filtered);
        losses += named.len();
        assert_eq!(named, lost(&mut exact));
        assert_eq!(filtered.lines, exact.lines);
    }
    assert!(losses > 100, "only {losses} losses: nothing was tested");
}
