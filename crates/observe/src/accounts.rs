//! Context-cycle accounts: what the hart was doing, and what became of the slot.

use std::collections::VecDeque;

use loiter_types::{ContextId, Cycle, StateVisitor};
use serde::{Deserialize, Serialize};

use crate::activity::Activity;

words! {
    /// What became of a context's cycle.
    Slot {
        /// It issued an instruction, which retires unless it traps.
        Retired = "retired",
        /// It could have issued; its pipe served another context.
        NotSelected = "not_selected",
        /// Its last instruction is executing (multiply, divide, floating point, CSR).
        Executing = "executing",
        /// An operand is not there yet.
        Dependence = "dependence",
        /// Its last branch or jump is being resolved.
        Branch = "branch",
        /// A load that hits the first level.
        LoadHit = "load_hit",
        /// A load that misses the first level and hits the second.
        L2Hit = "l2_hit",
        /// A load that misses the second level and hits the third.
        L3Hit = "l3_hit",
        /// A load of a line that another core has in its private caches.
        OtherCache = "other_cache",
        /// A load that memory serves.
        L2Miss = "l2_miss",
        /// An atomic at the second level.
        Atomic = "atomic",
        /// The instruction line is not in the first level.
        FetchMiss = "fetch_miss",
        /// The next instruction is in the front end.
        FrontEnd = "front_end",
        /// A queue, or the register file, that other contexts share is full.
        QueueFull = "queue_full",
        /// The core walks page tables for the context's next instruction, or will when others are done.
        ItlbWalk = "itlb_walk",
        /// The same for the data of its next instruction.
        DtlbWalk = "dtlb_walk",
        /// A unit that other contexts share is busy.
        UnitBusy = "unit_busy",
        /// The store buffer is full, or must drain first.
        StoreBuffer = "store_buffer",
        /// An access to a device.
        Device = "device",
        /// Entry into or return from a trap.
        TrapEntry = "trap_entry",
        /// Sleeps or gives way.
        Waiting = "waiting",
        /// No hart sits in the context.
        Vacant = "vacant",
    }
}

const ACTIVITIES: usize = Activity::ALL.len();
const SLOTS: usize = Slot::ALL.len();

/// From a cycle on, a context's cycles are charged to an activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Change {
    /// The first cycle.
    pub from: Cycle,
    /// The activity.
    pub activity: Activity,
}

/// Cycles since the fetch of an instruction with which an activity begins, if that retires.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Interval {
    /// Number of the instruction.
    first: u64,
    /// The cycle in which it was fetched.
    from: Cycle,
    mark: u8,
}

/// The account of one context.
///
/// An activity begins with the fetch of its first instruction and ends with that of the next one's; what an
/// instruction begins is known when it retires. So a core that fetches ahead [opens](Accounts::open) an
/// interval with each instruction that may begin an activity, and charges go to the youngest. When its
/// instruction retires, the interval becomes [cycles of an activity](Accounts::settle_first); when it is
/// squashed, they become [cycles of the interval before](Accounts::retract): what was fetched on a wrong path
/// was never done.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[repr(C)]
pub struct Accounts {
    // What every cycle of every context asks comes first.
    until: Cycle,
    /// Instructions that have retired since `activity` last changed.
    present_instructions: u64,
    /// Charges since `row` last changed, which belong there: charging, which every cycle of every context does, looks
    /// up nothing. What was taken back may have been charged before that, so sums wrap on the way.
    present: [u64; SLOTS],
    /// What the hart is doing, as far as instructions have retired.
    activity: Activity,
    instructions: [u64; ACTIVITIES],
    /// Whose account it is.
    pub context: ContextId,
    /// By activity, and after those by open interval.
    cycles: Vec<[u64; SLOTS]>,
    /// Intervals whose first instruction has not retired, oldest first.
    intervals: VecDeque<Interval>,
    /// Where charges go.
    row: usize,
    opened: Cycle,
    /// Changes of activity since they were last taken, if anybody takes them.
    changes: Option<Vec<Change>>,
}

impl Accounts {
    /// An account of a vacant context that opens at `now`.
    #[must_use]
    pub fn new(context: ContextId, now: Cycle) -> Self {
        Self {
            context,
            present: [0; SLOTS],
            cycles: vec![[0; SLOTS]; ACTIVITIES],
            present_instructions: 0,
            instructions: [0; ACTIVITIES],
            activity: Activity::Vacant,
            intervals: VecDeque::new(),
            row: Activity::Vacant as usize,
            opened: now,
            until: now,
            changes: None,
        }
    }

    /// What the hart is doing, as far as instructions have retired.
    #[inline(always)]
    #[must_use]
    pub fn activity(&self) -> Activity {
        self.activity
    }

