//! Caches of a core that are emptied: by `fence.i`, by an idle state that does not keep them, by a move to a cold core.

use loiter_types::{CoreId, Cycle};

use super::Out;
use super::private::Private;
use super::system::Coherent;
use crate::request::{Caches, Emptied, Told};

impl Private {
    /// Empties `which`. Lines that stay are those for which `stays` says so, and those with a request at their home,
    /// which counts on the copy. What the outermost cache gives up leaves as if there were no room for it.
    pub(crate) fn empty(
        &mut self,
        which: Caches,
        stays: impl Fn(u64) -> bool,
        out: &mut Out<'_>,
    ) -> Emptied {
        let mut emptied = Emptied::default();
        for line in self.lines_of(which) {
            let state = self.state(line);
            if stays(line) || self.is_at_home(line) || !state.can_read() {
                continue;
            }
            emptied.lines += 1;
            if !self.drops(line, which) {
                continue;
            }
            emptied.written_back += u64::from(state.is_dirty());
            self.leave(line, state, out);
        }
        emptied
    }
}

impl Coherent {
    /// As [`crate::Memory::empty`].
    pub(crate) fn empty(
        &mut self,
        now: Cycle,
        core: CoreId,
        which: Caches,
        stays: impl Fn(u64) -> bool,
        told: &mut Vec<Told>,
    ) -> Emptied {
        let mut out = Out {
            now,
            fabric: &mut self.fabric,
            told,
        };
        self.private[core.index()].empty(which, stays, &mut out)
    }

    /// As [`crate::Memory::empty_at_once`].
    pub(crate) fn empty_at_once(&mut self, core: CoreId) {
        debug_assert!(self.is_idle(), "something is outstanding");
        let mut told = Vec::new();
        self.fabric.instant = true;
        self.empty(Cycle(0), core, Caches::Private, |_| false, &mut told);
        while let Some(event) = self.fabric.at_once.pop_front() {
            self.happens(Cycle(0), event, &mut told);
        }
        self.fabric.instant = false;
    }
}
