//! Locks of a session that stops and goes on: who waits by then, and what a snapshot keeps.

use loiter_sim::{Limits, LockRow, Session, Skipping, Status};

use super::{LONG_ROUNDS, PAIRS, contends_once, requested_of_two};
use crate::machines::Machine;
use crate::snapshots::{FOREVER, request};

fn ended_locks(session: &mut Session) -> Vec<LockRow> {
    let status = session.step(FOREVER, &Limits::default());
    let Ok(Status::Ended(exit)) = status else {
        panic!("{status:?}")
    };
    assert_eq!(exit.code, 0, "{}", exit.message);
    let mut rows = session.statistics().probes.locks;
    rows.sort_by_key(|row| (row.hart, row.site));
    rows
}

fn go_on_to(session: &mut Session, cycle: u64) {
    let limits = Limits {
        cycle: Some(cycle),
        ..Limits::default()
    };
    let status = session.step(FOREVER, &limits).expect("no trap");
    assert!(matches!(status, Status::Reached), "{status:?}");
}

/// For how long the only one of `rows` waits that has not got what it waits for, as `waiter` says later.
fn still_waits(rows: &[LockRow], waiter: &LockRow) -> u64 {
    let waits: Vec<&LockRow> = rows.iter().filter(|row| row.waiting > 0).collect();
    let [row] = waits[..] else { panic!("{rows:?}") };
    let found = (row.hart, row.lock, row.site, row.acquisitions, row.waiting);
    assert_eq!(found, (waiter.hart, waiter.lock, waiter.site, 0, 1));
    assert_eq!(row.waiting_max_cycles, row.waiting_sum_cycles);
    row.waiting_sum_cycles
}

/// A wait and a hold that have begun before a snapshot are as long as without it; what had ended by then does not count.
#[test]
fn who_has_a_lock_and_who_waits_is_in_a_snapshot() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = |name| folder.path().join(name).display().to_string();
    let (program, snapshot) = (place("program.elf"), place("s.snapshot"));
    for (machine, other) in [(Machine::Virt, 1)].into_iter().chain(PAIRS) {
        let elf = contends_once(other, LONG_ROUNDS);
        std::fs::write(&program, &elf).expect("a place for the program");
        let mut asked = requested_of_two(machine);
        asked.program.clone_from(&program);
        let begun = || {
            let mut session = Session::program(&asked, &elf).expect("a session");
            session.begin_lock_stats().expect("a lock function");
            session
        };
        let mut unbroken = begun();
        let whole = ended_locks(&mut unbroken);
        let [holder, first, waiter] = &whole[..] else {
            panic!("{machine:?}: {whole:?}")
        };
        assert_eq!(
            [first.contentions, waiter.contentions, holder.holds],
            [0, 1, 1]
        );
        let mut session = begun();
        // Whoever skips the wait does not stop within it.
        session.skip(Skipping::Nothing);
        let half_way = unbroken.cycle() / 2;
        go_on_to(&mut session, half_way);
        let early = still_waits(&session.statistics().probes.locks, waiter);
        assert!(early >= LONG_ROUNDS as u64 / 4, "{machine:?}: {early}");
        let from = session.cycle();
        go_on_to(&mut session, from + half_way / 4);
        let late = still_waits(&session.statistics().probes.locks, waiter);
        assert_eq!(late - early, session.cycle() - from, "{machine:?}");
        assert!(late <= waiter.wait_sum_cycles, "{machine:?}: {late}");
        session.save(&snapshot, "").expect("to save");
        let mut request = request(machine, 2);
        request.symbols = vec![program.clone()];
        let mut restored = Session::restore(&request, &snapshot).expect("to restore");
        restored.begin_lock_stats().expect("a lock function");
        let rows = ended_locks(&mut restored);
        let [held, waited] = &rows[..] else {
            panic!("{machine:?}: {rows:?}")
        };
        assert_eq!((held.acquisitions, held.holds), (0, 1), "{machine:?}");
        assert_eq!(held.hold_sum_cycles, holder.hold_sum_cycles, "{machine:?}");
        assert_eq!(waited, waiter, "{machine:?}");
        assert!(waited.wait_sum_cycles >= LONG_ROUNDS as u64 / 2);
    }
}
