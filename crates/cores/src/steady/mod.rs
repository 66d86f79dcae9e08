//! Exact skipping of steady spinning.
//!
//! A core whose contexts only spin repeats itself: it reads what its first level has, and after some cycles, its period,
//! everything in it is as it was, but for counts that have grown and cycles that have moved. Until something comes from
//! outside, or a deadline of its own, it can do nothing else. So it is advanced by whole periods at once:
//!
//! ```text
//!   waits --nothing but reads of the first level for some time--> hunts --a state that looks alike--> compares
//!     ^                                                             |                                    |
//!     +--- anything else, or nothing found: waits, twice as long ---+------------------------------------+
//!                                                                                    the same state  ----+--> repeats
//! ```
//!
//! The proof is the comparison of the whole state: [`record::Record`]. With [`crate::Skipping::Proved`], as in a debug build,
//! the skipped cycles are gone through all the same, and the state is compared again after each period.

mod climb;
mod record;

use loiter_types::Cycle;

pub(crate) use climb::periods as climbs_for;
pub(crate) use record::{Growth, Moving, Record, Taking};

/// For so many cycles a core does nothing but read its first level before it is looked at closely.
const FIRST_WAIT_CYCLES: u64 = 128;
/// A record of so many words is taken to cost the host as much as an instruction. A core is recorded only when it has waited for
/// as many instructions as its record is worth, so that looking closely costs no more than was gone through anyway.
const WORDS_AN_INSTRUCTION: usize = 64;
/// As many as a record is taken to be worth before one has been made.
pub(crate) const FIRST_WORTH_INSTRUCTIONS: u64 = 1 << 8;
/// The longest time between two looks at a core that has not waited for so long.
const MOST_EARLY_CYCLES: u64 = 1 << 11;
/// The longest such time, after it has been looked at in vain.
const MOST_WAIT_CYCLES: u64 = 1 << 16;
/// For so many cycles a state is hunted that looks like an earlier one.
const HUNT_CYCLES: u64 = 1 << 13;
/// So many states that look alike are compared before it waits again.
const COMPARISONS: u32 = 8;
/// A core that looks the same for so many cycles may have a period of one.
const STILL_CYCLES: u64 = 64;
/// A core that repeats itself is advanced by no more cycles at once, so that nobody waits for a long time for news of it.
pub(crate) const MOST_SKIPPED_CYCLES: u64 = 1 << 16;

/// A core that repeats itself.
#[derive(Debug)]
pub(crate) struct Repetition {
    /// The last cycle of the core in which a period ended.
    pub(crate) anchor: Cycle,
    pub(crate) period: u64,
    /// From there to the next cycle of the core.
    pub(crate) next: u64,
    /// What grows in a period.
    pub(crate) growth: Growth,
    /// The first cycle in which something happens by itself, or a register may lead elsewhere.
    pub(crate) deadline: Cycle,
    /// What the state is at the end of each period, for the proof.
    pub(crate) record: Record,
}

/// Comes back to what a core looked like. While it waits for a divide, say, it looks the same in one cycle after the other
/// and is not: only the first of them is worth a record.
#[derive(Clone, Copy, Debug)]
struct Sight {
    looks: u64,
    /// Since when it has looked so, or been compared, without a break.
    since: Cycle,
    /// It has looked otherwise since.
    gone: bool,
}

impl Sight {
    fn of(looks: u64, now: Cycle) -> Self {
        Self {
            looks,
            since: now,
            gone: false,
        }
    }

    /// Whether the core, which now looks like `looks`, has come back to it.
    fn returns(&mut self, looks: u64, now: Cycle) -> bool {
        if looks != self.looks {
            self.gone = true;
            return false;
        }
        let returns = self.gone || now.since(self.since) >= STILL_CYCLES;
        if returns {
            *self = Self::of(looks, now);
        }
        returns
    }
}

#[derive(Debug)]
enum Phase {
    /// For a time in which it reads its first level only.
    Waits,
    /// For a state that looks like that of cycle `anchor`.
    Hunts {
        anchor: Cycle,
        sight: Sight,
        up_to: u64,
    },
    /// States that look like that of cycle `anchor` with that.
    Compares {
        anchor: Cycle,
        sight: Sight,
        record: Record,
        left: u32,
    },
    /// It repeats itself.
    Repeats(Repetition),
}

