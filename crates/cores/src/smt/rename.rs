//! Rename: from the front end into queues, with physical registers for results.

use loiter_isa::{Class, SINK};
use loiter_types::Cycle;
use serde::{Deserialize, Serialize};

use super::context::{Context, How, Progress};
use super::core::{Core, CoreState};
use super::registers::{File, NONE};
use crate::{Observer, Shared};

/// What keeps an instruction in the front end.
#[derive(PartialEq, Eq, Deserialize, Serialize)]
enum Full {
    Queue,
    Registers,
    Order,
}

impl Core {
    pub(super) fn rename<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) {
        let width = self.state.params.core.rename_width;
        let mut left = width;
        (self.state.queue_full, self.state.registers_full) = (false, false);
        // Up to there instructions can be renamed in this cycle.
        let last = match &self.state.stages {
            None => u64::MAX,
            Some(stages) => match stages.at_rename(now) {
                Some(last) => last,
                None => return,
            },
        };
        // The context first whose instructions were fetched first.
        self.state.order.clear();
        for c in self.state.awake {
            if let Some(seq) = self.contexts[c].to_rename(now, last) {
                self.state.order.insert(seq, c as u8);
            }
        }
        let in_order = self.state.renames_in_order;
        while left > 0
            && let Some(c) = self.state.order.take_first()
        {
            let Core { state, contexts } = self;
            let context = &mut contexts[c as usize];
            // Up to there no other context has an instruction that was fetched before.
            let first_of_others = match in_order {
                true => state.order.first_rank(),
                false => u64::MAX,
            };
            while left > 0
                && let Some(seq) = context.to_rename(now, last)
            {
                if seq > first_of_others {
                    state.order.insert(seq, c);
                    break;
                }
                if let Err(full) = context.rename(c as usize, state, now) {
                    state.queue_full |= full == Full::Queue;
                    state.registers_full |= full == Full::Registers;
                    if in_order {
                        state.order.clear();
                    }
                    break;
                }
                left -= 1;
                if O::PIPELINE {
                    context.tell_renamed(state, now, shared);
                }
            }
        }
        self.state.active |= left < width;
        self.leave_stage(now, last);
    }

    /// The group at renaming, whose youngest instruction is `last`, leaves its stage when nothing of it is
    /// left.
    fn leave_stage(&mut self, now: Cycle, last: u64) {
        let Core { state, contexts } = self;
        let Some(stages) = &mut state.stages else {
            return;
        };
        let stays = |c: usize| contexts[c].to_rename(now, last).is_some();
        if !state.awake.into_iter().any(stays) {
            stages.pop();
            state.active = true;
        }
    }
}

impl Context {
    /// The age of the oldest instruction of the front end, if that has come to renaming and is no younger
    /// than `last`.
    #[inline(always)]
    fn to_rename(&self, now: Cycle, last: u64) -> Option<u64> {
        if self.renamed == self.tail {
            return None;
        }
        let front = self.entry(self.renamed);
        (front.due <= now && front.seq <= last).then_some(front.seq)
    }

    /// Renames the oldest instruction of the front end.
    #[inline(always)]
    fn rename(&mut self, c: usize, core: &mut CoreState, now: Cycle) -> Result<(), Full> {
        let n = self.renamed;
        let entry = self.entry(n);
        let (inst, class, how, seq) = (entry.inst, entry.class, entry.how, entry.seq);
        let purpose = entry.purpose;
        let apart = how.is_apart();
        let queue = usize::from(class.is_fp());
        let of_queue = self.queued[queue] >= core.shares.queues[queue];
        let limits = &core.params.core;
        match class {
            Class::Load if self.loads.len() as u64 >= limits.load_entries => {
                return Err(Full::Order);
            }
            Class::Store if self.stores.len() as u64 >= limits.store_entries => {
                return Err(Full::Order);
            }
            _ => {}
        }
        let writes = inst.rd != SINK && !matches!(how, How::Fault | How::FetchRefill);
        let mut destination = NONE;
        if writes {
            let file = File::of(inst.rd);
            let own = self.renamings[file as usize] >= core.shares.registers[file as usize];
            if own || !core.registers.has_free(file) {
                return Err(Full::Registers);
            }
        }
        if apart && (of_queue || core.queues.is_full(queue)) {
            return Err(Full::Queue);
        }
        let sources = [inst.rs1, inst.rs2, inst.rs3].map(|slot| self.map[slot as usize]);
        let mut replaced = NONE;
        if writes {
            let file = File::of(inst.rd);
            let taken = core.registers.take(file);
            self.renamings[file as usize] += 1;
            destination = taken.expect("one was seen to be free");
            replaced = std::mem::replace(&mut self.map[inst.rd as usize], destination);
        }
        let mut slot = 0;
        if apart {
            slot = core.queues.next_slot(queue);
            let mut pending = 0;
            for source in sources {
                pending += u8::from(core.registers.waits(source, slot));
            }
            core.queues.insert(slot, c as u8, n, seq, pending);
            core.in_queue[purpose as usize] += u64::from(queue == 0);
            self.queued[queue] += 1;
        } else {
            self.unissued -= 1;
        }
        match class {
            Class::Load => self.loads.push(n),
            Class::Store => self.stores.push(n),
            _ => {}
        }
        if self.entry(n).is_barrier() {
            self.barriers.push(n);
        }
        let entry = self.entry_mut(n);
        entry.sources = sources;
        entry.destination = destination;
        entry.replaced = replaced;
        entry.queue = queue as u8;
        entry.slot = slot;
        (entry.progress, entry.due) = if apart {
            (Progress::Queued, entry.due)
        } else {
            (Progress::Done, now.after(1))
        };
        self.renamed += 1;
        Ok(())
    }
}
