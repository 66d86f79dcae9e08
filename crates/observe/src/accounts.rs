//! Context-cycle accounts: what the hart was doing, and what became of the slot.

use loiter_types::{ContextId, Cycle};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            /// All, in order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// Its word in result tables.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
        }
    };
}

words! {
    /// What the hart in a context is doing.
    Activity {
        /// Executes in user mode.
        User = "user",
        /// Executes in supervisor mode.
        Kernel = "kernel",
        /// Executes in machine mode.
        Machine = "machine",
        /// Executes, between the probes "acquire" and "acquired".
        Spinning = "spinning",
        /// Gives way after `pause`.
        Pausing = "pausing",
        /// Sleeps in `wrs` until a watched line is lost.
        Napping = "napping",
        /// Sleeps in `wfi`.
        Idle = "idle",
        /// No hart sits in the context.
        Vacant = "vacant",
    }
}

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
        /// A load that misses the second level.
        L2Miss = "l2_miss",
        /// An atomic at the second level.
        Atomic = "atomic",
        /// The instruction line is not in the first level.
        FetchMiss = "fetch_miss",
        /// The next instruction is on its way through the front end.
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

/// How a hart executes, as far as it can be seen from its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// User mode.
    User,
    /// Supervisor mode.
    Supervisor,
    /// Machine mode.
    Machine,
}

/// How a hart waits, if it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It executes.
    Executing,
    /// It gives way after `pause`.
    Pausing,
    /// It sleeps in `wrs`.
    Napping,
    /// It sleeps in `wfi`.
    Idle,
    /// There is no hart.
    Vacant,
}

impl Activity {
    /// The one place that decides what a hart is doing, from its mode and its probe state.
    #[inline]
    #[must_use]
    pub fn of(doing: Doing, spinning: bool, mode: Mode) -> Self {
        match (doing, spinning, mode) {
            (Doing::Vacant, ..) => Activity::Vacant,
            (Doing::Idle, ..) => Activity::Idle,
            (Doing::Napping, ..) => Activity::Napping,
            (Doing::Pausing, ..) => Activity::Pausing,
            (Doing::Executing, true, _) => Activity::Spinning,
            (Doing::Executing, false, Mode::User) => Activity::User,
            (Doing::Executing, false, Mode::Supervisor) => Activity::Kernel,
            (Doing::Executing, false, Mode::Machine) => Activity::Machine,
        }
    }
}

const ACTIVITIES: usize = Activity::ALL.len();
const SLOTS: usize = Slot::ALL.len();

/// From a cycle on, a context's cycles are charged to an activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The first cycle.
    pub from: Cycle,
    /// The activity.
    pub activity: Activity,
}

/// The account of one context.
#[derive(Clone, Debug)]
pub struct Accounts {
    /// Whose account it is.
    pub context: ContextId,
    cycles: [[u64; SLOTS]; ACTIVITIES],
    instructions: [u64; ACTIVITIES],
    opened: Cycle,
    until: Cycle,
    /// Changes of activity since they were last taken, if anybody takes them.
    changes: Option<Vec<Change>>,
}

impl Accounts {
    /// An account that opens at `now`.
    #[must_use]
    pub fn new(context: ContextId, now: Cycle) -> Self {
        Self {
            context,
            cycles: [[0; SLOTS]; ACTIVITIES],
            instructions: [0; ACTIVITIES],
            opened: now,
            until: now,
            changes: None,
        }
    }

    /// Keeps changes of activity from now on, the present one first.
    pub fn follow(&mut self, activity: Activity) {
        self.changes = Some(Vec::new());
        self.changed(activity);
    }

