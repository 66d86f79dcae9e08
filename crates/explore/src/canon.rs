//! One form for all states that behave alike.
//!
//! Behaviour depends on the messages that some thread can still read, and on how views compare with them and with one
//! another. So a message that has replaced all older ones for everyone becomes the base of its cells; times are counted
//! by the messages that are left; and views that no later access could tell from lower ones become 0.
//!
//! A thread whose next load leads back to itself whatever it can read now goes on only with a message that is still to come.
//! What it loads after a fence is then at least as new as that message, so newer than all that is there: it needs nothing old.
//! Nor does a thread that cannot have the address of a cell but from a message that is newer (`origin.rs`).

use std::rc::Rc;

use smallvec::{SmallVec, smallvec};

use crate::cells::Cells;
use crate::found::MOST_THREADS;
use crate::future::{Future, Masks};
use crate::memory::{Base, Location, Memory, Message, Time};
use crate::model::Model;
use crate::order::{Known, order};
use crate::origin::Lowest;
use crate::program::Program;
use crate::thread::Thread;

/// Which messages were folded, for whom wants to follow them: by old time, the new one or the base.
pub(crate) type Moved = SmallVec<[Option<Time>; 8]>;

/// Where threads stand.
#[derive(Clone, Copy)]
pub(crate) struct Stands<'a> {
    /// At their ends.
    pub(crate) ended: &'a [bool],
    /// Before a load that leads back to itself whatever it can read now: the cells from which the thread may still load what
    /// is old, without a fence behind the load that reads something new.
    pub(crate) awaited: &'a [Option<u128>],
}

