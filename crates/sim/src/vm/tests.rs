//! Closed forms: who runs when, and what that adds up to.

use super::host::{Host, Progress};
use super::result::VmResult;
use super::testing::{CLOCK_MHZ, FREE, LOOP, SLICE, YIELDS, file, first, host, run};

/// Sleeps for 10000 cycles, works for 20 instructions, and so on.
const SLEEPER: &str = "lui t0, 0x200c
    addi t0, t0, -8
    lui t1, 0x2004
    li t2, 0x80
    csrw 0x304, t2
    lui s2, 2
    addi s2, s2, 1808
    loop: ld t3, 0(t0)
    add t3, t3, s2
    sd t3, 0(t1)
    wfi
    li s3, 5
    work: addi s3, s3, -1
    bnez s3, work
    j loop";

/// Ends well after 120000 instructions.
const ENDS: &str = "lui s0, 15
    loop: addi s0, s0, -1
    bnez s0, loop
    lui t0, 0x100
    lui t1, 5
    addi t1, t1, 0x555
    sw t1, 0(t0)
    stay: j stay";

/// After 15000 instructions, does what no handler is there for.
const FAILS: &str = "lui s0, 2
    loop: addi s0, s0, -1
    bnez s0, loop
    ecall
    stay: j stay";

/// Ends well at the same instruction.
const LEAVES: &str = "lui s0, 2
    lui t0, 0x100
    lui t1, 5
    addi t1, t1, 0x555
    loop: addi s0, s0, -1
    bnez s0, loop
    sw t1, 0(t0)
    stay: j stay";

fn until(host: &mut Host, cycle: u64) {
    while host.now.0 < cycle {
        assert_eq!(host.turn().unwrap(), Progress::Running);
    }
    assert_eq!(host.now.0, cycle, "turns end with slices");
}

fn us(cycles: u64) -> u64 {
    cycles / CLOCK_MHZ
}

#[test]
fn two_guests_of_equal_weight_take_turns_of_a_slice_each() {
    let file = file(1, us(20 * SLICE), FREE, "", &[(1, ""), (1, "")]);
    let mut host = host(file, &[LOOP, LOOP]);
    for slices in 1..20 {
        until(&mut host, slices * SLICE);
        let result = host.result().unwrap();
        let runs = [first(&result, 0).run_cycles, first(&result, 1).run_cycles];
        assert_eq!(runs, [slices.div_ceil(2) * SLICE, slices / 2 * SLICE]);
        assert_eq!(first(&result, 1).steal_cycles, slices.div_ceil(2) * SLICE);
    }
}

#[test]
fn a_change_between_guests_costs_its_cycles_and_is_nobodys_time() {
    let file = file(
        1,
        us(10 * SLICE),
        "switch_cycles = 70",
        "",
        &[(1, ""), (1, "")],
    );
    let result = run(&mut host(file, &[LOOP, LOOP]));
    let cpu = &result.cpus[0];
    // The tenth slice ends where the run does.
    assert_eq!((cpu.switches, cpu.switching_cycles), (10, 700));
    assert_eq!(first(&result, 0).run_cycles, 5 * (SLICE - 70));
    assert_eq!(first(&result, 0).instructions, 5 * (SLICE - 70));
    assert_eq!(cpu.idle_cycles, 0);
}

#[test]
fn a_guest_of_twice_the_weight_runs_twice_as_long() {
    let guests = [(1, "weight = 512"), (1, "weight = 256")];
    let file = file(1, us(300 * SLICE), FREE, "", &guests);
    let result = run(&mut host(file, &[LOOP, LOOP]));
    let ratio = first(&result, 0).run_cycles as f64 / first(&result, 1).run_cycles as f64;
    assert!((ratio - 2.0).abs() < 0.04, "{ratio}");
}

#[test]
fn guests_of_many_virtual_cpus_share_all_cpus_fairly_over_ten_slices() {
    let file = file(4, us(10 * SLICE), FREE, "", &[(4, ""), (4, "")]);
    let result = run(&mut host(file, &[LOOP, LOOP]));
    for row in &result.vcpus {
        let share = row.run_cycles as f64 / (10 * SLICE) as f64;
        assert!((share - 0.5).abs() <= 0.01, "{row:?}");
    }
}

