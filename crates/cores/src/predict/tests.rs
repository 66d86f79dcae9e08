//! Predictors on patterns with a known answer, and off wrong paths.

use super::*;

/// Numbers that look random: Marsaglia's xorshift64.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // Its low bits are the weakest.
        self.0 >> 16
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Sizes of Redstone 2002, Table 2.1.
pub(super) fn params(kind: &str) -> BranchParams {
    BranchParams {
        kind: kind.into(),
        local_history_entries: 2048,
        local_prediction_entries: 4096,
        global_entries: 8192,
        choice_entries: 8192,
        bimodal_entries: 2048,
        return_stack_entries: 16,
    }
}

fn btb(entries: u64, ways: u64, miss: &str) -> BtbParams {
    let miss = miss.into();
    BtbParams {
        entries,
        ways,
        miss,
    }
}

/// Predictors whose directions do not depend on what the buffer holds.
fn predictors(kind: &str) -> Predictors {
    Predictors::new(&params(kind), &btb(1024, 4, "misfetch"), 2).unwrap()
}

/// A branch as it runs alone: predicted, put right if that was wrong, retired. What was predicted.
fn run(
    predictors: &mut Predictors,
    context: usize,
    (pc, branch, taken, target): (u64, BranchKind, bool, u64),
) -> Prediction {
    let prediction = predictors.predict(context, pc, pc + 4, branch);
    if prediction.taken != taken || (taken && prediction.target != Some(target)) {
        let outcome = Some((branch, pc + 4, taken));
        predictors.recover(context, &prediction.checkpoint, outcome);
    }
    predictors.train(context, pc, branch, &prediction, taken, target);
    prediction
}

/// Runs a branch; whether its direction was right.
fn branch(predictors: &mut Predictors, context: usize, pc: u64, taken: bool) -> bool {
    let branch = (pc, BranchKind::Conditional, taken, pc + 64);
    run(predictors, context, branch).taken == taken
}

/// How many of these directions of one branch are mispredicted.
fn misses(predictors: &mut Predictors, pattern: impl Iterator<Item = bool>) -> u64 {
    let before = predictors.counters[0].branches_mispredicted;
    let wrong = pattern
        .filter(|&taken| !branch(predictors, 0, 0x4000, taken))
        .count() as u64;
    assert_eq!(predictors.counters[0].branches_mispredicted - before, wrong);
    wrong
}

#[test]
fn a_branch_that_always_goes_one_way_is_learned() {
    for (kind, taken, not_taken) in [
        ("taken", 0, 100),
        ("not_taken", 100, 0),
        // Weakly "not taken" at the start, so wrong once.
        ("bimodal", 1, 0),
    ] {
        assert_eq!(
            misses(&mut predictors(kind), [true; 100].into_iter()),
            taken,
            "{kind}"
        );
        assert_eq!(
            misses(&mut predictors(kind), [false; 100].into_iter()),
            not_taken,
            "{kind}"
        );
    }
    let mut hybrid = predictors("hybrid");
    // Wrong for each new local history, of 12 directions, but no longer.
    assert_eq!(misses(&mut hybrid, [true; 13].into_iter()), 13);
    assert_eq!(misses(&mut hybrid, [true; 100].into_iter()), 0);
}

#[test]
fn bimodal_misses_the_end_of_a_loop_and_hybrid_does_not() {
    let iterations = |n: u64| (0..n * 100).map(move |step| step % n != n - 1);
    for n in [3, 8, 12] {
        let (mut bimodal, mut hybrid) = (predictors("bimodal"), predictors("hybrid"));
        misses(&mut bimodal, iterations(n));
        misses(&mut hybrid, iterations(n));
        assert_eq!(misses(&mut bimodal, iterations(n)), 100);
        assert_eq!(misses(&mut hybrid, iterations(n)), 0);
    }
}

