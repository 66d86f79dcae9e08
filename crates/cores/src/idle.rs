//! Idle states of a core: which it is in when all of its contexts sleep, and what it costs to leave.
//!
//! ```text
//!   a context awake --the last sleeps--> asleep --residency--> state 1 --> state 2 --> state 3
//!          ^                               |                      |           |           |
//!          +---- exit of the nap ----------+-- exit of the state, at least that of the nap --+
//! ```
//!
//! A context asks for a depth by the kind of its wait, and the core goes no deeper than the shallowest that
//! any of its contexts asks for. So a context that is awake, or in a light nap, keeps the others light: they
//! share clock and voltage. A transition is not aborted: an event that comes during an entry is heard when the
//! entry is over.
//!
//! States follow from the time since the last context fell asleep. So nothing has to happen when a core
//! enters one, and a core that sleeps costs nothing to simulate; state and counters are worked out when it
//! wakes, and when somebody reads them.

use loiter_hart::Nap;
use loiter_memory::Flush;
use loiter_types::{Cycle, counters, params};

/// What a core forgets of translations.
pub(crate) const EVERYTHING: Flush = Flush {
    addr: None,
    asid: None,
};

/// Most idle states of a core.
const STATES: usize = 3;

params! {
    /// Section `idle`: states of a core all of whose contexts sleep. Each is at least as long to leave, and to be worth
    /// it, as the one before.
    pub struct IdleParams {
        /// How many there are, beside that in which the contexts merely sleep and the clock stands.
        states: int(0..=3) = 0,
        /// residency: a state is entered when the core has slept for its target residency. request: the deepest that
        /// all contexts permit, at once.
        governor: choice("residency", "request") = "residency",
        /// The deepest that a wrs permits; 0: none.
        wrs_deepest: int(0..=3) = 0,
        /// The deepest that waiting for a hardware lock or for flags permits; 0: none.
        lock_deepest: int(0..=3) = 0,
        /// The deepest that a wfi permits; 0: none.
        wfi_deepest: int(0..=3) = 0,
        /// What the state is called.
        state1_name: text = "C1",
        /// From the beginning of the state to the first cycle in which an event can end it.
        state1_entry_cycles: int(0..=100000000) = 0,
        /// From the event that ends the state to the next instruction; less than that of the nap does not count.
        state1_exit_cycles: int(0..=100000000) = 0,
        /// Target residency: the shortest stay that saves energy.
        state1_residency_cycles: int(0..=1000000000) = 0,
        /// What the core does not have any more when it wakes.
        state1_loses: choice("nothing", "translations") = "nothing",
        /// What the state is called.
        state2_name: text = "C2",
        /// As state1_entry_cycles.
        state2_entry_cycles: int(0..=100000000) = 0,
        /// As state1_exit_cycles.
        state2_exit_cycles: int(0..=100000000) = 0,
        /// As state1_residency_cycles.
        state2_residency_cycles: int(0..=1000000000) = 0,
        /// As state1_loses.
        state2_loses: choice("nothing", "translations") = "nothing",
        /// What the state is called.
        state3_name: text = "C3",
        /// As state1_entry_cycles.
        state3_entry_cycles: int(0..=100000000) = 0,
        /// As state1_exit_cycles.
        state3_exit_cycles: int(0..=100000000) = 0,
        /// As state1_residency_cycles.
        state3_residency_cycles: int(0..=1000000000) = 0,
        /// As state1_loses.
        state3_loses: choice("nothing", "translations") = "nothing",
    }
}

counters! {
    /// Counters of a core's idle states. Cycles in none of them are those in which a context is awake.
    pub struct IdleCounters {
        /// Cycles in which every context slept, or had no hart, and the core was in no idle state.
        asleep_cycles: "cycles",
        /// Times that the core was in state 1, or went through it.
        state1_entries: "events",
        /// Cycles in state 1.
        state1_cycles: "cycles",
        /// Times that the core was in state 2, or went through it.
        state2_entries: "events",
        /// Cycles in state 2.
        state2_cycles: "cycles",
        /// Times that the core was in state 3.
        state3_entries: "events",
        /// Cycles in state 3.
        state3_cycles: "cycles",
    }
}

/// One state.
#[derive(Clone, Copy, Debug)]
struct State {
    entry_cycles: u64,
    exit_cycles: u64,
    /// How long the core has slept when it enters it.
    after_cycles: u64,
    loses_translations: bool,
}