#[test]
fn three_on_two_cpus_get_two_thirds_of_one_each() {
    let file = file(2, us(300 * SLICE), FREE, "", &[(1, ""), (1, ""), (1, "")]);
    let result = run(&mut host(file, &[LOOP, LOOP, LOOP]));
    assert!(result.cpus.iter().all(|cpu| cpu.idle_cycles == 0));
    for row in &result.vcpus {
        let share = row.run_cycles as f64 / (300 * SLICE) as f64;
        assert!((share * 1.5 - 1.0).abs() < 0.02, "{row:?}");
    }
    let moves: u64 = result.vcpus.iter().map(|row| row.migrations).sum();
    assert!(moves > 0, "none has changed its CPU");
}

const GANG: &str = "policy = \"gang\"";

#[test]
fn a_gang_runs_together_and_others_fill_the_cpus_that_it_leaves() {
    // On CPU 0 the only hart of g0 and the second of g1, on CPU 1 the first of g1.
    let file = file(2, us(8 * SLICE), FREE, GANG, &[(1, ""), (2, "")]);
    let mut host = host(file, &[LOOP, LOOP]);
    for turns in 1..8 {
        until(&mut host, turns * SLICE);
        let rows = host.result().unwrap().vcpus;
        let runs: Vec<_> = rows.iter().map(|row| row.run_cycles / SLICE).collect();
        assert_eq!(runs, [turns.div_ceil(2), turns, turns / 2]);
    }
}

#[test]
fn a_gang_that_sleeps_has_no_turn() {
    let file = file(1, us(100 * SLICE), FREE, GANG, &[(1, ""), (1, "")]);
    let result = run(&mut host(file, &[LOOP, SLEEPER]));
    assert_eq!(result.cpus[0].idle_cycles, 0);
    assert!(
        first(&result, 0).run_cycles > 99 * SLICE,
        "{:?}",
        first(&result, 0)
    );
    // It wakes in the other's turns, all of which it has to wait for.
    let waited = first(&result, 1).longest_wake_wait_cycles;
    assert!((1..=SLICE).contains(&waited), "{waited}");
}

#[test]
fn virtual_cpus_of_one_gang_on_one_cpu_have_every_other_of_its_turns() {
    let file = file(1, us(40 * SLICE), FREE, GANG, &[(2, ""), (1, "")]);
    let result = run(&mut host(file, &[LOOP, LOOP]));
    let runs: Vec<_> = result
        .vcpus
        .iter()
        .map(|row| row.run_cycles / SLICE)
        .collect();
    assert_eq!(runs, [10, 10, 20]);
}

const FAIR: &str = "policy = \"fair\"";

#[test]
fn virtual_time_is_fair_by_weight_within_a_slice() {
    let guests = [(1, "weight = 512"), (1, "weight = 256")];
    let file = file(1, us(30 * SLICE), FREE, FAIR, &guests);
    let mut host = host(file, &[LOOP, LOOP]);
    for periods in 1..30 {
        until(&mut host, periods * SLICE);
        let rows = host.result().unwrap().vcpus;
        // Two thirds of a period and one, in turn.
        assert_eq!(rows[0].run_cycles, periods * SLICE * 2 / 3);
        assert_eq!(rows[1].run_cycles, periods * SLICE / 3);
    }
}

#[test]
fn who_wakes_takes_the_cpu_from_one_that_is_ahead_and_not_from_one_that_is_not() {
    let file = file(1, us(100 * SLICE), FREE, FAIR, &[(1, ""), (1, "")]);
    let result = run(&mut host(file, &[LOOP, SLEEPER]));
    let sleeper = first(&result, 1);
    assert!(sleeper.wakes > 25, "{sleeper:?}");
    assert_eq!(sleeper.longest_wake_wait_cycles, 0);
    // Both have slept: neither is ahead by a sixth of a period.
    let file = self::file(1, us(100 * SLICE), FREE, FAIR, &[(1, ""), (1, "")]);
    let result = run(&mut host(file, &[SLEEPER, SLEEPER]));
    let waited: u64 = result
        .vcpus
        .iter()
        .map(|row| row.longest_wake_wait_cycles)
        .max()
        .unwrap();
    assert!(waited > 0 && waited < 200, "{waited}");
}

#[test]
fn an_idle_cpu_takes_one_from_the_longest_queue() {
    // Two on CPU 0, of which g0 ends; one on CPU 1.
    let file = file(
        2,
        us(1000 * SLICE),
        FREE,
        FAIR,
        &[(1, ""), (1, ""), (1, "")],
    );
    let result = run(&mut host(file, &[LEAVES, LEAVES, ENDS]));
    let moved: u64 = result.vcpus.iter().map(|row| row.migrations).sum();
    assert!(moved > 0);
    assert_eq!(result.guests[2].code, Some(0));
}