    /// Shows `visitor` the account, which repeats itself as long as no activity begins that is not certain and nobody takes
    /// the changes.
    pub fn visit_state(&mut self, visitor: &mut impl StateVisitor) {
        let Self {
            context: _,
            present,
            present_instructions,
            cycles,
            instructions,
            activity,
            intervals,
            row,
            opened: _,
            until,
            changes,
        } = self;
        visitor.require(intervals.is_empty() && changes.is_none());
        visitor.value(*activity as u64);
        visitor.value(*row as u64);
        visitor.instant(until);
        present.iter_mut().for_each(|count| visitor.count(count));
        visitor.count(present_instructions);
        let cycles = cycles.iter_mut().flatten();
        cycles.for_each(|count| visitor.count(count));
        instructions
            .iter_mut()
            .for_each(|count| visitor.count(count));
    }

    /// Keeps changes of activity from now on, the present one first.
    pub fn follow(&mut self) {
        self.changes = Some(Vec::new());
        let from = self.intervals.front().map_or(self.until, |it| it.from);
        self.note_change(from);
    }

    /// Cycles that have not been charged will be charged to `activity`. No interval is open.
    pub fn changed(&mut self, activity: Activity) {
        debug_assert!(
            self.intervals.is_empty(),
            "{}: what is open ends first",
            self.context
        );
        self.enter();
        self.is_now(activity);
        self.row = activity as usize;
        self.note_change(self.until);
    }

    fn is_now(&mut self, activity: Activity) {
        let instructions = std::mem::take(&mut self.present_instructions);
        self.instructions[self.activity as usize] += instructions;
        self.activity = activity;
    }

    fn note_change(&mut self, from: Cycle) {
        // Harts change what they do rarely, so this may be looked at each time.
        if let Some(changes) = &mut self.changes {
            changes.push(Change {
                from,
                activity: self.activity,
            });
        }
    }

    /// Instruction number `first` is fetched now and may begin an activity; its code has `mark`.
    #[cold]
    pub fn open(&mut self, first: u64, mark: u8) {
        self.enter();
        self.intervals.push_back(Interval {
            first,
            from: self.until,
            mark,
        });
        self.row = ACTIVITIES + self.intervals.len() - 1;
        if self.row == self.cycles.len() {
            self.cycles.push([0; SLOTS]);
        }
    }

    /// The number and the mark of the instruction with which the oldest open interval begins.
    #[must_use]
    pub fn first_open(&self) -> Option<(u64, u8)> {
        self.intervals.front().map(|it| (it.first, it.mark))
    }

    /// The mark of the code with which the youngest open interval begins.
    #[must_use]
    pub fn last_mark(&self) -> Option<u8> {
        self.intervals.back().map(|it| it.mark)
    }

    /// The instruction with which the oldest open interval begins has retired: it was `activity`.
    #[cold]
    pub fn settle_first(&mut self, activity: Activity) {
        self.enter();
        let interval = self.intervals.pop_front().expect("an open interval");
        self.is_now(activity);
        self.note_change(interval.from);
        let open = self.intervals.len();
        self.move_row(ACTIVITIES, activity as usize);
        self.cycles[ACTIVITIES..=ACTIVITIES + open].rotate_left(1);
        self.row = self.youngest_row();
    }

    /// Instruction number `first` and all after it are squashed: no activity has begun with them.
    #[cold]
    pub fn retract(&mut self, first: u64) {
        self.enter();
        while self.intervals.back().is_some_and(|it| it.first >= first) {
            self.intervals.pop_back();
            let row = self.youngest_row();
            self.move_row(ACTIVITIES + self.intervals.len(), row);
            self.row = row;
        }
    }

    /// Enters charges where they belong.
    fn enter(&mut self) {
        let charges = std::mem::take(&mut self.present);
        add(&mut self.cycles[self.row], &charges);
    }

    fn youngest_row(&self) -> usize {
        match self.intervals.len() {
            0 => self.activity as usize,
            open => ACTIVITIES + open - 1,
        }
    }

    fn move_row(&mut self, from: usize, to: usize) {
        let moved = std::mem::take(&mut self.cycles[from]);
        add(&mut self.cycles[to], &moved);
    }

