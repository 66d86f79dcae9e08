//! The store buffer: what it holds, how it drains, what it forwards, who waits for it.

use crate::support::{Bench, DATA, WAIT};

/// A round trip to the second level: a store is sent, performs after `PERFORMS`, and its acknowledgement frees its entry
/// after `TRIP`.
const TRIP: u64 = 22;
const PERFORMS: u64 = 19;

/// Cycles from the first mark of `code` to each other one, in the third of three rounds. a0 is the address of lines that
/// the second level has and the first has not, other ones in each round, and a1 of one that both have.
fn since_first(machine: &str, code: &str) -> Vec<u64> {
    let code = format!(
        "li a0, {DATA}; li a1, {}; li a2, 0x4000; li s1, 3; li a6, -1
         sd a6, 0(a1)
         {WAIT}
         again:
         mv t1, a0; li t2, 16; li t3, 64
         fill: amoor.d x0, x0, (t1); add t1, t1, t3; addi t2, t2, -1; bnez t2, fill
         ld t0, 0(a1)
         .line
         {code}
         fence rw, rw
         add a0, a0, a2; addi s1, s1, -1; bnez s1, again
         exit",
        DATA - 64
    );
    let times = Bench::new(machine).hart(0, &code).run().times(0);
    let round = &times[times.len() / 3 * 2..];
    round.iter().map(|time| time - round[0]).collect()
}

/// Stores to `lines` of 64 bytes each in turn, with marks.
fn stores(count: u64, distance: u64) -> String {
    (0..count)
        .map(|n| format!("mark; sd a6, {}(a0); ", n * distance))
        .collect()
}

#[test]
fn eight_stores_do_not_stall_and_the_ninth_waits_for_a_round_trip() {
    for machine in ["t1", "t2"] {
        let expected: Vec<u64> = (0..14)
            .map(|n| if n < 8 { n } else { TRIP * (n - 7) })
            .collect();
        assert_eq!(since_first(machine, &stores(14, 64)), expected, "{machine}");
    }
}

/// On the T2 stores to one line follow one another without waiting: one every two cycles, which is how often a bank
/// takes one.
#[test]
fn stores_to_one_line_are_pipelined_on_the_t2() {
    let one_by_one: Vec<u64> = (0..8).chain((1..5).map(|n| TRIP * n)).collect();
    assert_eq!(since_first("t1", &stores(12, 8)[..]), one_by_one);
    let pipelined: Vec<u64> = (0..8).chain((0..4).map(|n| TRIP + 2 * n)).collect();
    // The stores continue to the next line after eight, so keep within one.
    let same: String = (0..12)
        .map(|n| format!("mark; sd a6, {}(a0); ", n % 8 * 8))
        .collect();
    assert_eq!(since_first("t2", &same), pipelined);
}

/// After a store to another line, stores to one line wait for it, and then leave one right after the other.
#[test]
fn stores_to_one_line_leave_together_when_their_turn_comes() {
    let code =
        "mark; sd a6, 0(a0); sd a6, 64(a0); sd a6, 72(a0); sd a6, 80(a0); fence rw, rw; mark; nop";
    assert_eq!(since_first("t1", code), [0, 4 * TRIP + 8]);
    assert_eq!(since_first("t2", code), [0, 2 * TRIP + 2 * 2 + 1]);
}

/// A full buffer stops all of a context on the T1, only stores on the T2.
#[test]
fn what_a_full_buffer_stops() {
    for (machine, expected) in [("t1", [7, TRIP, TRIP + 1]), ("t2", [7, 8, 9])] {
        let seven: String = (0..7).map(|n| format!("sd a6, {}(a0); ", n * 64)).collect();
        let code =
            format!("mark; {seven} mark; sd a6, 448(a0); mark; nop; mark; ld t0, 0(a1); mark; nop");
        assert_eq!(since_first(machine, &code)[1..4], expected, "{machine}");
    }
}

