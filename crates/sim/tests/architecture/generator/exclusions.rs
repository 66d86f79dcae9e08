//! What is not compared with QEMU 7.2, each with the reason and the test that says what loiter does instead.
//! Nothing is left out when loiter's own engines are compared with one another.

use std::fs;
use std::path::Path;

use loiter_isa::Op;

/// Whom a program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// QEMU and loiter: what QEMU 7.2 does otherwise, and may, is left out or masked.
    Qemu,
    /// The engines of loiter: everything.
    Loiter,
}

impl Target {
    pub(crate) fn excludes(self, _: Exclusion) -> bool {
        self == Target::Qemu
    }

    /// Whether the target has instruction `op`.
    pub(crate) fn has(self, op: Op) -> bool {
        self == Target::Loiter || !UNKNOWN_TO_QEMU.iter().any(|&(unknown, ..)| unknown == op)
    }
}

/// A test: its file below `crates`, and its name.
type Test = (&'static str, &'static str);

const CSR: &str = "hart/src/csr/tests.rs";
const EXEC: &str = "hart/src/exec/tests.rs";
const TRANSLATE: &str = "hart/src/translate_tests.rs";
const INTEGER: &str = "isa/src/tests/integer.rs";
const WAKE_UPS: Test = (
    "hart/src/waiting_tests.rs",
    "no_order_of_one_waiter_and_its_waker_loses_a_wake_up",
);
const COMPARES: Test = (EXEC, "compare_and_swap_stores_where_all_compares_equal");
const CONDITIONAL: Test = (INTEGER, "conditional_zero");

/// Instructions that QEMU 7.2 does not have.
pub(crate) const UNKNOWN_TO_QEMU: &[(Op, &str, Test)] = &[
    (Op::AmocasW, "Zacas came with QEMU 8.2", COMPARES),
    (Op::AmocasD, "Zacas came with QEMU 8.2", COMPARES),
    (Op::AmocasQ, "Zacas came with QEMU 8.2", COMPARES),
    (Op::CzeroEqz, "Zicond came with QEMU 8.0", CONDITIONAL),
    (Op::CzeroNez, "Zicond came with QEMU 8.0", CONDITIONAL),
    (Op::LockAcquire, "Xloiterlock is loiter's own", WAKE_UPS),
    (Op::LockRelease, "Xloiterlock is loiter's own", WAKE_UPS),
    (Op::LockWait, "Xloiterlock is loiter's own", WAKE_UPS),
    (Op::WrsNto, "Zawrs came with QEMU 8.0", WAKE_UPS),
    (Op::WrsSto, "Zawrs came with QEMU 8.0", WAKE_UPS),
];

/// Declares the exclusions, each with its test.
macro_rules! exclusions {
    ($($(#[$doc:meta])* $name:ident: $test:expr;)*) => {
        /// Behaviour in which QEMU 7.2 differs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Exclusion {
            $($(#[$doc])* $name),*
        }

        /// Each with the test that says what loiter does.
        const EXCLUSIONS: &[(Exclusion, Test)] = &[$((Exclusion::$name, $test)),*];
    };
}

exclusions! {
    /// `mtval` and `stval` of a breakpoint: the manual lets it be 0 or the pc; QEMU has 0, loiter
    /// the pc.
    BreakpointValue: (EXEC, "calls_and_breakpoints_tell_mode_and_place");
    /// An atomic to where nothing answers raises the access fault of a store by the manual; QEMU does
    /// it as a load followed by a store there, and raises the load's.
    AtomicCause: (EXEC, "accesses_to_nowhere_tell_their_address");
    /// A misaligned `sc` without a reservation fails in QEMU, without the exception that the manual
    /// asks for: it looks at the reservation before the address.
    MisalignedStoreConditional: (EXEC, "misaligned_atomics_trap_whatever_is_there");
    /// The field `mstatus.FS` (with SD) may become dirty at any floating-point instruction; QEMU
    /// leaves it when only flags change.
    DirtyState: (EXEC, "what_changes_floating_point_state_makes_it_dirty");
    /// The number of instructions retired: QEMU derives it from the host's time. (No engines agree on
    /// `cycle` and `time`, which are never compared.)
    Retired: (CSR, "a_stopped_counter_of_instructions_has_counted_the_one_that_stopped_it");
    /// `ctzw` of a word that is zero: QEMU before 8.0 counts on into the upper word ("target/riscv:
    /// fix ctzw behavior").
    CtzwOfZero: (INTEGER, "counting_and_logic");
    /// The value of a load access fault: a misaligned load from where nothing answers is two aligned
    /// ones in QEMU, and the value is the address of one of them.
    LoadAccessValue: (EXEC, "a_load_fault_gives_the_address_of_the_part_without_a_device");
    /// With `mstatus.MPRV` set, accesses of machine mode have the rights of MPP, which a trap and its
    /// `mret` change; QEMU 7.2 forgets its translations when a program writes mstatus, but not then.
    RightsAfterTrap: (CSR, "lent_rights_are_those_of_the_mode_that_trapped_last");
    /// A return from machine mode to a lower one clears `mstatus.MPRV` since privileged specification
    /// 1.12, but not in QEMU 7.2.
    RightsAfterReturn: (CSR, "a_return_to_a_lower_mode_takes_back_lent_rights");
    /// `mepc` and `sepc` with bit 0 set: QEMU 7.2 keeps the bit, which must read as 0.
    OddExceptionPc: (CSR, "exceptions_do_not_return_to_odd_addresses");
    /// A page table that a walk may read but not write: QEMU 7.2 sets accessed and dirty nevertheless.
    ProtectedTable: (TRANSLATE, "a_walk_does_not_write_where_it_may_not");
    /// An instruction whose second half lies in a page where nothing answers: QEMU 7.2 stops.
    HalfNowhere: (TRANSLATE, "an_instruction_half_of_which_has_no_device_faults_there");
}

#[test]
fn what_qemu_does_otherwise_has_a_test_of_its_own() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let unknown = UNKNOWN_TO_QEMU.iter().map(|&(_, _, test)| test);
    let tests = EXCLUSIONS.iter().map(|&(_, test)| test).chain(unknown);
    for (file, name) in tests {
        let text = fs::read_to_string(crates.join(file)).expect("a file of tests");
        let declared = format!("#[test]\nfn {name}() {{\n");
        assert_eq!(text.matches(&declared).count(), 1, "{file}: {name}");
    }
    // The comparison uses each of them.
    let mut used = String::new();
    let mut folders = vec![crates.join("sim/tests/architecture/generator")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of tests") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                used += &fs::read_to_string(path).expect("a file of tests");
            }
        }
    }
    for (exclusion, _) in EXCLUSIONS {
        let use_of = format!("excludes(Exclusion::{exclusion:?})");
        assert!(used.contains(&use_of), "nobody asks for {exclusion:?}");
    }
}
