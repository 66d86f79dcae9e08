//! What the locks of a Linux kernel cost, from its symbols: calls and returns of its lock functions, told to [`Locks`].
//!
//! A call is known by where it returns to and by its stack pointer: every task and every interrupt has a stack of its
//! own, so interrupts nest, and a task that sleeps in a call may return from it on another hart.
//!
//! A kernel that is not preemptible has some releases inline (`CONFIG_INLINE_SPIN_UNLOCK` and its like), without a call.
//! There the first store by which a hart changes the word of a lock that it has is the release: only releases do that.

use std::collections::HashMap;
use std::sync::Arc;

use loiter_hart::{Hart, Privilege, Retired};
use loiter_isa::Class;
use loiter_observe::{Claim, Locks, Moment, Owner, Probe, WaitTime};
use loiter_types::{Cycle, HartId, PAGE_BYTES};
use serde::{Deserialize, Serialize};

use super::lock_functions::{Done, Kind, LOCK_FUNCTIONS, LockFunction};
use crate::error::Error;
use crate::symbols::Symbols;

/// Registers by the calling convention.
const RETURN_ADDRESS: usize = 1;
const STACK_POINTER: usize = 2;
const THREAD_POINTER: usize = 4;
const FIRST_ARGUMENT: usize = 10;

/// Calls that are followed at a time: many for each task of a kernel. Of a program without a stack there may be any.
const MOST_CALLS: usize = 1 << 16;

/// A call of a lock function that has not returned.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Call {
    done: Done,
    kind: Kind,
    claim: Claim,
    began: Moment,
}

impl Call {
    /// Whether its hart spins until it has the lock.
    fn spins(&self) -> bool {
        self.kind != Kind::Sleeping && self.done == Done::Acquired
    }
}

/// What a hart that is a virtual CPU waits for.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
struct Waits {
    /// Calls in which it spins: interrupts nest.
    calls: u32,
    /// Whether it has passed the probe of an acquire that has not ended.
    passed_acquire: bool,
    time: WaitTime,
}

impl Waits {
    fn are_some(&self) -> bool {
        self.calls > 0 || self.passed_acquire
    }
}

/// Follows calls of lock functions and counts.
pub(crate) struct LockStats {
    functions: HashMap<u64, LockFunction>,
    /// By return address and stack pointer.
    calls: HashMap<(u64, u64), Call>,
    /// Where functions begin and calls return to.
    addresses: Filter,
    /// The pages of those.
    pages: Filter,
    /// By hart: what it has of the locks whose releases are stores.
    held: Vec<Vec<Claim>>,
    /// By hart.
    waits: Vec<Waits>,
    /// By hart, how often it has been heard of: of calls, returns, releases and probes.
    heard: Vec<u64>,
    /// Whether releases of spin locks are inline, and those of locks with readers.
    spin_is_inline: bool,
    read_write_is_inline: bool,
    /// Whether only what happens on timed cores is counted.
    only_timed: bool,
    pub(crate) locks: Locks,
}

/// What has been counted, and calls that have not returned, as a snapshot keeps it: what is not known from symbols.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedLockStats {
    /// By return address and stack pointer, in their order.
    calls: Vec<((u64, u64), Call)>,
    held: Vec<Vec<Claim>>,
    waits: Vec<Waits>,
    locks: Locks,
}

impl LockStats {
    /// All that has been counted, and what is open.
    pub(crate) fn save(&self) -> SavedLockStats {
        let mut calls: Vec<_> = self.calls.iter().map(|(&key, &call)| (key, call)).collect();
        calls.sort_unstable_by_key(|&(key, _)| key);
        SavedLockStats {
            calls,
            held: self.held.clone(),
            waits: self.waits.clone(),
            locks: self.locks.clone(),
        }
    }

    /// Makes this, which has counted nothing, what `saved` is: of a system with the same symbols.
    ///
    /// # Errors
    /// Another number of harts.
    pub(crate) fn restore(&mut self, saved: SavedLockStats) -> Result<(), String> {
        let (theirs, ours) = (saved.waits.len(), self.waits.len());
        if [theirs, saved.held.len()] != [ours; 2] {
            return Err(format!("locks of {theirs} harts, where there are {ours}"));
        }
        for (key, call) in saved.calls {
            self.addresses.insert(key.0);
            self.pages.insert(key.0 / PAGE_BYTES);
            self.calls.insert(key, call);
        }
        (self.held, self.waits, self.locks) = (saved.held, saved.waits, saved.locks);
        Ok(())
    }

    /// Makes this, which has counted nothing, know what `saved` knows of locks, their waiters and their holders. What that
    /// has counted does not count here.
    ///
    /// # Errors
    /// Another number of harts.
    pub(crate) fn resume(&mut self, saved: SavedLockStats) -> Result<(), String> {
        self.restore(saved)?;
        self.locks.forget_counts();
        Ok(())
    }