#[test]
fn a_cap_holds_though_a_cpu_is_idle() {
    let file = file(1, us(300 * SLICE), FREE, "", &[(1, "cap_percent = 40")]);
    let result = run(&mut host(file, &[LOOP]));
    let row = first(&result, 0);
    let share = row.run_cycles as f64 / (300 * SLICE) as f64;
    assert!((share - 0.4).abs() < 0.02, "{row:?}");
    assert_eq!(result.cpus[0].idle_cycles, row.steal_cycles);
}

#[test]
fn who_wakes_is_boosted_and_runs_at_once() {
    let file = file(
        1,
        us(100 * SLICE),
        "switch_cycles = 50",
        "",
        &[(1, ""), (1, "")],
    );
    let result = run(&mut host(file, &[LOOP, SLEEPER]));
    let sleeper = first(&result, 1);
    assert!(sleeper.wakes >= 28, "{sleeper:?}");
    assert_eq!(sleeper.longest_wake_wait_cycles, 50);
    assert_eq!(sleeper.wake_wait_cycles, 50 * sleeper.wakes);
    assert!(sleeper.run_cycles < 2 * SLICE, "{sleeper:?}");
}

#[test]
fn who_is_alone_wakes_on_its_timer_without_a_change() {
    let file = file(1, us(100 * SLICE), "switch_cycles = 50", "", &[(1, "")]);
    let result = run(&mut host(file, &[SLEEPER]));
    let row = first(&result, 0);
    // 7 instructions, then periods of 10000 cycles and the 3 instructions up to the store of the next timer.
    assert_eq!(row.longest_wake_wait_cycles, 0);
    assert_eq!(row.switches, 1);
    assert_eq!(row.blocked_cycles, result.cpus[0].idle_cycles);
    assert!(row.blocked_cycles > 99 * SLICE, "{row:?}");
}

#[test]
fn a_guest_that_sleeps_for_ever_is_over_and_the_others_go_on() {
    let file = file(1, us(10 * SLICE), FREE, "", &[(1, ""), (1, "")]);
    let result = run(&mut host(file, &["wfi", LOOP]));
    assert_eq!(result.guests[0].state, "exited");
    assert!(
        result.guests[0].message.contains("nothing can ever happen"),
        "{:?}",
        result.guests[0]
    );
    assert_eq!(result.guests[1].state, "running");
    assert!(first(&result, 1).run_cycles > 9 * SLICE);
}

#[test]
fn a_run_ends_with_the_guests_that_it_waits_for() {
    let file = file(
        2,
        us(1000 * SLICE),
        FREE,
        "",
        &[(1, "background = true"), (1, "")],
    );
    let result = run(&mut host(file, &[LOOP, ENDS]));
    assert_eq!(result.guests[0].state, "running");
    assert_eq!(result.guests[1].code, Some(0));
    assert!(result.cycles < 1000 * SLICE);
}

#[test]
fn a_guest_that_fails_leaves_the_others_as_they_were() {
    let beside = |program: &str, cpus| -> VmResult {
        let file = file(cpus, us(1000 * SLICE), FREE, "", &[(1, ""), (1, "")]);
        run(&mut host(file, &[program, ENDS]))
    };
    let failed = beside(FAILS, 1);
    assert_eq!(failed.guests[0].state, "failed");
    assert!(
        failed.guests[0].message.contains("environment call"),
        "{:?}",
        failed.guests[0]
    );
    assert_eq!(failed.guests[1].code, Some(0));
    // On CPUs of their own, nobody sees anything of the other.
    let own = beside(FAILS, 2);
    assert_eq!(own.guests[0].state, "failed");
    let with_another = beside(LOOP, 2);
    assert_eq!(own.guests[1], with_another.guests[1]);
    // On one CPU, an end is an end: whatever its reason.
    let left = beside(LEAVES, 1);
    assert_eq!(left.guests[0].state, "exited");
    let over = [&failed, &left].map(|it| it.guests[0].over_cycle.unwrap());
    // It retires two instructions more, and the store, which the call does not.
    assert_eq!(over[1] - over[0], 3);
    assert_eq!(failed.guests[1].instructions, left.guests[1].instructions);
}

#[test]
fn a_killed_guest_leaves_the_others_as_they_were() {
    let run_with = |kill: bool| {
        let file = file(2, us(1000 * SLICE), FREE, "", &[(1, ""), (1, "")]);
        let mut host = host(file, &[LOOP, ENDS]);
        until(&mut host, 5 * SLICE);
        if kill {
            host.kill(0);
        }
        while host.guests[1].over.is_none() {
            host.turn().unwrap();
        }
        host.result().unwrap()
    };
    let (killed, other) = (run_with(true), run_with(false));
    assert_eq!(killed.guests[0].over_cycle, Some(5 * SLICE));
    assert_eq!(killed.guests[0].state, "exited");
    assert_eq!(killed.guests[1], other.guests[1]);
}