/// What orders stores before loads waits until the buffer is empty, everything else does not.
#[test]
fn fences_wait_only_where_they_must() {
    let waits = [
        "w, r",
        "rw, rw",
        "w, rw",
        "rw, r",
        "iorw, iorw",
        "o, i",
        "w, i",
    ];
    let passes = ["r, r", "r, w", "w, w", "rw, w", "r, rw", "i, r", "o, w"];
    // When it issues, and what it then takes on the T1; on the T2 one cycle.
    let fences = waits
        .iter()
        .map(|sets| (format!("fence {sets}"), (TRIP, 8)));
    let fences = fences.chain(passes.iter().map(|sets| (format!("fence {sets}"), (1, 4))));
    let others = [("fence.i", (TRIP, 8)), ("fence.tso", (1, 4))];
    let others = others.map(|(fence, times)| (fence.to_owned(), times));
    for (fence, (issue, t1)) in fences.chain(others) {
        for (machine, takes) in [("t1", t1), ("t2", 1)] {
            let code = format!("mark; sd a6, 0(a0); mark; {fence}; mark; nop");
            assert_eq!(
                since_first(machine, &code),
                [0, issue, issue + takes],
                "{machine}: {fence}"
            );
        }
    }
}

#[test]
fn an_atomic_waits_until_the_buffer_is_empty() {
    for (machine, atomic) in [("t1", 39), ("t2", 30)] {
        for n in [1, 3] {
            let code = format!(
                "mark; {} amoswap.d t0, a6, (a1); mark; nop",
                &stores(n, 64)[5..].replace("mark;", "")
            );
            let expected = TRIP * n + atomic;
            assert_eq!(since_first(machine, &code), [0, expected], "{machine}");
        }
    }
}

/// A load that one store covers has its value like a hit, from the first level or not, until the store has performed;
/// from then on it is a load like any other, here a miss.
#[test]
fn a_store_is_forwarded_until_it_performs() {
    const MISS: u64 = 22;
    const HIT: u64 = 3;
    for machine in ["t1", "t2"] {
        for load in ["ld t0, 0(a0)", "lbu t0, 7(a0)", "lw t0, 4(a0)"] {
            for gap in [0, 1, PERFORMS - 2, PERFORMS - 1, PERFORMS] {
                let gap_code = "nop; ".repeat(gap as usize);
                let code =
                    format!("mark; sd a6, 0(a0); {gap_code} mark; {load}; mv t0, t0; mark; nop");
                let issue = 1 + gap;
                let takes = if issue < PERFORMS { HIT } else { MISS };
                let expected = [0, issue, issue + takes + 1];
                assert_eq!(since_first(machine, &code), expected, "{machine}: {load}");
            }
        }
    }
}

/// A load whose bytes come from a store and from memory, or from two stores, waits until the buffer is empty.
#[test]
fn a_load_that_is_covered_in_part_waits_until_the_buffer_is_empty() {
    for (machine, hit) in [("t1", 3), ("t2", 3)] {
        for (stores, load, trips) in [
            ("sb a6, 0(a1)", "ld t0, 0(a1)", 1),
            ("sw a6, 0(a1); sw a6, 4(a1)", "ld t0, 0(a1)", 2),
            ("sd a6, 0(a1); sb x0, 1(a1)", "lhu t0, 0(a1)", 2),
        ] {
            // On the T2 the second store leaves a cycle after the first and finds the bank busy for one more.
            let drained = match (machine, trips) {
                ("t2", 2) => TRIP + 2,
                _ => TRIP * trips,
            };
            let code = format!("mark; {stores}; {load}; mv t0, t0; mark; nop");
            assert_eq!(
                since_first(machine, &code),
                [0, drained + hit + 1],
                "{machine}: {stores}"
            );
        }
    }
}

/// The value is that of the youngest store that covers the load, or of memory once all have drained.
#[test]
fn forwarded_values_are_those_of_the_youngest_store() {
    for machine in ["t1", "t2"] {
        let code = format!(
            "li a0, {DATA}; li a1, 0x1234; li a2, 0x77
             sd a1, 0(a0); ld t0, 0(a0); mark t0
             sb a2, 1(a0); lbu t0, 1(a0); mark t0
             lbu t0, 0(a0); mark t0
             ld t0, 0(a0); mark t0
             lb t0, 9(a0); mark t0
             exit"
        );
        let outcome = Bench::new(machine).hart(0, &code).run();
        let values: Vec<u64> = outcome.marks(0).iter().map(|mark| mark.value).collect();
        assert_eq!(values, [0x1234, 0x77, 0x34, 0x7734, 0], "{machine}");
        assert_eq!(outcome.counter("core0", "forwarded_loads"), 3, "{machine}");
    }
}
