//! How programs end: what is said of a guest that nothing can help (the cause, where, the
//! instruction, the registers), limits, and the host-target interface.

use loiter_isa::Op;
use loiter_sim::{Error, ExitReason};

use crate::handmade::{A0, Guest, T0, T1};
use crate::machines::{Machine, try_run};

const MACHINES: [Machine; 4] = [Machine::Virt, Machine::T1, Machine::T2, Machine::Smt8];
const MTVEC: u16 = 0x305;
const NOWHERE: i64 = 0x0800_0000;

/// The message about a guest whose first hart runs `body`, after a function `well`.
fn message(machine: Machine, body: impl FnOnce(&mut Guest)) -> String {
    let mut guest = Guest::new(&[0]);
    guest.role(0);
    guest.asm.symbol("well");
    guest.asm.li(A0, 0x1234_5678_9abc_def0);
    guest.asm.symbol("ill");
    guest.asm.mv(T1, T1);
    body(&mut guest);
    guest.sleep_for_ever();
    match try_run(&machine.request(1), &guest.elf()) {
        Err(Error::Guest(message)) => message,
        Err(other) => panic!("not the guest's error: {other}"),
        Ok(result) => panic!("no error: {}", result.exit.message),
    }
}

fn assert_says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is missing in\n{message}");
    }
}

#[test]
fn a_trap_without_a_handler_is_explained() {
    for machine in MACHINES {
        let text = message(machine, |guest| {
            guest.asm.li(T0, NOWHERE);
            guest.asm.i(Op::Ld, T1, T0, 24);
        });
        assert_says(
            &text,
            &[
                "hart 0: load access fault (value 0x8000018) at pc 0x8000",
                " <ill+0xc> has no handler (the trap vector points to 0x0, which is not memory)",
                " after cycle ",
                ": ld t1,24(t0)\n",
                "  t0 0000000008000000",
                "  a0 123456789abcdef0",
                "zero 0000000000000000",
                " t6 ",
            ],
        );
    }
}

#[test]
fn each_cause_has_its_words() {
    type Body = fn(&mut Guest);
    let cases: [(Body, &[&str]); 7] = [
        (
            |guest| guest.asm.word(0xffff_ffff),
            &[
                "illegal instruction (value 0xffffffff)",
                ": .4byte 0xffffffff\n",
            ],
        ),
        (
            |guest| guest.asm.bare(Op::Ecall),
            &["environment call from machine mode", ": ecall\n"],
        ),
        (
            |guest| guest.asm.half(0x9002),
            &["breakpoint (value 0x8000", ": c.ebreak\n"],
        ),
        (
            |guest| {
                guest.asm.li(T0, NOWHERE);
                guest.asm.s(Op::Sw, T1, 0, T0);
            },
            &[
                "store/atomic access fault (value 0x8000000)",
                ": sw t1,0(t0)\n",
            ],
        ),
        (
            |guest| {
                guest.asm.li(T0, NOWHERE + 1);
                guest.asm.r(Op::AmoaddW, T1, T0, T1);
            },
            &[
                "store/atomic address misaligned (value 0x8000001)",
                ": amoadd.w t1,t1,(t0)\n",
            ],
        ),
        (
            |guest| {
                guest.asm.li(T0, NOWHERE);
                guest.asm.i(Op::Jalr, 0, T0, 0);
            },
            &[
                "instruction access fault (value 0x8000000) at pc 0x8000000 has no handler",
                "0x8000000: no memory here\n",
            ],
        ),
        (
            // The last line of all.
            |guest| {
                guest.asm.li(T0, -2);
                guest.asm.i(Op::Jalr, 0, T0, 0);
            },
            &["instruction access fault (value 0xfffffffffffffffe) at pc 0xfffffffffffffffe"],
        ),
    ];
    for machine in MACHINES {
        for (body, parts) in cases {
            assert_says(&message(machine, body), parts);
        }
    }
}

