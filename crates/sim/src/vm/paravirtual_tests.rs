//! Closed forms: loops of pauses, switches put off, kicks, and steal time that guests see.

use loiter_hart::Stop;
use loiter_isa::Width;
use loiter_machine::RAM_BASE;
use loiter_types::{HartId, PhysAddr};

use super::host::{Host, Progress};
use super::testing::{CLOCK_MHZ, FREE, LOOP, SLICE, file, first, host, run, system};

/// Registers of a call's result.
const A0: usize = 10;
const S1: usize = 9;

/// a7 is the extension "yield".
const CALLS: &str = "lui a7, 0x8595
    addi a7, a7, -956";

/// To user mode, behind the `mret`.
const TO_USER: &str = "li t0, -1
    csrw 0x3b0, t0
    li t0, 0x1f
    csrw 0x3a0, t0
    auipc t0, 0
    addi t0, t0, 16
    csrw 0x341, t0
    mret";

/// Pauses for ever.
const PAUSES: &str = "loop: pause
    j loop";

fn us(cycles: u64) -> u64 {
    cycles / CLOCK_MHZ
}

fn until(host: &mut Host, cycle: u64) {
    while host.now.0 < cycle {
        assert_eq!(host.turn().unwrap(), Progress::Running);
    }
    assert_eq!(host.now.0, cycle, "turns end there");
}

/// Executes `before`, then `code` in user mode.
fn in_user_mode(before: &str, code: &str) -> String {
    format!("{before}\n{TO_USER}\n{code}")
}

#[test]
fn a_loop_of_pauses_goes_to_the_host_when_its_window_is_over() {
    let with = |sections: &str, program: &str| {
        let sections = format!("[helping]\npolicy = \"next\"\n{sections}");
        let file = file(1, us(SLICE), FREE, &sections, &[(1, ""), (1, "")]);
        let result = run(&mut host(file, &[program, LOOP]));
        let row = first(&result, 0);
        (row.pause_loops, row.run_cycles)
    };
    let found = "detection = \"pause_loop\"\nwindow_cycles = 250";
    // A pause lasts to the end of a turn of 100 cycles. They are over at 1, 102, 202, and 302.
    assert_eq!(with(found, PAUSES), (1, 302));
    assert_eq!(with("", PAUSES), (0, SLICE));
    let wider = found.replace("250", "300");
    assert_eq!(with(&wider, PAUSES), (1, 302));
    let wider = found.replace("250", "301");
    assert_eq!(with(&wider, PAUSES), (1, 402));
    // Only in the kernel.
    assert_eq!(with(found, &in_user_mode("", PAUSES)), (0, SLICE));
    // Each pause comes 43 cycles after the last one was over.
    let slow = "loop: pause
        li s3, 20
        work: addi s3, s3, -1
        bnez s3, work
        j loop";
    let gap = |cycles: u64| format!("{found}\ngap_cycles = {cycles}");
    assert_eq!(with(&gap(43), slow).0, 1);
    assert_eq!(with(&gap(42), slow), (0, SLICE));
    // To watch a line is to pause.
    let watches = "auipc a1, 0
        lr.d t0, (a1)
        wrs.nto
        loop: j loop";
    assert_eq!(with(found, watches), (1, 300));
}

#[test]
fn a_nap_that_is_not_over_in_time_traps_to_the_host() {
    let with = |slices: u64, sections: &str, program: &str| {
        let sections = format!("[helping]\npolicy = \"next\"\n{sections}");
        let file = file(1, us(slices * SLICE), FREE, &sections, &[(1, ""), (1, "")]);
        let mut host = host(file, &[program, LOOP]);
        let row = first(&run(&mut host), 0).clone();
        (row.wrs_traps, row.run_cycles, host.system.harts[0].regs[S1])
    };
    let found = "detection = \"wrs_trap\"\nwindow_cycles = 250";
    let naps = "auipc a1, 0
        lr.d t0, (a1)
        wrs.nto
        li s1, 7
        loop: j loop";
    // It naps from 3 on, and is looked at in cycles 100, 200, and 300.
    assert_eq!(with(1, found, naps), (1, 300, 0));
    let wider = found.replace("250", "296");
    assert_eq!(with(1, &wider, naps), (1, 300, 0));
    let wider = found.replace("250", "297");
    assert_eq!(with(1, &wider, naps), (1, 400, 0));
    // After another one's slice it goes on behind the nap. Without the trap it naps for good.
    assert_eq!(with(2, found, naps), (1, SLICE, 7));
    assert_eq!(with(2, "", naps), (0, SLICE, 0));
    // In user mode, too.
    assert_eq!(with(2, found, &in_user_mode("", naps)).0, 1);
    // Pauses, and naps that end by themselves, do not trap.
    assert_eq!(with(2, found, PAUSES).0, 0);
    assert_eq!(with(2, found, &naps.replace("nto", "sto")), (0, SLICE, 7));
}