#[test]
fn bimodal_fails_on_alternation_and_hybrid_does_not() {
    let alternating = |first: bool| (0..100).map(move |step| (step % 2 == 0) == first);
    // Between the two weak states it is always wrong; below them it is right half the time.
    assert_eq!(misses(&mut predictors("bimodal"), alternating(true)), 100);
    assert_eq!(misses(&mut predictors("bimodal"), alternating(false)), 50);
    for first in [true, false] {
        let mut hybrid = predictors("hybrid");
        misses(&mut hybrid, alternating(first));
        assert_eq!(misses(&mut hybrid, alternating(first)), 0);
    }
}

#[test]
fn hybrid_learns_that_one_branch_follows_another_and_bimodal_does_not() {
    let wrong = |kind: &str| {
        let (mut predictors, mut random) = (predictors(kind), Random::new(3));
        let mut round = || {
            let taken = random.next() & 1 == 1;
            branch(&mut predictors, 0, 0x4000, taken);
            u64::from(!branch(&mut predictors, 0, 0x4040, taken))
        };
        (0..20_000).for_each(|_| {
            round();
        });
        (0..10_000).map(|_| round()).sum::<u64>()
    };
    // Few of its 128 histories share a counter with the first branch, which nobody can predict.
    assert!(wrong("hybrid") < 300, "{}", wrong("hybrid"));
    let bimodal = wrong("bimodal");
    assert!((4000..6000).contains(&bimodal), "{bimodal}");
}

#[test]
fn contexts_share_tables_and_targets_but_neither_history_nor_returns() {
    let mut predictors = predictors("bimodal");
    branch(&mut predictors, 0, 0x4000, true);
    let seen = predictors.predict(1, 0x4000, 0x4004, BranchKind::Conditional);
    assert_eq!((seen.taken, seen.target), (true, Some(0x4040)));
    let untouched = predictors.checkpoint(1);
    run(&mut predictors, 0, (0x5000, BranchKind::Call, true, 0x6000));
    branch(&mut predictors, 0, 0x4000, false);
    assert_eq!(predictors.checkpoint(1), untouched);
    assert_eq!(
        predictors
            .predict(1, 0x6000, 0x6004, BranchKind::Return)
            .target,
        None
    );
    assert_eq!(
        predictors
            .predict(0, 0x6000, 0x6004, BranchKind::Return)
            .target,
        Some(0x5004)
    );
}

#[test]
fn every_kind_of_transfer_is_counted_and_finds_its_target() {
    let mut predictors = predictors("not_taken");
    for (branch, target, found) in [
        (BranchKind::Jump, 0x100, [None, Some(0x100)]),
        (BranchKind::Indirect, 0x200, [None, Some(0x200)]),
        // Asks the buffer while the stack is empty.
        (BranchKind::Return, 0x300, [None, Some(0x300)]),
        (BranchKind::Conditional, 0x400, [None, Some(0x400)]),
        (BranchKind::Call, 0x500, [None, Some(0x500)]),
        (BranchKind::IndirectCall, 0x600, [None, Some(0x600)]),
        // Two calls of both kinds lie on the stack, each returning to after its own address.
        (BranchKind::Return, 0x605, [Some(0x605), Some(0x605)]),
    ] {
        let pc = target + 1;
        for expected in found {
            let prediction = run(&mut predictors, 0, (pc, branch, true, target));
            assert_eq!(prediction.target, expected, "{branch:?}");
        }
    }
    let expected = BranchCounters {
        branches: 2,
        branches_taken: 2,
        branches_mispredicted: 2,
        returns: 4,
        returns_mispredicted: 1,
        indirect_jumps: 4,
        indirect_jumps_mispredicted: 2,
        fixed_jumps: 4,
        btb_lookups: 12,
        btb_misses: 5,
    };
    assert_eq!(predictors.counters[0], expected);
    // Elsewhere than last time: known, but wrong.
    run(
        &mut predictors,
        0,
        (0x201, BranchKind::Indirect, true, 0x700),
    );
    assert_eq!(predictors.counters[0].indirect_jumps_mispredicted, 3);
    assert_eq!(predictors.counters[0].btb_misses, 5);
}

