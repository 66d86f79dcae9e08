//! The selection rule a second time, from its words, for loops whose latencies are fixed. Nothing is taken from the model:
//! this is a list of contexts that is gone through every cycle.

/// What the rule leaves to the machine.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Pipes of a core.
    pub pipes: usize,
    /// Whether who was selected in the last cycle gives way to all others.
    pub alternates: bool,
    /// Cycles from a selection until later ones know of it.
    pub lag: u64,
    /// Cycles from a slot lost to a busy unit to the next of that context; 0: no slot is lost, it waits.
    pub retract: u64,
    /// Cycles for which a unit with a waiter stays busy longer.
    pub handover: u64,
    /// How long before the next slot of its context an instruction with a `late_slot` takes a slot of its pipe; 0: none.
    pub late_slot: u64,
    /// Whether who is selected in the cycle after its last issue, and has to wait, loses the slot.
    pub wait_slot: bool,
}

/// What an instruction does to its context and to what is shared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    /// Cycles until the context can continue.
    pub stall: u64,
    /// Cycles until it can without relying on the hit of a load; 0: it does not.
    pub confirmed: u64,
    /// Cycles until its result, which a later `reads` waits for, is there; 0: it has none.
    pub result: u64,
    /// Waits for the last result.
    pub reads: bool,
    /// A unit of the core, and the cycles for which it is taken when nobody waits for it.
    pub unit: Option<(usize, u64)>,
    /// What pipes share and one of them can have in a cycle: 0, the load/store unit; 1, floating point; 2, a multiplier and 3, a divider of its own.
    pub shared: Option<usize>,
    /// Takes a slot of its pipe for its result, where the machine wants that.
    pub late_slot: bool,
}

/// A context: what it executes, and where it stands.
#[derive(Clone, Debug)]
pub struct Context {
    /// Its pipe.
    pub pipe: usize,
    /// Executed once, then the loop for ever.
    pub prologue: Vec<Step>,
    /// The loop.
    pub body: Vec<Step>,
    /// When it begins.
    pub ready: u64,
    /// When it was last selected before.
    pub selected: u64,
}

/// A unit that is taken.
#[derive(Clone, Copy, Default)]
struct Unit {
    free: u64,
    user: usize,
    awaited: bool,
}

impl Unit {
    /// Somebody loses the slot of cycle `now` to it, which it notices two cycles later.
    fn lose(&mut self, now: u64, rule: Rule, states: &mut [State]) -> u64 {
        if !self.awaited && now + 2 <= self.free {
            self.awaited = true;
            self.free += rule.handover;
            // Who has it does not continue before it is free.
            let user = &mut states[self.user];
            user.ready = user.ready.max(self.free);
        }
        self.free.max(now + rule.retract)
    }
}

struct State {
    next: usize,
    ready: u64,
    firm: u64,
    result: u64,
    /// Every selection so far.
    selected: Vec<u64>,
    heads: Vec<u64>,
}

impl Context {
    /// The instruction that comes as number `n`.
    fn step(&self, n: usize) -> Step {
        match n.checked_sub(self.prologue.len()) {
            None => self.prologue[n],
            Some(n) => self.body[n % self.body.len()],
        }
    }

    /// Whether number `n` is the first of the loop.
    fn is_head(&self, n: usize) -> bool {
        n.checked_sub(self.prologue.len())
            .is_some_and(|n| n.is_multiple_of(self.body.len()))
    }
}

/// For each context, when the first instruction of its loop issues, before cycle `until`. The favour of each thing that is
/// shared is on pipe `favoured` at first.
pub fn predict(
    contexts: &[Context],
    rule: Rule,
    mut favoured: [usize; 4],
    until: u64,
) -> Vec<Vec<u64>> {
    let mut states: Vec<State> = contexts
        .iter()
        .map(|context| State {
            next: 0,
            ready: context.ready,
            firm: 0,
            result: 0,
            selected: vec![context.selected],
            heads: Vec::new(),
        })
        .collect();
    let mut units = [Unit::default(); 2];
    // Slots that are taken ahead: of which pipe, and when.
    let mut late_slots: Vec<(usize, u64)> = Vec::new();
    let start = contexts.iter().map(|context| context.ready).min();
    for now in start.unwrap_or(until)..until {
        let select = |pipe: usize| {
            if late_slots.contains(&(pipe, now)) {
                return None;
            }
            let waits = |c: usize| {
                let step = contexts[c].step(states[c].next);
                let unit = step.unit.map_or(0, |(unit, _)| units[unit].free);
                let unit = if rule.retract == 0 { unit } else { 0 };
                let operand = if step.reads { states[c].result } else { 0 };
                operand.max(unit) > now
            };
            // Ready: past its stall, its operand there, its unit free, or not known to be missing. Of these the least
            // recently selected as far as is known, but those that rely on a hit after all others, and who had the last
            // cycle after even those.
            let ready = (0..contexts.len()).filter(|&c| {
                let state = &states[c];
                let unknown = rule.wait_slot && state.selected.last() == Some(&(now - 1));
                contexts[c].pipe == pipe && state.ready <= now && (unknown || !waits(c))
            });
            let first = ready.min_by_key(|&c| {
                let selected = &states[c].selected;
                let had_the_last_cycle = rule.alternates && selected.last() == Some(&(now - 1));
                let mut latest_first = selected.iter().rev();
                let known = latest_first.find(|&&cycle| cycle + rule.lag <= now);
                (had_the_last_cycle, states[c].firm > now, known.copied())
            });
            first.filter(|&c| !waits(c))
        };
        // All pipes select, and lose their slots to busy units; of those that want to share, one has its turn.
        let mut selected: Vec<_> = (0..rule.pipes).map(select).collect();
        for chosen in &mut selected {
            let Some(c) = *chosen else { continue };
            let step = contexts[c].step(states[c].next);
            if let Some((unit, _)) = step.unit
                && units[unit].free > now
            {
                states[c].ready = units[unit].lose(now, rule, &mut states);
                *chosen = None;
            }
        }
        for (shared, favoured) in favoured.iter_mut().enumerate() {
            let wants = |chosen: &Option<usize>| {
                chosen.is_some_and(|c| contexts[c].step(states[c].next).shared == Some(shared))
            };
            let mut turns: Vec<usize> = (0..rule.pipes).collect();
            turns.rotate_left(*favoured);
            turns.retain(|&pipe| wants(&selected[pipe]));
            for &loser in turns.iter().skip(1) {
                // This pipe loses its cycle, and goes first from now on.
                selected[loser] = None;
                *favoured = loser;
            }
        }
        for (pipe, chosen) in selected.into_iter().enumerate() {
            let Some(chosen) = chosen else { continue };
            let step = contexts[chosen].step(states[chosen].next);
            let state = &mut states[chosen];
            if contexts[chosen].is_head(state.next) {
                state.heads.push(now);
            }
            if let Some((unit, busy)) = step.unit {
                units[unit] = Unit {
                    free: now + busy,
                    user: chosen,
                    awaited: false,
                };
            }
            if step.result != 0 {
                state.result = now + step.result;
            }
            if step.confirmed != 0 {
                state.firm = state.firm.max(now + step.confirmed);
            }
            state.ready = now + step.stall;
            if step.late_slot && rule.late_slot != 0 && state.ready > now + rule.late_slot {
                late_slots.push((pipe, state.ready - rule.late_slot));
            }
            state.selected.push(now);
            state.next += 1;
        }
    }
    states.into_iter().map(|state| state.heads).collect()
}
