//! Accesses of several widths to the same bytes, and orders that no published test of the collection pins by itself. Each
//! verdict follows from the axioms of the unprivileged manual's chapter "RVWMO" (version 20240411), named with it.

use loiter_explore::{Limits, Litmus, Model};

/// Whether SC, TSO and RVWMO allow what a test asks for.
fn verdicts(text: &str) -> [bool; 3] {
    let test = Litmus::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    Model::ALL.map(|model| {
        let found = test.explore(model, &Limits::default());
        let found = found.unwrap_or_else(|error| panic!("{}: {error}", test.name));
        assert!(!found.outcomes.is_empty(), "{}", test.name);
        test.allows(&found)
    })
}

/// Halves of one store are read by two loads, which overlap in no byte: only a fence or the model orders them.
#[test]
fn halves_are_read_in_any_order() {
    let test = |fence: &str| {
        format!(
            "RISCV halves\n{{ uint64_t x; 0:x5=0x200000001; 0:x6=x; 1:x6=x; }}\n P0 | P1 ;\n sd x5,0(x6) | lw x7,4(x6) ;\n \
             | {fence} ;\n | lw x8,0(x6) ;\nexists (1:x7=2 /\\ 1:x8=0)"
        )
    };
    assert_eq!(verdicts(&test("addi x0,x0,0")), [false, false, true]);
    assert_eq!(verdicts(&test("fence r,r")), [false, false, false]);
}

/// Each byte comes from the last store before the load in memory order, or before it in the program (load value axiom): so a
/// load can have one half from an own store that others do not see yet, and the other half from memory.
#[test]
fn a_load_has_parts_from_an_own_store_and_from_memory() {
    let test = |fence: &str| {
        format!(
            "RISCV SB+parts\n{{ uint64_t x; 0:x5=1; 0:x6=x; 1:x5=1; 1:x6=x; }}\n P0 | P1 ;\n sw x5,0(x6) | sw x5,4(x6) ;\n \
             {fence} | {fence} ;\n ld x7,0(x6) | ld x7,0(x6) ;\n srli x8,x7,32 | andi x8,x7,1 ;\nexists (0:x8=0 /\\ 1:x8=0)"
        )
    };
    assert_eq!(verdicts(&test("addi x0,x0,0")), [false, true, true]);
    assert_eq!(verdicts(&test("fence rw,rw")), [false, false, false]);
}

/// A load of all bytes is one operation: it has a position in memory order that both halves share.
#[test]
fn a_wide_load_sees_one_moment() {
    let test = "RISCV moment\n{ uint64_t x; 0:x5=1; 0:x6=x; 1:x6=x; 2:x6=x; }\n P0 | P1 | P2 ;\n sw x5,0(x6) | ld x7,0(x6) | \
                ld x7,0(x6) ;\n fence w,w | | ;\n sw x5,4(x6) | | ;\nexists (1:x7=0x100000000 \\/ 2:x7=0x100000000)";
    assert_eq!(verdicts(test), [false, false, false]);
}

/// Coherence is by bytes: a byte that was read new is not read old by a wider load (rule 2).
#[test]
fn a_wider_load_reads_no_older_byte() {
    let test = "RISCV CoRR+parts\n{ uint64_t x; 0:x5=1; 0:x6=x; 1:x6=x; }\n P0 | P1 ;\n sb x5,1(x6) | lbu x7,1(x6) ;\n | \
                ld x8,0(x6) ;\nexists (1:x7=1 /\\ 1:x8=0)";
    assert_eq!(verdicts(test), [false, false, false]);
}

/// An atomic of one part leaves the others as they are.
#[test]
fn an_atomic_changes_its_part() {
    let test = "RISCV part\n{ uint64_t x=0x500000005; 0:x5=1; 0:x6=x; 1:x6=x; 1:x5=2; }\n P0 | P1 ;\n amoadd.w x7,x5,(x6) | \
                amoadd.d x7,x5,(x6) ;\nforall (x=0x500000008)";
    assert_eq!(verdicts(test), [false, false, false]);
}

/// Rule 5: what follows an acquire, writes as well as reads, follows it in memory.
#[test]
fn writes_follow_an_acquire() {
    let test = |order: &str| {
        format!(
            "RISCV LB+amo+data\n{{ 0:x5=1; 0:x6=x; 0:x7=y; 1:x6=x; 1:x7=y; }}\n P0 | P1 ;\n amoor.w{order} x8,x0,(x6) | lw \
             x8,0(x7) ;\n sw x5,0(x7) | sw x8,0(x6) ;\nexists (0:x8=1 /\\ 1:x8=1)"
        )
    };
    assert_eq!(verdicts(&test("")), [false, false, true]);
    assert_eq!(verdicts(&test(".aq")), [false, false, false]);
}