#[test]
fn what_is_not_taken_is_not_in_the_buffer() {
    let mut predictors = predictors("taken");
    branch(&mut predictors, 0, 0x4000, false);
    assert_eq!(
        predictors
            .predict(0, 0x4000, 0x4004, BranchKind::Conditional)
            .target,
        None
    );
    assert_eq!(predictors.counters[0].btb_misses, 0);
}

#[test]
fn a_branch_that_the_buffer_does_not_hold_is_predicted_not_taken_where_fetch_falls_through() {
    for (miss, first) in [("fall_through", false), ("misfetch", true), ("stall", true)] {
        let mut predictors = Predictors::new(&params("taken"), &btb(1024, 4, miss), 1).unwrap();
        // The first time it misses, the second it does not; jumps are always taken.
        for expected in [first, true] {
            let prediction = run(
                &mut predictors,
                0,
                (0x4000, BranchKind::Conditional, true, 0x5000),
            );
            assert_eq!(prediction.taken, expected, "{miss}");
            assert_eq!(predictors.contexts[0].history & 1, 1, "{miss}");
        }
        let jump = predictors.predict(0, 0x6000, 0x6004, BranchKind::Jump);
        assert!(jump.taken && jump.target.is_none(), "{miss}");
        let counters = &predictors.counters[0];
        assert_eq!(counters.branches_mispredicted, u64::from(!first), "{miss}");
        assert_eq!(counters.btb_misses, 1, "{miss}");
    }
}

const TRANSFERS: [BranchKind; 6] = [
    BranchKind::Conditional,
    BranchKind::Jump,
    BranchKind::Call,
    BranchKind::Return,
    BranchKind::Indirect,
    BranchKind::IndirectCall,
];

/// Any branch, at one of a few places.
fn any(random: &mut Random) -> (u64, BranchKind, bool, u64) {
    let pc = 0x8000 + 2 * random.below(64);
    let branch = TRANSFERS[random.below(6) as usize];
    let taken = branch != BranchKind::Conditional || random.below(3) > 0;
    (pc, branch, taken, 0x9000 + 2 * random.below(64))
}

/// What a branch does to the height of the return stack.
fn climb(branch: BranchKind) -> i64 {
    match branch {
        BranchKind::Call | BranchKind::IndirectCall => 1,
        BranchKind::Return => -1,
        BranchKind::Conditional | BranchKind::Jump | BranchKind::Indirect => 0,
    }
}

/// Predicts a wrong path of up to 40 branches, from `height` above where the return stack is to be
/// restored. It does what the repair of the top undoes: it does not call past `room`, where the
/// oldest entries are, nor at all once it has returned from below the top.
fn stray(predictors: &mut Predictors, random: &mut Random, context: usize, height: i64, room: i64) {
    let (mut height, mut lowest) = (height, height);
    for _ in 0..random.below(40) {
        let (pc, branch, _, _) = any(random);
        let calls = climb(branch) > 0;
        if calls && (lowest < -1 || height >= room) {
            continue;
        }
        height += climb(branch);
        lowest = lowest.min(height);
        predictors.predict(context, pc, pc + 4, branch);
    }
}

#[test]
fn recovery_leaves_no_trace_of_a_wrong_path() {
    for seed in 0..600 {
        let mut random = Random::new(seed);
        let mut straight = predictors(["hybrid", "bimodal", "taken"][seed as usize % 3]);
        for _ in 0..random.below(300) {
            let context = random.below(2) as usize;
            run(&mut straight, context, any(&mut random));
        }
        let mut strayed = straight.clone();

        // One of them goes a wrong path, after a branch or just so.
        let context = random.below(2) as usize;
        let checkpoint = strayed.checkpoint(context);
        let room = 16 - i64::from(checkpoint.stack.depth);
        if random.below(2) == 0 {
            let (pc, branch, taken, target) = any(&mut random);
            run(&mut straight, context, (pc, branch, taken, target));
            let prediction = strayed.predict(context, pc, pc + 4, branch);
            stray(&mut strayed, &mut random, context, climb(branch), room);
            let outcome = Some((branch, pc + 4, taken));
            strayed.recover(context, &prediction.checkpoint, outcome);
            strayed.train(context, pc, branch, &prediction, taken, target);
        } else {
            stray(&mut strayed, &mut random, context, 0, room);
            strayed.recover(context, &checkpoint, None);
        }

        for step in 0..200 {
            let (context, next) = (random.below(2) as usize, any(&mut random));
            let [expected, got] =
                [&mut straight, &mut strayed].map(|predictors| run(predictors, context, next));
            assert_eq!(got, expected, "seed {seed}, step {step}");
        }
    }
}

