//! Small programs that together make every counter, every activity and every use of a slot appear in a result; one that
//! never does has nobody who counts it.

use std::collections::BTreeSet;

use loiter_observe::{Activity, Purpose, Slot};

use crate::support::paging::Paged;
use crate::support::{Bench, DATA};

/// An interrupt.
const INTERRUPT: &str = "li a2, 0x2000000; li a3, 1
     auipc t0, 0; addi t0, t0, 32; csrrw x0, 0x305, t0; li t1, 8; csrrw x0, 0x304, t1; csrrs x0, 0x300, t1; sw a3, 0(a2); j on
     sw x0, 0(a2); csrrw x0, 0x304, x0; mret
     on: nop";

/// Ends the run after a while.
const END: &str = "li s1, 3000; last: addi s1, s1, -1; bnez s1, last; exit";

const SLEEP: &str = "sleep: wfi; j sleep";

/// Sleeps until the timer has run for twenty ticks.
const TIMER: &str = "li t0, 0x200bff8; ld t1, 0(t0); addi t1, t1, 20; li t0, 0x2004000; sd t1, 0(t0); li t1, 0x80; csrrw x0, 0x304, t1; wfi";

/// A trap, floating point, a lock that is waited for, a nap; memory opened to lower modes, then supervisor mode and
/// from there user mode.
const MODES: &str = "auipc t1, 0; addi t1, t1, 16; csrrw x0, 0x305, t1; j over
     csrrs t0, 0x341, x0; addi t0, t0, 4; csrrw x0, 0x341, t0; mret
     over: ecall; li t0, 0x6000; csrrs x0, 0x300, t0; fadd.d f1, f2, f3
     slti x0, x0, 5; nop; nop; slti x0, x0, 6; idle_1: nop; acquire_1: nop; plain_1: pause; li t0, 4096; add a2, a0, t0; lr.d t0, (a2); wrs.sto
     li t0, -1; csrrw x0, 0x3b0, t0; li t0, 31; csrrw x0, 0x3a0, t0;
     auipc t1, 0; addi t1, t1, 24; csrrw x0, 0x341, t1; li t0, 1; slli t0, t0, 11; csrrw x0, 0x300, t0; mret
     auipc t1, 0; addi t1, t1, 20; csrrw x0, 0x141, t1; csrrw x0, 0x100, x0; sret
     user: j user";

/// What only out-of-order cores count.
fn out_of_order() -> Vec<(usize, String)> {
    let begin = format!("li a0, {DATA}; li a1, 64; li a2, 1; li s1, 60");
    let again = "addi s1, s1, -1; bnez s1, again";
    // One after the other: transfers of every kind; a store whose address comes late, before a load from it; results
    // that wait behind a divide for more registers than there are, and chains for more entries than there are; a line
    // that another core writes.
    let independent =
        "addi x5, x0, 1; addi x6, x0, 1; addi x7, x0, 1; addi x28, x0, 1; ".repeat(60);
    let chains = "div t0, t0, a2; div t1, t1, a2; ".repeat(40);
    vec![
        (0, END.to_owned()),
        (1, format!("{begin}; {MODES}")),
        (
            2,
            format!(
                "{begin}; again: jal x1, over; {again}; {SLEEP}
                 over: jalr x0, 0(x1)"
            ),
        ),
        (
            3,
            format!("{begin}; auipc x1, 0; jalr x0, 8(x1); auipc t1, 0; jalr x0, 8(t1); {SLEEP}"),
        ),
        (
            4,
            format!("{begin}; again: div t0, a0, a2; sd a1, 0(t0); ld t1, 0(a0); {again}; {SLEEP}"),
        ),
        (
            5,
            format!(
                "{begin}; li s1, 2; again: div t0, a1, a2; {independent} nop; beqz s1, out; addi s1, s1, -1; j again; out: {SLEEP}"
            ),
        ),
        (
            6,
            format!("{begin}; li t0, 1; li t1, 1; {chains} nop; {SLEEP}"),
        ),
        (
            7,
            format!(
                "{begin}; again: div t0, a1, a2; ld t1, 64(a0); amoadd.d t2, a1, (a0); {again}; {SLEEP}"
            ),
        ),
        (
            8,
            format!("{begin}; li s1, 900; again: sd a1, 64(a0); {again}; {SLEEP}"),
        ),
    ]
}