    /// The changes since they were last taken, in order. One may take the place of the one before from
    /// the same cycle on, or be none.
    pub fn take_changes(&mut self) -> Vec<Change> {
        self.changes
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// The first cycle that has not been charged.
    #[inline(always)]
    #[must_use]
    pub fn until(&self) -> Cycle {
        self.until
    }

    /// Charges all cycles before `to` that have not been charged. Does nothing if there are none.
    #[inline(always)]
    pub fn charge(&mut self, to: Cycle, slot: Slot) {
        if to > self.until {
            let cycles = &mut self.present[slot as usize];
            *cycles = cycles.wrapping_add(to.0 - self.until.0);
            self.until = to;
        }
    }

    /// Charges the issue of an instruction in cycle `now`, by a context that was stalled for `slot`
    /// until `ready_at` and passed over since.
    #[inline(always)]
    pub fn issue(&mut self, ready_at: Cycle, now: Cycle, slot: Slot) {
        let mut add = |slot: Slot, more: u64| {
            let cycles = &mut self.present[slot as usize];
            *cycles = cycles.wrapping_add(more);
        };
        debug_assert!(now >= self.until, "a cycle would be charged twice");
        debug_assert!(ready_at <= now);
        let ready = ready_at.max(self.until);
        add(Slot::NotSelected, now.0 - ready.0);
        add(Slot::Retired, 1);
        // Where nothing is charged no further line of a host's cache is touched, and no branch asks whether there is. It comes
        // last: the two before are one access to a host, and would wait for this one.
        let slot = match ready == self.until {
            true => Slot::NotSelected,
            false => slot,
        };
        add(slot, ready.0 - self.until.0);
        self.until = Cycle(now.0 + 1);
    }

    /// Counts an instruction that retired.
    #[inline(always)]
    pub fn retired(&mut self) {
        self.present_instructions += 1;
    }

    /// Cycles of an activity. Those of open intervals belong to what has retired last, as long as nobody knows
    /// better.
    fn cycles_of(&self, activity: Activity) -> [u64; SLOTS] {
        let mut cycles = self.cycles[activity as usize];
        if activity == self.activity {
            self.cycles[ACTIVITIES..]
                .iter()
                .for_each(|open| add(&mut cycles, open));
            add(&mut cycles, &self.present);
        }
        cycles
    }

    /// Activities with their cycles and the instructions that retired in them, where there are any.
    pub fn activities(&self) -> impl Iterator<Item = (Activity, u64, u64)> + '_ {
        Activity::ALL.iter().filter_map(|&activity| {
            let cycles: u64 = self.cycles_of(activity).iter().sum();
            let present = u64::from(activity == self.activity) * self.present_instructions;
            let instructions = self.instructions[activity as usize] + present;
            (cycles + instructions != 0).then_some((activity, cycles, instructions))
        })
    }

    /// The account stands still from its last charged cycle to `to`: nothing is charged for those.
    pub fn skip(&mut self, to: Cycle) {
        self.opened = self.opened.after(to.since(self.until));
        self.until = to;
    }

    /// Takes back what was charged to a slot ahead of time, from cycle `to` on.
    pub fn refund(&mut self, to: Cycle, slot: Slot) {
        if self.until > to {
            let cycles = &mut self.present[slot as usize];
            *cycles = cycles.wrapping_sub(self.until.since(to));
            self.until = to;
        }
    }

    /// The entries that are not zero.
    pub fn entries(&self) -> impl Iterator<Item = (Activity, Slot, u64)> + '_ {
        Activity::ALL.iter().flat_map(move |&activity| {
            let cycles = self.cycles_of(activity);
            Slot::ALL.iter().filter_map(move |&slot| {
                let cycles = cycles[slot as usize];
                (cycles != 0).then_some((activity, slot, cycles))
            })
        })
    }

    /// Sum of all entries; equals the cycles since the account was opened.
    ///
    /// # Panics
    /// When it does not, which is our error.
    #[must_use]
    pub fn total(&self) -> u64 {
        let all = Activity::ALL.iter();
        let total = all
            .flat_map(|&activity| self.cycles_of(activity))
            .sum::<u64>();
        assert_eq!(
            total,
            self.until.since(self.opened),
            "{}: accounts do not add up",
            self.context
        );
        total
    }
}

