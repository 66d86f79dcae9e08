//! Litmus tests of memory ordering between harts, of one core and of several.
//!
//! What a machine shows must be a part of what the model that it promises allows ([`oracle`]), and where that
//! is weaker than sequential consistency, the weakness must be seen, or these tests could not fail.

mod guest;
mod oracle;
mod oracle_tests;
mod shapes;
mod test;

use std::collections::{BTreeMap, BTreeSet};

use crate::handmade::reports;
use crate::machines::{Machine, run_to_end};
use guest::Delay;
use oracle::{Promise, allowed};
use shapes::{BUFFERING, COHERENCE, CROSSINGS, MIXED, OBSERVERS, PASSING, STORES};
use test::{Layout, Litmus};

/// A machine, and where the harts of a test sit in it.
struct Setting {
    machine: Machine,
    cores: usize,
    /// Harts by number; a test of two takes the first two.
    harts: [usize; 4],
    set: &'static [&'static str],
    /// Only for tests of so many harts or more.
    least: usize,
}

const fn setting(machine: Machine, cores: usize, harts: [usize; 4]) -> Setting {
    Setting {
        machine,
        cores,
        harts,
        set: &[],
        least: 1,
    }
}

/// For tests in which some harts share a core and some do not.
const fn mixed(machine: Machine, harts: [usize; 4]) -> Setting {
    Setting {
        least: 3,
        ..setting(machine, 2, harts)
    }
}

/// One port, so that two loads do not read in one cycle, and a rename width that makes fewer delays equal.
const NARROW: &[&str] = &["units.data_ports=1", "core.rename_width=2"];

const T1: &[Setting] = &[
    setting(Machine::T1, 1, [0, 1, 2, 3]),
    setting(Machine::T1, 4, [0, 4, 8, 12]),
    mixed(Machine::T1, [5, 0, 4, 1]),
];
/// Both pipes of a core, and cores.
const T2: &[Setting] = &[
    setting(Machine::T2, 1, [0, 4, 1, 5]),
    setting(Machine::T2, 4, [0, 8, 16, 24]),
    mixed(Machine::T2, [9, 0, 8, 4]),
];
const SMT8: &[Setting] = &[
    Setting {
        set: NARROW,
        ..setting(Machine::Smt8, 1, [2, 6, 1, 0])
    },
    setting(Machine::Smt8, 4, [0, 8, 16, 24]),
    mixed(Machine::Smt8, [9, 0, 8, 1]),
];
const SMT2: &[Setting] = &[setting(Machine::Smt2, 2, [0, 1, 2, 3])];
const P_CORE: &[Setting] = &[
    setting(Machine::PCore, 2, [0, 1, 2, 3]),
    setting(Machine::PCore, 2, [0, 2, 1, 3]),
];
const IN_ORDER: &[Setting] = &[
    setting(Machine::InOrder, 1, [0, 2, 1, 3]),
    setting(Machine::InOrder, 4, [0, 4, 8, 12]),
    mixed(Machine::InOrder, [5, 0, 4, 2]),
];
/// With lines within which the layouts expect accesses to be single, a load that may miss beside a store, and a bus so slow
/// that harts are ahead of their stores for long enough.
const SYMMETRY: &[Setting] = &[Setting {
    set: &[
        "l1i.line_bytes=64",
        "l1d.line_bytes=64",
        "l1d.mshrs=2",
        "bus.request_cycles=12",
    ],
    ..setting(Machine::Symmetry, 4, [0, 1, 2, 3])
}];
/// Each core is a die, so that as many as there are harts fill their clusters.
const OPTERON48: &[Setting] = &[Setting {
    set: &["cluster.cores=1"],
    ..setting(Machine::Opteron48, 4, [0, 1, 2, 3])
}];
const SUPERSCALAR: &[Setting] = &[setting(Machine::Superscalar, 4, [0, 1, 2, 3])];

/// Tiles of two cores on a mesh: cores of one tile and of two, and contexts of one core.
const KNL: &[Setting] = &[
    setting(Machine::Knl, 4, [0, 4, 8, 12]),
    setting(Machine::Knl, 2, [0, 4, 1, 5]),
];

/// A protocol between the private caches of two to four cores and their home.
macro_rules! protocol {
    ($name:ident, $states:literal) => {
        const $name: &[Setting] = &[Setting {
            set: &["l3.shared_by=homes", "home.count=2", $states],
            ..setting(Machine::PCore, 4, [0, 2, 4, 6])
        }];
    };
}
protocol!(MSI, "coherence.states=msi");
protocol!(MESI, "coherence.states=mesi");
protocol!(MOESI, "coherence.states=moesi");
protocol!(MESIF, "coherence.states=mesif");

/// Lines are requested before they are needed, and atomics perform at homes.
const AHEAD: &[Setting] = &[Setting {
    set: &[
        "core.store_owns=8",
        "core.atomics=far",
        "prefetch.kind=next_line",
        "prefetch.mshrs=4",
    ],
    ..setting(Machine::PCore, 4, [0, 2, 4, 6])
}];

