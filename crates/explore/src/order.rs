//! Positions in memory that no thread can tell apart.
//!
//! - **Views.** A thread tells a message from what was there before it if it may still load that (`canon.rs`, `origin.rs`), has
//!   promised the message, or reads it before others do. Two views with the same of these messages before them are one. The
//!   highest takes the place of all: where a message between is not told apart, the thread has come past it before it loads from
//!   its cells. What a thread tells apart only shrinks, and what is still to come stands after all that is there.
//! - **Order.** A thread sees the order of two messages if they overlap, or if it may load what is old of both: whatever it has
//!   seen, for its other views are compared with both. What nobody sees the order of may stand in either, and stands in the least
//!   one, as traces do in their normal form (A. Mazurkiewicz, "Concurrent program schemes and their interpretations", 1977).
//! - **Promises.** If a thread comes to all its writes to one place before any to another (`writes.rs`), two promises that are
//!   next to one another stand in that order. With none of its views between them, all that it can do with the other order it
//!   can do with this: what it fulfils first has the same views below it, and nobody else sees a difference.
//! - A base has a time, too, which any thread comes to that loads from it: the highest that is one for all that may load what
//!   is old there. No message moves across it.

use std::cell::Cell;
use std::rc::Rc;

use smallvec::{SmallVec, smallvec};

use crate::canon::{change_views, needs_older};
use crate::cells::Cells;
use crate::found::MOST_THREADS;
use crate::future::Future;
use crate::memory::{Location, Memory, Time};
use crate::model::Model;
use crate::origin::Lowest;
use crate::thread::Thread;

/// Sets of messages, by bits; bit *n* is time *n* + 1.
type Messages = u128;

const MOST_MESSAGES: usize = 128;

/// What canonical form knows of each thread.
pub(crate) struct Known<'a> {
    pub(crate) model: Model,
    pub(crate) cells: &'a Cells,
    pub(crate) future: &'a Future,
    /// Has ended, and fulfilled its promises.
    pub(crate) ended: &'a [bool],
    /// From where it may still load what is old.
    pub(crate) old: &'a [u128],
    /// When at the earliest.
    pub(crate) lowest: &'a [Lowest],
}

/// The messages that matter to one thread.
#[derive(Clone, Copy, Default)]
struct Matters {
    /// Those that it tells from what was there before.
    told: Messages,
    /// Those of which it sees the order.
    ordered: Messages,
    /// Its promises.
    promised: Messages,
    /// Times that are one of its views.
    views: Messages,
}

fn bit(time: Time) -> Messages {
    1 << (time - 1)
}

impl Known<'_> {
    fn matters(&self, number: usize, thread: &Thread, memory: &Memory) -> Matters {
        let mut all = Matters::default();
        if self.ended[number] {
            return all;
        }
        for time in 1..=memory.end() {
            let message = memory.at(time);
            let parts = self.cells.of(message.location);
            let old = |cell| self.future.mask(&[cell]) & self.old[number];
            if parts.iter().any(|&cell| old(cell) != 0) {
                all.ordered |= bit(time);
            }
            let loads = |cell| old(cell) != 0 && self.lowest[number].of(old(cell)) < time;
            if needs_older(self.model, thread, time, message.location, &parts, loads) {
                all.told |= bit(time);
            }
        }
        for known in &thread.known {
            if let Some(own) = known.forward
                && let Some(time) = message_of(memory, known.cell, own.time)
            {
                all.told |= bit(time);
            }
        }
        all.ordered |= all.told;
        all.promised = thread.promises.iter().fold(0, |all, &time| all | bit(time));
        let views = Cell::new(0);
        change_views(&mut thread.clone(), |view| {
            if *view != 0 {
                views.set(views.get() | bit(*view));
            }
        });
        all.views = views.get();
        all
    }
}

/// The message at `time`, if it is one that writes to `cell`.
fn message_of(memory: &Memory, cell: u64, time: Time) -> Option<Time> {
    let cell = Location {
        addr: cell,
        bytes: 1,
    };
    let there = (1..=memory.end()).contains(&time);
    (there && memory.at(time).location.overlaps(cell)).then_some(time)
}

/// The highest time that has the same messages of `told` before it as `view` has.
fn highest(told: Messages, view: Time, end: Time) -> Time {
    let above = if view as usize >= MOST_MESSAGES {
        0
    } else {
        told >> view << view
    };
    match above {
        0 => end,
        _ => above.trailing_zeros(),
    }
}

