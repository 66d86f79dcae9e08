//! Buffers of translations and page walks: reach, latency, sharing, and what makes them forget.

use crate::support::paging::{DIRTY, MEGAPAGE, MEGAPAGES, PAGE, PAGES, Paged, RWX};
use crate::support::{Bench, DATA, Outcome, WAIT};

/// Cycles of a read of a table: from the L1D on the T1, from the L2 on the T2.
fn read(machine: &str) -> u64 {
    if machine == "t1" { 3 } else { 22 }
}

/// A fence that orders stores before loads, when there is nothing to wait for.
fn fence(machine: &str) -> u64 {
    if machine == "t1" { 8 } else { 1 }
}

/// Cycles of a walk beside its reads.
fn fixed(machine: &str) -> u64 {
    if machine == "t1" { 50 } else { 10 }
}

/// Cycles of a walk that reads tables of so many levels, where all of them have been read before.
fn walk(machine: &str, levels: u64) -> u64 {
    fixed(machine) + levels * read(machine)
}

const LOAD_HIT: u64 = 3;

fn run(machine: &str, paged: Paged, code: &str) -> Outcome {
    let code = paged.program(&format!("{code}; exit"));
    Bench::new(machine).hart(0, &code).run()
}

/// Misses of fetches and of data, and walks, of a core.
fn walks(outcome: &Outcome, core: usize) -> [u64; 3] {
    [("itlb", "misses"), ("dtlb", "misses"), ("walker", "walks")]
        .map(|(part, name)| outcome.counter(&format!("core{core}.{part}"), name))
}

#[test]
fn without_translation_nothing_is_looked_up() {
    let code = format!(
        "li a0, {DATA}; sd a0, 0(a0); ld t0, 0(a0); amoadd.d t0, a0, (a0); sfence.vma x0, x0; exit"
    );
    for machine in ["t1", "t2"] {
        let outcome = Bench::new(machine).hart(0, &code).run();
        let mut rows = outcome.result.counters.iter();
        let mut seen = 0;
        for part in ["core0.itlb", "core0.dtlb", "core0.walker"] {
            for row in rows.by_ref().filter(|row| row.component == part) {
                assert_eq!(row.value, 0, "{machine}: {} {}", part, row.name);
                seen += 1;
                if row.name == "flushed" || row.name == "wait_cycles" {
                    break;
                }
            }
        }
        assert_eq!(seen, 11);
    }
}

/// A round of loads from as many pages as there are entries misses once for each; with one page more, each load of each
/// round misses. One more entry serves the store that ends the run.
#[test]
fn a_buffer_reaches_as_far_as_its_entries() {
    for (machine, entries) in [("t1", 64), ("t2", 128)] {
        for (pages, expected) in [(entries, entries), (entries + 1, 4 * (entries + 1))] {
            let code = format!(
                "li s1, 4
                 round: mv t1, a0; li t2, {pages}
                 next: ld t0, 0(t1); add t1, t1, a2; addi t2, t2, -1; bnez t2, next
                 addi s1, s1, -1; bnez s1, round"
            );
            let outcome = run(machine, Paged::new(), &code);
            let accesses = outcome.counter("core0.dtlb", "accesses");
            assert_eq!(accesses, 4 * pages + 1, "{machine}");
            let expected = [1, expected + 1, expected + 2];
            assert_eq!(walks(&outcome, 0), expected, "{machine}: {pages} pages");
        }
    }
}

