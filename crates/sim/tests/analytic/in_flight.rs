//! Page tables that change while an access is in flight.

use crate::support::paging::{PAGE, PAGES, Paged, RWX};
use crate::support::{Bench, DATA};

/// Where one hart tells the other to begin.
const FLAG: u64 = DATA + 0x30_0000;

/// What the load reads where its page leads after the change: what lies there, and a byte that its hart has stored last.
const THERE: u64 = 0x2222_2222_2222_2222;
const CHANGED: u64 = 0x2222_2222_2222_3322;

/// What a load returns that misses all caches, behind stores that are long on their way, if its page comes to lead to
/// where the last of them goes, `delay` cycles after it has begun.
fn load_while_its_page_moves(machine: &str, delay: u64) -> u64 {
    let tables = Paged::new();
    let stores: String = (1..7).map(|n| format!("sb a5, {}(a3); ", 64 * n)).collect();
    let loads = format!(
        "li a3, {}; li a4, {THERE}; li a5, 0x33; li a6, {FLAG}; li a7, 0x800
         add a0, a0, a7; add t1, a3, a7; sd a4, 0(t1); sd a4, 0(a3); ld t0, -1024(a0)
         fence rw, rw; j go
         .line
         go: sd a5, 0(a6); fence rw, rw
         {stores} sb a5, 1(t1); ld t0, 0(a0); end t0
         exit",
        PAGES + PAGE
    );
    // Where page 1 leads, as the tables have it, for page 0.
    let there = (DATA + 2 * 1024 * 1024 - 2 * PAGE) >> 12 << 10 | RWX;
    let moves = format!(
        "li a0, {FLAG}; li a1, {}; li a2, {there}; j wait
         .line
         wait: ld t0, 0(a0); beqz t0, wait
         .rept {delay}; nop; .endr
         sd a2, 0(a1); done: wfi; j done",
        tables.entry(0)
    );
    let bench = Bench::new(machine).hart(0, &tables.program(&loads));
    let marks = bench.hart(1, &moves).run().marks(0);
    assert_eq!(marks.len(), 1);
    marks[0].value
}

/// It reads from where it was translated to or from where its page leads now, and never a mixture.
#[test]
fn a_load_whose_page_moves_while_it_is_in_flight_is_translated_again() {
    for machine in ["t1", "t2"] {
        let mut seen = [0; 2];
        for delay in (0..300).step_by(3) {
            let found = load_while_its_page_moves(machine, delay);
            assert!([0, CHANGED].contains(&found), "{machine}: {found:#x}");
            seen[usize::from(found == CHANGED)] += 1;
        }
        assert!(seen[0] > 3 && seen[1] > 3, "{machine}: {seen:?}");
    }
}