/// Machines, with changes, and programs for their harts.
fn programs() -> Vec<(Bench, Vec<(usize, String)>)> {
    let begin = format!("li a0, {DATA}; li a1, 64; li s1, 200");
    let again = "addi s1, s1, -1; bnez s1, again";
    let mixed = vec![
        (0, format!("{INTERRUPT}; {END}")),
        (1, format!("{begin}; {MODES}")),
        (
            2,
            format!("{begin}; again: sd a1, 0(a0); ld t0, 0(a0); div t0, a1, a1; {again}; {SLEEP}"),
        ),
        (
            3,
            format!("{begin}; again: lbu t0, 0(a0); add t0, t0, t0; div t0, a1, a1; j again"),
        ),
        (
            4,
            format!("{begin}; again: sd a1, 0(a0); amoadd.d t0, a1, (a0); {again}; {SLEEP}"),
        ),
    ];
    // Lines of one bank that are written and replaced, each missed by two harts; more misses than registers.
    let misses = |hart: usize| {
        let offset = hart % 8 * 512;
        let end = if hart == 0 { END } else { SLEEP };
        let code = format!(
            "{begin}; li a1, 0x8000; li a2, {offset}; add a0, a0, a2
             again: sd a1, 0(a0); ld t0, 8(a0); ld t0, 0(a0); add t0, t0, t0; add a0, a0, a1; {again}; {end}"
        );
        (hart, code)
    };
    // Code to which another core writes what it holds.
    let rewritten = vec![
        (0, format!("li a1, 5; mul a2, a1, a1; {END}")),
        (
            8,
            format!("auipc a0, 0; li a2, 64; sub a0, a0, a2; lw a1, 0(a0); sw a1, 0(a0); {SLEEP}"),
        ),
    ];
    // Walks that wait for one another, and one that fails; where its trap leads, the hart sleeps.
    let paged = |hart: usize| {
        let end = if hart == 0 { END } else { "ld t0, -8(x0)" };
        let code = Paged::new()
            .asid(hart as u64)
            .program(&format!("ld t0, 0(a0); sfence.vma x0, x0; {end}"));
        let trap = "auipc t1, 0; addi t1, t1, 16; csrrw x0, 0x305, t1; j over; trap: wfi; j trap";
        (hart, format!("{trap}; over: {code}"))
    };
    // Lines that return to a first level whose other contexts load all the time.
    let loads = |hart: usize| {
        let code = format!("{begin}; again: .rept 8; lbu t0, 0(a0); .endr; j again");
        (hart, code)
    };
    let crowded = vec![misses(0), loads(1), loads(2), loads(3)];
    let walks = Bench::new("t1").set("walker.walks=1");
    // A hart that sleeps until a line is written, and one that sleeps until its timer is due.
    let naps = vec![
        (
            0,
            format!(
                "li a0, {DATA}; li s1, 900; again: addi s1, s1, -1; bnez s1, again; sd s1, 0(a0); {TIMER}; exit"
            ),
        ),
        (1, format!("li a0, {DATA}; lr.d t0, (a0); wrs.nto; {SLEEP}")),
    ];
    let locks =
        "li a1, 64; add a0, a0, a1; lr.d t0, (a0); sw a1, 0(a0); held: lock.acquire (a0), x0, held";
    let flags = "li a1, 128; add a0, a0, a1; wait: lock.wait (a0), x0, wait";
    let naps = [
        naps,
        vec![
            (2, format!("li a0, {DATA}; {locks}")),
            (3, format!("li a0, {DATA}; {flags}")),
        ],
    ]
    .concat();
    let deep = |machine| {
        let bench = Bench::new(machine).set("hart.isa=+xloiterlock");
        let bench = bench.set("idle.states=3").set("idle.wfi_deepest=3");
        [20, 40, 60]
            .iter()
            .zip(1..)
            .fold(bench, |bench, (cycles, n)| {
                bench.set(&format!("idle.state{n}_residency_cycles={cycles}"))
            })
    };
    vec![
        (deep("t1"), naps.clone()),
        (deep("smt8"), naps),
        (Bench::new("smt8"), out_of_order()),
        (
            Bench::new("smt8").set("l1i.mshrs=1").set("l1d.mshrs=1"),
            out_of_order(),
        ),
        (walks, (0..3).map(paged).collect()),
        (
            Bench::new("smt8").set("walker.walks=1"),
            (0..3).map(paged).collect(),
        ),
        (Bench::new("t1").set("wait.pause_cycles=9"), mixed),
        (
            Bench::new("t2").set("l2.mshrs_per_bank=2"),
            (0..16).map(misses).collect(),
        ),
        (Bench::new("t2"), rewritten),
        (Bench::new("t1"), crowded),
        (small_caches("cluster", 8), shared()),
        (small_caches("homes", 1), shared()),
        (
            small_caches("homes", 1)
                .set("core.store_owns=4")
                .set("prefetch.kind=stride")
                .set("prefetch.distance=4")
                .set("prefetch.mshrs=8"),
            shared(),
        ),
        (small_caches("homes", 8).set("l3.inclusive=false"), shared()),
        // A line that is kept after an `lr` while another core stores to it.
        (
            Bench::new("p-core").set("system.cores=2"),
            vec![
                (
                    0,
                    format!("li a0, {DATA}; again: lr.d t0, (a0); div t0, a0, a0; j again"),
                ),
                (
                    2,
                    format!(
                        "li a0, {DATA}; li s1, 50; again: sd a0, 0(a0); addi s1, s1, -1; bnez s1, again; exit"
                    ),
                ),
            ],
        ),
        // Stores of four contexts of one core; four cores that share a bus.
        (Bench::new("in-order").set("home.count=1"), shared()),
        (
            Bench::new("symmetry")
                .set("system.cores=4")
                .set("l1d.size_kib=1"),
            shared(),
        ),
        (
            Bench::new("p-core")
                .set("idle.wrs_deepest=1")
                .set("idle.state1_exit_cycles=100")
                .set("idle.state1_residency_cycles=100")
                .set("idle.state1_loses=l2"),
            vec![(
                0,
                format!("li a0, {DATA}; sd x0, 64(a0); lr.d t0, (a0); wrs.sto; exit"),
            )],
        ),
    ]
}

