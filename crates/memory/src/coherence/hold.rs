//! Lines that cores keep for a while after an `lr`, so that the `sc` after it finds them: snoops of them wait. Without that,
//! cores that try at the same time could take the line from one another for ever, always before the `sc`.
//!
//! As in the data caches of Rocket and BOOM (`lrscCycles`) a line is kept for so many cycles at most. A further `lr` of it
//! changes nothing, as in an earlier data cache of Rocket (`nbdcache.scala`, class `HellaCache`: an `lr` sets the counter only
//! where none runs, an `sc` clears it), so that a compare-and-swap that fails for its value can succeed the next time. In
//! Rocket and BOOM of today any access ends it, that `lr` too. Here any other atomic of the context does, and a line is not
//! kept anew while somebody waits for it.

use loiter_types::{ContextId, CoreId, Cycle};
use serde::{Deserialize, Serialize};

use super::message::Message;

/// A line that is kept.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Hold {
    core: CoreId,
    context: ContextId,
    line: u64,
    until: Cycle,
}

/// A snoop that waits.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Waiting {
    core: CoreId,
    snoop: Message,
    since: Cycle,
}

/// All lines that are kept, and snoops that wait.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Holds {
    held: Vec<Hold>,
    waiting: Vec<Waiting>,
}

impl Holds {
    /// From cycle `now` on `context` of `core` keeps `line` until `until`, unless somebody waits for it.
    pub(crate) fn hold(
        &mut self,
        core: CoreId,
        context: ContextId,
        line: u64,
        now: Cycle,
        until: Cycle,
    ) {
        if !self.is_waited_for(core, line) && until > now {
            self.held.push(Hold {
                core,
                context,
                line,
                until,
            });
        }
    }

    /// Whether `context` keeps `line` in cycle `now`.
    pub(crate) fn keeps(&self, context: ContextId, line: u64, now: Cycle) -> bool {
        let mut held = self.held.iter();
        held.any(|hold| hold.context == context && hold.line == line && hold.until > now)
    }

    /// What `context` has kept is kept no more. Returns its core if somebody waits for that.
    pub(crate) fn release(&mut self, context: ContextId) -> Option<CoreId> {
        let at = self.held.iter().position(|hold| hold.context == context)?;
        let Hold { core, line, .. } = self.held.swap_remove(at);
        self.is_waited_for(core, line).then_some(core)
    }

    /// Until when `core` keeps `line`, if it does in cycle `now`.
    #[inline]
    pub(crate) fn held_until(&self, core: CoreId, line: u64, now: Cycle) -> Option<Cycle> {
        let held = self.held.iter();
        held.filter(|hold| hold.core == core && hold.line == line && hold.until > now)
            .map(|hold| hold.until)
            .max()
    }

    /// A snoop waits from cycle `now` on.
    pub(crate) fn wait(&mut self, core: CoreId, snoop: Message, now: Cycle) {
        self.waiting.push(Waiting {
            core,
            snoop,
            since: now,
        });
    }

    /// A snoop of `core` that need not wait in cycle `now`, and how many cycles it has waited.
    pub(crate) fn next(&mut self, core: CoreId, now: Cycle) -> Option<(Message, u64)> {
        self.held.retain(|hold| hold.until > now);
        let free = |waiting: &Waiting| {
            let line = waiting.snoop.line;
            waiting.core == core && self.held_until(core, line, now).is_none()
        };
        let at = self.waiting.iter().position(free)?;
        let Waiting { snoop, since, .. } = self.waiting.remove(at);
        Some((snoop, now.since(since)))
    }

    fn is_waited_for(&self, core: CoreId, line: u64) -> bool {
        let mut waiting = self.waiting.iter();
        waiting.any(|waiting| waiting.core == core && waiting.snoop.line == line)
    }
}