#[test]
fn the_same_file_gives_the_same_result_however_it_is_stepped() {
    let guests = [(3, "weight = 100"), (2, "cap_percent = 150"), (1, "")];
    let make = || {
        let file = file(
            2,
            us(97 * SLICE),
            "",
            "[helping]\npolicy = \"published\"",
            &guests,
        );
        host(file, &[LOOP, YIELDS, SLEEPER])
    };
    let at_once = serde_json::to_string(&run(&mut make())).unwrap();
    let mut stepped = make();
    while stepped.turn().unwrap() == Progress::Running {
        // Looking changes nothing.
        stepped.result().unwrap();
    }
    let stepped = serde_json::to_string(&run(&mut stepped)).unwrap();
    assert_eq!(at_once, stepped);
}

#[test]
fn a_call_to_yield_gives_the_cpu_away_if_there_is_somebody() {
    let with = |policy: &str| {
        let helping = format!("[helping]\npolicy = \"{policy}\"");
        let costs = "switch_cycles = 10\ncall_cycles = 5";
        let file = file(1, us(SLICE), costs, &helping, &[(1, ""), (1, "")]);
        run(&mut host(file, &[YIELDS, LOOP]))
    };
    let nobody = with("nobody");
    // Three instructions, then a loop of two and the call, which takes 1 + 5.
    let yields = first(&nobody, 0).yields;
    assert_eq!(
        yields,
        (SLICE - 10 - 3).div_ceil(8),
        "{:?}",
        first(&nobody, 0)
    );
    assert_eq!(first(&nobody, 1).run_cycles, 0);
    let next = with("next");
    assert_eq!(first(&next, 0).yields, 1);
    assert_eq!(first(&next, 0).run_cycles, 5);
    assert_eq!(first(&next, 1).run_cycles, SLICE - 5 - 2 * 10);
    // Nobody of the caller's guest waits.
    assert_eq!(with("published").vcpus, next.vcpus);
}

#[test]
fn who_is_helped_runs_for_the_rest_of_the_callers_slice() {
    let guests = [(2, ""), (1, "")];
    let file = file(
        1,
        us(2 * SLICE),
        FREE,
        "[helping]\npolicy = \"published\"",
        &guests,
    );
    // The first hart calls, the second counts.
    let program = format!("bnez a0, loop\n{}\n{LOOP}", YIELDS.replace("loop", "again"));
    let result = run(&mut host(file, &[&program, LOOP]));
    let rows: Vec<_> = result
        .vcpus
        .iter()
        .map(|row| (row.run_cycles, row.yields, row.helped))
        .collect();
    assert_eq!(rows, [(6, 1, 0), (SLICE - 6, 0, 1), (SLICE, 0, 0)]);
}

#[test]
fn cycles_of_waiting_for_a_lock_are_those_between_its_probes() {
    // Probes of a lock at address 64: acquire, then 300 cycles, then acquired.
    let program = "li t0, 64
        slti x0, t0, 5
        li t1, 150
        wait: addi t1, t1, -1
        bnez t1, wait
        slti x0, t0, 6
        loop: j loop";
    let file = file(1, us(2 * SLICE), FREE, "", &[(1, "")]);
    let result = run(&mut host(file, &[program]));
    assert_eq!(first(&result, 0).spinning_cycles, 301);
    let lock = &result.guests[0].locks[0];
    assert_eq!((lock.acquisitions, lock.wait_sum_cycles), (1, 301));
}

#[test]
fn time_that_is_lost_or_counted_twice_is_found() {
    let make = || {
        let file = file(1, us(10 * SLICE), FREE, "", &[(1, ""), (1, "")]);
        let mut host = host(file, &[LOOP, LOOP]);
        while host.turn().unwrap() == Progress::Running {}
        host
    };
    assert!(make().result().is_ok());
    let mut host = make();
    host.cpus[0].counts.idle += 1;
    assert!(
        host.result()
            .unwrap_err()
            .to_string()
            .contains("time is lost")
    );
    let mut host = make();
    host.vcpus[0].counts.run -= 1;
    assert!(host.result().is_err());
    let mut host = make();
    host.vcpus[1].counts.runnable += 1;
    assert!(host.result().is_err());
}