/// Instructions on as many pages as there are entries, one of which is that of the loop around them; or on one more.
#[test]
fn the_buffer_of_fetches_reaches_as_far() {
    // Every page begins with a jump back, put there as data.
    const JUMP_BACK: u32 = 0x0000_8067;
    for machine in ["t1", "t2"] {
        for (pages, each_round) in [(63, 0), (64, 65)] {
            let code = format!(
                "li t0, {JUMP_BACK}; mv t1, a0; li t2, {pages}
                 put: sw t0, 0(t1); add t1, t1, a2; addi t2, t2, -1; bnez t2, put
                 fence.i; li s1, 4
                 round: mv t1, a0; li t2, {pages}
                 next: jalr x1, 0(t1); add t1, t1, a2; addi t2, t2, -1; bnez t2, next
                 addi s1, s1, -1; bnez s1, round"
            );
            let outcome = run(machine, Paged::new(), &code);
            let [misses, ..] = walks(&outcome, 0);
            let first_round = pages + 1;
            // The page of the loop is used between any two others, so with one page too many two take turns with it.
            if each_round == 0 {
                assert_eq!(misses, first_round, "{machine}");
            } else {
                assert!(misses > first_round + 3, "{machine}: {misses}");
            }
        }
    }
}

/// Cycles from an instruction before `code` to the next after it, in the second of two rounds: its lines are in the first
/// levels, and so are the tables on the T1. All translations but that of the code itself are forgotten before.
fn second_round(machine: &str, paged: Paged, setup: &str, code: &str) -> u64 {
    second_round_of(Bench::new(machine), paged, setup, code)
}

fn second_round_of(bench: Bench, paged: Paged, setup: &str, code: &str) -> u64 {
    let code = format!(
        "{setup}; li s1, 2; j again
         .line
         again: sfence.vma x0, x0; .line
         mark; nop; {code}
         end; nop
         addi s1, s1, -1; bnez s1, again; exit"
    );
    let marks = bench.hart(0, &paged.program(&code)).run().marks(0);
    assert_eq!(marks.len(), 4);
    assert!(marks[3].end);
    marks[3].cycle - marks[2].cycle
}

#[test]
fn a_walk_reads_an_entry_for_each_level() {
    for machine in ["t1", "t2"] {
        for (paged, levels) in [(Paged::new(), 3), (Paged::new().four_levels(), 4)] {
            // Data and entries are spread over the sets of the L1D.
            let small = PAGES + 8 * PAGE;
            for (addr, above) in [(small, 0), (MEGAPAGES, 1), (DATA, 2)] {
                let setup = format!("li a4, {}", addr + 128);
                let got = second_round(machine, paged, &setup, "ld t0, 0(a4); mv t0, t0");
                let expected = 1 + walk(machine, levels - above) + LOAD_HIT + 1;
                assert_eq!(got, expected, "{machine}: {levels} levels, {addr:#x}");
            }
        }
    }
}

/// The fixed part may be nothing.
#[test]
fn a_walk_may_cost_its_reads_only() {
    for machine in ["t1", "t2"] {
        let bench = Bench::new(machine).set("walker.fixed_cycles=0");
        let got = second_round_of(bench, Paged::new(), "", "ld t0, 0(a0); mv t0, t0");
        assert_eq!(got, 1 + 3 * read(machine) + LOAD_HIT + 1, "{machine}");
    }
}

/// A store waits for its walk before it enters the store buffer, an atomic before it is sent.
#[test]
fn stores_and_atomics_wait_for_their_walk() {
    for (machine, atomic) in [("t1", 39), ("t2", 30)] {
        for (code, takes) in [("sd t0, 0(a0)", 1), ("amoadd.d t0, t1, (a0)", atomic)] {
            let got = second_round(machine, Paged::new(), "", code);
            assert_eq!(got, 1 + walk(machine, 3) + takes, "{machine}: {code}");
        }
    }
}

/// What follows `sfence.vma` is fetched after a walk: RAM is one page of 1 GiB.
#[test]
fn a_fetch_waits_for_its_walk() {
    for machine in ["t1", "t2"] {
        let got = second_round(machine, Paged::new(), "", "sfence.vma x0, x0; nop");
        assert_eq!(got, 1 + fence(machine) + walk(machine, 1) + 1, "{machine}");
    }
}

