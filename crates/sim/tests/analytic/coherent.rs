//! Out-of-order cores before memory that grants lines: lines of several stores at once, near and far atomics, and
//! prefetchers, in closed forms.

use crate::support::{Bench, DATA, Outcome, Parameters, WAIT};

/// Nothing but latency: rows cost nothing, and a line takes a cycle.
const PURE_LATENCY: &[&str] = &[
    "dram.row_miss_cycles=153",
    "dram.line_transfer_cycles=1",
    "network.line_cycles=1",
    "cluster.port_cycles=1",
    "l1d.mshrs=64",
    "system.cores=1",
];

fn bench(set: &[&str]) -> Bench {
    let changes = PURE_LATENCY.iter().chain(set);
    changes.fold(Bench::new("p-core"), |bench, change| bench.set(change))
}

/// Cycles between the two marks of hart 0.
fn between_marks(outcome: &Outcome) -> u64 {
    let times = outcome.times(0);
    assert_eq!(times.len(), 2);
    times[1] - times[0]
}

/// Cycles until `stores` stores to lines that nobody has have performed.
fn stores_take(stores: u64, owns: u64) -> u64 {
    let all: String = (0..stores)
        .map(|n| format!("sd a1, {}(a0); ", 64 * n))
        .collect();
    // Code is there after the first round, which has lines of its own.
    let code = format!(
        "li a0, {DATA}; {WAIT}; li s1, 2; li t1, 65536; j again
         .line
         again: mark; {all} fence rw, rw; mark; add a0, a0, t1; addi s1, s1, -1; bnez s1, again
         exit"
    );
    let owns = format!("core.store_owns={owns}");
    let outcome = bench(&[&owns]).hart(0, &code).run();
    let counters = |name| outcome.counter("core0.l1d", name);
    assert_eq!(
        counters("owned_ahead") > 0,
        owns != "core.store_owns=1" && stores > 1
    );
    let times = outcome.times(0);
    times[3] - times[2]
}

#[test]
fn stores_to_lines_that_nobody_has_wait_together_as_far_as_they_may_ask_ahead() {
    const STORES: u64 = 16;
    let one = stores_take(1, 1);
    let (alone, pairs, fours, all) = (
        stores_take(STORES, 1),
        stores_take(STORES, 2),
        stores_take(STORES, 4),
        stores_take(STORES, STORES),
    );
    // What is not the latency of a line: the fence, and the marks.
    let latency = (alone - one) / (STORES - 1);
    assert_eq!(
        (alone - one) % (STORES - 1),
        0,
        "each waits for the one before"
    );
    assert!(latency > 250 && one - latency < 30, "{one}, {latency}");
    // A look-up a cycle: the last is asked for so much later, and performs so much later.
    assert!(
        (one + STORES - 1..=one + STORES + 1).contains(&all),
        "{all} for {one}"
    );
    for (found, owns) in [(pairs, 2), (fours, 4)] {
        let expected = one + (STORES / owns - 1) * latency;
        assert!(
            (expected..expected + 2 * STORES).contains(&found),
            "{owns}: {found} for {expected}"
        );
    }
}

/// Cycles that hart 0 takes for each of its atomics to a line to which `cores` cores have one all the time.
fn atomic_takes(cores: u64, atomics: &str) -> (u64, Parameters) {
    const COUNT: u64 = 64;
    let work = |count: u64| "amoadd.d t0, a1, (a0); ".repeat(count as usize);
    let bench = Bench::new("p-core")
        .set(&format!("system.cores={cores}"))
        .set(&format!("core.atomics={atomics}"));
    let mut bench = bench.hart(
        0,
        &format!(
            "li a0, {DATA}; li a1, 1; {WAIT}; {} mark; {} mark; exit",
            work(32),
            work(COUNT)
        ),
    );
    for core in 1..cores {
        let code = format!(
            "li a0, {DATA}; li a1, 1; {WAIT}; again: {} j again",
            work(16)
        );
        bench = bench.hart(2 * core as usize, &code);
    }
    let outcome = bench.run();
    let cycles = between_marks(&outcome);
    let atomics = outcome.counter("core0", "atomics");
    assert!(atomics >= COUNT + 32);
    (cycles / COUNT, bench.parameters())
}