/// What the cores of `machine` promise (docs/model.md and docs/smt.md).
fn promise(machine: Machine) -> Promise {
    let annotated = "atomic_order = \"annotated\"";
    match machine {
        Machine::Virt => Promise::Sequential,
        _ if machine.request(1).machine_toml.contains(annotated) => Promise::Annotated,
        _ => Promise::Total,
    }
}

/// Says how often each test runs in each setting.
const ROUNDS: &str = "LOITER_LITMUS_ROUNDS";

/// Times that each test runs in each setting: so many at first, and, if what tells it from stronger memory was not seen then,
/// so many. Where [`ROUNDS`] says another number, that often.
fn rounds(machine: Machine) -> [i64; 2] {
    if let Ok(said) = std::env::var(ROUNDS) {
        let said = said.parse();
        return [said.unwrap_or_else(|_| panic!("{ROUNDS}: not a number")); 2];
    }
    match machine {
        _ if cfg!(debug_assertions) => [40, 40],
        Machine::T1 | Machine::T2 | Machine::InOrder | Machine::Symmetry => [80, 600],
        Machine::Superscalar => [80, 600],
        _ => [40, 300],
    }
}

/// How far apart harts begin: farther than they leave a barrier apart.
fn delay(machine: Machine) -> Delay {
    match machine {
        Machine::Virt | Machine::T1 | Machine::T2 | Machine::InOrder | Machine::Symmetry => Delay {
            coarse_bits: 0,
            fine_bits: 6,
            late: false,
        },
        _ => Delay {
            coarse_bits: 3,
            fine_bits: 6,
            late: true,
        },
    }
}

/// How often each outcome was seen.
fn outcomes(
    test: &Litmus,
    layout: Layout,
    setting: &Setting,
    rounds: i64,
) -> BTreeMap<Vec<u64>, u64> {
    let harts = &setting.harts[..test.harts.len()];
    // Only as many cores as there are harts in them.
    let cores = harts.len().min(setting.cores);
    let cores = match setting.machine {
        // They fill tiles.
        Machine::Knl => cores.next_multiple_of(2),
        _ => cores,
    };
    let mut request = setting.machine.request(cores);
    request
        .set
        .extend(setting.set.iter().map(|&set| set.to_owned()));
    request.max_cycles = Some(MOST_CYCLES * rounds as u64);
    // Other tests compare what single instructions do.
    request.observe.check = false;
    let delay = delay(setting.machine);
    let program = guest::program(test, layout, harts, rounds, delay);
    let reported = reports(&run_to_end(&request, &program), harts[0]);
    let steps = test.harts.iter().copied().flatten();
    let values = steps.filter(|step| step.loads()).count() + 2;
    assert_eq!(
        reported.len() as i64,
        rounds * values as i64,
        "{}: rounds are missing",
        test.name
    );
    let mut outcomes = BTreeMap::new();
    for outcome in reported.chunks(values) {
        *outcomes.entry(outcome.to_vec()).or_insert(0) += 1;
    }
    outcomes
}

/// No round takes so many cycles.
const MOST_CYCLES: u64 = 10_000;

/// What one test showed in all its settings.
#[derive(Default)]
struct Seen {
    forbidden: Vec<String>,
    outcomes: BTreeSet<Vec<u64>>,
}

fn run(test: &Litmus, layout: Layout, settings: &[Setting], rounds: i64) -> Seen {
    let allowed = allowed(test, layout, promise(settings[0].machine));
    let mut seen = Seen::default();
    let harts = test.harts.len();
    for setting in settings.iter().filter(|setting| setting.least <= harts) {
        let outcomes = outcomes(test, layout, setting, rounds);
        let forbidden = outcomes
            .iter()
            .filter(|(outcome, _)| !allowed.contains(*outcome));
        for (outcome, times) in forbidden {
            seen.forbidden.push(format!(
                "{} with {} on {} cores of {:?}, harts {:?} {:?}: {outcome:x?} was seen {times} times",
                test.name,
                layout.name,
                setting.cores,
                setting.machine,
                &setting.harts[..harts],
                setting.set,
            ));
        }
        seen.outcomes.extend(outcomes.into_keys());
    }
    seen
}

/// Nothing that is forbidden is seen, and what tells each test from stronger memory is.
fn check(settings: &[Setting], tests: &[Litmus]) {
    let [first, most] = rounds(settings[0].machine);
    let mut unseen: Vec<&Litmus> = tests.iter().collect();
    unseen.retain(|test| !shows_itself(settings, test, first));
    if first < most {
        unseen.retain(|test| !shows_itself(settings, test, most));
    }
    let unseen: Vec<_> = unseen.iter().map(|test| test.name).collect();
    // The few rounds of a debug build need not show what is rare.
    assert!(
        cfg!(debug_assertions) || unseen.is_empty(),
        "{:?}: what tells these from stronger memory was never seen: {unseen:?}",
        settings[0].machine
    );
}