/// Makes states alike that differ only in positions. Returns where messages are now.
pub(crate) fn order(known: &Known<'_>, memory: &mut Memory, threads: &mut [Thread]) -> Vec<Time> {
    let end = memory.end();
    let mut places: Vec<Time> = (0..=end).collect();
    if memory.messages.len() >= MOST_MESSAGES || known.model == Model::Sc {
        return places;
    }
    let all: SmallVec<[Matters; MOST_THREADS]> = threads
        .iter()
        .enumerate()
        .map(|(number, thread)| known.matters(number, thread, memory))
        .collect();
    let living = |number: &usize| !known.ended[*number];
    let numbers = (0..threads.len()).filter(living);
    let mut bounds: Messages = 0;
    if memory.bases.iter().any(|base| base.time != 0) {
        for base in Rc::make_mut(&mut memory.bases)
            .iter_mut()
            .filter(|base| base.time != 0)
        {
            let cell = known.future.mask(&[base.cell]);
            let readers = numbers.clone().filter(|&n| known.old[n] & cell != 0);
            let highest = readers.map(|number| highest(all[number].told, base.time, end));
            base.time = highest.min().unwrap_or(end);
            bounds |= bit(base.time);
        }
    }
    let comes_first = |number: usize, first: Location, second: Location| {
        known
            .future
            .writes_before((number, threads[number].pc), first, second)
    };
    let order = promises_in_order(memory, &all, bounds, comes_first);
    sort(memory, &all, bounds, &order, &mut places);
    let moved = |set: Messages| {
        let times = (1..=end).filter(|&time| set & bit(time) != 0);
        times.fold(0, |all, time| all | bit(places[time as usize]))
    };
    for number in numbers {
        let thread = &mut threads[number];
        let told = all[number].told;
        let there = moved(told);
        // Those of the set before a view are as many before and after.
        let view = |view: &mut Time| {
            let before = match *view as usize {
                MOST_MESSAGES.. => told,
                few => told & ((1 << few) - 1),
            };
            let mut left = there;
            for _ in 0..before.count_ones() {
                left &= left - 1;
            }
            *view = if left == 0 {
                end
            } else {
                left.trailing_zeros()
            };
        };
        let forwards: SmallVec<[Option<Time>; 6]> = thread
            .known
            .iter()
            .map(|known| {
                let own = known.forward?;
                message_at(&places, told, own.time)
            })
            .collect();
        change_views(thread, view);
        for (known, forward) in thread.known.iter_mut().zip(forwards) {
            if let (Some(own), Some(time)) = (&mut known.forward, forward) {
                own.time = time;
            }
        }
        if let Some(kept) = &mut thread.reservation {
            // Only messages to its location are compared with it.
            let mut before = (1..=kept.time.min(end)).rev();
            let last = before.find(|&time| {
                let place = places[time as usize];
                memory.at(place).location.overlaps(kept.location)
            });
            kept.time = last.map_or(0, |time| places[time as usize]);
        }
        for time in thread.promises.iter_mut().chain([&mut thread.floor]) {
            *time = places[*time as usize];
        }
        thread.promises.sort_unstable();
    }
    places
}

/// Where a message that is told apart is now.
fn message_at(places: &[Time], told: Messages, time: Time) -> Option<Time> {
    let is_one = time != 0 && (time as usize) < places.len() && told & bit(time) != 0;
    is_one.then(|| places[time as usize])
}

/// The order in which promises of one thread that are next to one another are as the thread comes to them.
///
/// That order is the best for the thread: what it then fulfils first stands first. None of its views may be between the two,
/// and no other thread see their order.
fn promises_in_order(
    memory: &Memory,
    all: &[Matters],
    bounds: Messages,
    comes_first: impl Fn(usize, Location, Location) -> bool,
) -> SmallVec<[Time; 8]> {
    let mut order: SmallVec<[Time; 8]> = (1..=memory.end()).collect();
    loop {
        let mut changed = false;
        for at in 1..order.len() {
            let both = bit(order[at - 1]) | bit(order[at]);
            let (one, other) = (memory.at(order[at - 1]), memory.at(order[at]));
            let number = usize::from(one.thread);
            let mut others = all.iter().enumerate().filter(|&(n, _)| n != number);
            // Views and bounds are between places.
            if (bounds | all[number].views) & bit(at as Time) == 0
                && all[number].promised & both == both
                && !others.any(|(_, of)| of.ordered & both == both)
                && !one.location.overlaps(other.location)
                && comes_first(number, other.location, one.location)
            {
                order.swap(at - 1, at);
                changed = true;
            }
        }
        if !changed {
            return order;
        }
    }
}

/// Brings messages, which are in `order`, into the least order that nobody can tell from it, and sets their places.
fn sort(
    memory: &mut Memory,
    all: &[Matters],
    bounds: Messages,
    order: &[Time],
    places: &mut [Time],
) {
    let old = std::mem::take(&mut memory.messages);
    let message = |time: Time| &old[time as usize - 1];
    let follows = |first: Time, second: Time| {
        let both = bit(first) | bit(second);
        message(first).location.overlaps(message(second).location)
            || all.iter().any(|of| of.ordered & both == both)
    };
    let key = |time: Time| {
        let it = message(time);
        (it.location, it.thread, it.value)
    };
    let mut left: SmallVec<[Time; 8]> = smallvec![];
    for (at, &time) in order.iter().enumerate() {
        left.push(time);
        // No further than to the next bound.
        if at + 1 < order.len() && bounds & bit(at as Time + 1) == 0 {
            continue;
        }
        while !left.is_empty() {
            let free = |&at: &usize| !left[..at].iter().any(|&before| follows(before, left[at]));
            let next = (0..left.len()).filter(free).min_by_key(|&at| key(left[at]));
            let time = left.remove(next.expect("the first is free"));
            memory.messages.push(*message(time));
            places[time as usize] = memory.end();
        }
    }
}
