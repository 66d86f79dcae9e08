use loiter_types::{ParamValue, Params};

use super::*;

const EXIT_1: u64 = 7;
const RESIDENCY_1: u64 = 50;
const EXIT_2: u64 = 300;
const RESIDENCY_2: u64 = 1000;
const ENTRY_2: u64 = 40;

/// Two states; a wrs permits the first, a wfi both.
fn params(changes: &[(&str, u64)]) -> IdleParams {
    let values = [
        ("states", 2),
        ("wrs_deepest", 1),
        ("wfi_deepest", 2),
        ("state1_exit_cycles", EXIT_1),
        ("state1_residency_cycles", RESIDENCY_1),
        ("state2_entry_cycles", ENTRY_2),
        ("state2_exit_cycles", EXIT_2),
        ("state2_residency_cycles", RESIDENCY_2),
    ];
    let infos = IdleParams::infos();
    IdleParams::build(&mut |name| {
        let given = changes.iter().chain(&values).find(|(key, _)| *key == name);
        match given {
            Some(&(_, value)) => ParamValue::Int(value),
            None => {
                let info = infos.iter().find(|info| info.name == name).unwrap();
                info.default.clone().unwrap()
            }
        }
    })
}

fn awake(params: &IdleParams, contexts: usize) -> Idle {
    let mut idle = Idle::new(params, contexts, Cycle(0));
    for c in 0..contexts {
        let _ = idle.moves(c, Cycle(0));
    }
    idle
}

/// When a core continues whose one context sleeps from cycle 100 on, after an event in cycle `event`.
fn up(params: &IdleParams, nap: Nap, event: u64) -> u64 {
    let mut idle = awake(params, 1);
    idle.sleeps(0, nap, Cycle(100), Cycle::NEVER);
    idle.wakes(0, Cycle(event)).at.0
}

#[test]
fn a_state_is_entered_in_the_cycle_of_its_target_residency() {
    let params = params(&[]);
    // Before, the exit is the nap's alone.
    assert_eq!(up(&params, Nap::Wfi, 100 + RESIDENCY_1 - 1), 0);
    let first = 100 + RESIDENCY_1;
    assert_eq!(up(&params, Nap::Wfi, first), first + EXIT_1);
    let before = 100 + RESIDENCY_2 - 1;
    assert_eq!(up(&params, Nap::Wfi, before), before + EXIT_1);
    // An event during the entry is heard at its end.
    let second = 100 + RESIDENCY_2;
    assert_eq!(up(&params, Nap::Wfi, second), second + ENTRY_2 + EXIT_2);
    let entered = second + ENTRY_2;
    assert_eq!(up(&params, Nap::Wfi, entered), entered + EXIT_2);
    assert_eq!(up(&params, Nap::Wfi, entered + 1), entered + 1 + EXIT_2);
}

#[test]
fn a_wrs_permits_the_first_state_alone_and_the_lock_none() {
    let params = params(&[]);
    let late = 100 + 5 * RESIDENCY_2;
    assert_eq!(up(&params, Nap::WrsNto, late), late + EXIT_1);
    assert_eq!(up(&params, Nap::Lock, late), 0);
}

#[test]
fn on_request_the_deepest_permitted_state_is_entered_at_once() {
    let mut params = params(&[]);
    params.governor = "request".into();
    assert_eq!(up(&params, Nap::Wfi, 99), 0);
    assert_eq!(up(&params, Nap::Wfi, 100), 100 + ENTRY_2 + EXIT_2);
    assert_eq!(up(&params, Nap::WrsNto, 100), 100 + EXIT_1);
}

#[test]
fn a_sibling_that_is_awake_or_in_a_light_nap_keeps_the_core_shallow() {
    let params = params(&[]);
    let late = Cycle(100 + 5 * RESIDENCY_2);
    let mut idle = awake(&params, 2);
    idle.sleeps(0, Nap::Wfi, Cycle(100), Cycle::NEVER);
    assert_eq!(idle.wakes(0, late).at, Cycle(0));
    assert_eq!(idle.counters_at(late).asleep_cycles, 0);

    let mut idle = awake(&params, 2);
    idle.sleeps(0, Nap::Wfi, Cycle(100), Cycle::NEVER);
    idle.sleeps(1, Nap::WrsNto, Cycle(100), Cycle::NEVER);
    assert_eq!(idle.wakes(0, late).at, late.after(EXIT_1));
    // The core is up: the other has its own exit alone, but no earlier than the core.
    assert_eq!(idle.wakes(1, late.after(1)).at, late.after(EXIT_1));
}

