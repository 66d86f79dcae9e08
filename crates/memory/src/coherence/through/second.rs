//! The second level: banks with their miss registers, the memory channels behind them, and the directory.
//!
//! ```text
//!   sent --> arrives, waits for its bank --> looked up --> performs
//!                                              \--> a miss register --> a channel --> the line arrives --> performs
//! ```
//!
//! The crossbar takes equally long from every core to every bank. So requests come to a bank in the order in which they
//! are sent, and which cycle of the bank a request gets is known then; and so is what it finds, if all before it are
//! decided and its line is there. All else is decided in the cycle in which it happens. A line that is to come is entered
//! by the miss that asks for it; what finds it there waits for it.

use std::collections::VecDeque;

use loiter_types::{ContextId, CoreId, Cycle, PhysAddr};
use serde::{Deserialize, Serialize};

use super::directory::{Directory, Taken, Which};
use crate::cache::{Cache, Lookup};
use crate::counters::L2Counters;
use crate::params::{L2Params, MemoryParams};
use crate::request::{Request, RequestKind};

/// What the second level knows of a line beside who has it.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
struct Line {
    /// Memory has an older value.
    dirty: bool,
    /// Its value is still to come from memory.
    coming: bool,
}

/// A line that is to come from memory.
#[derive(Debug, Deserialize, Serialize)]
struct Miss {
    line: u64,
    since: Cycle,
    /// It has replaced a line that memory has an older value of.
    writes_back: bool,
    /// In order of arrival.
    waiters: Vec<Request>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
struct Bank {
    /// When it can begin its next look-up.
    free: Cycle,
    /// Miss registers that are taken.
    registers: u64,
    misses: Vec<Miss>,
    /// Lines that wait for a register, in order.
    unregistered: VecDeque<u64>,
    /// Requests whose set is full of lines that are to come, in order.
    blocked: VecDeque<Request>,
    /// Requests that have been sent and are still to be looked up.
    undecided: u64,
}

/// A reservation of an `lr`, as its bank knows it.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Reservation {
    context: ContextId,
    core: CoreId,
    /// The number of its data line.
    line: u64,
}

/// What a look-up has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The line is there, at this index.
    Here(usize),
    /// It is to come, and the request waits for it.
    Waits,
}

/// A line that arrives from memory: its number, and when.
pub(super) type Transfer = (u64, Cycle);

/// The second level.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Second {
    pub(super) params: L2Params,
    memory: MemoryParams,
    tags: Cache,
    lines: Vec<Line>,
    directory: Directory,
    banks: Vec<Bank>,
    /// When each channel can begin its next transfer.
    channel_free: Vec<Cycle>,
    reservations: Vec<Reservation>,
    data_log2: u32,
    pub(super) counters: L2Counters,
    /// Kept for their room.
    spare: Vec<Vec<Request>>,
}

impl Second {
    /// An empty second level for so many cores, whose instruction and data lines have this size.
    pub(super) fn new(
        params: &L2Params,
        memory: &MemoryParams,
        first_log2: [u32; 2],
        cores: usize,
    ) -> Result<Self, String> {
        params.check()?;
        let tags = Cache::new(
            params.size_kib * 1024,
            params.ways,
            params.line_bytes,
            &params.replacement,
        )?;
        let (lines, banks) = (tags.lines() as u64, params.banks);
        if lines / params.ways < banks {
            let sets = lines / params.ways;
            return Err(format!("banks = {banks} are more than its sets, {sets}"));
        }
        Ok(Self {
            lines: vec![Line::default(); tags.lines()],
            directory: Directory::new(tags.lines(), tags.line_log2(), first_log2, cores),
            tags,
            banks: (0..params.banks).map(|_| Bank::default()).collect(),
            channel_free: vec![Cycle(0); memory.channels as usize],
            reservations: Vec::new(),
            data_log2: first_log2[1],
            counters: L2Counters::default(),
            spare: Vec::new(),
            params: params.clone(),
            memory: memory.clone(),
        })
    }

    /// Whether nothing is outstanding.
    pub(super) fn is_idle(&self) -> bool {
        let idle =
            |bank: &Bank| bank.misses.is_empty() && bank.blocked.is_empty() && bank.undecided == 0;
        self.banks.iter().all(idle)
    }

    /// As [`crate::Memory::reach`].
    pub(super) fn reach(&self) -> u64 {
        self.tags.reach()
    }

    fn bank(&self, line: u64) -> usize {
        (line & (self.params.banks - 1)) as usize
    }

    /// Whether the line of `addr` is there.
    pub(super) fn has(&self, addr: PhysAddr) -> bool {
        match self.tags.find(self.tags.line(addr)) {
            Lookup::Hit(index) => !self.lines[index].coming,
            Lookup::Miss => false,
        }
    }

