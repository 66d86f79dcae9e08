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
//! wakes, and when somebody reads them. The exception are states that do not keep caches: others see what
//! those write back, so it leaves when the state begins. Lines that a context watches stay: what watches them
//! has to hear of their loss.

use loiter_hart::Nap;
use loiter_memory::{Caches, Emptied, Flush, FlushOf};
use loiter_types::{Cycle, counters, params};
use serde::{Deserialize, Serialize};

/// What a core forgets of translations.
pub(crate) const EVERYTHING: Flush = Flush {
    addr: None,
    asid: None,
    of: FlushOf::Everybody,
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
        /// What the core does not have any more when it wakes: nothing, or some of these, with spaces between. translations:
        /// translation buffers. predictors: those of branches. l1: first-level caches. l2: a second level of its own, and the
        /// first. Written lines are written back when the state begins.
        state1_loses: text = "nothing",
        /// What the state is called.
        state2_name: text = "C2",
        /// As state1_entry_cycles.
        state2_entry_cycles: int(0..=100000000) = 0,
        /// As state1_exit_cycles.
        state2_exit_cycles: int(0..=100000000) = 0,
        /// As state1_residency_cycles.
        state2_residency_cycles: int(0..=1000000000) = 0,
        /// As state1_loses.
        state2_loses: text = "nothing",
        /// What the state is called.
        state3_name: text = "C3",
        /// As state1_entry_cycles.
        state3_entry_cycles: int(0..=100000000) = 0,
        /// As state1_exit_cycles.
        state3_exit_cycles: int(0..=100000000) = 0,
        /// As state1_residency_cycles.
        state3_residency_cycles: int(0..=1000000000) = 0,
        /// As state1_loses.
        state3_loses: text = "nothing",
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
        /// Lines that its caches have lost to idle states, or because a hart was to find the core cold.
        lost_lines: "lines",
        /// Those of them that were written back.
        written_back_lines: "lines",
    }
}

/// One state.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct State {
    entry_cycles: u64,
    exit_cycles: u64,
    /// How long the core has slept when it enters it.
    after_cycles: u64,
    loses: Loses,
}

/// What a core does not have any more when it leaves a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Loses {
    /// Translation buffers are empty.
    pub(crate) translations: bool,
    /// Predictors have seen nothing.
    pub(crate) predictors: bool,
    /// These caches are empty.
    pub(crate) caches: Option<Caches>,
}

impl Loses {
    /// Everything that a hart may find.
    pub(crate) const ALL: Loses = Loses {
        translations: true,
        predictors: true,
        caches: Some(Caches::Private),
    };

    fn parse(words: &str) -> Result<Self, String> {
        let mut loses = Self::default();
        if words == "nothing" {
            return Ok(loses);
        }
        for word in words.split_whitespace() {
            match word {
                "translations" => loses.translations = true,
                "predictors" => loses.predictors = true,
                "l1" => loses.caches = loses.caches.max(Some(Caches::First)),
                "l2" => loses.caches = Some(Caches::Private),
                other => return Err(other.to_owned()),
            }
        }
        match loses == Self::default() {
            true => Err(words.to_owned()),
            false => Ok(loses),
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            translations: self.translations || other.translations,
            predictors: self.predictors || other.predictors,
            caches: self.caches.max(other.caches),
        }
    }
}

impl IdleParams {
    /// Checks what bounds of single values cannot tell.
    ///
    /// # Errors
    /// The section and what contradicts what.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        let found = self.check_latencies().and_then(|()| self.check_depths());
        found.map_err(|problem| ("idle", problem))
    }

    fn check_latencies(&self) -> Result<(), String> {
        let mut before = (0, 0);
        for (n, (exit, residency)) in (1..=self.states).zip(self.latencies()) {
            if exit > residency {
                return Err(format!(
                    "state{n}_exit_cycles = {exit} is longer than state{n}_residency_cycles = {residency}: a stay \
                     that pays lasts for the exit at least"
                ));
            }
            for (key, value, less) in [("exit", exit, before.0), ("residency", residency, before.1)]
            {
                if value < less {
                    return Err(format!(
                        "state{n}_{key}_cycles = {value} is less than state{}_{key}_cycles = {less}; deeper states \
                         come later",
                        n - 1
                    ));
                }
            }
            before = (exit, residency);
        }
        Ok(())
    }

    fn check_depths(&self) -> Result<(), String> {
        let deepest = [
            ("wrs", self.wrs_deepest),
            ("lock", self.lock_deepest),
            ("wfi", self.wfi_deepest),
        ];
        for (nap, depth) in deepest {
            if depth > self.states {
                let states = self.states;
                return Err(format!(
                    "{nap}_deepest = {depth}, but there are states = {states}"
                ));
            }
        }
        for (n, words) in (1..).zip(self.loses()) {
            Loses::parse(words).map_err(|word| {
                format!(
                    "state{n}_loses = \"{words}\": \"{word}\" is not \"nothing\", nor one of translations, predictors, l1, l2"
                )
            })?;
        }
        Ok(())
    }

    fn loses(&self) -> [&String; STATES] {
        [&self.state1_loses, &self.state2_loses, &self.state3_loses]
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
        self.latencies()[..self.states as usize]
            .iter()
            .zip(entries)
            .zip(self.loses())
            .map(|((&(exit_cycles, residency), entry_cycles), loses)| State {
                entry_cycles,
                exit_cycles,
                after_cycles: residency,
                loses: Loses::parse(loses).expect("IdleParams::check has passed it"),
            })
            .collect()
    }
}

/// How a context rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
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
    /// What the core does not have any more; its caches have lost that before.
    pub(crate) lost: Loses,
}