#[test]
fn time_counts_from_the_last_context_that_fell_asleep() {
    let params = params(&[]);
    let mut idle = awake(&params, 2);
    idle.sleeps(0, Nap::Wfi, Cycle(100), Cycle::NEVER);
    idle.sleeps(1, Nap::Wfi, Cycle(5000), Cycle::NEVER);
    let before = Cycle(5000 + RESIDENCY_1 - 1);
    assert_eq!(idle.wakes(0, before).at, Cycle(0));
    assert_eq!(idle.counters_at(before).asleep_cycles, RESIDENCY_1 - 1);
}

#[test]
fn a_nap_that_ended_by_itself_ended_the_state_too() {
    let params = params(&[]);
    let mut idle = awake(&params, 2);
    idle.sleeps(0, Nap::WrsSto, Cycle(100), Cycle(120));
    idle.sleeps(1, Nap::Wfi, Cycle(100), Cycle::NEVER);
    // It was over before the first state began, though nobody has told yet.
    assert_eq!(idle.wakes(1, Cycle(100 + RESIDENCY_1)).at, Cycle(0));
    assert_eq!(idle.counters_at(Cycle(500)).asleep_cycles, 20);
}

#[test]
fn cycles_and_entries_add_up_whoever_reads_them() {
    let params = params(&[]);
    let mut idle = awake(&params, 1);
    idle.sleeps(0, Nap::Wfi, Cycle(100), Cycle::NEVER);
    let end = Cycle(100 + RESIDENCY_2 + 77);
    let read = idle.counters_at(end);
    assert_eq!(
        (
            read.asleep_cycles,
            read.state1_cycles,
            read.state2_cycles,
            read.state3_cycles
        ),
        (RESIDENCY_1, RESIDENCY_2 - RESIDENCY_1, 77, 0)
    );
    assert_eq!((read.state1_entries, read.state2_entries), (1, 1));
    // Reading changes nothing.
    idle.wakes(0, end);
    let woken = idle.counters_at(end.after(1000));
    assert_eq!(format!("{woken:?}"), format!("{read:?}"));
}

#[test]
fn vacant_contexts_permit_every_state_and_skipped_time_counts_for_none() {
    let params = params(&[]);
    let mut idle = Idle::new(&params, 2, Cycle(0));
    assert_eq!(idle.counters_at(Cycle(RESIDENCY_2 + 3)).state2_cycles, 3);
    idle.skip(Cycle(1_000_000));
    let later = idle.counters_at(Cycle(1_000_009));
    assert_eq!((later.asleep_cycles, later.state2_cycles), (9, 0));
    let _ = idle.moves(0, Cycle(1_000_009));
    assert_eq!(idle.counters_at(Cycle(2_000_000)).asleep_cycles, 9);
}

#[test]
fn contradictions_name_their_key() {
    let fault = |changes: &[(&str, u64)]| params(changes).check().unwrap_err().1;
    assert!(params(&[]).check().is_ok());
    // As long as the residency is possible.
    assert!(
        params(&[("state1_exit_cycles", RESIDENCY_1)])
            .check()
            .is_ok()
    );
    let longer = fault(&[("state1_exit_cycles", RESIDENCY_1 + 1)]);
    assert!(
        longer.starts_with("state1_exit_cycles = 51 is longer than state1_residency_cycles = 50")
    );
    let less = fault(&[("state2_residency_cycles", 49), ("state2_exit_cycles", 49)]);
    assert!(
        less.starts_with("state2_residency_cycles = 49 is less than state1_residency_cycles = 50")
    );
    let more = fault(&[("wrs_deepest", 3)]);
    assert!(more.starts_with("wrs_deepest = 3, but there are states = 2"));
}

