//! Which outcomes of a litmus test a memory model allows, found by trying every order.
//!
//! This is the form in which chapter "RVWMO Memory Consistency Model" of the unprivileged manual states a
//! model: all accesses of all harts happen in one global order, which keeps some pairs of the program's order (preserved
//! program order); a load gets the latest, in the global order, of the stores before it there and of the stores of its own hart
//! before it in the program; nothing comes between the halves of an atomic. It knows of no store buffer,
//! cache or window. A promise says which pairs are kept.

use std::collections::{BTreeSet, HashSet};

use super::test::{
    Fence, LINE_BYTES, Layout, Litmus, Order, Part, Step, VARIABLE_BYTES, Variable, pattern,
};

/// What a machine promises of the order of one hart's accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Promise {
    /// All are in order: what the tests measure weaker promises against.
    Sequential,
    /// All but that a load may come before an older store (Ztso). Atomics, `lr` and `sc` keep order with everything.
    Total,
    /// The same of loads and stores. Atomics keep the order that `aq` and `rl` ask for.
    Annotated,
}

/// An access, or the part of one in one line.
struct Event {
    hart: usize,
    /// Of the instruction, in its hart.
    step: usize,
    /// `lr` and `sc` are two events of one step.
    second: bool,
    /// Bytes of memory: those of x and then those of y.
    from: usize,
    bytes: usize,
    reads: bool,
    /// Where in the outcome the first byte goes: value and byte of it.
    result: (usize, usize),
    /// What it writes, from its first byte on.
    writes: Option<u64>,
    order: Option<Order>,
    /// Events of its hart that come before it in the global order too.
    after: u32,
    /// Stores of its hart before it in the program.
    own: u32,
    /// For `sc`: the event of its `lr`.
    reserved_by: Option<usize>,
}

impl Event {
    fn overlaps(&self, other: &Event) -> bool {
        self.from < other.from + other.bytes && other.from < self.from + self.bytes
    }
}

const MEMORY: usize = 2 * VARIABLE_BYTES as usize;

/// How far an order has come.
#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    happened: u32,
    memory: [u8; MEMORY],
    loaded: Vec<u64>,
    /// `lr`s whose bytes another hart has written since.
    broken: u32,
}

/// All outcomes of `test` in `layout` that `promise` allows.
pub(super) fn allowed(test: &Litmus, layout: Layout, promise: Promise) -> BTreeSet<Vec<u64>> {
    let events = events(test, layout, promise);
    let loads = test.harts.iter().copied().flatten();
    let start = State {
        happened: 0,
        memory: [0; MEMORY],
        loaded: vec![0; loads.filter(|step| step.loads()).count()],
        broken: 0,
    };
    let all = (1 << events.len()) - 1;
    let mut outcomes = BTreeSet::new();
    let mut seen = HashSet::from([start.clone()]);
    let mut open = vec![start];
    while let Some(state) = open.pop() {
        if state.happened == all {
            outcomes.insert(outcome(&state));
        }
        for next in 0..events.len() {
            if let Some(state) = step(&events, next, &state)
                && seen.insert(state.clone())
            {
                open.push(state);
            }
        }
    }
    outcomes
}

/// The state after event `n`, if that may be the next.
fn step(events: &[Event], n: usize, state: &State) -> Option<State> {
    let event = &events[n];
    if state.happened >> n & 1 == 1 || event.after & !state.happened != 0 {
        return None;
    }
    if event
        .reserved_by
        .is_some_and(|lr| state.broken >> lr & 1 == 1)
    {
        return None;
    }
    let mut state = state.clone();
    if event.reads {
        let waiting = event.own & !state.happened;
        let youngest_first = (0..n).rev().filter(|store| waiting >> store & 1 == 1);
        let stores: Vec<&Event> = youngest_first.map(|store| &events[store]).collect();
        for byte in 0..event.bytes {
            let at = event.from + byte;
            let own = stores
                .iter()
                .find(|store| (store.from..store.from + store.bytes).contains(&at));
            let value = own.map_or(state.memory[at], |store| written(store, at));
            let (result, first) = event.result;
            state.loaded[result] |= u64::from(value) << (8 * (first + byte));
        }
    }
    if event.writes.is_some() {
        for at in event.from..event.from + event.bytes {
            state.memory[at] = written(event, at);
        }
        for (lr, other) in events.iter().enumerate() {
            let breaks = other.hart != event.hart && other.overlaps(event);
            state.broken |= u32::from(breaks) << lr & state.happened;
        }
    }
    state.happened |= 1 << n;
    Some(state)
}

/// What `store` writes at `at`.
fn written(store: &Event, at: usize) -> u8 {
    let value = store.writes.expect("a store");
    (value >> (8 * (at - store.from))) as u8
}