/// The idle state of a core.
#[derive(Debug, Deserialize, Serialize)]
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
    /// When the caches lose something next.
    loses_at: Cycle,
    /// The core is to be cold by then.
    cold: bool,
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
            loses_at: Cycle::NEVER,
            cold: false,
            counters: IdleCounters::default(),
        };
        for c in 0..contexts {
            idle.is_vacant(c, now);
        }
        // There is nothing yet.
        idle.loses_at = Cycle::NEVER;
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
        self.loses_at = self.next_loss(Cycle(0)).min(self.ordered_loss());
    }

    /// When a core that has been told to be cold is.
    fn ordered_loss(&self) -> Cycle {
        match self.cold {
            true => self.loses_at,
            false => Cycle::NEVER,
        }
    }

    /// When the caches lose something next, after `since`, if nobody wakes before.
    fn next_loss(&self, since: Cycle) -> Cycle {
        if self.awake > 0 || self.states.iter().all(|state| state.loses.caches.is_none()) {
            return Cycle::NEVER;
        }
        let end = self.first_end();
        let losing = self.begins().into_iter().zip(&self.states);
        let losing = losing.filter(|(_, state)| state.loses.caches.is_some());
        let begins = losing.map(|(begins, _)| begins);
        let next = begins.filter(|&begins| begins > since && begins <= end);
        next.min().unwrap_or(Cycle::NEVER)
    }

    /// When the caches lose something next, if nothing comes between.
    #[inline(always)]
    pub(crate) fn loses_at(&self) -> Cycle {
        self.loses_at
    }

    /// What the caches lose at `now`, when the time has come.
    pub(crate) fn take_loss(&mut self, now: Cycle) -> Option<Caches> {
        let due = self.loses_at <= now;
        self.loses_at = self.next_loss(now);
        if std::mem::take(&mut self.cold) {
            return Loses::ALL.caches;
        }
        let begun = self.begins().into_iter().zip(&self.states);
        let begun = begun.filter(|&(begins, _)| due && begins <= now);
        begun.filter_map(|(_, state)| state.loses.caches).max()
    }

    /// The caches have lost so much.
    pub(crate) fn has_lost(&mut self, emptied: Emptied) {
        self.counters.lost_lines += emptied.lines;
        self.counters.written_back_lines += emptied.written_back;
    }

    /// The next cycle finds the caches without anything of what they have.
    pub(crate) fn is_to_be_cold(&mut self, now: Cycle) {
        (self.loses_at, self.cold) = (now, true);
    }

    /// A hart comes into context `c` at `now`, or is about to leave it: what has been is counted. Whoever moves harts
    /// has seen to it that the core is up. Returns what it has lost meanwhile.
    #[must_use]
    pub(crate) fn moves(&mut self, c: usize, now: Cycle) -> Loses {
        let up = self.wakes(c, now);
        self.up_at = self.up_at.min(now);
        up.lost
    }

    /// An event of cycle `event` wakes context `c`: the core leaves the state that it is in.
    pub(crate) fn wakes(&mut self, c: usize, event: Cycle) -> Up {
        let mut lost = Loses::default();
        if let Some(course) = self.course(event) {
            // A nap that ended by itself before has not told yet.
            let event = event.min(self.first_end());
            self.counters = self.counted(&course, event);
            if let Some(state) = course.state.checked_sub(1).map(|n| self.states[n]) {
                let entered = course.begins[course.state - 1].after(state.entry_cycles);
                self.up_at = event.max(entered).after(state.exit_cycles);
            }
            let entered = course.begins.iter().zip(&self.states);
            let entered = entered.filter(|(begins, _)| **begins != Cycle::NEVER);
            lost = entered.fold(lost, |lost, (_, state)| lost.and(state.loses));
        }
        if self.loses_at > event {
            self.loses_at = self.ordered_loss();
        }
        self.awake += usize::from(self.rests[c].is_some());
        self.rests[c] = None;
        Up {
            at: self.up_at,
            lost,
        }
    }

    /// Whether there is a state in which it loses translations.
    pub(crate) fn may_lose_translations(&self) -> bool {
        self.states.iter().any(|state| state.loses.translations)
    }

    /// Time has passed up to `now` of which the core knows nothing.
    pub(crate) fn skip(&mut self, now: Cycle) {
        for rest in self.rests.iter_mut().flatten() {
            rest.from = now;
        }
        self.up_at = self.up_at.min(now);
        self.loses_at = match self.cold {
            true => now,
            false => Cycle::NEVER,
        };
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
        let mut course = Course {
            since: self.asleep_since(),
            state: 0,
            begins: [Cycle::NEVER; STATES],
        };
        for (n, begins) in self.begins().into_iter().enumerate() {
            if now >= begins && begins != Cycle::NEVER {
                course.state = n + 1;
                course.begins[n] = begins;
            }
        }
        Some(course)
    }

    /// Since when nobody is awake, if so.
    fn asleep_since(&self) -> Cycle {
        let rests = self.rests.iter().flatten();
        rests.fold(self.up_at, |since, rest| since.max(rest.from))
    }

    /// When each state begins, if nobody wakes before; those that are not permitted never do.
    fn begins(&self) -> [Cycle; STATES] {
        let since = self.asleep_since();
        let rests = self.rests.iter().flatten();
        let permits = rests.fold(self.states.len(), |least, rest| least.min(rest.permits));
        let mut begins = [Cycle::NEVER; STATES];
        for (n, state) in self.states[..permits].iter().enumerate() {
            begins[n] = match self.at_once {
                true if n + 1 == permits => since,
                true => Cycle::NEVER,
                false => since.after(state.after_cycles),
            };
        }
        begins
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