/// What is known of a core as to whether it repeats itself.
#[derive(Debug)]
pub(crate) struct Watch {
    phase: Phase,
    /// Before this cycle there is nothing to look at.
    from: Cycle,
    /// How much the core had changed outside of itself when last looked at.
    changes: u64,
    wait_cycles: u64,
    /// Instructions that its harts had retired when it began to do nothing else, if it has been looked at since.
    began: Option<u64>,
    /// Whether states that look alike have the same in registers: a loop with loops in it, or one that only counts.
    with_registers: bool,
    /// Records that are no longer needed, for their room.
    spare: Vec<Record>,
}

/// What a core looks like at the end of a cycle.
pub(crate) trait View {
    /// How often it has done more than read its first level.
    fn changes(&self) -> u64;
    /// Instructions that its harts which execute have retired.
    fn retired(&self) -> u64;
    /// A few bits of its state, with or without what is in registers.
    fn looks(&self, with_registers: bool) -> u64;
    /// All of it, in `room`.
    fn record(&mut self, room: Record) -> Record;
    /// For how many periods harts whose registers grow go the same way.
    fn climbs_for(&mut self, growth: &Growth) -> u64;
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self {
            phase: Phase::Waits,
            from: Cycle(0),
            changes: 0,
            wait_cycles: FIRST_WAIT_CYCLES,
            began: None,
            with_registers: false,
            spare: Vec::new(),
        }
    }

    /// The first cycle after which the core is to be looked at.
    #[inline(always)]
    pub(crate) fn from(&self) -> Cycle {
        self.from
    }

    /// Something from outside has changed the core, or may have. Returns whether it is to be looked at in another cycle.
    #[inline]
    pub(crate) fn forget(&mut self, now: Cycle) -> bool {
        self.began = None;
        let looked = !matches!(self.phase, Phase::Waits);
        if looked {
            self.wait(now, FIRST_WAIT_CYCLES);
        }
        looked
    }

    fn wait(&mut self, now: Cycle, cycles: u64) {
        match std::mem::replace(&mut self.phase, Phase::Waits) {
            Phase::Waits | Phase::Hunts { .. } => {}
            Phase::Compares { record, .. } => self.spare.push(record),
            Phase::Repeats(repetition) => self.spare.push(repetition.record),
        }
        self.with_registers = cycles > FIRST_WAIT_CYCLES && !self.with_registers;
        self.wait_cycles = cycles.min(MOST_WAIT_CYCLES);
        self.from = now.after(self.wait_cycles);
    }

    /// The core has been advanced to the end of a period and on; it repeats itself as before.
    pub(crate) fn goes_on(&mut self) {
        if let Phase::Repeats(repetition) = &self.phase {
            self.from = repetition.anchor.after(repetition.period);
        }
    }

    /// How the core repeats itself, if it does.
    pub(crate) fn repetition(&mut self) -> Option<&mut Repetition> {
        match &mut self.phase {
            Phase::Repeats(repetition) => Some(repetition),
            _ => None,
        }
    }

    /// The core has been through cycle `now`; its next one is `next`. A record of a core of its kind is worth so many
    /// instructions; the first one says it. Returns whether it repeats itself from here on.
    #[cold]
    #[inline(never)]
    pub(crate) fn look(
        &mut self,
        now: Cycle,
        next: Cycle,
        worth_instructions: &mut u64,
        core: &mut impl View,
    ) -> bool {
        let changes = core.changes();
        if changes != std::mem::replace(&mut self.changes, changes) || next == Cycle::NEVER {
            self.began = Some(core.retired());
            self.wait(now, FIRST_WAIT_CYCLES);
            return false;
        }
        let retired = core.retired();
        let Some(began) = self.began else {
            self.began = Some(retired);
            self.from = now.after(self.wait_cycles);
            return false;
        };
        if matches!(self.phase, Phase::Waits) && retired.wrapping_sub(began) < *worth_instructions {
            self.wait_cycles = MOST_EARLY_CYCLES.min(2 * self.wait_cycles);
            self.from = now.after(self.wait_cycles);
            return false;
        }
        let with_registers = self.with_registers;
        match &mut self.phase {
            Phase::Waits => self.hunt(now, core, 64),
            Phase::Hunts {
                anchor,
                sight,
                up_to,
            } => {
                let (anchor, up_to) = (*anchor, *up_to);
                if sight.returns(core.looks(with_registers), now) {
                    let sight = *sight;
                    let record = core.record(self.spare.pop().unwrap_or_default());
                    *worth_instructions = (record.words() / WORDS_AN_INSTRUCTION) as u64;
                    match record.steady {
                        true => {
                            let left = COMPARISONS;
                            self.phase = Phase::Compares {
                                anchor: now,
                                sight,
                                record,
                                left,
                            };
                        }
                        false => {
                            self.spare.push(record);
                            self.wait(now, 2 * self.wait_cycles);
                        }
                    }
                } else if now.since(anchor) >= up_to {
                    match 2 * up_to {
                        more if more <= HUNT_CYCLES => self.hunt(now, core, more),
                        _ => self.wait(now, 2 * self.wait_cycles),
                    }
                }
            }
            Phase::Compares {
                anchor,
                sight,
                record,
                left,
            } => {
                let length = now.since(*anchor);
                if sight.returns(core.looks(with_registers), now) {
                    let found = core.record(self.spare.pop().unwrap_or_default());
                    if found.repeats(record) {
                        let growth = found.growth_since(record);
                        let mut deadline = found.deadline;
                        if growth.climbs() {
                            let periods = core.climbs_for(&growth);
                            if periods < 2 {
                                self.spare.push(found);
                                self.wait(now, 2 * self.wait_cycles);
                                return false;
                            }
                            deadline = deadline.min(now.after(periods.saturating_mul(length)));
                        }
                        self.spare.push(std::mem::take(record));
                        self.phase = Phase::Repeats(Repetition {
                            anchor: now,
                            period: length,
                            next: next.since(now),
                            growth,
                            deadline,
                            record: found,
                        });
                        return self.repeats(now);
                    }
                    self.spare.push(found);
                    *left -= 1;
                }
                if *left == 0 || length > HUNT_CYCLES {
                    self.wait(now, 2 * self.wait_cycles);
                }
            }
            Phase::Repeats(repetition) => {
                let at_its_end = now == repetition.anchor.after(repetition.period);
                debug_assert!(at_its_end, "a period has another end");
                if !at_its_end {
                    self.wait(now, FIRST_WAIT_CYCLES);
                    return false;
                }
                repetition.anchor = now;
                repetition.record.grows(&repetition.growth);
                return self.repeats(now);
            }
        }
        false
    }

    /// A period ends at `now`. Returns whether another comes before something happens.
    fn repeats(&mut self, now: Cycle) -> bool {
        let Phase::Repeats(repetition) = &self.phase else {
            return false;
        };
        let end = now.after(repetition.period);
        let repeats = end < repetition.deadline;
        match repeats {
            true => self.from = end,
            false => self.wait(now, FIRST_WAIT_CYCLES),
        }
        repeats
    }

    fn hunt(&mut self, now: Cycle, core: &mut impl View, up_to: u64) {
        self.from = now;
        self.phase = Phase::Hunts {
            anchor: now,
            sight: Sight::of(core.looks(self.with_registers), now),
            up_to,
        };
    }

    /// For the proof: the core, gone through cycle by cycle up to `now`, is at the end of a period what it was said to be.
    pub(crate) fn prove(&mut self, now: Cycle, core: &mut impl View) {
        let changes = core.changes();
        assert_eq!(
            changes, self.changes,
            "a core that repeats itself does something else"
        );
        let Phase::Repeats(repetition) = &mut self.phase else {
            unreachable!("it repeats itself");
        };
        repetition.anchor = repetition.anchor.after(repetition.period);
        assert_eq!(now, repetition.anchor, "a period has another end");
        repetition.record.grows(&repetition.growth);
        self.from = now.after(repetition.period);
        let found = core.record(self.spare.pop().unwrap_or_default());
        assert!(
            found == repetition.record,
            "a core that repeats itself has changed: {}",
            found.difference(&repetition.record)
        );
        self.spare.push(found);
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