/// Brings a state into its one form.
pub(crate) fn canonical(
    model: Model,
    memory: &mut Memory,
    threads: &mut [Thread],
    stands: Stands<'_>,
    program: &Program,
    cells: &Cells,
    future: &Future,
) -> Moved {
    let ended: SmallVec<[bool; MOST_THREADS]> = threads
        .iter()
        .zip(stands.ended)
        .map(|(t, &ended)| ended && t.promises.is_empty())
        .collect();
    for (number, thread) in threads.iter_mut().enumerate() {
        give_up(number, thread, memory);
    }
    let ahead: SmallVec<[Masks; MOST_THREADS]> = threads
        .iter()
        .enumerate()
        .map(|(number, thread)| future.of(number, thread.pc))
        .collect();
    // What each thread may load that is old now.
    let old: SmallVec<[u128; MOST_THREADS]> = threads
        .iter()
        .enumerate()
        .map(|(number, thread)| match stands.awaited[number] {
            _ if ended[number] => 0,
            Some(old) => old,
            None => {
                let promised = thread.promises.iter().map(|&time| {
                    let location = memory.at(time).location;
                    future.mask(&cells.of(location))
                });
                ahead[number].loads_old(promised.fold(0, |all, mask| all | mask))
            }
        })
        .collect();
    // And when at the earliest.
    let mut lowest: SmallVec<[Lowest; MOST_THREADS]> = threads
        .iter()
        .enumerate()
        .map(|(number, thread)| future.origins.lowest(number, thread, memory, program))
        .collect();
    let mut left = Memory {
        bases: std::mem::take(&mut memory.bases),
        messages: SmallVec::new(),
    };
    let pairs = ahead.iter().fold(0, |all, ahead| all | ahead.pairs);
    // By old time, the number of messages before and including it that are left.
    let mut times: SmallVec<[Time; 8]> = smallvec![0];
    let mut moved: Moved = smallvec![None];
    let mut kept: SmallVec<[Time; 8]> = SmallVec::new();
    for time in 1..=memory.end() {
        let message = *memory.at(time);
        let parts = cells.of(message.location);
        let folds = !left
            .messages
            .iter()
            .any(|older| older.location.overlaps(message.location))
            && threads.iter().enumerate().all(|(number, thread)| {
                let loads = |cell| {
                    let cell = future.mask(&[cell]) & old[number];
                    cell != 0 && lowest[number].of(cell) < time
                };
                ended[number] || !needs_older(model, thread, time, message.location, &parts, loads)
            });
        if folds {
            for &cell in &parts {
                left.set_base(cell, message.location.part(message.value, cell), time);
                for thread in threads
                    .iter_mut()
                    .filter(|thread| thread.known(cell).is_some())
                {
                    let known = thread.known_mut(cell);
                    known.forward = known.forward.filter(|own| own.time >= time);
                }
            }
            moved.push(None);
        } else if let Some(same) = repeated(&left, &message, &parts)
            && (future.mask(&parts) & pairs == 0 || same.unwrap_or(0) == left.end())
            && !threads.iter().enumerate().any(|(number, thread)| {
                let older = same.map_or(0, |older: Time| kept[older as usize - 1]);
                let by = (older != 0).then(|| usize::from(memory.at(older).thread));
                let by_another = by.is_some_and(|by| by != number);
                is_bound_to(thread, [older, time], message.location, by_another)
            })
        {
            moved.push(same);
        } else {
            left.messages.push(message);
            kept.push(time);
            moved.push(Some(left.end()));
        }
        times.push(left.end());
    }
    let renumber = |time: &mut Time| *time = times[*time as usize];
    if left.bases.iter().any(|base| base.time != 0) {
        for base in Rc::make_mut(&mut left.bases) {
            renumber(&mut base.time);
        }
    }
    for (number, (thread, &ended)) in threads.iter_mut().zip(&ended).enumerate() {
        let Masks { any, loads, .. } = ahead[number];
        thread.known.retain(|known| {
            let Some(cell) = cells.shared_at(known.cell) else {
                return true;
            };
            let cell = future.mask(&[cell]);
            // What an atomic has written is read in memory only.
            known.forward = known.forward.filter(|own| !own.atomic && cell & loads != 0);
            cell & any != 0
        });
        if ended {
            forget(thread);
        } else {
            for_each_time(thread, renumber);
            lower(model, thread);
        }
    }
    for lowest in &mut lowest {
        lowest.change(|time| {
            if let Some(&new) = times.get(*time as usize) {
                *time = new;
            }
        });
    }
    // When a base was written matters to who may load it and has read nothing as new.
    let matters =
        |base: &Base| {
            let cell = future.mask(&[base.cell]);
            threads.iter().zip(&old).zip(&lowest).zip(&ended).any(
                |(((thread, old), lowest), ended)| {
                    let floor = thread.before_reads.min(thread.before_writes);
                    !ended && old & cell != 0 && floor.max(lowest.of(cell)) < base.time
                },
            )
        };
    let is_over = |base: &Base| base.time != 0 && (model == Model::Sc || !matters(base));
    if left.bases.iter().any(is_over) {
        for base in Rc::make_mut(&mut left.bases) {
            if is_over(base) {
                base.time = 0;
            }
        }
    }
    *memory = left;
    let known = Known {
        model,
        cells,
        future,
        ended: &ended,
        old: &old,
        lowest: &lowest,
    };
    let places = order(&known, memory, threads);
    for time in moved.iter_mut().flatten() {
        *time = places[*time as usize];
    }
    for (thread, _) in threads.iter_mut().zip(&ended).filter(|(_, ended)| !**ended) {
        lower(model, thread);
    }
    moved
}

/// An `sc` that has to stand at the end, and cannot, is as good as one without an `lr`.
fn give_up(number: usize, thread: &mut Thread, memory: &Memory) {
    let by_others = |time| usize::from(memory.at(time).thread) != number;
    if let Some(kept) = thread.reservation
        && thread.promises.is_empty()
        && memory.later(kept.location, kept.time).any(by_others)
    {
        thread.reservation = None;
    }
}