impl IdleParams {
    /// Checks what bounds of single values cannot tell.
    ///
    /// # Errors
    /// The section and what contradicts what.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        let mut before = (0, 0);
        for (n, (exit, residency)) in (1..=self.states).zip(self.latencies()) {
            if exit > residency {
                return Err((
                    "idle",
                    format!(
                        "state{n}_exit_cycles = {exit} is longer than state{n}_residency_cycles = {residency}: a stay \
                         that pays lasts for the exit at least"
                    ),
                ));
            }
            for (key, value, less) in [("exit", exit, before.0), ("residency", residency, before.1)]
            {
                if value < less {
                    return Err((
                        "idle",
                        format!(
                            "state{n}_{key}_cycles = {value} is less than state{}_{key}_cycles = {less}; deeper states \
                             come later",
                            n - 1
                        ),
                    ));
                }
            }
            before = (exit, residency);
        }
        let deepest = [
            ("wrs", self.wrs_deepest),
            ("lock", self.lock_deepest),
            ("wfi", self.wfi_deepest),
        ];
        for (nap, depth) in deepest {
            if depth > self.states {
                let states = self.states;
                return Err((
                    "idle",
                    format!("{nap}_deepest = {depth}, but there are states = {states}"),
                ));
            }
        }
        Ok(())
    }

    fn latencies(&self) -> [(u64, u64); STATES] {
        [
            (self.state1_exit_cycles, self.state1_residency_cycles),
            (self.state2_exit_cycles, self.state2_residency_cycles),
            (self.state3_exit_cycles, self.state3_residency_cycles),
        ]
    }

    fn states(&self) -> Vec<State> {
        let entries = [
            self.state1_entry_cycles,
            self.state2_entry_cycles,
            self.state3_entry_cycles,
        ];
        let loses = [&self.state1_loses, &self.state2_loses, &self.state3_loses];
        self.latencies()[..self.states as usize]
            .iter()
            .zip(entries)
            .zip(loses)
            .map(|((&(exit_cycles, residency), entry_cycles), loses)| State {
                entry_cycles,
                exit_cycles,
                after_cycles: residency,
                loses_translations: loses == "translations",
            })
            .collect()
    }
}

/// How a context rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rest {
    from: Cycle,
    permits: usize,
    /// When it ends by itself.
    until: Cycle,
}

/// What waking a core is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Up {
    /// The first cycle in which an instruction may follow.
    pub(crate) at: Cycle,
    /// Translation buffers are empty.
    pub(crate) without_translations: bool,
}

/// The idle state of a core.
#[derive(Debug)]
pub(crate) struct Idle {
    states: Vec<State>,
    /// `governor = "request"`.
    at_once: bool,
    wrs_deepest: usize,
    lock_deepest: usize,
    wfi_deepest: usize,
    /// By context; `None` is awake.
    rests: Vec<Option<Rest>>,
    awake: usize,
    /// When the core has left the state that it was in last.
    up_at: Cycle,
    counters: IdleCounters,
}

/// What becomes of the core while nobody is awake.
struct Course {
    since: Cycle,
    /// The state at the end, none: 0.
    state: usize,
    /// When each state begins.
    begins: [Cycle; STATES],
}

impl Idle {
    /// Of a core whose contexts have no harts at `now`.
    pub(crate) fn new(params: &IdleParams, contexts: usize, now: Cycle) -> Self {
        let mut idle = Self {
            states: params.states(),
            at_once: params.governor == "request",
            wrs_deepest: params.wrs_deepest as usize,
            lock_deepest: params.lock_deepest as usize,
            wfi_deepest: params.wfi_deepest as usize,
            rests: vec![None; contexts],
            awake: contexts,
            up_at: now,
            counters: IdleCounters::default(),
        };
        for c in 0..contexts {
            idle.is_vacant(c, now);
        }
        idle
    }

    /// Context `c` sleeps from `from` on, the end of its entry, until `until` at the latest.
    pub(crate) fn sleeps(&mut self, c: usize, nap: Nap, from: Cycle, until: Cycle) {
        let permits = match nap {
            Nap::Wfi => self.wfi_deepest,
            Nap::WrsNto | Nap::WrsSto => self.wrs_deepest,
            Nap::Lock | Nap::Flags => self.lock_deepest,
        };
        self.rest(
            c,
            Rest {
                from,
                permits,
                until,
            },
        );
    }