#[test]
fn a_loop_begins_anew_with_each_entry() {
    let sections = "[helping]\npolicy = \"next\"\ndetection = \"pause_loop\"\nwindow_cycles = 2999\ngap_cycles = 4000";
    let file = file(1, us(8 * SLICE), FREE, sections, &[(1, ""), (1, "")]);
    let result = run(&mut host(file, &[PAUSES, LOOP]));
    let row = first(&result, 0);
    assert_eq!((row.pause_loops, row.run_cycles), (0, 4 * SLICE));
}

#[test]
fn a_switch_is_put_off_while_the_guest_is_in_its_kernel() {
    let with = |most_us: u64, programs: [&str; 2]| {
        let sections = format!("[helping]\npostpone_us = {most_us}");
        let file = file(1, us(2 * SLICE), FREE, &sections, &[(1, ""), (1, "")]);
        let result = run(&mut host(file, &programs));
        let row = first(&result, 0);
        let others = first(&result, 1).run_cycles;
        assert_eq!(row.run_cycles + others, 2 * SLICE);
        (row.postponements, row.postponed_cycles, row.run_cycles)
    };
    // In its kernel for 1 + 2 * 1550 + 8 instructions: the third look finds that it has left.
    let kernel = "li s0, 1550
        stay: addi s0, s0, -1
        bnez s0, stay";
    let leaves = in_user_mode(kernel, LOOP);
    let user = in_user_mode("", LOOP);
    assert_eq!(with(20, [&leaves, &user]), (1, 150, SLICE + 150));
    assert_eq!(with(10, [&leaves, &user]), (1, 100, SLICE + 100));
    assert_eq!(with(0, [&leaves, &user]), (0, 0, SLICE));
    // Who stays in its kernel keeps its CPU for as long as is allowed.
    assert_eq!(with(20, [LOOP, &user]), (1, 200, SLICE + 200));
    assert_eq!(with(20, [&user, &user]), (0, 0, SLICE));
}

#[test]
fn nothing_is_put_off_for_nobody() {
    let sections = "[helping]\npostpone_us = 20";
    let file = file(1, us(5 * SLICE), FREE, sections, &[(1, "")]);
    let result = run(&mut host(file, &[LOOP]));
    assert_eq!(first(&result, 0).postponements, 0);
}

/// Hart 0 does one thing, hart 1 another.
fn two_harts(zero: &str, one: &str) -> String {
    format!("{CALLS}\nbnez a0, one\n{zero}\nend: j end\none: nop\n{one}\nstop: j stop")
}

#[test]
fn who_waits_for_a_kick_sleeps_until_then() {
    let waits = "li a6, 1
        ecall";
    // Behind 1000 cycles.
    let kicks = "li s0, 500
        work: addi s0, s0, -1
        bnez s0, work
        li a6, 2
        li a0, 0
        ecall";
    let file = file(2, us(2 * SLICE), FREE, "", &[(2, "")]);
    let result = run(&mut host(file, &[&two_harts(waits, kicks)]));
    let row = first(&result, 0);
    assert_eq!((row.kick_waits, row.kicks, row.wakes), (1, 1, 1));
    // From the end of its call to that of the turn in which hart 1 kicks it, in cycle 1008.
    assert_eq!(row.blocked_cycles, 1100 - 5);
    assert_eq!(result.vcpus[1].blocked_cycles, 0);
}

#[test]
fn a_kick_that_comes_before_the_wait_ends_it() {
    // Hart 0 kicks itself twice, then waits twice.
    let both = "li a6, 2
        li a0, 0
        ecall
        li a0, 0
        ecall
        li a6, 1
        ecall
        addi s1, s1, 1
        ecall
        addi s1, s1, 1";
    let file = file(2, us(SLICE), FREE, "", &[(2, "")]);
    let mut host = host(file, &[&two_harts(both, "")]);
    let result = run(&mut host);
    let row = first(&result, 0);
    assert_eq!((row.kick_waits, row.kicks, row.wakes), (2, 2, 0));
    assert_eq!(host.system.harts[0].regs[9], 1);
    assert_eq!(row.blocked_cycles, SLICE - 12);
}

#[test]
fn an_interrupt_ends_a_wait_too() {
    // The software interrupt of hart 0 is enabled in mie, not in mstatus.
    let waits = "li t0, 8
        csrw 0x304, t0
        li a6, 1
        ecall
        li s1, 7";
    let interrupts = "lui t0, 0x2000
        li t1, 1
        sw t1, 0(t0)";
    let file = file(2, us(SLICE), FREE, "", &[(2, "")]);
    let mut host = host(file, &[&two_harts(waits, interrupts)]);
    let result = run(&mut host);
    assert_eq!(first(&result, 0).wakes, 1);
    assert_eq!(host.system.harts[0].regs[9], 7);
}

#[test]
fn who_kicks_a_hart_that_there_is_not_is_told() {
    let kicks = "li a6, 2
        li a0, 2
        ecall";
    let file = file(2, us(SLICE), FREE, "", &[(2, ""), (1, "")]);
    let mut host = host(file, &[&two_harts(kicks, ""), LOOP]);
    run(&mut host);
    assert_eq!(host.system.harts[0].regs[A0] as i64, -3);
}