/// A load where nothing is mapped, by an entry that nobody has read or written: its walk takes as long as memory, then
/// it traps. Of the tables before it the line is in the L1D of the T1.
#[test]
fn a_failed_walk_takes_its_time_and_then_traps() {
    for (machine, miss, trap) in [("t1", 100, 5), ("t2", 230, 5)] {
        // Each round tries an address whose entry is 64 bytes further on.
        let step = 8 * MEGAPAGE;
        let code = format!(
            "li a4, {}; li a5, {step}; li s1, 3; ld t0, 0(a0)
             auipc t1, 0; addi t1, t1, 24; ecall; j again
             .line
             again: mark; nop; ld t0, 0(a4)
             add a4, a4, a5; addi s1, s1, -1; bnez s1, again; exit",
            PAGES + 4 * step
        );
        // In machine mode: the first trap is the ecall. What raised a trap is skipped.
        let handler = "auipc t1, 0; addi t1, t1, 64; csrrw x0, 0x305, t1; j begin
             .line
             end; nop; csrrs t0, 0x341, x0; addi t0, t0, 4; csrrw x0, 0x341, t0; mret
             begin:";
        let code = format!(".line; {handler} {}", Paged::new().program(&code));
        let outcome = Bench::new(machine).hart(0, &code).run();
        let marks = outcome.marks(0);
        assert_eq!(marks.len(), 1 + 2 * 3, "{machine}");
        let got = marks[6].cycle - marks[5].cycle;
        let walk = walk(machine, 1) + miss;
        assert_eq!(got, 1 + walk + trap, "{machine}");
        assert_eq!(outcome.counter("core0.walker", "failed_walks"), 3);
    }
}

#[test]
fn a_large_page_needs_one_walk() {
    for machine in ["t1", "t2"] {
        let (pages, large) = (MEGAPAGE / PAGE, 3);
        let code = format!(
            "mv t1, a1; li t2, {}
             next: ld t0, 0(t1); add t1, t1, a2; addi t2, t2, -1; bnez t2, next",
            large * pages
        );
        let outcome = run(machine, Paged::new(), &code);
        let expected = [1, large + 1, large + 2];
        assert_eq!(walks(&outcome, 0), expected, "{machine}");
    }
}

/// A page that has not been written is walked for again by the first store to it, and marked.
#[test]
fn the_first_store_to_a_page_walks_to_mark_it() {
    for machine in ["t1", "t2"] {
        for (paged, walked) in [(Paged::new(), 1), (Paged::new().clean(), 2)] {
            let code = paged.program(&format!(
                "li t1, {}; ld t0, 0(a0); ld t2, 0(t1); mark t2
                 sd t0, 0(a0); ld t2, 0(t1); mark t2; sd t0, 8(a0); ld t0, 0(a0); exit",
                paged.entry(0)
            ));
            let bench = Bench::new(machine).set("hart.isa=+svadu").hart(0, &code);
            let outcome = bench.run();
            // Another page is that of the table, a third that of the store which ends the run.
            let misses = outcome.counter("core0.dtlb", "misses");
            assert_eq!(misses, walked + 2, "{machine}");
            let bits: Vec<u64> = outcome
                .marks(0)
                .iter()
                .map(|mark| mark.value & 0xff)
                .collect();
            let before = if walked == 2 { RWX ^ DIRTY } else { RWX };
            assert_eq!(bits, [before, RWX], "{machine}");
        }
    }
}

/// Eight bytes of which four lie in the next page, which is elsewhere in RAM: a walk for each page, then the time of the
/// first byte. A store takes an entry of the store buffer for each.
#[test]
fn data_in_two_pages_takes_two_walks() {
    for machine in ["t1", "t2"] {
        let walks = 2 * walk(machine, 3);
        let setup = "add a4, a0, a2; addi a4, a4, -4";
        let got = second_round(machine, Paged::new(), setup, "ld t0, 0(a4); mv t0, t0");
        assert_eq!(got, 1 + walks + LOAD_HIT + 1, "{machine}");
        let code = "sd t0, 0(a4); fence rw, rw";
        let got = second_round(machine, Paged::new(), setup, code);
        let (first, second) = (22, 22);
        let expected = 1 + walks + first + second + fence(machine);
        assert_eq!(got, expected, "{machine}");
    }
}