    /// A request is sent. Returns when its bank has looked it up.
    #[inline]
    pub(super) fn book(&mut self, now: Cycle, request: &Request) -> Cycle {
        let arrives = now.after(self.params.request_cycles);
        let bank = self.bank(self.tags.line(request.addr));
        let begins = arrives.max(self.banks[bank].free);
        let atomic = request.kind.is_far_atomic();
        self.banks[bank].free = begins.after(match atomic {
            true => self.params.atomic_busy_cycles,
            false => self.params.bank_busy_cycles,
        });
        self.counters.accesses += 1;
        self.counters.atomics += u64::from(atomic);
        self.counters.stores += u64::from(request.kind == RequestKind::Store);
        self.counters.bank_wait_cycles += begins.since(arrives);
        begins.after(self.params.bank_cycles())
    }

    /// Looks `request`, which has been booked, up ahead of time if nothing can change what its bank will find: all that were
    /// sent before are decided, and the line is there. Returns its index. Reservations, which are of contexts and not of a bank,
    /// have to be looked at when their time comes.
    #[inline]
    pub(super) fn looks_up_ahead(&mut self, request: &Request) -> Option<usize> {
        let line = self.tags.line(request.addr);
        let number = self.bank(line);
        let bank = &mut self.banks[number];
        let of_reservation = matches!(
            request.kind,
            RequestKind::Reserve | RequestKind::Conditional
        );
        if bank.undecided == 0
            && !of_reservation
            && bank.blocked.is_empty()
            && let Lookup::Hit(index) = self.tags.find(line)
            && !self.lines[index].coming
        {
            self.tags.touch(index);
            return Some(index);
        }
        bank.undecided += 1;
        None
    }

    /// The bank of `request`, which was not looked up ahead of time, looks it up now.
    #[inline]
    pub(super) fn decides(&mut self, request: &Request) {
        let bank = self.bank(self.tags.line(request.addr));
        self.banks[bank].undecided -= 1;
    }

    /// A bank has looked a request up. What first levels lose by it goes into `taken`, the line that is requested from
    /// memory into `transfers`.
    #[inline]
    pub(super) fn look_up(
        &mut self,
        now: Cycle,
        request: Request,
        taken: &mut Vec<Taken>,
        transfers: &mut Vec<Transfer>,
    ) -> Found {
        let line = self.tags.line(request.addr);
        match self.tags.access(line) {
            Lookup::Hit(index) if !self.lines[index].coming => Found::Here(index),
            Lookup::Hit(_) => {
                self.counters.merged_misses += 1;
                let bank = self.bank(line);
                let misses = &mut self.banks[bank].misses;
                let miss = misses.iter_mut().find(|miss| miss.line == line);
                miss.expect("it is to come").waiters.push(request);
                Found::Waits
            }
            Lookup::Miss => {
                self.misses(now, request, taken, transfers);
                Found::Waits
            }
        }
    }

    fn misses(
        &mut self,
        now: Cycle,
        request: Request,
        taken: &mut Vec<Taken>,
        transfers: &mut Vec<Transfer>,
    ) {
        let line = self.tags.line(request.addr);
        let bank = self.bank(line);
        let Some((index, old)) = self.room_for(line) else {
            self.banks[bank].blocked.push_back(request);
            return;
        };
        self.counters.misses += 1;
        let writes_back = self.replace(index, line, old, taken);
        self.counters.writebacks += u64::from(writes_back);
        self.lines[index].coming = true;
        let mut waiters = self.spare.pop().unwrap_or_default();
        waiters.push(request);
        self.banks[bank].misses.push(Miss {
            line,
            since: now,
            writes_back,
            waiters,
        });
        if self.banks[bank].registers < self.params.mshrs_per_bank {
            self.requests(now, bank, line, transfers);
        } else {
            self.banks[bank].unregistered.push_back(line);
        }
    }

    /// Where `line` can go, and the line that it replaces there, which is none that is to come.
    fn room_for(&mut self, line: u64) -> Option<(usize, Option<u64>)> {
        let misses = &self.banks[self.bank(line)].misses;
        let coming = |other| misses.iter().any(|miss| miss.line == other);
        self.tags.room_for(line, coming)
    }

    /// Puts `line` at `index` in place of `old`. Returns whether memory has an older value of that.
    fn replace(
        &mut self,
        index: usize,
        line: u64,
        old: Option<u64>,
        taken: &mut Vec<Taken>,
    ) -> bool {
        let before = std::mem::take(&mut self.lines[index]);
        if let Some(old) = old {
            let first = taken.len();
            self.directory.evict(index, old, taken);
            self.break_reservations(&taken[first..]);
        }
        self.tags.put(index, line);
        old.is_some() && before.dirty
    }

