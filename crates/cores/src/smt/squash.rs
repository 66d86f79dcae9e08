//! Taking back instructions that must not have been.

use loiter_isa::Class;

use super::context::{Context, Fetch, NOTHING_OPEN, Progress};
use super::core::CoreState;
use super::registers::{File, NONE};

/// Takes back all instructions of `context` after `n`. Histories are the caller's affair.
pub(super) fn after(context: &mut Context, core: &mut CoreState, n: u64) {
    from(context, core, n + 1);
}

/// Takes back instruction `first` and all after it.
pub(super) fn from(context: &mut Context, core: &mut CoreState, first: u64) {
    if first >= context.tail {
        return;
    }
    core.active = true;
    core.modes[context.mode].squashed += context.tail - first;
    for n in first..context.tail {
        core.purposes[context.entry(n).purpose as usize].squashed += 1;
    }
    context.squashed_from = context.squashed_from.min(context.entry(first).seq);
    context.forget_from(first);
    if context.opens_at != NOTHING_OPEN {
        context.retract_intervals(core, first);
    }
    // What is in the front end has not issued.
    let front = context.tail - context.renamed.max(first);
    context.unissued -= front as u32;
    while context.renamed > first {
        context.renamed -= 1;
        let n = context.renamed;
        let entry = context.entry(n);
        if entry.progress == Progress::Queued {
            let (queue, slot) = (entry.queue as usize, entry.slot);
            for source in entry.sources {
                core.registers.forget(source, slot);
            }
            core.leave_queue(slot, queue, entry.purpose);
            context.queued[queue] -= 1;
            context.unissued -= 1;
        }
        let entry = context.entry(n);
        let (destination, replaced, rd) = (entry.destination, entry.replaced, entry.inst.rd);
        let (class, barrier) = (entry.class, entry.is_barrier());
        if destination != NONE {
            core.registers.release(destination);
            context.renamings[File::of(rd) as usize] -= 1;
            context.map[rd as usize] = replaced;
        }
        match class {
            Class::Load => context.loads.squash(n),
            Class::Store => context.stores.squash(n),
            _ => {}
        }
        if barrier {
            context.barriers.squash(n);
        }
    }
    context.renamed = context.renamed.min(first);
    context.tail = first;
}

/// As [`from`], and the context's history and return stack are as they were there.
pub(super) fn from_and_recover(context: &mut Context, core: &mut CoreState, c: usize, first: u64) {
    let oldest = (first..context.tail).find(|&n| context.entry(n).branch.is_some());
    if let Some(n) = oldest {
        let checkpoint = context.prediction(n).checkpoint;
        core.predictors.recover(c, &checkpoint, None);
    }
    from(context, core, first);
    if context.fetch != Fetch::Vacant {
        context.fetch = Fetch::Blocked;
    }
}