fn outcome(state: &State) -> Vec<u64> {
    let variables = state.memory.chunks(VARIABLE_BYTES as usize);
    let variables = variables.map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight")));
    state.loaded.iter().copied().chain(variables).collect()
}

/// The events of `test`, those of a hart in the order of its program.
fn events(test: &Litmus, layout: Layout, promise: Promise) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    let mut results = 0;
    for (hart, &steps) in test.harts.iter().enumerate() {
        let first = events.len();
        for (step, &what) in steps.iter().enumerate() {
            push(&mut events, hart, step, what, results, layout);
            results += usize::from(what.loads());
        }
        for later in first..events.len() {
            for earlier in first..later {
                let (a, b) = (&events[earlier], &events[later]);
                let kept = keeps(promise, a, b) || fenced(steps, a, b);
                let store = a.writes.is_some() && (a.step, a.second) != (b.step, b.second);
                events[later].after |= u32::from(kept) << earlier;
                events[later].own |= u32::from(store) << earlier;
            }
        }
    }
    assert!(events.len() < 32, "{}: too long", test.name);
    events
}

/// Appends the events of one instruction.
fn push(
    events: &mut Vec<Event>,
    hart: usize,
    step: usize,
    what: Step,
    result: usize,
    layout: Layout,
) {
    let (place, reads, value, order) = match what {
        Step::Fence(_) => return,
        Step::Load(place) => (place, true, None, None),
        Step::Store(place, n) => (place, false, Some(pattern(n)), None),
        Step::Swap(place, n, order) | Step::Exchange(place, n, order) => {
            (place, true, Some(pattern(n)), Some(order))
        }
    };
    for (first, bytes) in parts(place, layout) {
        let base = match place.variable {
            Variable::X => 0,
            Variable::Y => VARIABLE_BYTES,
        };
        events.push(Event {
            hart,
            step,
            second: false,
            from: (base + place.from + first) as usize,
            bytes: bytes as usize,
            reads,
            result: (result, first as usize),
            writes: value.map(|value| value >> (8 * first)),
            order,
            after: 0,
            own: 0,
            reserved_by: None,
        });
    }
    if let Step::Exchange(_, n, order) = what {
        let lr = events.len() - 1;
        let load = &mut events[lr];
        load.writes = None;
        load.order = Some(Order { rl: false, ..order });
        let Event { from, bytes, .. } = *load;
        events.push(Event {
            hart,
            step,
            second: true,
            from,
            bytes,
            reads: false,
            result: (0, 0),
            writes: Some(pattern(n)),
            order: Some(Order { aq: false, ..order }),
            after: 0,
            own: 0,
            reserved_by: Some(lr),
        });
    }
}

/// The parts of an access that each happen at once: first byte and number of bytes. Within a line, that is
/// all of it.
fn parts(place: Part, layout: Layout) -> Vec<(u64, u64)> {
    let to_end = LINE_BYTES - layout.address(place) % LINE_BYTES;
    if place.bytes <= to_end {
        return vec![(0, place.bytes)];
    }
    vec![(0, to_end), (to_end, place.bytes - to_end)]
}

/// Whether `promise` keeps `a` before `b`, which is later in the program.
fn keeps(promise: Promise, a: &Event, b: &Event) -> bool {
    if a.step == b.step {
        // The parts of a misaligned access have no order; `sc` follows its `lr`.
        return b.second;
    }
    let plain = a.reads || b.writes.is_some();
    match (promise, a.order, b.order) {
        (Promise::Sequential, ..) => true,
        (_, None, None) => plain,
        (Promise::Total, ..) => true,
        (Promise::Annotated, a_order, b_order) => {
            let has = |order: Option<Order>, bit: fn(Order) -> bool| order.is_some_and(bit);
            let acquires = has(a_order, |order| order.aq);
            let releases = has(b_order, |order| order.rl);
            let both = has(a_order, |order| order.rl) && has(b_order, |order| order.aq);
            // Loads are acquires and stores releases, without `aq` and `rl`, where memory is ordered totally.
            let loads = a_order.is_none() && a.reads;
            let stores = b_order.is_none() && b.writes.is_some();
            acquires || releases || both || loads || stores || a.overlaps(b)
        }
    }
}

/// Whether a fence between them keeps `a` before `b`.
fn fenced(steps: &[Step], a: &Event, b: &Event) -> bool {
    steps[a.step..b.step].iter().any(|&step| {
        let Step::Fence(Fence { before, after, tso }) = step else {
            return false;
        };
        let first = before.reads && a.reads || before.writes && a.writes.is_some();
        let then = after.reads && b.reads || after.writes && b.writes.is_some();
        let store_and_load = !a.reads && b.writes.is_none();
        first && then && !(tso && store_and_load)
    })
}
