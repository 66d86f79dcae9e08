//! Shadow call stacks of a guest's software threads, found from what its harts execute.
//!
//! A call pushes a frame with the address to return to and the stack pointer; a return that fits the top
//! frame pops it. Whatever does not fit is one of these, told apart by the stack pointer:
//!
//! ```text
//!   the stack pointer and address of a frame further down   frames were left out (exceptions, longjmp)
//!   those of the top frame of a parked stack                the kernel has switched to that thread
//!   within the present stack                                longjmp into a function that continues
//!   anywhere else                                           a new thread
//! ```
//!
//! A trap pushes a frame that only a return from trap to the same place removes; so the stack of a thread
//! is that of its user code with that of the kernel on top, and is parked and taken up as one.

use std::collections::BTreeMap;
use std::ops::Range;

use super::tree::{CallTree, Cost, FunctionId};

/// A return may move the stack pointer so far: helper functions that save registers for their caller.
const MOST_MOVED: u64 = 512;
/// Largest stack that is believed to be one.
const LARGEST_STACK: u64 = 16 << 20;
/// Threads that are remembered while they do not run; the one longest unheard of is forgotten first.
const MOST_PARKED: usize = 1 << 16;
/// Longest instruction, which a system call returns after.
const LONGEST_INSTRUCTION: u64 = 4;
/// No address: it is odd.
const NOWHERE: u64 = u64::MAX;

/// A function and where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number.
    pub function: FunctionId,
    /// Its addresses.
    pub range: Range<u64>,
}

/// What a return from trap goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// The next instruction.
    pub target: u64,
    /// The stack pointer there.
    pub sp: u64,
    /// Privilege and address space there, as a number.
    pub space: u64,
}

#[derive(Clone, Debug)]
struct Frame {
    node: u32,
    /// Addresses of the function.
    range: Range<u64>,
    /// The address to return to; for a trap, what was interrupted.
    back: u64,
    /// The stack pointer of the caller, or when the trap came.
    sp: u64,
    /// For a trap, the space that was interrupted.
    trap: Option<u64>,
}

/// The stack of one software thread.
type Stack = Vec<Frame>;

#[derive(Debug, Default)]
struct HartStack {
    stack: Stack,
    /// Instructions since costs were last charged.
    pending: u64,
    /// Until when costs were charged.
    charged: u64,
}

/// The stacks of all threads, and what is charged to them.
#[derive(Debug)]
pub struct Stacks {
    /// What was found out.
    pub tree: CallTree,
    harts: Vec<HartStack>,
    /// By stack pointer and return address of the top frame; with the time of parking.
    parked: BTreeMap<(u64, u64), (u64, Stack)>,
    /// By time of parking.
    oldest: BTreeMap<u64, (u64, u64)>,
    parkings: u64,
}

impl Stacks {
    /// For so many harts, whose costs count from cycle `now` on.
    #[must_use]
    pub fn new(harts: usize, now: u64) -> Self {
        let hart = || HartStack {
            charged: now,
            ..HartStack::default()
        };
        Self {
            tree: CallTree::default(),
            harts: std::iter::repeat_with(hart).take(harts).collect(),
            parked: BTreeMap::new(),
            oldest: BTreeMap::new(),
            parkings: 0,
        }
    }

    /// Counts an instruction of `hart`. Returns whether the next one, at `next`, belongs to the same
    /// function, as far as can be seen.
    #[inline(always)]
    pub fn count(&mut self, hart: usize, next: u64) -> bool {
        let hart = &mut self.harts[hart];
        hart.pending += 1;
        hart.stack
            .last()
            .is_some_and(|top| next.wrapping_sub(top.range.start) < top.range.end - top.range.start)
    }

    /// Whether a thread is known to run on `hart`.
    #[must_use]
    pub fn is_known(&self, hart: usize) -> bool {
        !self.harts[hart].stack.is_empty()
    }

    /// Charges what has been until cycle `now`.
    pub fn charge(&mut self, hart: usize, now: u64) {
        let state = &mut self.harts[hart];
        let Some(top) = state.stack.last() else {
            return;
        };
        let cost = Cost {
            instructions: std::mem::take(&mut state.pending),
            cycles: now.saturating_sub(state.charged),
        };
        state.charged = state.charged.max(now);
        if cost != Cost::default() {
            self.tree.charge(hart, top.node, cost);
        }
    }