/// A `p-core` of two cores with caches that its harts' data do not fit into, in clusters of so many.
fn small_caches(third: &str, cores: u64) -> Bench {
    let set = [
        format!("l3.shared_by={third}"),
        format!("cluster.cores={cores}"),
        "l3.inclusive=true".to_owned(),
        "l3.size_kib=16".to_owned(),
        "l2.size_kib=8".to_owned(),
        "l1d.size_kib=4".to_owned(),
        "l1i.size_kib=4".to_owned(),
        "l1d.mshrs=2".to_owned(),
    ];
    let bench = Bench::new("p-core");
    set.iter().fold(bench, |bench, change| bench.set(change))
}

/// Harts that read and write the same lines, each in an order of its own.
fn shared() -> Vec<(usize, String)> {
    let code = |hart: usize| {
        let code = format!(
            "li a0, {DATA}; li a2, {}; li a4, 32704; li a5, 0; li s1, 600
             again: add a5, a5, a2; and a5, a5, a4; add a3, a0, a5; ld t0, 0(a3); add t1, t0, t0
             sd t1, 8(a3); ld t2, 0(a0); sd t2, 0(a0); addi s1, s1, -1; bnez s1, again",
            64 * (2 * hart + 3)
        );
        let end = if hart == 0 {
            "exit".to_owned()
        } else {
            "done: wfi; j done".to_owned()
        };
        (hart, format!("{code}; {end}"))
    };
    (0..4).map(code).collect()
}

/// Name of a component without the number of its core and without modes.
fn kind(component: &str) -> String {
    let digits = |letter: char| letter.is_ascii_digit();
    match component.strip_prefix("core") {
        Some(rest) => {
            let part = rest.trim_start_matches(digits);
            let modes = [".user", ".kernel"].into_iter();
            let part = modes.fold(part, |part, mode| part.strip_prefix(mode).unwrap_or(part));
            let purposes = Purpose::ALL.iter().map(|purpose| purpose.word());
            let is_purpose = purposes.into_iter().any(|word| part == format!(".{word}"));
            format!("core{}", if is_purpose { ".purpose" } else { part })
        }
        None => component.to_owned(),
    }
}

#[test]
fn everything_that_is_counted_occurs() {
    let mut counters = BTreeSet::new();
    let mut words = BTreeSet::new();
    let mut occurred = BTreeSet::new();
    for (mut bench, harts) in programs() {
        for (hart, code) in &harts {
            bench = bench.hart(*hart, code);
        }
        let result = bench.run().result;
        for row in &result.counters {
            let counter = format!("{} {}", kind(&row.component), row.name);
            if row.value != 0 {
                occurred.insert(counter.clone());
            }
            counters.insert(counter);
        }
        for row in &result.accounts {
            words.extend([row.activity, row.slot]);
        }
    }
    assert!(counters.len() > 20);
    let never: Vec<_> = counters.difference(&occurred).collect();
    assert!(never.is_empty(), "nothing increments {never:?}");
    let all = Activity::ALL.iter().map(|activity| activity.word());
    let all: BTreeSet<_> = all
        .chain(Slot::ALL.iter().map(|slot| slot.word()))
        .collect();
    // A bare-metal run seats a hart in every context.
    let never: Vec<_> = all.difference(&words).collect();
    assert_eq!(never, [&"vacant"]);
}