/// Stores over the end of a page at every offset and their values, read back by halves, by bytes, and over the end.
#[test]
fn values_in_two_pages_are_whole() {
    for machine in ["t1", "t2"] {
        for entries in [1, 2, 8] {
            for (store, bytes) in [("sd", 8), ("sw", 4), ("sh", 2)] {
                for before in 1..bytes {
                    let code = format!(
                        "li t0, 0x1122334455667788; add a4, a0, a2; addi a4, a4, -{before}
                         {store} t0, 0(a4); {store} t0, 0(a4); ld t1, 0(a4); mark t1
                         lbu t1, {}(a4); mark t1; lbu t1, {before}(a4); mark t1",
                        before - 1
                    );
                    let code = Paged::new().program(&format!("{code}; exit"));
                    let set = format!("core.store_buffer_entries={entries}");
                    let outcome = Bench::new(machine).set(&set).hart(0, &code).run();
                    let values: Vec<u64> = outcome.marks(0).iter().map(|mark| mark.value).collect();
                    let value = 0x1122_3344_5566_7788_u64;
                    let whole = if bytes == 8 {
                        value
                    } else {
                        value & ((1 << (8 * bytes)) - 1)
                    };
                    let byte = |n: u64| value >> (8 * n) & 0xff;
                    let expected = [whole, byte(before - 1), byte(before)];
                    assert_eq!(
                        values, expected,
                        "{machine}: {store}, {before} before the end"
                    );
                }
            }
        }
    }
}

/// `addi t0, t0, 1` with two bytes on either page, and a jump back.
#[test]
fn an_instruction_in_two_pages_takes_two_walks() {
    const ADD: u32 = 0x0012_8293;
    const JUMP_BACK: u32 = 0x0000_8067;
    for machine in ["t1", "t2"] {
        let code = format!(
            "add a4, a0, a2; addi a4, a4, -2
             li t1, {}; sh t1, 0(a4); li t1, {}; sh t1, 2(a4)
             li t1, {}; sh t1, 4(a4); sh x0, 6(a4); fence.i
             li t0, 7; jalr x1, 0(a4); jalr x1, 0(a4); mark t0; nop",
            ADD & 0xffff,
            ADD >> 16,
            JUMP_BACK & 0xffff
        );
        let outcome = run(machine, Paged::new(), &code);
        assert_eq!(outcome.marks(0)[0].value, 9, "{machine}");
        let [fetches, ..] = walks(&outcome, 0);
        assert_eq!(fetches, 1 + 2, "{machine}");
    }
}

const SLEEP: &str = "sleep: wfi; j sleep";

/// A hart uses a page, and much later another one does, on the same core or on the next. Misses of data of the cores of
/// the two, without that of the store which ends the run, and cycles of the second one's load.
fn second_hart(machine: &str, seat: usize, first: Paged, second: Paged) -> ([u64; 2], u64) {
    let late = first.program(&format!("ld t0, 0(a0); {SLEEP}"));
    let code = second.program(
        "li t0, 300000; late: addi t0, t0, -1; bnez t0, late
         .line
         mark; nop; ld t0, 0(a0); mv t0, t0; mark; nop; exit",
    );
    let bench = Bench::new(machine).hart(0, &late).hart(seat, &code);
    let outcome = bench.run();
    let contexts = if machine == "t1" { 4 } else { 8 };
    let core = seat / contexts;
    let mut misses = [0, 1].map(|core| outcome.counter(&format!("core{core}.dtlb"), "misses"));
    misses[core] -= 1;
    (misses, outcome.steps(seat)[0])
}

