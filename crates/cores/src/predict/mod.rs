//! Branch prediction of a core whose contexts share one front end: which way a conditional branch
//! goes, and where a branch that is taken leads.
//!
//! - Directions: by default McFarling's hybrid of a local and a global side, of the sizes of Redstone
//!   2002, Table 2.1: 2048 local histories, 4096 local, 8192 global and 8192 choice counters.
//! - Targets: a branch target buffer (ibid.: 1024 entries, 4 ways), and for returns a stack.
//!
//! Tables and buffer are shared by the contexts of a core; the global history and the return stack
//! are a context's own (assumed, since what one context does says nothing of the returns of another).
//!
//! Invariants: what fetch does on a wrong path leaves no trace but in counters of look-ups and, where
//! the wrong path returned past the top of the return stack, in entries below it; tables and buffer
//! learn from retired branches alone.
//!
//! The buffer knows virtual addresses and no address spaces, so a target can be another program's.
//! Whoever executes the branch finds that out, as any wrong target.

mod bimodal;
mod branch;
mod btb;
mod counters;
mod direction;
mod hybrid;
mod params;
mod return_stack;
mod taken;
mod two_bit;

pub use branch::BranchKind;
pub use counters::BranchCounters;
pub use params::{BranchParams, BtbParams};

use loiter_types::StateVisitor;
use serde::{Deserialize, Serialize};

use btb::{Btb, OnMiss};
use direction::{Basis, Direction};
use return_stack::{Mark, ReturnStack};

/// State of a context's history and return stack at one point of its instruction stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Checkpoint {
    stack: Mark,
    history: u32,
    /// What the prediction at this point rests on, for the tables to learn from.
    basis: Basis,
}

// One is carried by every branch in flight.
const _: () = assert!(size_of::<Checkpoint>() <= 40);

/// What fetch is told about one branch or jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Prediction {
    /// Whether it is taken; anything but a conditional branch is.
    pub taken: bool,
    /// Where it leads if it is taken, from the buffer or the return stack; None when neither knows it.
    pub target: Option<u64>,
    /// State of the context before this prediction.
    pub checkpoint: Checkpoint,
}

/// What a context has of its own.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Context {
    /// Directions of its conditional branches, the latest in bit 0.
    history: u32,
    stack: ReturnStack,
    /// Which of the counters count what it does.
    mode: usize,
}

impl Context {
    /// Moves on over a branch.
    #[inline]
    fn pass(&mut self, branch: BranchKind, next: u64, taken: bool) {
        match branch {
            BranchKind::Conditional => self.history = self.history << 1 | u32::from(taken),
            BranchKind::Call | BranchKind::IndirectCall => self.stack.push(next),
            BranchKind::Return => self.stack.pop(),
            BranchKind::Jump | BranchKind::Indirect => {}
        }
    }
}

/// What the contexts of a core share.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Tables {
    direction: Direction,
    btb: Btb,
}

/// The predictors of a core.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Predictors {
    /// Those of all modes, or of user mode and of the kernel.
    tables: Vec<Tables>,
    contexts: Vec<Context>,
    /// For what-if runs: the histories and stacks of contexts while the other ones' mode is in force.
    aside: Vec<Context>,
    /// What has happened to them, by the mode that a context was in.
    pub counters: [BranchCounters; 2],
}

impl Prediction {
    /// Shows `visitor` the prediction, which is of a branch in flight.
    pub fn visit_state(&mut self, visitor: &mut impl StateVisitor) {
        let Self {
            taken,
            target,
            checkpoint:
                Checkpoint {
                    stack,
                    history,
                    basis,
                },
        } = self;
        visitor.value(u64::from(*taken));
        visitor.value(u64::from(target.is_some()));
        visitor.value(target.unwrap_or(0));
        stack.visit_state(visitor);
        visitor.value(u64::from(*history));
        let Basis {
            local_history,
            local,
            global,
        } = basis;
        visitor.value(u64::from(*local_history));
        visitor.value(u64::from(*local));
        visitor.value(u64::from(*global));
    }
}

impl Predictors {
    /// Shows `visitor` what has been learned, and where each context stands.
    pub fn visit_state(&mut self, visitor: &mut impl StateVisitor) {
        let Self {
            tables,
            contexts,
            aside,
            counters,
        } = self;
        for Tables { direction, btb } in tables {
            direction.visit_state(visitor);
            btb.visit_state(visitor);
        }
        for Context {
            history,
            stack,
            mode,
        } in contexts.iter_mut().chain(aside)
        {
            visitor.value(u64::from(*history));
            stack.visit_state(visitor);
            visitor.value(*mode as u64);
        }
        for counters in counters {
            visitor.counters(counters);
        }
    }

    /// Predictors that have seen nothing, for a core of `contexts`.
    ///
    /// # Errors
    /// Says in which section which size is impossible.
    pub fn new(
        branch: &BranchParams,
        btb: &BtbParams,
        contexts: usize,
    ) -> Result<Self, (&'static str, String)> {
        let context = Context {
            history: 0,
            stack: ReturnStack::new(branch.return_stack_entries),
            mode: 0,
        };
        Ok(Self {
            tables: vec![Tables {
                direction: Direction::new(branch).map_err(|problem| ("branch", problem))?,
                btb: Btb::new(btb).map_err(|problem| ("btb", problem))?,
            }],
            contexts: vec![context; contexts],
            aside: Vec::new(),
            counters: Default::default(),
        })
    }

    /// The same, for what-if runs: mode 1 has tables, histories and stacks of its own.
    #[must_use]
    pub fn with_own_for_kernel(mut self) -> Self {
        self.tables.push(self.tables[0].clone());
        self.aside = self.contexts.clone();
        self
    }