fn add(sums: &mut [u64; SLOTS], charges: &[u64; SLOTS]) {
    for (sum, cycles) in sums.iter_mut().zip(charges) {
        *sum = sum.wrapping_add(*cycles);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(activity: Activity) -> Accounts {
        let mut accounts = Accounts::new(ContextId(0), Cycle(10));
        accounts.changed(activity);
        accounts
    }

    fn cycles(accounts: &Accounts) -> Vec<(Activity, u64)> {
        let rows = accounts.activities();
        rows.map(|(activity, cycles, _)| (activity, cycles))
            .collect()
    }

    #[test]
    fn changes_begin_where_charges_end() {
        let mut accounts = account(Activity::User);
        assert_eq!(accounts.take_changes(), [], "nobody has asked for it");
        accounts.follow();
        // Charged ahead of time: what changes before shows after.
        accounts.charge(Cycle(15), Slot::UnitBusy);
        accounts.changed(Activity::Pausing);
        let changes = accounts.take_changes();
        let begins: Vec<_> = changes
            .iter()
            .map(|change| (change.from.0, change.activity))
            .collect();
        assert_eq!(begins, [(10, Activity::User), (15, Activity::Pausing)]);
        assert_eq!(accounts.take_changes(), []);
    }

    #[test]
    fn every_cycle_is_charged_once() {
        let mut accounts = account(Activity::User);
        accounts.charge(Cycle(15), Slot::LoadHit);
        accounts.charge(Cycle(12), Slot::Branch);
        accounts.changed(Activity::Spinning);
        accounts.charge(Cycle(16), Slot::Retired);
        let entries: Vec<_> = accounts.entries().collect();
        assert_eq!(
            entries,
            [
                (Activity::User, Slot::LoadHit, 5),
                (Activity::Spinning, Slot::Retired, 1)
            ]
        );
        assert_eq!(accounts.total(), 6);
        accounts.charge(Cycle(20), Slot::LoadHit);
        accounts.refund(Cycle(18), Slot::LoadHit);
        accounts.refund(Cycle(19), Slot::LoadHit);
        assert_eq!((accounts.total(), accounts.until()), (8, Cycle(18)));
        accounts.skip(Cycle(1_000));
        accounts.charge(Cycle(1_001), Slot::LoadHit);
        assert_eq!((accounts.total(), accounts.until()), (9, Cycle(1_001)));
    }

    /// Stalled from 10 to 14, then passed over until 17; then ready before the cycle of its last issue was over; then
    /// stalled up to its next issue.
    #[test]
    fn who_is_passed_over_is_not_selected() {
        let mut accounts = account(Activity::User);
        accounts.issue(Cycle(14), Cycle(17), Slot::LoadHit);
        accounts.issue(Cycle(15), Cycle(20), Slot::Branch);
        accounts.issue(Cycle(25), Cycle(25), Slot::Dependence);
        let entries: Vec<_> = accounts.entries().map(|(_, slot, n)| (slot, n)).collect();
        let expected = [
            (Slot::Retired, 3),
            (Slot::NotSelected, 3 + 2),
            (Slot::Dependence, 4),
            (Slot::LoadHit, 4),
        ];
        assert_eq!(entries, expected);
        assert_eq!(accounts.until(), Cycle(26));
    }

    /// Fetched at 12, 13 and 17; the second and third are in flight when the first retires at 20.
    #[test]
    fn an_activity_lasts_from_fetch_to_fetch() {
        let mut accounts = account(Activity::Kernel);
        accounts.follow();
        accounts.charge(Cycle(12), Slot::Executing);
        accounts.open(5, 1);
        accounts.charge(Cycle(13), Slot::Executing);
        accounts.open(6, 0);
        accounts.charge(Cycle(17), Slot::LoadHit);
        accounts.open(9, 1);
        accounts.charge(Cycle(20), Slot::LoadHit);
        assert_eq!(
            cycles(&accounts),
            [(Activity::Kernel, 10)],
            "as far as it is known"
        );
        assert_eq!(
            (accounts.first_open(), accounts.last_mark()),
            (Some((5, 1)), Some(1))
        );
        accounts.settle_first(Activity::Spinning);
        accounts.retired();
        assert_eq!(accounts.first_open(), Some((6, 0)));
        accounts.settle_first(Activity::Kernel);
        accounts.charge(Cycle(21), Slot::Branch);
        accounts.settle_first(Activity::Spinning);
        assert_eq!(
            cycles(&accounts),
            [(Activity::Kernel, 2 + 4), (Activity::Spinning, 1 + 4)]
        );
        let froms: Vec<_> = accounts.take_changes().iter().map(|it| it.from.0).collect();
        assert_eq!(froms, [10, 12, 13, 17]);
        assert_eq!(accounts.total(), 11);
    }

    #[test]
    fn what_is_squashed_was_never_begun() {
        let mut accounts = account(Activity::User);
        accounts.charge(Cycle(12), Slot::Executing);
        for first in [3, 4, 6] {
            accounts.open(first, 1);
            accounts.charge(accounts.until().after(10), Slot::Dependence);
        }
        // The third goes: its cycles are those of the second, which becomes the only one when the first retires.
        accounts.retract(5);
        accounts.charge(Cycle(50), Slot::Branch);
        accounts.settle_first(Activity::Spinning);
        accounts.settle_first(Activity::Interrupt);
        assert_eq!(
            cycles(&accounts),
            [
                (Activity::User, 2),
                (Activity::Interrupt, 10 + 10 + 8),
                (Activity::Spinning, 10)
            ]
        );
        accounts.open(7, 0);
        accounts.charge(Cycle(55), Slot::Branch);
        accounts.retract(7);
        accounts.retract(7);
        assert_eq!(accounts.first_open(), None);
        accounts.charge(Cycle(56), Slot::Branch);
        assert_eq!(cycles(&accounts)[1], (Activity::Interrupt, 34));
        assert_eq!(accounts.total(), 46);
    }
}
