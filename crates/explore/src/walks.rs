//! Walks along executions, chosen by dice that fall the same each time.
//!
//! An exploration begins again when it meets an access that it did not know of (`cells.rs`, `future.rs`). Walks find most of
//! these at a small part of its cost.

use crate::fault::Fault;
use crate::found::Statistics;
use crate::search::Search;
use crate::step::Halt;

/// An exploration that begins again after more states than this has cost something.
pub(crate) const LATE: usize = 5_000;

/// So many walks in turn that find nothing new are enough.
const USELESS_WALKS: u32 = 200;

/// A walk that does not end, as one that spins, gives up after so many steps.
const STEPS: u32 = 1_000;

pub(crate) struct Walks {
    dice: u64,
}

impl Default for Walks {
    fn default() -> Self {
        Self {
            dice: 0x9e37_79b9_7f4a_7c15,
        }
    }
}

impl Walks {
    /// Walks until walks find nothing new.
    pub(crate) fn all(
        &mut self,
        search: &mut Search<'_>,
        progress: &mut dyn FnMut(&Statistics) -> bool,
    ) -> Result<(), Halt> {
        let mut useless = 0;
        let mut learnt = false;
        while useless < USELESS_WALKS {
            if !progress(&Statistics::default()) {
                return Err(Fault::Interrupted.into());
            }
            self.one(search)?;
            let is_new = std::mem::take(&mut search.local.stepper.stale);
            learnt |= is_new;
            useless = if is_new { 0 } else { useless + 1 };
        }
        if learnt { Err(Halt::Changed) } else { Ok(()) }
    }

    /// A number below `many`, by xorshift.
    fn throw(&mut self, many: usize) -> usize {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        (self.dice >> 33) as usize % many
    }

    fn one(&mut self, search: &mut Search<'_>) -> Result<(), Halt> {
        let threads = search.program.threads.len();
        let (mut node, _) = search.first(&mut |_, _, _| ())?;
        for _ in 0..STEPS {
            let begin = self.throw(threads);
            let mut after = None;
            for number in (begin..threads).chain(0..begin) {
                let mut moves = search.moves(node, number)?;
                if moves.is_empty() {
                    continue;
                }
                let it = moves.swap_remove(self.throw(moves.len()));
                let (next, _) = search.after(node, number, &it, &mut |_, _| ())?;
                if it.promise || search.is_certified(number, next)? {
                    after = Some(next);
                    break;
                }
            }
            let Some(next) = after else { break };
            if search.failure(next)?.is_some() {
                break;
            }
            node = next;
        }
        Ok(())
    }
}