#[test]
fn atomics_of_many_cores_to_a_line_take_a_period_of_its_home_each_if_far_and_a_transfer_if_near() {
    let cores = 8;
    let (far, parameters) = atomic_takes(cores, "far");
    let number = |key: &str| parameters.number(key);
    // Home reads its cache for each; the next begins in the cycle in which it has.
    let period = number("cluster.data_cycles");
    assert!(
        (cores * period..=cores * period + 1).contains(&far),
        "{far}"
    );
    // The home takes the line from the core that has it; that has performed its own atomic when it comes.
    let (near, _) = atomic_takes(cores, "near");
    let transfer = number("cluster.reply_cycles")
        + number("coherence.snoop_cycles")
        + number("cluster.request_cycles");
    assert!(
        (cores * transfer..=cores * (transfer + 2)).contains(&near),
        "{near} for {}",
        cores * transfer
    );
    // Alone, a near atomic finds its line, and a far one goes to the home and back.
    let way = number("cluster.request_cycles")
        + number("cluster.tag_cycles")
        + period
        + number("cluster.reply_cycles");
    let (far, _) = atomic_takes(1, "far");
    assert!((way..=way + 4).contains(&far), "{far} for {way}");
    let (near, _) = atomic_takes(1, "near");
    assert!(near < way / 2, "{near}");
}

/// Lines of a page, and pages that a stream reads.
const PAGE_LINES: usize = 64;
const PAGES: usize = 2;

/// Loads of one line after the other, each at an address that depends on the one before.
fn stream(set: &[&str]) -> (u64, Outcome) {
    let loads = PAGE_LINES * PAGES;
    let code = format!(
        "li a0, {DATA}; li a2, {loads}; li a3, 0; {WAIT}; j there\n.line\nthere: mark
         again: ld t0, 0(a0); and t0, t0, a3; add a0, a0, t0; addi a0, a0, 64
         addi a2, a2, -1; bnez a2, again
         mark; exit"
    );
    let outcome = bench(set).hart(0, &code).run();
    (between_marks(&outcome), outcome)
}

#[test]
fn a_prefetcher_brings_a_stream_forward_by_its_distance() {
    let parameters = bench(&[]).parameters();
    let (without, _) = stream(&[]);
    let loads = (PAGE_LINES * PAGES) as u64;
    let load = parameters.number("latency.load_cycles");
    // Load, and, add, add.
    let hit = load + 3;
    let miss = without / loads;
    for distance in [1, 2, 4, 8_usize] {
        let distance_set = format!("prefetch.distance={distance}");
        let set = ["prefetch.kind=stride", &distance_set, "prefetch.mshrs=16"];
        let (found, outcome) = stream(&set);
        // When each load begins, and when its line is there.
        let (mut now, mut there) = (0, [0; PAGE_LINES * PAGES]);
        let (mut issued, mut late) = (0, 0);
        for n in 0..PAGE_LINES * PAGES {
            let line = n % PAGE_LINES;
            // The stride of a page is known with its third line; lines that were asked for come when they come.
            let ahead = n + distance;
            if line >= 2 && ahead / PAGE_LINES == n / PAGE_LINES && there[ahead] == 0 {
                there[ahead] = now + miss;
                issued += 1;
            }
            late += u64::from(there[n] > now + load - 1);
            now = match there[n] {
                0 => now + miss,
                at => at.max(now + hit),
            };
        }
        let counter = |name| outcome.counter("core0.prefetch", name);
        assert_eq!(counter("issued"), issued, "{distance}");
        assert_eq!(counter("useful") + counter("late"), issued, "{distance}");
        assert_eq!(counter("useless"), 0);
        let counted = counter("late");
        assert!(
            counted.abs_diff(late) <= 2 * PAGES as u64,
            "{distance}: {counted} for {late}"
        );
        let error = found.abs_diff(now);
        assert!(error * 20 < now, "{distance}: {found} cycles for {now}");
        assert!(
            distance == 1 || found < without * 3 / 4,
            "{found} of {without}"
        );
    }
}

#[test]
fn a_prefetcher_of_strides_does_nothing_in_a_random_chain() {
    // Each line of a page holds the distance to the next, in the order of a generator of full period.
    let mut setup = String::from("mv a4, a0; ");
    let mut line: i64 = 1;
    for _ in 0..63 {
        let next = (line * 5 + 3) % 64;
        let (here, distance) = (64 * line, 64 * (next - line));
        setup += &format!("li t0, {here}; add t0, t0, a4; li t1, {distance}; sd t1, 8(t0); ");
        line = next;
    }
    let run = |set: &[&str]| {
        let small = ["l1d.size_kib=1", "l1d.ways=1", "l2.size_kib=2", "l2.ways=1"];
        let set = [&small[..], set].concat();
        let code = format!(
            "li a0, {DATA}; {setup} {WAIT}; addi a0, a4, 64; li a2, 60; fence rw, rw; mark
             again: ld t0, 8(a0); add a0, a0, t0; addi a2, a2, -1; bnez a2, again
             mark; exit"
        );
        bench(&set).hart(0, &code).run()
    };
    let (without, with) = (
        run(&[]),
        run(&["prefetch.kind=stride", "prefetch.degree=4"]),
    );
    assert_eq!(between_marks(&without), between_marks(&with));
    let counter = |name| with.counter("core0.prefetch", name);
    // The stores before it have trained nothing either.
    assert_eq!(
        (counter("issued"), counter("useful"), counter("late")),
        (0, 0, 0)
    );
    // The next line is brought for nothing.
    let next = run(&["prefetch.kind=next_line"]);
    assert!(next.counter("core0.prefetch", "useless") > 0);
}

