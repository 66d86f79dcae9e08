//! What a hart is doing, and what that is decided from.

use loiter_types::StateVisitor;
use serde::{Deserialize, Serialize};

words! {
    /// What the hart in a context is doing.
    Activity {
        /// Executes in user mode.
        User = "user",
        /// Executes in supervisor mode.
        Kernel = "kernel",
        /// Executes in machine mode.
        Machine = "machine",
        /// Handles an interrupt, from its trap to the return from that or to a switch of tasks.
        Interrupt = "interrupt",
        /// Executes, waiting for a lock: between the probes "acquire" and "acquired", or in code that does
        /// nothing else.
        Spinning = "spinning",
        /// Executes a routine that takes a lock, and does not wait in it.
        Acquiring = "acquiring",
        /// Executes the loop in which an idle hart looks for work.
        IdlePolling = "idle_polling",
        /// Gives way after `pause`.
        Pausing = "pausing",
        /// Sleeps in `wrs` until a watched line is lost.
        Napping = "napping",
        /// Waits in a hardware lock until it is free, or for flags.
        Blocked = "blocked",
        /// Sleeps in `wfi`.
        Idle = "idle",
        /// No hart sits in the context.
        Vacant = "vacant",
    }
}

words! {
    /// What code is there for, as far as that decides what a hart does that executes it. Decoded
    /// instructions carry it as their mark.
    CodeKind {
        /// Work, or nobody knows.
        Plain = "plain",
        /// It waits for a lock.
        Lock = "lock",
        /// It waits for work.
        Idle = "idle",
        /// It switches to another task: what it interrupted is over for this hart.
        Switch = "switch",
        /// It belongs to a routine that takes a lock, which may be free.
        Acquire = "acquire",
    }
}

words! {
    /// What an instruction is for, as far as that is known when it is fetched.
    Purpose {
        /// Neither of the others.
        Useful = "useful",
        /// It waits for a lock.
        Spinning = "spinning",
        /// It looks for work.
        Polling = "polling",
    }
}

impl Purpose {
    /// What instructions of an activity are for.
    #[inline]
    #[must_use]
    pub fn of(activity: Activity) -> Self {
        match activity {
            Activity::Spinning => Purpose::Spinning,
            Activity::IdlePolling => Purpose::Polling,
            _ => Purpose::Useful,
        }
    }
}

impl CodeKind {
    /// The kind that `mark` stands for; of no mark that anybody sets, plain.
    #[inline]
    #[must_use]
    pub fn of_mark(mark: u8) -> Self {
        Self::ALL
            .get(usize::from(mark))
            .copied()
            .unwrap_or(CodeKind::Plain)
    }
}

/// How a hart executes, as far as it can be seen from its mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum Mode {
    /// User mode.
    User,
    /// Supervisor mode.
    Supervisor,
    /// Machine mode.
    #[default]
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
    /// It waits in a hardware lock, or for flags.
    Blocked,
    /// It sleeps in `wfi`.
    Idle,
    /// There is no hart.
    Vacant,
}

/// Where a hart stands in what it executes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Course {
    mode: Mode,
    /// The mode in which it has passed "acquire", and not "acquired" yet.
    acquires_in: Option<Mode>,
    /// Traps that it has to return from before an interrupt is handled, that of the interrupt included.
    /// 0: it handles none.
    interrupt_depth: u32,
    code: u8,
}

impl Course {
    /// Shows `visitor` where the hart stands.
    pub fn visit_state(&mut self, visitor: &mut impl StateVisitor) {
        let Self {
            mode,
            acquires_in,
            interrupt_depth,
            code,
        } = self;
        visitor.value(*mode as u64);
        visitor.value(acquires_in.map_or(u64::MAX, |mode| mode as u64));
        visitor.value(u64::from(*interrupt_depth));
        visitor.value(u64::from(*code));
    }

    /// Of a hart that comes from elsewhere in `mode`; `acquires`: it has passed "acquire" there. An interrupt
    /// that it handles is over for us.
    #[must_use]
    pub fn seated(mode: Mode, acquires: bool) -> Self {
        Self {
            mode,
            acquires_in: acquires.then_some(mode),
            ..Self::default()
        }
    }

    /// It is in `mode` from now on.
    #[inline]
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// It has passed a probe: it waits for a lock, or does not any more.
    pub fn acquires(&mut self, waits: bool) {
        self.acquires_in = waits.then_some(self.mode);
    }

    /// It has entered a trap.
    pub fn traps(&mut self, by_interrupt: bool) {
        if by_interrupt || self.interrupt_depth > 0 {
            self.interrupt_depth += 1;
        }
        self.code = CodeKind::Plain as u8;
    }

    /// It has returned from a trap.
    pub fn returns(&mut self) {
        self.interrupt_depth = self.interrupt_depth.saturating_sub(1);
    }

    /// It comes to code with `mark`.
    #[inline]
    pub fn comes_to(&mut self, mark: u8) {
        self.code = mark;
        if CodeKind::of_mark(mark) == CodeKind::Switch {
            self.interrupt_depth = 0;
        }
    }