    /// A line is requested from memory, by a register that is free.
    fn requests(&mut self, now: Cycle, bank: usize, line: u64, transfers: &mut Vec<Transfer>) {
        let channel = bank % self.channel_free.len();
        let bank = &mut self.banks[bank];
        bank.registers += 1;
        let miss = bank.misses.iter().find(|miss| miss.line == line);
        let miss = miss.expect("it is to come");
        self.counters.mshr_wait_cycles += now.since(miss.since);
        let free = &mut self.channel_free[channel];
        let begins = now.max(*free);
        self.counters.channel_wait_cycles += begins.since(now);
        let transfer = self.memory.line_transfer_cycles;
        *free = begins.after(transfer);
        if miss.writes_back {
            *free = free.after(transfer);
        }
        let ready = begins.after(self.params.memory_cycles());
        self.counters.outstanding_misses += ready.since(miss.since);
        transfers.push((line, ready));
    }

    /// `line` arrives from memory. Those that waited for it go into `waiters`, in order. Returns its index.
    pub(super) fn arrives(
        &mut self,
        now: Cycle,
        line: u64,
        waiters: &mut Vec<Request>,
        transfers: &mut Vec<Transfer>,
    ) -> usize {
        let Lookup::Hit(index) = self.tags.find(line) else {
            unreachable!("a line that is to come is not replaced");
        };
        self.lines[index].coming = false;
        let number = self.bank(line);
        let bank = &mut self.banks[number];
        let at = bank.misses.iter().position(|miss| miss.line == line);
        let mut miss = bank.misses.swap_remove(at.expect("it was to come"));
        waiters.append(&mut miss.waiters);
        self.spare.push(miss.waiters);
        bank.registers -= 1;
        if let Some(next) = bank.unregistered.pop_front() {
            self.requests(now, number, next, transfers);
        }
        index
    }

    /// Requests that found no room in the bank of `line`, in order.
    pub(super) fn take_blocked(&mut self, line: u64) -> VecDeque<Request> {
        let bank = self.bank(line);
        std::mem::take(&mut self.banks[bank].blocked)
    }

    /// A request for the line at `index` performs: what first levels have to give up goes into `taken`. Returns whether
    /// it does what it was sent for, which an `sc` does only if its core has kept its reservation.
    #[inline]
    pub(super) fn perform(
        &mut self,
        index: usize,
        request: &Request,
        taken: &mut Vec<Taken>,
    ) -> bool {
        let line = request.addr.block(self.data_log2);
        match request.kind {
            RequestKind::Reserve => {
                self.forget(request.context);
                self.reservations.push(Reservation {
                    context: request.context,
                    core: request.core,
                    line,
                });
            }
            RequestKind::Conditional => {
                let held = self.reservations.iter().any(|reservation| {
                    reservation.context == request.context && reservation.line == line
                });
                self.forget(request.context);
                if !held {
                    return false;
                }
            }
            RequestKind::Walk | RequestKind::Fails => return true,
            _ => {}
        }
        self.lines[index].dirty |= request.kind.writes();
        let first = taken.len();
        let (core, addr) = (request.core, request.addr);
        self.directory.step(index, request.kind, core, addr, taken);
        self.break_reservations(&taken[first..]);
        true
    }

    fn forget(&mut self, context: ContextId) {
        self.reservations
            .retain(|reservation| reservation.context != context);
    }

    /// Cores that give up the data line of a reservation have it no more.
    #[inline]
    fn break_reservations(&mut self, taken: &[Taken]) {
        if self.reservations.is_empty() || taken.is_empty() {
            return;
        }
        self.reservations.retain(|reservation| {
            let breaks = |taken: &Taken| {
                taken.which == Which::Data
                    && taken.core == reservation.core
                    && taken.line == reservation.line
            };
            !taken.iter().any(breaks)
        });
    }

    /// The line of `addr` is used without time. Returns its index.
    pub(super) fn warm(&mut self, addr: PhysAddr, taken: &mut Vec<Taken>) -> usize {
        let line = self.tags.line(addr);
        match self.tags.access(line) {
            Lookup::Hit(index) => index,
            Lookup::Miss => {
                let (index, old) = self.room_for(line).expect("no line is to come");
                self.replace(index, line, old, taken);
                index
            }
        }
    }

    /// Where the line of `addr` is.
    #[cfg(test)]
    pub(super) fn knows(&self, core: CoreId, which: Which, addr: PhysAddr) -> bool {
        match self.tags.find(self.tags.line(addr)) {
            Lookup::Hit(index) => self.directory.knows(index, core, which, addr),
            Lookup::Miss => false,
        }
    }
}