/// Registers 64 bytes for steal time, then counts: `a0` and flags `a2` as the lines say.
fn sees_steal_time(lines: &str) -> String {
    let page = "auipc t6, 0
        lui t5, 1
        add a0, t6, t5
        li a1, 0
        li a2, 0";
    let extension = "lui a7, 0x535
        addi a7, a7, 0x441
        li a6, 0";
    format!("{page}\n{extension}\n{lines}\necall\n{LOOP}")
}

/// Sequence, flags, nanoseconds, and whether it has lost its CPU.
fn seen(host: &Host) -> [u64; 4] {
    let ram = &host.system.machine.ram;
    let fields = [(0, Width::W), (4, Width::W), (8, Width::D), (16, Width::B)];
    fields.map(|(at, width)| ram.read(PhysAddr(RAM_BASE + 4096 + at), width).unwrap())
}

const NS_PER_CYCLE: u64 = 1000 / CLOCK_MHZ;

#[test]
fn a_guest_sees_the_steal_time_that_its_host_counts() {
    let file = file(1, us(20 * SLICE), FREE, "", &[(1, ""), (1, "")]);
    let mut host = host(file, &[&sees_steal_time(""), LOOP]);
    for turn in 1..9 {
        // At the end of its slice, and shortly after.
        until(&mut host, (2 * turn - 1) * SLICE);
        let steal_ns = (turn - 1) * SLICE * NS_PER_CYCLE;
        assert_eq!(seen(&host), [2 * (turn - 1), 0, steal_ns, 0]);
        let row = host.result().unwrap().vcpus[0].clone();
        assert_eq!(row.steal_cycles * NS_PER_CYCLE, steal_ns);
        until(&mut host, (2 * turn - 1) * SLICE + 100);
        assert_eq!(seen(&host), [2 * (turn - 1), 0, steal_ns, 1]);
    }
}

/// A kernel asks when it boots, which it may have done and been kept as a snapshot before.
#[test]
fn a_guest_that_asked_before_it_came_to_its_host_sees_its_steal_time() {
    let mut asks = system(1, &sees_steal_time(""));
    asks.harts[0].is_virtual = true;
    let burst = asks.burst(0, 100, None);
    let Stop::Called(call) = burst.stop else {
        panic!("it calls its host, and does not stop by {:?}", burst.stop);
    };
    let (pc, retired) = (asks.harts[0].pc, asks.harts[0].retired);
    asks.serves_alone(HartId(0), call);
    assert_eq!(asks.harts[0].regs[A0] as i64, 0);
    assert_eq!(
        (asks.harts[0].pc, asks.harts[0].retired),
        (pc + 4, retired + 1),
        "it goes on behind the call"
    );
    let saved = asks.harts[0].save();
    asks.harts[0].steal_time = None;
    asks.harts[0].restore(&saved).expect("a hart");
    let file = file(1, us(20 * SLICE), FREE, "", &[(1, ""), (1, "")]);
    let systems = vec![(asks, false), (system(1, LOOP), false)];
    let mut host = Host::new(file, systems, None).expect("guests that fit");
    for turn in 1..4 {
        until(&mut host, (2 * turn - 1) * SLICE);
        let steal_ns = (turn - 1) * SLICE * NS_PER_CYCLE;
        // It is told of when it begins, too, not only when it comes back.
        assert_eq!(seen(&host), [2 * turn, 0, steal_ns, 0]);
    }
}

#[test]
fn steal_time_counts_the_wait_behind_a_wake_up_and_no_sleep() {
    // It sees its steal time from its second slice on, so what was before does not count.
    let late = sees_steal_time("li s3, 1600\nwait: addi s3, s3, -1\nbnez s3, wait");
    let file = file(1, us(20 * SLICE), FREE, "", &[(1, ""), (1, "")]);
    let mut host = host(file, &[&late, LOOP]);
    until(&mut host, 5 * SLICE);
    let steal = host.result().unwrap().vcpus[0].steal_cycles;
    assert_eq!(steal, 2 * SLICE);
    assert_eq!(seen(&host), [2, 0, SLICE * NS_PER_CYCLE, 0]);
}

#[test]
fn steal_time_is_shown_only_where_it_can_be() {
    let with = |lines: &str| {
        let file = file(1, us(4 * SLICE), FREE, "", &[(1, ""), (1, "")]);
        let mut host = host(file, &[&sees_steal_time(lines), LOOP]);
        run(&mut host);
        let error = host.system.harts[0].regs[A0] as i64;
        (error, seen(&host)[0])
    };
    assert_eq!(with(""), (0, 2));
    assert_eq!(with("addi a0, a0, 32"), (-3, 0));
    assert_eq!(with("li a2, 1"), (-3, 0));
    assert_eq!(with("li a1, 1"), (-5, 0));
    // Beyond the megabyte of memory, and below it.
    assert_eq!(with("lui t5, 0x100\nadd a0, t6, t5"), (-5, 0));
    assert_eq!(with("li a0, 0"), (-5, 0));
    // Shown, then no more: what is left is that of the call.
    let no_more = "ecall\nli a0, -1\nli a1, -1";
    assert_eq!(with(no_more), (0, 0));
    assert_eq!(with("li a6, 1"), (-2, 0));
}