#[test]
fn contexts_share_the_translations_of_an_address_space() {
    let own = Paged::new();
    let hit = 1 + LOAD_HIT + 1;
    for (machine, other_core) in [("t1", 4), ("t2", 8)] {
        let again = hit + walk(machine, 3);
        for seat in [1, other_core - 1] {
            let same = second_hart(machine, seat, own, own);
            assert_eq!(same, ([1, 0], hit), "{machine}");
            let another = second_hart(machine, seat, own, own.asid(2));
            assert_eq!(another, ([2, 0], again), "{machine}: another address space");
            let global = second_hart(machine, seat, own.global(), own.global().asid(2));
            assert_eq!(global, ([1, 0], hit), "{machine}: global pages");
            let (tables, _) = second_hart(machine, seat, own, own.tables(1));
            assert_eq!(tables, [2, 0], "{machine}: other tables");
        }
        let (elsewhere, _) = second_hart(machine, other_core, own, own);
        assert_eq!(elsewhere, [1, 1], "{machine}: another core");
    }
}

/// Each form of `sfence.vma`, with the registers named: what misses afterwards of two small pages and the code.
#[test]
fn what_is_forgotten_is_walked_for_again() {
    let (own, global) = (Paged::new().asid(5), Paged::new().asid(5).global());
    for (paged, fence, data, code) in [
        (own, "x0, x0", 2, 1),
        (own, "a0, x0", 1, 0),
        (own, "a4, x0", 0, 0),
        (own, "x0, s2", 2, 1),
        (own, "x0, s3", 0, 0),
        (own, "a0, s2", 1, 0),
        (own, "a0, s3", 0, 0),
        (own, "a3, s2", 0, 1),
        (global, "x0, x0", 2, 1),
        (global, "a0, x0", 1, 0),
        (global, "x0, s2", 0, 1),
        (global, "a0, s2", 0, 0),
    ] {
        // a3 is an address of the code, a4 one that nobody uses.
        let program = format!(
            "li s2, 5; li s3, 4; auipc a3, 0; add a4, a0, a2; add a4, a4, a2; add a5, a0, a2
             ld t0, 0(a0); ld t0, 0(a5); sfence.vma {fence}; ld t0, 0(a0); ld t0, 0(a5)"
        );
        for machine in ["t1", "t2"] {
            let outcome = run(machine, paged, &program);
            let [fetches, misses, _] = walks(&outcome, 0);
            // Before: the code, both pages; at the end the store that ends the run.
            let got = (misses - 3, fetches - 1);
            assert_eq!(got, (data, code), "{machine}: sfence.vma {fence}");
        }
    }
}

/// A new value of `satp` forgets nothing: with the old one the old translations are there.
#[test]
fn address_spaces_keep_their_translations() {
    let code = "ld t0, 0(a0); csrrs a4, 0x180, x0; li a5, 1; slli a5, a5, 44; add a5, a5, a4
         csrrw x0, 0x180, a5; ld t0, 0(a0); csrrw x0, 0x180, a4; ld t0, 0(a0)
         csrrw x0, 0x180, a5; ld t0, 0(a0); csrrw x0, 0x180, a4";
    for machine in ["t1", "t2"] {
        let outcome = run(machine, Paged::new(), code);
        assert_eq!(walks(&outcome, 0), [2, 2 + 1, 2 + 2 + 1], "{machine}");
    }
}

