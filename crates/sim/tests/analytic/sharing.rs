//! What cores see of one another's stores, and when; who wakes; what the second level's inclusion costs; bandwidth.

use crate::support::{Bench, DATA, Outcome};

/// From a store's issue until it performs, and others lose their copies: the 22 cycles of a hit, less `l2.core_cycles`.
const PERFORMS: u64 = 19;

/// First hart of the second core.
fn other_core(machine: &str) -> usize {
    if machine == "t1" { 4 } else { 8 }
}

/// Code that runs `write`, at a mark, `delay` cycles after a long pause.
fn writer(write: &str, delay: u64) -> String {
    format!(
        "j warm
         go: end; pause; .rept {delay}; nop; .endr; mark; {write}; done: wfi; j done
         warm: li a0, {DATA}; li a1, 1; ld t0, 0(a0)
         li t0, 200; wait: addi t0, t0, -1; bnez t0, wait
         j go"
    )
}

/// Hart 0 runs `write` once at a mark, `delay` cycles after a long pause; `readers` read the byte over and over, with a
/// mark before each read and one with its value when it is there.
fn write_and_read(machine: &str, write: &str, delay: u64, readers: &[usize]) -> Outcome {
    let reader = format!(
        "j warm
         go: end; pause; j read
         warm: li a0, {DATA}; li s1, 2
         read: mark; lbu t0, 0(a0); mv t1, t0; end t1; addi s1, s1, -1; bnez s1, read
         li s1, 300; bnez t1, done
         j go
         done: wfi; j done"
    );
    let mut bench = Bench::new(machine)
        .long_pause()
        .hart(0, &writer(write, delay));
    for &hart in readers {
        bench = bench.hart(hart, &reader);
    }
    bench.for_cycles(60_000).run()
}

/// Reads of a hart: when, how long, and the value.
fn reads(outcome: &Outcome, hart: usize) -> Vec<(u64, u64, u64)> {
    let marks = outcome.marks(hart);
    let pairs = marks.windows(2).filter(|pair| !pair[0].end && pair[1].end);
    let read = |pair: &[crate::support::Mark]| {
        let duration = pair[1].cycle - pair[0].cycle - 1;
        (pair[0].cycle, duration, pair[1].value)
    };
    pairs.map(read).collect()
}

/// A reader on another core hits its own copy, which has the old value, until the store performs; the next read misses,
/// and then it hits again.
#[test]
fn a_store_takes_copies_in_the_cycle_in_which_it_performs() {
    for machine in ["t1", "t2"] {
        let reader = other_core(machine);
        let mut seen = Vec::new();
        for delay in 60..100 {
            let outcome = write_and_read(machine, "sb a1, 0(a0)", delay, &[reader]);
            let stored = outcome.times(0)[1];
            let reads = reads(&outcome, reader);
            let warm: Vec<_> = reads.into_iter().skip(3).collect();
            let first_miss = warm.iter().position(|(at, ..)| *at >= stored + PERFORMS);
            for (n, &(at, duration, value)) in warm.iter().enumerate() {
                assert_eq!(value, u64::from(at >= stored + PERFORMS), "{machine}: {at}");
                let expected = if Some(n) == first_miss { 22 } else { 3 };
                assert_eq!(duration, expected, "{machine}: {at}, stored {stored}");
                seen.push(at.wrapping_sub(stored));
            }
            assert_eq!(outcome.counter("core1.l1d", "invalidations"), 1);
        }
        // The cycles on both sides of it were among those looked at.
        for at in [PERFORMS - 1, PERFORMS] {
            assert!(seen.contains(&at), "{machine}: {at}");
        }
    }
}

/// An atomic takes the line from its own core as well.
#[test]
fn who_keeps_a_line_that_is_written() {
    for (machine, write, own_losses) in [
        ("t1", "sb a1, 0(a0)", 0),
        ("t1", "amoadd.w x0, a1, (a0)", 1),
        ("t2", "sb a1, 0(a0)", 0),
        ("t2", "amoadd.w x0, a1, (a0)", 1),
    ] {
        // A sibling of the writer reads all the while.
        let outcome = write_and_read(machine, write, 60, &[1]);
        let lost = outcome.counter("core0.l1d", "invalidations");
        assert_eq!(lost, own_losses, "{machine}: {write}");
        let reads = reads(&outcome, 1);
        let last = reads.last().unwrap();
        assert_eq!(last.2, 1, "{machine}: it sees the new value");
        let misses = reads[3..].iter().filter(|(_, duration, _)| *duration >= 22);
        assert_eq!(misses.count() as u64, own_losses, "{machine}: {write}");
    }
}

/// `wrs.nto` ends a cycle after a store to the watched line performs, wherever the writer sits.
#[test]
fn a_watcher_wakes_when_the_store_performs() {
    for machine in ["t1", "t2"] {
        for watcher in [1, other_core(machine)] {
            for write in ["sb a1, 0(a0)", "sd a1, 56(a0)", "amoor.d x0, a1, (a0)"] {
                let sleeper = format!(
                    "li s1, 2; li a0, {DATA}
                     # Nothing is watched in the first round, so this does not sleep.
                     again: wrs.nto; mark; nop
                     lr.d t0, (a0)
                     addi s1, s1, -1; bnez s1, again
                     done: wfi; j done"
                );
                let outcome = Bench::new(machine)
                    .long_pause()
                    .hart(0, &writer(write, 60))
                    .hart(watcher, &sleeper)
                    .for_cycles(60_000)
                    .run();
                let stored = outcome.times(0)[1];
                let woken = outcome.times(watcher)[1];
                assert_eq!(woken, stored + PERFORMS + 1, "{machine}: {write}");
            }
        }
    }
}