    /// Of a system with the symbols of a kernel, or of a program with functions of the same names.
    ///
    /// # Errors
    /// Symbols without any lock function.
    pub(crate) fn new(
        symbols: &Arc<Symbols>,
        harts: usize,
        only_timed: bool,
    ) -> Result<Self, Error> {
        let mut functions = HashMap::new();
        let (mut addresses, mut pages) = (Filter::default(), Filter::default());
        for function in LOCK_FUNCTIONS {
            if let Some(addr) = symbols.address(function.name) {
                functions.insert(addr, *function);
                addresses.insert(addr);
                pages.insert(addr / PAGE_BYTES);
            }
        }
        if functions.is_empty() {
            return Err(Error::User(
                "--lock-stats: no symbol is that of a lock function of Linux, such as _raw_spin_lock; name the \
                 System.map of the kernel that runs with --symbols"
                    .into(),
            ));
        }
        let lacks = |name: &str| symbols.address(name).is_none();
        Ok(Self {
            functions,
            calls: HashMap::new(),
            addresses,
            pages,
            held: vec![Vec::new(); harts],
            waits: vec![Waits::default(); harts],
            heard: vec![0; harts],
            spin_is_inline: lacks("_raw_spin_unlock") || lacks("_raw_spin_unlock_irq"),
            read_write_is_inline: ["_raw_read_unlock", "_raw_write_unlock"]
                .iter()
                .any(|name| lacks(name) || lacks(&format!("{name}_irq"))),
            only_timed,
            locks: Locks::default(),
        })
    }

    /// Timed cores take harts over, and not to be warmed for a sample; or they have left off.
    pub(crate) fn timing_changes(&mut self, is_timed: bool) {
        self.locks.suspend(self.only_timed && !is_timed);
    }

    /// How often `hart` has been heard of. What it does meanwhile changes nothing here.
    pub(crate) fn heard(&self, hart: HartId) -> u64 {
        self.heard[hart.index()]
    }

    /// A probe passes.
    pub(crate) fn probe(&mut self, moment: &Moment, probe: &Probe) {
        self.heard[moment.hart.index()] += 1;
        match probe {
            Probe::RoiBegin(_) => self.locks.begin_region(),
            Probe::RoiEnd(_) => self.locks.end_region(),
            Probe::Acquire(_) => self.wait(moment, |waits| waits.passed_acquire = true),
            Probe::Acquired(_) => self.wait(moment, |waits| waits.passed_acquire = false),
            _ => {}
        }
    }

    /// What a hart waits for changes.
    fn wait(&mut self, moment: &Moment, change: impl FnOnce(&mut Waits)) {
        let waits = &mut self.waits[moment.hart.index()];
        change(waits);
        let are_some = waits.are_some();
        waits.time.changes(are_some, moment.cycle);
    }

    /// A CPU begins to execute `hart`, a virtual CPU.
    pub(crate) fn begins(&mut self, hart: HartId, now: Cycle) {
        let waits = &mut self.waits[hart.index()];
        let are_some = waits.are_some();
        waits.time.begins(are_some, now);
    }

    /// The CPU ceases to.
    pub(crate) fn stops(&mut self, hart: HartId, now: Cycle) {
        self.waits[hart.index()].time.stops(now);
    }

    /// Cycles in which CPUs executed `hart`, a virtual CPU, while it waited for a lock: in a function that spins until it has
    /// it, or as its probes say.
    pub(crate) fn spinning_cycles(&self, hart: HartId, now: Cycle) -> u64 {
        self.waits[hart.index()].time.cycles(now)
    }

    /// Whether what `hart` executes in the page of `pc` is of interest.
    pub(crate) fn wants(&self, hart: HartId, pc: u64) -> bool {
        self.pages.may_have(pc / PAGE_BYTES) || !self.held[hart.index()].is_empty()
    }

    /// `hart` is about to execute at `pc`. It may be about to more than once, when an interrupt comes first.
    #[inline]
    pub(crate) fn comes_to(&mut self, hart: &Hart, pc: u64, cycle: u64) {
        if self.addresses.may_have(pc) && hart.csr.privilege != Privilege::User {
            self.arrives(hart, pc, cycle);
        }
    }

    #[cold]
    fn arrives(&mut self, hart: &Hart, pc: u64, cycle: u64) {
        let mut moment = Moment {
            hart: hart.number(),
            cycle: Cycle(cycle),
            retired: hart.retired,
            pc,
        };
        if let Some(call) = self.calls.remove(&(pc, hart.regs[STACK_POINTER])) {
            self.addresses.remove(pc);
            self.pages.remove(pc / PAGE_BYTES);
            self.heard[moment.hart.index()] += 1;
            self.returns(moment, call, hart.regs[FIRST_ARGUMENT]);
        }
        let Some(&function) = self.functions.get(&pc) else {
            return;
        };
        self.heard[moment.hart.index()] += 1;
        let claim = Claim {
            lock: hart.regs[FIRST_ARGUMENT],
            owner: match function.kind {
                Kind::Spin | Kind::ReadWrite => Owner::Hart(hart.number()),
                Kind::Sleeping => Owner::Task(hart.regs[THREAD_POINTER]),
            },
            access: function.access,
        };
        let back = hart.regs[RETURN_ADDRESS];
        moment.pc = back;
        match function.done {
            Done::Released => self.release(moment, claim),
            Done::Shared => self.locks.shared(claim),
            done @ (Done::Acquired | Done::AcquiredIfTrue | Done::AcquiredIfZero) => {
                let call = Call {
                    done,
                    kind: function.kind,
                    claim,
                    began: moment,
                };
                self.calls((back, hart.regs[STACK_POINTER]), call);
            }
        }
    }