#[test]
fn a_prefetcher_takes_registers_of_its_own_or_of_the_data_cache() {
    let issued = |set: &[&str]| {
        let set = [&["prefetch.kind=stride", "prefetch.distance=4"][..], set].concat();
        stream(&set).1.counter("core0.prefetch", "issued")
    };
    // The load that misses has the only one.
    assert_eq!(issued(&["l1d.mshrs=1"]), 0);
    assert!(issued(&["l1d.mshrs=2"]) > 0);
    assert!(issued(&["l1d.mshrs=1", "prefetch.mshrs=1"]) > 0);
    assert!(
        issued(&["l1d.mshrs=1", "prefetch.mshrs=8"]) > issued(&["l1d.mshrs=1", "prefetch.mshrs=1"])
    );
}

/// A core stores to a line for which another has an `lr` in progress, which ends with `atomic` after some rounds of a loop.
/// Returns the cycles that the store takes, and how many snoops waited for how many cycles.
fn store_beside_lr(reservation_cycles: u64, rounds: u64, atomic: &str) -> (u64, u64, u64) {
    let outcome = bench(&[
        "system.cores=2",
        &format!("coherence.reservation_cycles={reservation_cycles}"),
    ])
    .hart(
        0,
        &format!(
            "li a0, {DATA}; li a1, 4096; add a1, a0, a1; li s1, {rounds}; {WAIT}; lr.d t0, (a0)
             again: addi s1, s1, -1; bnez s1, again; {atomic}; sleep: wfi; j sleep"
        ),
    )
    .hart(
        2,
        &format!(
            "li a0, {DATA}; li a1, 1; li s1, 600; {WAIT}; again: addi s1, s1, -1; bnez s1, again
             mark; sd a1, 0(a0); fence rw, rw; mark; exit"
        ),
    )
    .run();
    let times = outcome.times(2);
    let counter = |name| outcome.counter("core0.l1d", name);
    (
        times[1] - times[0],
        counter("held_snoops"),
        counter("held_snoop_cycles"),
    )
}

#[test]
fn who_wants_a_reserved_line_waits_until_the_reservation_is_over() {
    const LONG: u64 = 20_000;
    const OTHER: &str = "amoadd.d t0, t0, (a1)";
    let (alone, held, waited) = store_beside_lr(0, LONG, OTHER);
    assert_eq!((held, waited), (0, 0));
    let (first, held, waited) = store_beside_lr(3000, LONG, OTHER);
    assert_eq!((held, first), (1, alone + waited));
    assert!(waited > 1000, "{waited}");
    for more in [1, 100, 777] {
        let later = store_beside_lr(3000 + more, LONG, OTHER);
        assert_eq!(later, (first + more, 1, waited + more));
    }
    // The context's next atomic ends it before its time.
    let (first, held, waited) = store_beside_lr(9000, 2000, OTHER);
    assert_eq!((held, first), (1, alone + waited));
    assert_eq!(store_beside_lr(9999, 2000, OTHER), (first, 1, waited));
    let (later, _, _) = store_beside_lr(9000, 2300, OTHER);
    assert!(
        (first + 300..=first + 303).contains(&later),
        "{first}, {later}"
    );
}

#[test]
fn a_further_lr_neither_ends_nor_prolongs_a_reservation() {
    let alone = store_beside_lr(3000, 20_000, "nop");
    assert_eq!(alone.1, 1);
    for rounds in [800, 1700, 2500] {
        assert_eq!(store_beside_lr(3000, rounds, "lr.d t0, (a0)"), alone);
    }
    // Of another line it does.
    let (other, held, _) = store_beside_lr(3000, 1700, "lr.d t0, (a1)");
    assert_eq!(held, 1);
    assert!(other + 400 < alone.0, "{other}, {alone:?}");
}