/// Lines of one set of the second level are 256 KiB apart on both machines; T1 has 12 ways, T2 16.
#[test]
fn what_the_second_level_replaces_leaves_the_first_levels() {
    for (machine, ways, miss) in [("t1", 12, 100), ("t2", 16, 230)] {
        for lines in [ways - 1, ways] {
            let owner = format!(
                "li a0, {DATA}; li s1, 3
                 again: mark; ld t0, 0(a0); mv t1, t0; mark; nop
                 addi s1, s1, -1; beqz s1, done; li t0, 1; bne s1, t0, again
                 pause; j again
                 done: wfi; j done"
            );
            // While the owner waits, another core loads so many other lines of that set.
            let other = format!(
                "li t0, 1000; wait: addi t0, t0, -1; bnez t0, wait
                 li a0, {DATA}; li a1, 0x40000; li s1, {lines}
                 again: add a0, a0, a1; ld t0, 0(a0); addi s1, s1, -1; bnez s1, again
                 done: wfi; j done"
            );
            let outcome = Bench::new(machine)
                .long_pause()
                .set("l2.replacement=lru")
                .hart(0, &owner)
                .hart(other_core(machine), &other)
                .for_cycles(60_000)
                .run();
            let loads: Vec<u64> = outcome
                .steps(0)
                .into_iter()
                .step_by(2)
                .map(|step| step - 1)
                .collect();
            let last = if lines == ways { miss } else { 3 };
            assert_eq!(loads[1..], [3, last], "{machine}: {lines} others");
            let lost = outcome.counter("core0.l1d", "invalidations");
            assert_eq!(lost, u64::from(lines == ways), "{machine}");
        }
    }
}

/// Marks in a window of `WINDOW` cycles in the middle of a run in which all contexts of all cores execute `block`, each
/// with lines of its own from a0 on, `stride` apart; they begin in different sets.
fn in_window(bench: Bench, block: &str, stride: u64) -> u64 {
    let machine = bench.parameters();
    let harts = machine.number("system.cores") * machine.number("core.contexts");
    let mut bench = bench;
    for hart in 0..harts {
        let code = format!(
            "li a0, {}; li a1, {stride}
             li t0, 1000; wait: addi t0, t0, -1; bnez t0, wait
             again: {block}; mark; add a0, a0, a1; j again",
            DATA + hart * ((1 << 19) + 4096)
        );
        bench = bench.hart(hart as usize, &code);
    }
    let outcome = bench.for_cycles(START + WINDOW).run();
    let marks = outcome.result.marks.iter();
    marks.filter(|mark| mark.cycle >= START).count() as u64
}

const START: u64 = 20_000;
const WINDOW: u64 = 30_000;

/// All contexts of eight cores load from memory over one channel: a line every `line_transfer_cycles`, whatever the
/// latency. What is on its way at the ends of the window is a few lines at most.
#[test]
fn a_channel_delivers_a_line_in_the_time_of_its_transfer() {
    // T1: one bank a channel, lines of one bank 256 bytes apart. T2: the same distance makes two banks of one channel.
    for (machine, transfer) in [("t1", 10), ("t2", 9)] {
        let bench = Bench::new(machine).set("system.cores=8");
        let got = in_window(bench, "ld t0, 0(a0); mv t0, t0", 256);
        assert!(got.abs_diff(WINDOW / transfer) <= 4, "{machine}: {got}");
    }
}

/// Four miss registers hand over four lines in the time from look-up to arrival.
#[test]
fn miss_registers_bound_what_a_bank_has_outstanding() {
    for (machine, bank, kept) in [("t1", 256, 100 - 22), ("t2", 512, 230 - 22)] {
        let bench = Bench::new(machine)
            .set("system.cores=8")
            .set("l2.mshrs_per_bank=4");
        let got = in_window(bench, "ld t0, 0(a0); mv t0, t0", bank);
        assert!(got.abs_diff(WINDOW * 4 / kept) <= 4, "{machine}: {got}");
    }
}

/// Atomics on lines of one bank, which the second level has: one for each time that the bank is busy with one.
#[test]
fn a_bank_serves_a_request_in_the_time_for_which_it_is_busy() {
    for (machine, busy) in [("t1", 2), ("t2", 4)] {
        let bench = Bench::new(machine).set("system.cores=8");
        let got = in_window(bench, "amoadd.d x0, a1, (a0)", 0);
        assert!(got.abs_diff(WINDOW / busy) <= 4, "{machine}: {got}");
        // Two cores cannot keep it busy: each context takes its latency, the addition and the jump.
        let (latency, jump, contexts) = if machine == "t1" {
            (39, 3, 8)
        } else {
            (30, 6, 16)
        };
        let bench = Bench::new(machine).set("l2.atomic_busy_cycles=1");
        let got = in_window(bench, "amoadd.d x0, a1, (a0)", 0);
        let expected = WINDOW * contexts / (latency + 1 + jump);
        assert!(
            got.abs_diff(expected) * 50 <= expected,
            "{machine}: {got} {expected}"
        );
    }
}