/// Two contexts want to walk within the time of one walk: with room for two walks each takes its own time, with room for
/// one the second begins when the first ends.
#[test]
fn a_walk_waits_for_its_turn() {
    const FIXED: u64 = 10_000;
    // All code that comes before has run by then.
    const BEGIN: u64 = 400_000;
    for (machine, sibling) in [("t1", 1), ("t2", 1), ("t2", 4)] {
        for walks in [1, 2] {
            // The tables have been read before. Both pages are in one line of them.
            let code = |page: u64, end: &str| {
                Paged::new().program(&format!(
                    "li t0, {}; add a4, a0, t0; ld t0, 128(a4); sfence.vma a4, x0; li t1, {BEGIN}; j wait
                     .line; wait: csrrs t0, 0xc00, x0; bltu t0, t1, wait
                     .line; mark; nop; ld t0, 128(a4); mv t0, t0; mark; nop; {end}",
                    page * PAGE
                ))
            };
            let last = format!("li t0, {FIXED}; end: addi t0, t0, -1; bnez t0, end; exit");
            let outcome = Bench::new(machine)
                .set(&format!("walker.walks={walks}"))
                .set(&format!("walker.fixed_cycles={FIXED}"))
                .hart(0, &code(8, &last))
                .hart(sibling, &code(9, SLEEP))
                .run();
            // From the cycle after the instruction of the first mark to the issue of the load.
            let span = |hart| {
                let times = outcome.times(hart);
                [times[0] + 1, times[1] - LOAD_HIT - 1]
            };
            let mut spans = [span(0), span(sibling)];
            spans.sort_unstable();
            let [first, second] = spans;
            let walk = FIXED + 3 * read(machine);
            assert!(
                first[0] > BEGIN && second[0] < first[0] + walk,
                "{machine}: apart"
            );
            // The other context may be selected in between.
            let own = walk..walk + 8;
            assert!(own.contains(&(first[1] - first[0])), "{machine}: {first:?}");
            match walks {
                1 => assert_eq!(second[1] - first[1], walk, "{machine}"),
                _ => assert!(
                    own.contains(&(second[1] - second[0])),
                    "{machine}: {second:?}"
                ),
            }
        }
    }
}

/// Four contexts that push each other's only translation out get on all the same.
#[test]
fn contexts_that_push_each_other_out_get_on() {
    for machine in ["t1", "t2"] {
        let mut bench = Bench::new(machine);
        for part in ["itlb", "dtlb"] {
            bench = bench
                .set(&format!("{part}.entries=1"))
                .set(&format!("{part}.ways=1"));
        }
        for hart in 0..4 {
            let page = 10 * hart as u64 * PAGE;
            let end = if hart == 0 {
                "li s1, 20000; last: addi s1, s1, -1; bnez s1, last; exit"
            } else {
                SLEEP
            };
            let code = format!(
                "{WAIT}; li t0, {page}; add a4, a0, t0; add a5, a4, a2; addi a5, a5, -4; li s1, 50
                 again: ld t0, 0(a4); sd t0, 0(a5); ld t0, 0(a5); addi s1, s1, -1; bnez s1, again
                 mark s1; nop; {end}"
            );
            bench = bench.hart(hart, &Paged::new().asid(hart as u64).program(&code));
        }
        let outcome = bench.run();
        for hart in 0..4 {
            assert_eq!(outcome.marks(hart).len(), 1, "{machine}: hart {hart}");
        }
    }
}

/// Every cycle in which a context waits for a walk is in the account, and in the walker's counters.
#[test]
fn walks_are_accounted_for() {
    for machine in ["t1", "t2"] {
        let mut bench = Bench::new(machine).set("walker.walks=1");
        for hart in 0..3 {
            let end = if hart == 0 {
                "li s1, 9000; last: addi s1, s1, -1; bnez s1, last; exit"
            } else {
                SLEEP
            };
            let code = format!(
                "mv a4, a0; li s1, 200; again: ld t0, 0(a4); add a4, a4, a2; addi s1, s1, -1; bnez s1, again; {end}"
            );
            bench = bench.hart(hart, &Paged::new().asid(hart as u64).program(&code));
        }
        let outcome = bench.run();
        let rows = outcome.result.accounts.iter();
        let walking = |slot: &str| -> u64 {
            rows.clone()
                .filter(|row| row.slot == slot)
                .map(|row| row.cycles)
                .sum()
        };
        let counter = |name| outcome.counter("core0.walker", name);
        let (fetches, data) = (walking("itlb_walk"), walking("dtlb_walk"));
        assert!(fetches > 0 && data > 0, "{machine}");
        assert_eq!(
            fetches + data,
            counter("walk_cycles") + counter("wait_cycles"),
            "{machine}"
        );
        assert!(counter("wait_cycles") > 0, "{machine}");
        assert!(counter("reads") > 2 * counter("walks"), "{machine}");
    }
}