/// Rule 1: a store follows a load of the same bytes that comes before it in the program; and with it what that load follows.
#[test]
fn a_store_follows_all_that_a_load_of_its_bytes_does() {
    let test = |second: &str| {
        format!(
            "RISCV LB+fence+data\n{{ 0:x5=1; 0:x6=x; 0:x7=y; 0:x10=z; 1:x6=x; 1:x7=y; }}\n P0 | P1 ;\n lw x8,0(x7) | lw \
             x8,0(x6) ;\n fence r,r | sw x8,0(x7) ;\n lw x9,0({second}) | ;\n sw x5,0(x6) | ;\nexists (0:x8=1 /\\ 0:x9=0 /\\ \
             1:x8=1)"
        )
    };
    assert_eq!(verdicts(&test("x10")), [false, false, true]);
    assert_eq!(verdicts(&test("x6")), [false, false, false]);
}

/// Rule 2, while others may still read what is old there, and the same hart what is old elsewhere.
#[test]
fn what_was_read_new_is_not_read_old() {
    let test = |second: &str| {
        format!(
            "RISCV CoRR2\n{{ 0:x5=1; 0:x6=x; 0:x7=y; 1:x6=x; 1:x7=y; 1:x11=z; 2:x6=x; }}\n P0 | P1 | P2 ;\n sw x5,0(x7) | lw \
             x8,0(x6) | lw x8,0(x6) ;\n fence w,w | lw x9,0({second}) | ;\n sw x5,0(x6) | lw x10,0(x7) | ;\nexists (1:x8=1 /\\ \
             1:x9=0 /\\ 2:x8=0)"
        )
    };
    assert_eq!(verdicts(&test("x11")), [true, true, true]);
    assert_eq!(verdicts(&test("x6")), [false, false, false]);
}

/// Rule 3: what an `sc` writes is read only once it is in memory; what a store writes, before others can.
#[test]
fn a_load_follows_the_sc_that_it_reads_from() {
    let early = |write: &str, asked: &str| {
        format!(
            "RISCV MP+rfi\n{{ 0:x5=1; 0:x6=x; 0:x7=y; 1:x6=x; 1:x7=y; }}\n P0 | P1 ;\n lr.w x8,(x6) | lw x8,0(x7) ;\n {write} | \
             fence r,r ;\n lw x10,0(x6) | lw x9,0(x6) ;\n sw x10,0(x7) | ;\nexists ({asked}1:x8=1 /\\ 1:x9=0)"
        )
    };
    assert_eq!(verdicts(&early("sw x5,0(x6)", "")), [false, false, true]);
    let of_sc = early("sc.w x9,x5,(x6)", "0:x9=0 /\\ ");
    assert_eq!(verdicts(&of_sc), [false, false, false]);
    let late = |write: &str, asked: &str| {
        format!(
            "RISCV SB+rfi\n{{ 0:x5=1; 0:x6=x; 0:x7=y; 1:x5=1; 1:x6=x; 1:x7=y; }}\n P0 | P1 ;\n lr.w x8,(x6) | sw x5,0(x7) ;\n \
             {write} | fence rw,rw ;\n lw x10,0(x6) | lw x8,0(x6) ;\n fence r,r | ;\n lw x11,0(x7) | ;\nexists ({asked}0:x10=1 \
             /\\ 0:x11=0 /\\ 1:x8=0)"
        )
    };
    assert_eq!(verdicts(&late("sw x5,0(x6)", "")), [false, true, true]);
    let of_sc = late("sc.w x9,x5,(x6)", "0:x9=0 /\\ ");
    assert_eq!(verdicts(&of_sc), [false, false, false]);
}

/// Rule 11: a store follows what a branch before it depends on, whatever a fence has ordered meanwhile, and though it could
/// have come early had the branch read something else.
#[test]
fn a_fence_of_reads_leaves_what_a_branch_orders() {
    let test = |compared: &str| {
        format!(
            "RISCV LB+ctrl+data\n{{ 0:x5=1; 0:x6=x; 0:x7=y; 0:x11=z; 1:x5=1; 1:x6=x; 1:x7=y; 1:x11=z; }}\n P0 | P1 ;\n lw \
             x10,0(x11) | lw x8,0(x6) ;\n lw x8,0(x7) | sw x8,0(x7) ;\n bne {compared},x0,L | sw x5,0(x11) ;\n L: | ;\n fence \
             r,r | ;\n sw x5,0(x6) | ;\nexists (0:x8=1 /\\ 1:x8=1)"
        )
    };
    assert_eq!(verdicts(&test("x5")), [false, false, true]);
    assert_eq!(verdicts(&test("x8")), [false, false, false]);
}