#[test]
fn the_vector_that_leads_nowhere_is_named() {
    for machine in MACHINES {
        let text = message(machine, |guest| {
            guest.asm.li(T0, NOWHERE);
            guest.asm.csrw(MTVEC, T0);
            guest.asm.bare(Op::Ecall);
        });
        assert_says(
            &text,
            &["the trap vector points to 0x8000000, which is not memory"],
        );
    }
}

#[test]
fn a_handler_that_traps_at_once_does_not_escape_the_limit() {
    for machine in MACHINES {
        let mut guest = Guest::new(&[0]);
        guest.role(0);
        let handler = guest.asm.label();
        guest.asm.la(T0, handler);
        guest.asm.csrw(MTVEC, T0);
        guest.asm.align(4);
        guest.asm.bind(handler);
        guest.asm.half(0);
        let mut request = machine.request(1);
        request.max_cycles = Some(100_000);
        let result = try_run(&request, &guest.elf()).expect("no error");
        assert_eq!(result.exit.reason, ExitReason::MaxCycles);
        assert!((100_000..110_000).contains(&result.cycles));
    }
}

#[test]
fn a_run_that_is_told_to_stop_stops() {
    for machine in MACHINES {
        let mut guest = Guest::new(&[0]);
        guest.role(0);
        let again = guest.asm.bound();
        guest.asm.j(again);
        let mut request = machine.request(1);
        request.max_cycles = None;
        let stopped = loiter_sim::run(&request, &guest.elf(), &mut |progress| {
            assert!(progress.cycle > 0 && progress.instructions > 0);
            false
        });
        assert!(matches!(stopped, Err(Error::Interrupted)));
    }
}

/// Stores `value` to `tohost`, from where the program must not continue.
fn tohost_program(value: i64) -> Vec<u8> {
    let mut guest = Guest::new(&[0]);
    guest.role(0);
    let word = guest.asm.label();
    guest.asm.la(T0, word);
    guest.asm.li(T1, value);
    guest.asm.s(Op::Sd, T1, 0, T0);
    guest.sleep_for_ever();
    guest.asm.align(8);
    guest.asm.symbol("tohost");
    guest.asm.bind(word);
    guest.asm.bytes(&[0; 8]);
    guest.elf()
}

#[test]
fn a_store_to_tohost_ends_the_program_with_its_code() {
    for machine in MACHINES {
        for code in [0, 1, 42] {
            let elf = tohost_program(code << 1 | 1);
            let result = try_run(&machine.request(1), &elf).expect("no error");
            assert_eq!(
                result.exit.reason,
                ExitReason::Htif,
                "{}",
                result.exit.message
            );
            assert_eq!(i64::from(result.exit.code), code);
        }
    }
}

#[test]
fn nothing_runs_after_the_store_that_ends_the_program() {
    let mut retired = Vec::new();
    for machine in MACHINES {
        let mut guest = Guest::new(&[0]);
        guest.role(0);
        guest.asm.li(T0, 0x10_0000);
        guest.asm.li(T1, 7 << 16 | 0x3333);
        guest.asm.s(Op::Sw, T1, 0, T0);
        let again = guest.asm.bound();
        guest.asm.j(again);
        let mut request = machine.request(1);
        if machine != Machine::Virt {
            // The other contexts' instructions would count too.
            request.set.push("core.contexts=1".into());
        }
        if matches!(machine, Machine::T1 | Machine::T2) {
            request.set.push("core.pipes=1".into());
        }
        if machine == Machine::Smt8 {
            request.set.push("core.fetch_contexts=1".into());
        }
        let result = try_run(&request, &guest.elf()).expect("no error");
        assert_eq!(result.exit.reason, ExitReason::Finisher);
        assert_eq!(result.exit.code, 7);
        retired.push(result.instructions);
    }
    assert!(
        retired.iter().all(|&count| count == retired[0]),
        "{retired:?}"
    );
}