/// With a first state that loses the first level, and a second that loses all.
fn losing() -> IdleParams {
    IdleParams {
        state1_loses: "l1".into(),
        state2_loses: "translations l2 predictors".into(),
        ..params(&[])
    }
}

#[test]
fn caches_are_lost_when_their_state_begins_and_the_rest_when_the_core_wakes() {
    let mut idle = awake(&losing(), 2);
    let first = Cycle(100 + RESIDENCY_1);
    let second = Cycle(100 + RESIDENCY_2);
    idle.sleeps(0, Nap::Wfi, Cycle(70), Cycle::NEVER);
    assert_eq!(idle.loses_at(), Cycle::NEVER, "somebody is awake");
    idle.sleeps(1, Nap::Wfi, Cycle(100), Cycle::NEVER);
    assert_eq!(idle.loses_at(), first);
    assert_eq!(idle.take_loss(first), Some(Caches::First));
    assert_eq!(idle.loses_at(), second);
    assert_eq!(idle.take_loss(second), Some(Caches::Private));
    assert_eq!(idle.loses_at(), Cycle::NEVER);
    assert_eq!(idle.wakes(0, second.after(1)).lost, Loses::ALL);

    // Woken in the first state; in the cycle in which the second begins; and before the first.
    for (event, lost, loses_at) in [
        (second.0 - 1, Some(Caches::First), Cycle::NEVER),
        (second.0, Some(Caches::Private), second),
        (first.0 - 1, None, Cycle::NEVER),
    ] {
        let mut idle = awake(&losing(), 1);
        idle.sleeps(0, Nap::Wfi, Cycle(100), Cycle::NEVER);
        if event >= first.0 {
            idle.take_loss(first);
        }
        assert_eq!(idle.wakes(0, Cycle(event)).lost.caches, lost, "{event}");
        assert_eq!(idle.loses_at(), loses_at, "{event}");
    }
}

#[test]
fn a_nap_that_ends_before_or_permits_less_keeps_the_caches() {
    let end = |until: u64, nap| {
        let mut idle = awake(&losing(), 1);
        idle.sleeps(0, nap, Cycle(100), Cycle(until));
        idle.loses_at()
    };
    let first = 100 + RESIDENCY_1;
    assert_eq!(end(first - 1, Nap::WrsSto), Cycle::NEVER);
    assert_eq!(end(first, Nap::WrsSto), Cycle(first));
    assert_eq!(end(first, Nap::Lock), Cycle::NEVER);
    // On request the second state is entered without the first.
    let params = IdleParams {
        governor: "request".into(),
        ..losing()
    };
    let mut idle = awake(&params, 1);
    idle.sleeps(0, Nap::Wfi, Cycle(100), Cycle::NEVER);
    assert_eq!(idle.take_loss(Cycle(100)), Some(Caches::Private));
}

#[test]
fn a_core_that_is_to_be_cold_loses_its_caches_once_whoever_wakes_or_sleeps() {
    let mut idle = awake(&params(&[]), 2);
    idle.is_to_be_cold(Cycle(40));
    idle.sleeps(0, Nap::Wfi, Cycle(41), Cycle::NEVER);
    idle.wakes(0, Cycle(45));
    assert_eq!(idle.loses_at(), Cycle(40));
    assert_eq!(idle.take_loss(Cycle(46)), Some(Caches::Private));
    assert_eq!(idle.loses_at(), Cycle::NEVER);
}

#[test]
fn what_a_state_loses_has_a_name() {
    let check = |words: &str| {
        let params = IdleParams {
            state2_loses: words.into(),
            ..params(&[])
        };
        params.check().err().map(|(section, problem)| {
            assert_eq!(section, "idle");
            problem
        })
    };
    assert_eq!(check("l2 translations predictors l1"), None);
    for (words, problem) in [
        ("l3", "state2_loses = \"l3\": \"l3\" is not"),
        (
            "l1 nothing",
            "state2_loses = \"l1 nothing\": \"nothing\" is not",
        ),
        ("", "state2_loses = \"\": \"\" is not"),
    ] {
        let found = check(words).unwrap();
        assert!(found.starts_with(problem), "{found}");
    }
}