    /// The tables and the buffer have seen nothing. They are of these parameters.
    pub fn forget_tables(&mut self, branch: &BranchParams, btb: &BtbParams) {
        let fresh = Self::new(branch, btb, 0).expect("such have been made before");
        let fresh = &fresh.tables[0];
        self.tables
            .iter_mut()
            .for_each(|tables| tables.clone_from(fresh));
    }

    /// The history and the return stack of `context` have seen nothing.
    pub fn forget_course(&mut self, context: usize) {
        let both = self.contexts.get_mut(context).into_iter();
        for it in both.chain(self.aside.get_mut(context)) {
            it.history = 0;
            it.stack.clear();
        }
    }

    /// The tables that `context` uses in its mode.
    #[inline(always)]
    fn tables(&mut self, context: usize) -> &mut Tables {
        let own = self.contexts[context].mode.min(self.tables.len() - 1);
        &mut self.tables[own]
    }

    /// Whether fetch waits for the target of what is taken and not in the buffer.
    #[inline]
    #[must_use]
    pub fn stalls_on_miss(&self) -> bool {
        self.tables[0].btb.on_miss == OnMiss::Stall
    }

    /// What `context` does from now on is counted in the counters of this mode.
    pub fn set_mode(&mut self, context: usize, mode: usize) {
        if let Some(aside) = self.aside.get_mut(context)
            && mode != self.contexts[context].mode
        {
            std::mem::swap(aside, &mut self.contexts[context]);
        }
        self.contexts[context].mode = mode;
    }

    /// Predicts the branch at `pc` (`next` is the address after it) for fetch, and moves the
    /// context's speculative history and return stack on.
    pub fn predict(
        &mut self,
        context: usize,
        pc: u64,
        next: u64,
        branch: BranchKind,
    ) -> Prediction {
        let mut checkpoint = self.checkpoint(context);
        let taken = match branch {
            BranchKind::Conditional => {
                let guess = self.tables(context).direction.guess(pc, checkpoint.history);
                checkpoint.basis = guess.basis;
                guess.taken
            }
            _ => true,
        };
        let returns_to = match branch {
            BranchKind::Return => checkpoint.stack.top(),
            _ => None,
        };
        let target = match returns_to {
            Some(target) => Some(target),
            None => {
                let mode = self.contexts[context].mode;
                self.counters[mode].btb_lookups += 1;
                self.tables(context).btb.target(pc)
            }
        };
        let unseen = target.is_none() && self.tables[0].btb.on_miss == OnMiss::FallThrough;
        let taken = taken && !(unseen && branch == BranchKind::Conditional);
        self.contexts[context].pass(branch, next, taken);
        Prediction {
            taken,
            target,
            checkpoint,
        }
    }

    /// A checkpoint without a prediction, for squashes at instructions that are no branches.
    #[must_use]
    pub fn checkpoint(&self, context: usize) -> Checkpoint {
        let context = &self.contexts[context];
        Checkpoint {
            stack: context.stack.mark(),
            history: context.history,
            basis: Basis::default(),
        }
    }

    /// Fetch went a wrong path after `checkpoint`: the context's history and return stack are as they
    /// were there, then moved on by what the branch really did (`outcome`: branch, the address
    /// after it, whether taken), if the squash was at a branch.
    ///
    /// Of the return stack the top is restored, as hardware does it: entries below it that the wrong
    /// way popped and then pushed over are lost, as are the oldest if it pushed more than there is
    /// room for.
    pub fn recover(
        &mut self,
        context: usize,
        checkpoint: &Checkpoint,
        outcome: Option<(BranchKind, u64, bool)>,
    ) {
        let context = &mut self.contexts[context];
        context.history = checkpoint.history;
        context.stack.restore(&checkpoint.stack);
        if let Some((branch, next, taken)) = outcome {
            context.pass(branch, next, taken);
        }
    }

    /// The branch retires, having been `taken` or not, to `target` if it was: trains the tables;
    /// counts.
    pub fn train(
        &mut self,
        context: usize,
        pc: u64,
        branch: BranchKind,
        prediction: &Prediction,
        taken: bool,
        target: u64,
    ) {
        debug_assert!(context < self.contexts.len(), "no context {context}");
        self.count(context, branch, prediction, taken, target);
        let checkpoint = &prediction.checkpoint;
        if branch == BranchKind::Conditional {
            self.tables(context)
                .direction
                .train(pc, checkpoint.history, &checkpoint.basis, taken);
        }
        // A return that has the stack to ask would only take the place of others.
        let asks_stack = branch == BranchKind::Return && checkpoint.stack.top().is_some();
        if taken && !asks_stack {
            self.tables(context).btb.enter(pc, target);
        }
    }

    fn count(
        &mut self,
        context: usize,
        branch: BranchKind,
        prediction: &Prediction,
        taken: bool,
        target: u64,
    ) {
        let counters = &mut self.counters[self.contexts[context].mode];
        let elsewhere = u64::from(prediction.target != Some(target));
        match branch {
            BranchKind::Conditional => {
                counters.branches += 1;
                counters.branches_taken += u64::from(taken);
                counters.branches_mispredicted += u64::from(prediction.taken != taken);
            }
            BranchKind::Return => {
                counters.returns += 1;
                counters.returns_mispredicted += elsewhere;
            }
            BranchKind::Indirect | BranchKind::IndirectCall => {
                counters.indirect_jumps += 1;
                counters.indirect_jumps_mispredicted += elsewhere;
            }
            // Decode reads their target off the instruction.
            BranchKind::Jump | BranchKind::Call => counters.fixed_jumps += 1,
        }
        let in_buffer = taken && branch != BranchKind::Return;
        counters.btb_misses += u64::from(in_buffer && prediction.target.is_none());
    }
}

#[cfg(test)]
mod tests;