/// Nothing that is forbidden is seen, and some of the tests show what tells them from stronger memory.
fn check_some(settings: &[Setting], tests: &[Litmus]) {
    // All are run: each is looked at for what is forbidden.
    let seen = |rounds| {
        let shown = tests
            .iter()
            .filter(|test| shows_itself(settings, test, rounds));
        shown.count()
    };
    let [first, most] = rounds(settings[0].machine);
    let shown = match seen(first) {
        0 if first < most => seen(most),
        shown => shown,
    };
    assert!(
        cfg!(debug_assertions) || shown > 0,
        "{:?}: none showed what tells it from stronger memory",
        settings[0].machine
    );
}

/// Asserts that `test` shows nothing forbidden. Returns whether it shows what tells it from stronger memory, if it has to.
fn shows_itself(settings: &[Setting], test: &Litmus, rounds: i64) -> bool {
    let machine = settings[0].machine;
    let mut forbidden = Vec::new();
    let (mut weak, mut weak_seen, mut most) = (0, 0, 0);
    for &layout in test.layouts {
        let seen = run(test, layout, settings, rounds);
        let promised = allowed(test, layout, promise(machine));
        let strong = allowed(test, layout, Promise::Sequential);
        forbidden.extend(seen.forbidden);
        // What atomics without `aq` or `rl` allow beyond that may be seen.
        let total = allowed(test, layout, Promise::Total);
        weak += total.difference(&strong).count();
        weak_seen += seen.outcomes.difference(&strong).count();
        most = most.max(seen.outcomes.len());
        println!(
            "{machine:?} {} with {}: {} of {} outcomes",
            test.name,
            layout.name,
            seen.outcomes.len(),
            promised.len(),
        );
    }
    assert!(
        forbidden.is_empty(),
        "{machine:?}: forbidden outcomes\n{}",
        forbidden.join("\n")
    );
    let rare =
        RARE.iter().any(|(name, _)| *name == test.name) || RARE_ON.contains(&(machine, test.name));
    most >= 2 && (weak == 0 || weak_seen > 0 || rare)
}

/// Tests whose weak outcomes are allowed and need not be seen, and why.
const RARE: &[(&str, &str)] = &[
    (
        "SB with own bytes",
        "a load that finds part of its bytes in a store waits until that has performed",
    ),
    ("exchange beside a store of half of it", "likewise"),
];

/// The same of single machines. On a bus, the request of a store that waits goes before the value by which the reader hears of
/// the other store, so that the reader has lost its old copy by then.
const RARE_ON: &[(Machine, &str)] = &[(Machine::Symmetry, "RWC")];

/// A test for each machine and group of shapes, so that they run side by side.
macro_rules! litmus {
    ($($machine:ident: $settings:ident)*) => { $(
        mod $machine {
            use super::*;

            #[test]
            fn passes_messages_in_order() {
                check($settings, PASSING);
            }

            #[test]
            fn delays_stores_only() {
                check($settings, BUFFERING);
            }

            #[test]
            fn orders_stores() {
                check($settings, STORES);
            }

            #[test]
            fn orders_the_parts_of_what_crosses_lines() {
                check($settings, CROSSINGS);
            }

            #[test]
            fn mixes_sizes() {
                check($settings, MIXED);
            }

            #[test]
            fn is_coherent() {
                check($settings, COHERENCE);
            }

            #[test]
            fn shows_all_harts_one_order() {
                check($settings, OBSERVERS);
            }
        }
    )* };
}

litmus! {
    t1: T1
    t2: T2
    smt8: SMT8
    smt2: SMT2
    p_core: P_CORE
    superscalar: SUPERSCALAR
    in_order: IN_ORDER
    symmetry: SYMMETRY
    opteron48: OPTERON48
}

/// The groups in which accesses of several sizes, over lines, or of several harts meet, for each protocol.
macro_rules! protocols {
    ($($name:ident: $settings:ident)*) => { $(
        mod $name {
            use super::*;

            #[test]
            fn mixes_sizes() {
                check_some($settings, MIXED);
            }

            #[test]
            fn orders_the_parts_of_what_crosses_lines() {
                check_some($settings, CROSSINGS);
            }

            #[test]
            fn is_coherent() {
                check_some($settings, COHERENCE);
            }

            #[test]
            fn shows_all_harts_one_order() {
                check_some($settings, OBSERVERS);
            }
        }
    )* };
}

protocols! {
    knl: KNL
    msi: MSI
    mesi: MESI
    moesi: MOESI
    mesif: MESIF
}

/// With stores that own their lines ahead, far atomics and a prefetcher, the order is the same.
mod ahead {
    use super::*;

    #[test]
    fn passes_messages_in_order() {
        check_some(AHEAD, PASSING);
    }

    #[test]
    fn delays_stores_only() {
        check_some(AHEAD, BUFFERING);
    }

    #[test]
    fn orders_stores() {
        check_some(AHEAD, STORES);
    }

    #[test]
    fn mixes_sizes() {
        check_some(AHEAD, MIXED);
    }
}