    /// What an instruction with `mark` is for, if the hart comes to it from here.
    #[inline]
    #[must_use]
    pub fn purpose(&self, mark: u8) -> Purpose {
        let mut there = *self;
        there.comes_to(mark);
        Purpose::of(there.activity(Doing::Executing))
    }

    /// The mark of the code that it executes.
    #[inline(always)]
    #[must_use]
    pub fn mark(&self) -> u8 {
        self.code
    }

    /// The one place that decides what a hart is doing. Code says it of its own instructions, so it counts
    /// before an interrupt; a probe says it of all that follows in its mode, so it counts after one.
    #[inline]
    #[must_use]
    pub fn activity(&self, doing: Doing) -> Activity {
        match doing {
            Doing::Vacant => return Activity::Vacant,
            Doing::Idle => return Activity::Idle,
            Doing::Napping => return Activity::Napping,
            Doing::Blocked => return Activity::Blocked,
            Doing::Pausing => return Activity::Pausing,
            Doing::Executing => {}
        }
        match CodeKind::of_mark(self.code) {
            CodeKind::Lock => return Activity::Spinning,
            CodeKind::Idle => return Activity::IdlePolling,
            CodeKind::Acquire => return Activity::Acquiring,
            CodeKind::Plain | CodeKind::Switch => {}
        }
        if self.interrupt_depth > 0 {
            return Activity::Interrupt;
        }
        if self.acquires_in == Some(self.mode) {
            return Activity::Spinning;
        }
        match self.mode {
            Mode::User => Activity::User,
            Mode::Supervisor => Activity::Kernel,
            Mode::Machine => Activity::Machine,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: u8 = CodeKind::Lock as u8;

    fn executes(course: &Course) -> Activity {
        course.activity(Doing::Executing)
    }

    #[test]
    fn an_interrupt_in_a_wait_is_an_interrupt_and_the_wait_continues_after_it() {
        let mut course = Course::default();
        course.set_mode(Mode::Supervisor);
        course.comes_to(LOCK);
        assert_eq!(executes(&course), Activity::Spinning);
        course.traps(true);
        assert_eq!(executes(&course), Activity::Interrupt);
        // The handler waits for a lock of its own, and faults.
        course.comes_to(LOCK);
        assert_eq!(executes(&course), Activity::Spinning);
        course.comes_to(0);
        course.traps(false);
        course.returns();
        assert_eq!(executes(&course), Activity::Interrupt);
        course.returns();
        course.comes_to(LOCK);
        assert_eq!(executes(&course), Activity::Spinning);
        assert_eq!(course.activity(Doing::Napping), Activity::Napping);
    }

    #[test]
    fn a_routine_that_takes_a_lock_is_left_and_come_back_to() {
        let mut course = Course::default();
        course.set_mode(Mode::Supervisor);
        course.comes_to(CodeKind::Acquire as u8);
        assert_eq!(executes(&course), Activity::Acquiring);
        course.comes_to(LOCK);
        assert_eq!(executes(&course), Activity::Spinning);
        course.comes_to(CodeKind::Acquire as u8);
        course.traps(true);
        assert_eq!(executes(&course), Activity::Interrupt);
        course.returns();
        course.comes_to(0);
        assert_eq!(executes(&course), Activity::Kernel);
    }

    #[test]
    fn an_instruction_is_for_what_its_mark_says_and_else_for_what_the_probes_say() {
        let mut course = Course::default();
        course.set_mode(Mode::User);
        let purposes = |course: &Course| {
            let marks = CodeKind::ALL.iter().map(|&kind| kind as u8);
            marks.map(|mark| course.purpose(mark)).collect::<Vec<_>>()
        };
        use Purpose::{Polling, Spinning, Useful};
        assert_eq!(
            purposes(&course),
            [Useful, Spinning, Polling, Useful, Useful]
        );
        course.acquires(true);
        assert_eq!(
            purposes(&course),
            [Spinning, Spinning, Polling, Spinning, Useful]
        );
        assert_eq!(course.mark(), 0, "it has not come there");
    }

    #[test]
    fn a_probe_speaks_of_the_mode_in_which_it_stands() {
        let mut course = Course::default();
        course.set_mode(Mode::User);
        course.acquires(true);
        assert_eq!(executes(&course), Activity::Spinning);
        course.traps(false);
        course.set_mode(Mode::Supervisor);
        assert_eq!(executes(&course), Activity::Kernel, "a system call");
        course.returns();
        course.set_mode(Mode::User);
        assert_eq!(executes(&course), Activity::Spinning);
        course.acquires(false);
        assert_eq!(executes(&course), Activity::User);
    }

    #[test]
    fn a_switch_of_tasks_ends_an_interrupt() {
        let mut course = Course::default();
        course.set_mode(Mode::Supervisor);
        course.traps(true);
        course.comes_to(CodeKind::Switch as u8);
        assert_eq!(executes(&course), Activity::Kernel);
        course.comes_to(0);
        course.returns();
        assert_eq!(executes(&course), Activity::Kernel);
    }
}