    /// Cycles that have not been charged will be charged to `activity`.
    #[inline]
    pub fn changed(&mut self, activity: Activity) {
        // Harts change what they do rarely, so this may be looked at each time.
        if let Some(changes) = &mut self.changes {
            changes.push(Change {
                from: self.until,
                activity,
            });
        }
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
    pub fn charge(&mut self, to: Cycle, activity: Activity, slot: Slot) {
        if to > self.until {
            self.cycles[activity as usize][slot as usize] += to.0 - self.until.0;
            self.until = to;
        }
    }

    /// Charges the issue of an instruction in cycle `now`, by a context that was stalled for `slot`
    /// until `ready_at` and passed over since.
    #[inline(always)]
    pub fn issue(&mut self, ready_at: Cycle, now: Cycle, activity: Activity, slot: Slot) {
        let row = &mut self.cycles[activity as usize];
        if now > self.until {
            let ready = ready_at.clamp(self.until, now);
            row[slot as usize] += ready.0 - self.until.0;
            row[Slot::NotSelected as usize] += now.0 - ready.0;
        }
        debug_assert!(now >= self.until, "a cycle would be charged twice");
        row[Slot::Retired as usize] += 1;
        self.until = Cycle(now.0 + 1);
    }

    /// Counts an instruction that retired in an activity.
    #[inline(always)]
    pub fn retired(&mut self, activity: Activity) {
        self.instructions[activity as usize] += 1;
    }

    /// Activities with their cycles and the instructions that retired in them, where there are any.
    pub fn activities(&self) -> impl Iterator<Item = (Activity, u64, u64)> + '_ {
        Activity::ALL.iter().filter_map(|&activity| {
            let cycles: u64 = self.cycles[activity as usize].iter().sum();
            let instructions = self.instructions[activity as usize];
            (cycles + instructions != 0).then_some((activity, cycles, instructions))
        })
    }

    /// The account stands still from its last charged cycle to `to`: nothing is charged for those.
    pub fn skip(&mut self, to: Cycle) {
        self.opened = self.opened.after(to.since(self.until));
        self.until = to;
    }

    /// Takes back what was charged to a slot ahead of time, from cycle `to` on.
    pub fn refund(&mut self, to: Cycle, activity: Activity, slot: Slot) {
        if self.until > to {
            self.cycles[activity as usize][slot as usize] -= self.until.since(to);
            self.until = to;
        }
    }

    /// The entries that are not zero.
    pub fn entries(&self) -> impl Iterator<Item = (Activity, Slot, u64)> + '_ {
        Activity::ALL.iter().flat_map(move |&activity| {
            Slot::ALL.iter().filter_map(move |&slot| {
                let cycles = self.cycles[activity as usize][slot as usize];
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
        let total = self.cycles.iter().flatten().sum();
        assert_eq!(
            total,
            self.until.since(self.opened),
            "{}: accounts do not add up",
            self.context
        );
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_begin_where_charges_end() {
        let mut accounts = Accounts::new(ContextId(0), Cycle(10));
        accounts.changed(Activity::User);
        assert_eq!(accounts.take_changes(), [], "nobody has asked for it");
        accounts.follow(Activity::User);
        // Charged ahead of time: what changes before shows behind.
        accounts.charge(Cycle(15), Activity::User, Slot::UnitBusy);
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
        let mut accounts = Accounts::new(ContextId(0), Cycle(10));
        accounts.charge(Cycle(15), Activity::User, Slot::LoadHit);
        accounts.charge(Cycle(12), Activity::User, Slot::Branch);
        accounts.charge(Cycle(16), Activity::Spinning, Slot::Retired);
        let entries: Vec<_> = accounts.entries().collect();
        assert_eq!(
            entries,
            [
                (Activity::User, Slot::LoadHit, 5),
                (Activity::Spinning, Slot::Retired, 1)
            ]
        );
        assert_eq!(accounts.total(), 6);
        accounts.charge(Cycle(20), Activity::User, Slot::LoadHit);
        accounts.refund(Cycle(18), Activity::User, Slot::LoadHit);
        accounts.refund(Cycle(19), Activity::User, Slot::LoadHit);
        assert_eq!((accounts.total(), accounts.until()), (8, Cycle(18)));
        accounts.skip(Cycle(1_000));
        accounts.charge(Cycle(1_001), Activity::User, Slot::LoadHit);
        assert_eq!((accounts.total(), accounts.until()), (9, Cycle(1_001)));
    }
}
