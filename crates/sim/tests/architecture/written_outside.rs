//! What is put into memory between two instructions of all harts is what they find there next: who polls it, who naps on
//! its line, and who executes it.

use std::time::Duration;

use loiter_isa::Op;
use loiter_sim::{Error, Limits, Session, Status};

use crate::generator::asm::GP;
use crate::handmade::{A0, DATA, FREE, Guest, T0, T1};
use crate::machines::{MAX_CYCLES, Machine};

/// Machines, how many cores, and the harts that poll, nap and execute.
const PLACES: [(Machine, usize, [usize; 3]); 9] = [
    (Machine::Virt, 3, [0, 1, 2]),
    (Machine::T1, 1, [0, 1, 2]),
    (Machine::T1, 3, [0, 4, 8]),
    (Machine::T2, 1, [0, 4, 1]),
    (Machine::Smt8, 1, [0, 1, 2]),
    (Machine::Smt8, 3, [0, 8, 16]),
    (Machine::InOrder, 3, [0, 4, 8]),
    (Machine::PCore, 2, [0, 1, 2]),
    (Machine::Knl, 2, [0, 1, 4]),
];
const POLLED: i32 = FREE;
const NAPPED_ON: i32 = FREE + 256;
/// Offset from `gp` of where harts count that have found what they waited for.
const FOUND: i32 = FREE + 512;
/// By then all wait, whatever the machine.
const WAITING_CYCLE: u64 = 50_000;
const FOREVER: Duration = Duration::from_secs(3600);

/// Three harts wait, each for the second value of something of its own; the last one to have it ends the run.
fn program(harts: &[usize]) -> Vec<u8> {
    let mut guest = Guest::new(harts);
    for (name, offset) in [("polled", POLLED), ("napped_on", NAPPED_ON)] {
        let address = DATA + offset.unsigned_abs() as u64;
        guest.asm.symbols.push((name.into(), address));
    }
    guest.role(0);
    let again = guest.asm.bound();
    guest.asm.i(Op::Ld, T1, GP, POLLED);
    guest.asm.branch(Op::Beq, T1, 0, again);
    end(&mut guest);
    guest.role(1);
    guest.asm.i(Op::Addi, T0, GP, NAPPED_ON);
    let (found, asleep) = (guest.asm.label(), guest.asm.bound());
    guest.asm.r(Op::LrD, T1, T0, 0);
    guest.asm.branch(Op::Bne, T1, 0, found);
    guest.asm.bare(Op::WrsNto);
    guest.asm.j(asleep);
    guest.asm.bind(found);
    end(&mut guest);
    guest.role(2);
    let again = guest.asm.bound();
    guest.asm.symbol("executed");
    guest.asm.i(Op::Addi, T1, 0, 0);
    guest.asm.branch(Op::Beq, T1, 0, again);
    end(&mut guest);
    guest.elf()
}

/// Reports what was found.
fn end(guest: &mut Guest) {
    guest.report(T1);
    guest.address(T0, FOUND);
    guest.asm.li(A0, 1);
    guest.asm.r(Op::AmoaddD, A0, T0, A0);
    guest.asm.li(T1, 2);
    let others = guest.asm.label();
    guest.asm.branch(Op::Bne, A0, T1, others);
    guest.pass();
    guest.asm.bind(others);
    guest.sleep_for_ever();
}

fn waiting((machine, cores, harts): (Machine, usize, [usize; 3])) -> Session {
    let elf = program(&harts);
    let mut session = Session::program(&machine.request(cores), &elf).expect("a session");
    let limits = Limits {
        cycle: Some(WAITING_CYCLE),
        ..Limits::default()
    };
    let status = session.step(FOREVER, &limits).expect("no unhandled trap");
    assert!(matches!(status, Status::Reached), "{machine:?}: {status:?}");
    session
}

#[test]
fn harts_find_what_is_written_from_outside() {
    // `addi t1, zero, 11`
    let instruction = 0x00b0_0313_u32;
    for place in PLACES {
        let mut session = waiting(place);
        let before = session.instructions();
        session
            .write_symbol("polled", &7_u64.to_le_bytes())
            .expect("RAM");
        session
            .write_symbol("napped_on", &9_u64.to_le_bytes())
            .expect("RAM");
        session
            .write_symbol("executed", &instruction.to_le_bytes())
            .expect("RAM");
        assert_eq!(session.instructions(), before, "{place:?}");
        let limits = Limits {
            cycle: Some(MAX_CYCLES),
            ..Limits::default()
        };
        let status = session.step(FOREVER, &limits).expect("no unhandled trap");
        assert!(
            matches!(&status, Status::Ended(exit) if exit.code == 0),
            "{place:?}: {status:?}"
        );
        let (_, _, harts) = place;
        let reports = session.statistics().probes.reports;
        for (hart, value) in harts.into_iter().zip([7, 9, 11]) {
            let mut of_hart = reports.iter().filter(|it| usize::from(it.hart) == hart);
            assert_eq!(of_hart.next().map(|it| it.value), Some(value), "{place:?}");
        }
    }
}

#[test]
fn what_is_written_from_outside_needs_a_symbol_and_memory() {
    let mut session = waiting(PLACES[1]);
    for (name, data, said) in [
        ("poled", 8, "poled: not a symbol of the program"),
        (
            "polled",
            1 << 30,
            "polled: no hart has its 1073741824 bytes",
        ),
    ] {
        let error = session.write_symbol(name, &vec![0; data]).err();
        assert!(
            matches!(&error, Some(Error::User(message)) if message.starts_with(said)),
            "{error:?}"
        );
    }
}