/// What already has the value that `message` writes: another message, or the base of all its cells.
///
/// Who reads the later of the two could as well read the earlier, which binds it less; but for an `lr`, after which an `sc`
/// succeeds only if nothing comes between: where there may be one, other messages must not either. So who awaits by writing the same
/// over and over adds nothing.
fn repeated(left: &Memory, message: &Message, parts: &[Location]) -> Option<Option<Time>> {
    match left.last(message.location, left.end()) {
        0 => {
            let same = |&cell| {
                let base = left.base(cell);
                base.is_some_and(|base| base.value == message.location.part(message.value, cell))
            };
            parts.iter().all(same).then_some(None)
        }
        last => {
            let older = left.at(last);
            let same = (older.location, older.value) == (message.location, message.value);
            same.then_some(Some(last))
        }
    }
}

/// Whether `thread` has to find just these messages, or none of others between. An `lr` that read what was there before the
/// earlier of them, which is `by_another`, has lost its line to that already.
fn is_bound_to(thread: &Thread, times: [Time; 2], location: Location, by_another: bool) -> bool {
    let reserved = thread.reservation.is_some_and(|kept| {
        kept.location.overlaps(location) && !(by_another && kept.time < times[0])
    });
    reserved
        || thread
            .promises
            .iter()
            .any(|promise| times.contains(promise))
}

/// Whether `thread` can tell the message at `time` from what was there before.
pub(crate) fn needs_older(
    model: Model,
    thread: &Thread,
    time: Time,
    location: Location,
    cells: &[Location],
    loads_old: impl Fn(Location) -> bool,
) -> bool {
    let reserved = thread
        .reservation
        .is_some_and(|kept| kept.location.overlaps(location) && kept.time < time);
    if reserved || thread.promises.contains(&time) {
        return true;
    }
    // Loads of SC read what is newest.
    model != Model::Sc
        && thread.before_reads < time
        && cells
            .iter()
            .any(|&cell| thread.coherence(cell) < time && loads_old(cell))
}

fn for_each_time(thread: &mut Thread, change: impl Fn(&mut Time)) {
    change_views(thread, &change);
    change(&mut thread.floor);
    if let Some(kept) = &mut thread.reservation {
        change(&mut kept.time);
    }
    thread.promises.iter_mut().for_each(change);
}

/// Changes what is compared with times of messages.
pub(crate) fn change_views(thread: &mut Thread, change: impl Fn(&mut Time)) {
    thread.reg_views.iter_mut().for_each(&change);
    for known in &mut thread.known {
        change(&mut known.coherence);
        if let Some(own) = &mut known.forward {
            change(&mut own.time);
            change(&mut own.view);
        }
    }
    for view in [
        &mut thread.reads,
        &mut thread.writes,
        &mut thread.before_reads,
        &mut thread.before_writes,
        &mut thread.control,
        &mut thread.consistent,
    ] {
        change(view);
    }
}

/// Views that make no difference beside `before_reads` and `before_writes` become 0.
pub(crate) fn lower(model: Model, thread: &mut Thread) {
    if model == Model::Sc {
        let (promises, reservation) = (std::mem::take(&mut thread.promises), thread.reservation);
        for_each_time(thread, |time| *time = 0);
        thread.known.clear();
        (thread.promises, thread.reservation) = (promises, reservation);
        return;
    }
    let (before_reads, before_writes) = (thread.before_reads, thread.before_writes);
    let both = before_reads.min(before_writes);
    let drop = |view: &mut Time, floor| {
        if *view <= floor {
            *view = 0;
        }
    };
    thread
        .reg_views
        .iter_mut()
        .for_each(|view| drop(view, both));
    for known in &mut thread.known {
        drop(&mut known.coherence, both);
        known.forward = known.forward.filter(|own| own.time > before_reads);
        if let Some(own) = &mut known.forward {
            drop(&mut own.view, before_reads);
        }
    }
    thread
        .known
        .retain(|known| known.coherence != 0 || known.forward.is_some());
    drop(&mut thread.reads, both);
    drop(&mut thread.writes, both);
    drop(&mut thread.control, before_writes);
    drop(&mut thread.consistent, both);
}

/// Of a thread that has ended, only what it leaves behind counts.
fn forget(thread: &mut Thread) {
    for_each_time(thread, |time| *time = 0);
    thread.known.clear();
    thread.reservation = None;
}