    /// Nothing before cycle `now` is charged to `hart`, and nothing is known of what it executes.
    pub fn skip_to(&mut self, hart: usize, now: u64) {
        let state = &mut self.harts[hart];
        state.stack.clear();
        state.pending = 0;
        state.charged = now;
    }

    /// A thread of which nothing is known executes `entry`; `root` says what it is.
    pub fn begin(&mut self, hart: usize, root: FunctionId, entry: Entry) {
        let root = self.tree.root(root);
        let node = self.tree.callee(root, entry.function);
        let stack = &mut self.harts[hart].stack;
        stack.clear();
        stack.push(Frame {
            node: root,
            range: 0..0,
            back: NOWHERE,
            sp: u64::MAX,
            trap: None,
        });
        stack.push(Frame {
            node,
            range: entry.range,
            back: NOWHERE,
            sp: u64::MAX,
            trap: None,
        });
    }

    /// A call of `entry`, which is to return to `back`.
    pub fn call(&mut self, hart: usize, entry: Entry, back: u64, sp: u64) {
        let stack = &mut self.harts[hart].stack;
        let Some(top) = stack.last() else { return };
        let node = self.tree.callee(top.node, entry.function);
        self.tree.nodes[node as usize].calls += 1;
        stack.push(Frame {
            node,
            range: entry.range,
            back,
            sp,
            trap: None,
        });
    }

    /// The function goes over into another one, which returns in its place.
    pub fn jump(&mut self, hart: usize, entry: Entry) {
        let stack = &mut self.harts[hart].stack;
        let Some(top) = stack.pop() else { return };
        let caller = stack.last().map_or(top.node, |caller| caller.node);
        let node = self.tree.callee(caller, entry.function);
        self.tree.nodes[node as usize].calls += 1;
        stack.push(Frame {
            node,
            range: entry.range,
            ..top
        });
    }

    /// Whether a return to `target` is that of the function that runs. If so, it is done.
    #[inline]
    pub fn plain_return(&mut self, hart: usize, target: u64, sp: u64) -> bool {
        let stack = &mut self.harts[hart].stack;
        let fits = stack
            .last()
            .is_some_and(|top| top.back == target && top.trap.is_none() && sp == top.sp);
        if fits {
            stack.pop();
        }
        fits
    }

    /// Any other return to `target`, which belongs to `entry`. `root` says what a new thread would be.
    pub fn odd_return(
        &mut self,
        hart: usize,
        target: u64,
        sp: u64,
        entry: Entry,
        root: FunctionId,
    ) {
        if self.leave_frames(hart, target, sp) || self.switch(hart, target, sp) {
            return;
        }
        let stack = &mut self.harts[hart].stack;
        let lowest = stack.iter().rposition(|frame| frame.trap.is_some());
        let own = &stack[lowest.map_or(0, |at| at + 1)..];
        let mut pointers = own.iter().filter(|frame| frame.sp != u64::MAX);
        let (first, last) = (pointers.clone().next(), pointers.next_back());
        match (first, last) {
            (Some(first), Some(last)) => {
                let within = (last.sp..=first.sp).contains(&sp);
                if !within || first.sp - last.sp > LARGEST_STACK {
                    self.park(hart);
                    self.begin(hart, root, entry);
                    return;
                }
                self.leave_deeper(hart, sp, &entry);
            }
            // The caller of the first function that is known.
            _ => self.jump(hart, entry),
        }
    }

    /// Returns to a frame further down, if one fits.
    fn leave_frames(&mut self, hart: usize, target: u64, sp: u64) -> bool {
        let stack = &mut self.harts[hart].stack;
        let since_trap = stack.iter().rposition(|frame| frame.trap.is_some());
        let lowest = since_trap.map_or(0, |at| at + 1);
        let fitting = stack[lowest..]
            .iter()
            .rposition(|frame| frame.back == target && frame.sp == sp);
        let fitting = fitting.or_else(|| {
            let top = stack[lowest..].last()?;
            let fits = top.back == target && top.sp.abs_diff(sp) <= MOST_MOVED;
            fits.then(|| stack.len() - 1 - lowest)
        });
        if let Some(at) = fitting {
            stack.truncate(lowest + at);
        }
        fitting.is_some()
    }