    /// No hart sits in context `c` from `now` on.
    pub(crate) fn is_vacant(&mut self, c: usize, now: Cycle) {
        let permits = self.states.len();
        self.rest(
            c,
            Rest {
                from: now,
                permits,
                until: Cycle::NEVER,
            },
        );
    }

    fn rest(&mut self, c: usize, rest: Rest) {
        self.awake -= usize::from(self.rests[c].is_none());
        self.rests[c] = Some(rest);
    }

    /// A hart comes into context `c` at `now`, or is about to leave it: what has been is counted. Whoever moves harts
    /// has seen to it that the core is up.
    pub(crate) fn moves(&mut self, c: usize, now: Cycle) {
        self.wakes(c, now);
        self.up_at = self.up_at.min(now);
    }

    /// An event of cycle `event` wakes context `c`: the core leaves the state that it is in.
    pub(crate) fn wakes(&mut self, c: usize, event: Cycle) -> Up {
        let mut without_translations = false;
        if let Some(course) = self.course(event) {
            // A nap that ended by itself before has not told yet.
            let event = event.min(self.first_end());
            self.counters = self.counted(&course, event);
            if let Some(state) = course.state.checked_sub(1).map(|n| self.states[n]) {
                let entered = course.begins[course.state - 1].after(state.entry_cycles);
                self.up_at = event.max(entered).after(state.exit_cycles);
                without_translations = state.loses_translations;
            }
        }
        self.awake += usize::from(self.rests[c].is_some());
        self.rests[c] = None;
        Up {
            at: self.up_at,
            without_translations,
        }
    }

    /// Whether there is a state in which it loses translations.
    pub(crate) fn may_lose_translations(&self) -> bool {
        self.states.iter().any(|state| state.loses_translations)
    }

    /// Time has passed up to `now` of which the core knows nothing.
    pub(crate) fn skip(&mut self, now: Cycle) {
        for rest in self.rests.iter_mut().flatten() {
            rest.from = now;
        }
        self.up_at = self.up_at.min(now);
    }

    /// The counters as they are at `now`.
    pub(crate) fn counters_at(&self, now: Cycle) -> IdleCounters {
        match self.course(now) {
            Some(course) => self.counted(&course, now.min(self.first_end())),
            None => self.counters.clone(),
        }
    }

    fn first_end(&self) -> Cycle {
        let ends = self.rests.iter().flatten().map(|rest| rest.until);
        ends.min().unwrap_or(Cycle::NEVER)
    }

    /// What has become of the core up to `now` since nobody has been awake; `None` if somebody is.
    fn course(&self, now: Cycle) -> Option<Course> {
        if self.awake > 0 {
            return None;
        }
        let now = now.min(self.first_end());
        let mut since = self.up_at;
        let mut permits = self.states.len();
        for rest in self.rests.iter().flatten() {
            since = since.max(rest.from);
            permits = permits.min(rest.permits);
        }
        let mut course = Course {
            since,
            state: 0,
            begins: [Cycle::NEVER; STATES],
        };
        for (n, state) in self.states[..permits].iter().enumerate() {
            let begins = match self.at_once {
                true if n + 1 == permits => since,
                true => Cycle::NEVER,
                false => since.after(state.after_cycles),
            };
            if now >= begins {
                course.state = n + 1;
                course.begins[n] = begins;
            }
        }
        Some(course)
    }

    /// The counters, with a course up to `end`.
    fn counted(&self, course: &Course, end: Cycle) -> IdleCounters {
        let mut counters = self.counters.clone();
        let mut from = course.since.min(end);
        let mut cycles = [0; STATES + 1];
        let mut state = 0;
        for (n, &begins) in course.begins.iter().enumerate() {
            if begins != Cycle::NEVER {
                cycles[state] = begins.since(from);
                (from, state) = (begins, n + 1);
            }
        }
        cycles[state] = end.since(from);
        let entered = course
            .begins
            .map(|begins| u64::from(begins != Cycle::NEVER));
        counters.asleep_cycles += cycles[0];
        counters.state1_cycles += cycles[1];
        counters.state2_cycles += cycles[2];
        counters.state3_cycles += cycles[3];
        counters.state1_entries += entered[0];
        counters.state2_entries += entered[1];
        counters.state3_entries += entered[2];
        counters
    }
}

#[cfg(test)]
#[path = "idle_tests.rs"]
mod tests;