#[test]
fn sizes_are_checked_whichever_policy_uses_them() {
    type Case = (&'static str, fn(&mut BranchParams));
    let cases: [Case; 5] = [
        ("local_history_entries = 3", |p| p.local_history_entries = 3),
        ("local_prediction_entries = 12", |p| {
            p.local_prediction_entries = 12
        }),
        ("global_entries = 8191", |p| p.global_entries = 8191),
        ("choice_entries = 5", |p| p.choice_entries = 5),
        ("bimodal_entries = 6", |p| p.bimodal_entries = 6),
    ];
    for (message, set) in cases {
        for kind in ["hybrid", "bimodal"] {
            let mut params = params(kind);
            set(&mut params);
            let (section, problem) =
                Predictors::new(&params, &btb(1024, 4, "stall"), 1).unwrap_err();
            let expected = format!("{message} is not a power of two");
            assert_eq!((section, problem), ("branch", expected));
        }
    }
    let params = params("hybrid");
    let (section, problem) = Predictors::new(&params, &btb(12, 4, "stall"), 1).unwrap_err();
    assert_eq!(section, "btb");
    assert!(problem.contains("power of two"), "{problem}");
}

#[test]
fn the_smallest_tables_work() {
    for kind in ["hybrid", "bimodal"] {
        let params = BranchParams {
            kind: kind.into(),
            local_history_entries: 1,
            local_prediction_entries: 1,
            global_entries: 1,
            choice_entries: 1,
            bimodal_entries: 1,
            return_stack_entries: 0,
        };
        let mut predictors = Predictors::new(&params, &btb(1, 1, "misfetch"), 1).unwrap();
        let mut random = Random::new(9);
        (0..1000).for_each(|_| {
            run(&mut predictors, 0, any(&mut random));
        });
        misses(&mut predictors, [true; 3].into_iter());
        assert_eq!(misses(&mut predictors, [true; 10].into_iter()), 0, "{kind}");
    }
}

/// With predictors of its own the kernel neither learns from what programs do nor changes what they find.
#[test]
fn the_kernel_may_have_predictors_of_its_own() {
    const USER: usize = 0;
    const KERNEL: usize = 1;
    let jump = (0x1000, BranchKind::Jump, true, 0x2000);
    let branch = (0x1100, BranchKind::Conditional, true, 0x1200);
    let call = (0x1300, BranchKind::Call, true, 0x4000);
    for own in [true, false] {
        let mut predictors = predictors("hybrid");
        if own {
            predictors = predictors.with_own_for_kernel();
        }
        predictors.set_mode(0, USER);
        for _ in 0..30 {
            run(&mut predictors, 0, jump);
            run(&mut predictors, 0, branch);
        }
        run(&mut predictors, 0, call);
        let user = predictors.checkpoint(0);
        predictors.set_mode(0, KERNEL);
        let found = predictors.predict(0, jump.0, jump.0 + 4, jump.1);
        assert_eq!(found.target, (!own).then_some(jump.3));
        let found = predictors.predict(0, branch.0, branch.0 + 4, branch.1);
        assert_eq!(found.taken, !own);
        // It unlearns the program's branch, and returns from the program's call.
        for _ in 0..30 {
            run(&mut predictors, 0, (branch.0, branch.1, false, 0));
        }
        let returned = predictors.predict(0, 0x5000, 0x5004, BranchKind::Return);
        assert_eq!(returned.target.is_some(), !own);
        predictors.set_mode(0, USER);
        assert_eq!(predictors.checkpoint(0) == user, own);
        let found = predictors.predict(0, branch.0, branch.0 + 4, branch.1);
        assert_eq!(found.taken, own);
    }
}