    /// Takes up a parked stack, if one fits.
    fn switch(&mut self, hart: usize, target: u64, sp: u64) -> bool {
        let Some((time, mut stack)) = self.parked.remove(&(sp, target)) else {
            return false;
        };
        self.oldest.remove(&time);
        stack.pop();
        self.park(hart);
        self.harts[hart].stack = stack;
        true
    }

    /// Keeps the present stack until its top frame is returned from.
    fn park(&mut self, hart: usize) {
        let stack = std::mem::take(&mut self.harts[hart].stack);
        let Some(top) = stack.last() else { return };
        let key = (top.sp, top.back);
        if top.back == NOWHERE {
            return;
        }
        self.parkings += 1;
        if let Some((time, _)) = self.parked.insert(key, (self.parkings, stack)) {
            self.oldest.remove(&time);
        }
        self.oldest.insert(self.parkings, key);
        if self.oldest.len() > MOST_PARKED
            && let Some((_, key)) = self.oldest.pop_first()
        {
            self.parked.remove(&key);
        }
    }

    /// Continues in `entry` with the stack pointer `sp`: leaves what lies deeper.
    fn leave_deeper(&mut self, hart: usize, sp: u64, entry: &Entry) {
        let stack = &mut self.harts[hart].stack;
        while let [.., below, top] = stack.as_slice()
            && top.trap.is_none()
            && below.range != (0..0)
            && (top.sp < sp || top.sp == sp && top.range != entry.range)
        {
            stack.pop();
        }
        if stack.last().is_some_and(|top| top.range != entry.range) {
            self.jump(hart, entry.clone());
        }
    }

    /// A trap, called `cause`, has interrupted `pc` in `space` and goes to `handler`.
    pub fn trap(&mut self, hart: usize, cause: FunctionId, handler: Entry, interrupted: Left) {
        let stack = &mut self.harts[hart].stack;
        let Some(top) = stack.last() else { return };
        let node = self.tree.callee(top.node, cause);
        self.tree.nodes[node as usize].calls += 1;
        stack.push(Frame {
            node,
            range: 0..0,
            back: interrupted.target,
            sp: interrupted.sp,
            trap: Some(interrupted.space),
        });
        self.call(hart, handler, NOWHERE, u64::MAX);
    }

    /// A return from trap to what was interrupted. Returns whether it was such a one; if so, it is done.
    pub fn plain_trap_return(&mut self, hart: usize, to: Left) -> bool {
        let stack = &mut self.harts[hart].stack;
        let fitting = stack.iter().rposition(|frame| {
            frame.trap == Some(to.space)
                && frame.sp == to.sp
                && to.target.wrapping_sub(frame.back) <= LONGEST_INSTRUCTION
        });
        if let Some(at) = fitting {
            stack.truncate(at);
        }
        fitting.is_some()
    }

    /// Any other return from trap, into `entry`: a signal or the return from one, or a thread that
    /// begins.
    pub fn odd_trap_return(&mut self, hart: usize, to: Left, entry: Entry, root: FunctionId) {
        let stack = &mut self.harts[hart].stack;
        let trap = stack.iter().rposition(|frame| frame.trap == Some(to.space));
        let Some(at) = trap else {
            self.begin(hart, root, entry);
            return;
        };
        let sp = stack[at].sp;
        let back = stack[at].back;
        stack.truncate(at);
        if sp.abs_diff(to.sp) > LARGEST_STACK {
            self.begin(hart, root, entry);
        } else if to.sp < sp {
            self.call(hart, entry, back, to.sp);
        } else {
            self.leave_deeper(hart, to.sp, &entry);
        }
    }

    /// Functions of the stack of `hart`, from the innermost out.
    #[must_use]
    pub fn stack(&self, hart: usize) -> Vec<FunctionId> {
        let stack = self.harts[hart].stack.iter().rev();
        stack
            .map(|frame| self.tree.nodes[frame.node as usize].function)
            .collect()
    }
}

#[cfg(test)]
#[path = "stacks_tests.rs"]
mod tests;