    /// A call begins.
    fn calls(&mut self, key: (u64, u64), call: Call) {
        match self.calls.get(&key) {
            // It has begun before, and an interrupt has come.
            Some(known) if known.claim == call.claim => return,
            // One that has not returned is forgotten.
            Some(&forgotten) => self.spin_ends(forgotten, call.began.cycle),
            None if self.calls.len() >= MOST_CALLS => return,
            None => {
                self.addresses.insert(key.0);
                self.pages.insert(key.0 / PAGE_BYTES);
            }
        }
        self.calls.insert(key, call);
        if call.spins() {
            self.wait(&call.began, |waits| waits.calls += 1);
        }
        self.locks.waited_cycles = self.spinning_cycles(call.began.hart, call.began.cycle);
        if call.done != Done::AcquiredIfTrue {
            self.locks.acquire(call.began, call.claim);
        }
    }

    /// A call is over, whether or not it has returned.
    fn spin_ends(&mut self, call: Call, now: Cycle) {
        if call.spins() {
            let moment = Moment {
                cycle: now,
                ..call.began
            };
            self.wait(&moment, |waits| waits.calls -= 1);
        }
    }

    /// A call returns `value`.
    fn returns(&mut self, mut moment: Moment, call: Call, value: u64) {
        self.spin_ends(call, moment.cycle);
        let value = value as u32;
        match call.done {
            Done::AcquiredIfZero if value != 0 => return self.locks.abandoned(call.claim),
            Done::AcquiredIfTrue if value == 0 => return,
            Done::AcquiredIfTrue => self.locks.acquire(call.began, call.claim),
            _ => {}
        }
        moment.pc = call.began.pc;
        self.locks.waited_cycles = self.spinning_cycles(moment.hart, moment.cycle);
        self.locks.acquired(moment, call.claim);
        let is_inline = match call.kind {
            Kind::Spin => self.spin_is_inline,
            Kind::ReadWrite => self.read_write_is_inline,
            Kind::Sleeping => false,
        };
        if is_inline {
            self.held[moment.hart.index()].push(call.claim);
        }
    }

    fn release(&mut self, moment: Moment, claim: Claim) {
        let held = &mut self.held[moment.hart.index()];
        if let Some(at) = held.iter().rposition(|each| *each == claim) {
            held.swap_remove(at);
        }
        self.locks.released(moment, claim);
    }

    /// An instruction has retired: perhaps one that releases a lock.
    #[inline]
    pub(crate) fn retired(&mut self, event: &Retired<'_>) {
        if !self.held[event.hart.number().index()].is_empty()
            && matches!(event.inst.op.class(), Class::Store | Class::Atomic)
        {
            self.stored(event);
        }
    }

    fn stored(&mut self, event: &Retired<'_>) {
        let hart = event.hart.number();
        self.heard[hart.index()] += 1;
        let addr = event.base.wrapping_add(event.inst.data_offset());
        let held = self.held[hart.index()].iter();
        let Some(&claim) = held.rev().find(|claim| claim.lock == addr) else {
            return;
        };
        // Who reads it twice changes its word in the function that acquires it.
        let acquires = |call: &Call| call.claim.lock == addr && call.began.hart == hart;
        if !self.calls.values().any(acquires) {
            let moment = Moment {
                hart,
                cycle: Cycle(event.cycle),
                retired: event.hart.retired,
                pc: event.pc,
            };
            self.release(moment, claim);
        }
    }
}

/// Entries of a filter; a power of two.
const FILTER: usize = 1 << 12;

/// A set of numbers that is asked often: it may say that it has one that it has not.
struct Filter(Box<[u32; FILTER]>);

impl Default for Filter {
    fn default() -> Self {
        Self(Box::new([0; FILTER]))
    }
}

impl Filter {
    /// Instructions begin at even addresses.
    fn slot(number: u64) -> usize {
        (number ^ number >> 1) as usize % FILTER
    }

    fn insert(&mut self, number: u64) {
        self.0[Self::slot(number)] += 1;
    }

    fn remove(&mut self, number: u64) {
        self.0[Self::slot(number)] -= 1;
    }

    #[inline]
    fn may_have(&self, number: u64) -> bool {
        self.0[Self::slot(number)] != 0
    }
}
