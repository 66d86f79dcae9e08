//! The shared second level: banks, their miss registers, and the memory channels behind them.
//!
//! A request is timed when it is sent. That equals timing it on arrival, because every request takes
//! the same time to its bank, so requests arrive in the order in which they are sent. A channel with
//! several banks serves their misses in that order too, even if one of the banks was slower to look
//! its own up. The line of a miss is entered at once with the cycle in which it will be there;
//! whoever asks for it before then waits for that cycle, as with a miss register that merges.

use loiter_types::{CoreId, Cycle, PhysAddr};
use serde::{Deserialize, Serialize};

use crate::cache::{Cache, Lookup};
use crate::counters::L2Counters;
use crate::params::{L2Params, MemoryParams};
use crate::request::{Level, RequestKind};

/// Cores that may hold a line in their first level, 64 to a word.
pub(crate) const SHARER_WORDS: usize = 4;

/// What the second level knows of a line.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Line {
    /// When it is (or will be) there.
    ready: Cycle,
    /// Whether memory has an older value.
    dirty: bool,
    /// The core that has it to itself, to store to.
    pub(crate) owner: Option<CoreId>,
    /// Cores whose first level may hold part of it.
    pub(crate) sharers: [u64; SHARER_WORDS],
}

/// When a request performs, what it found, and what it evicted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    /// When the access performs.
    pub(crate) performs: Cycle,
    /// Where it found the line.
    pub(crate) level: Level,
    /// Index of the line.
    pub(crate) index: usize,
    /// A line that was replaced, with the cores that may hold it.
    pub(crate) replaced: Option<(u64, [u64; SHARER_WORDS])>,
}

/// The second level and memory.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct L2 {
    params: L2Params,
    memory: MemoryParams,
    tags: Cache,
    pub(crate) lines: Vec<Line>,
    /// When each bank can start its next request.
    bank_free: Vec<Cycle>,
    /// When each channel can start its next transfer.
    channel_free: Vec<Cycle>,
    /// For each bank, when each of its miss registers is free again.
    mshr_free: Vec<Vec<Cycle>>,
    pub(crate) counters: L2Counters,
}

impl L2 {
    pub(crate) fn new(params: L2Params, memory: MemoryParams) -> Result<Self, String> {
        let tags = Cache::new(
            params.size_kib * 1024,
            params.ways,
            params.line_bytes,
            &params.replacement,
        )?;
        params.check()?;
        let banks = params.banks as usize;
        Ok(Self {
            lines: vec![Line::default(); tags.lines()],
            tags,
            bank_free: vec![Cycle(0); banks],
            channel_free: vec![Cycle(0); memory.channels as usize],
            mshr_free: vec![vec![Cycle(0); params.mshrs_per_bank as usize]; banks],
            counters: L2Counters::default(),
            params,
            memory,
        })
    }

    pub(crate) fn line(&self, addr: PhysAddr) -> u64 {
        self.tags.line(addr)
    }

    /// As [`crate::Memory::reach`].
    pub(crate) fn reach(&self) -> u64 {
        self.tags.reach()
    }

    pub(crate) fn line_bytes(&self) -> u64 {
        self.params.line_bytes
    }

    /// Index of a line that is there.
    pub(crate) fn find(&self, line: u64) -> Option<usize> {
        match self.tags.find(line) {
            Lookup::Hit(index) => Some(index),
            Lookup::Miss => None,
        }
    }

    /// Cycles from a core to a bank.
    pub(crate) fn request_cycles(&self) -> u64 {
        self.params.request_cycles
    }

    /// Cycles from performing to the issue of the requester's next instruction.
    pub(crate) fn reply_cycles(&self) -> u64 {
        self.params.reply_cycles
    }

    /// Times a request for `addr` that is sent now.
    pub(crate) fn serve(&mut self, now: Cycle, kind: RequestKind, addr: PhysAddr) -> Served {
        let line = self.tags.line(addr);
        let bank = (line & (self.params.banks - 1)) as usize;
        let arrives = now.after(self.params.request_cycles);
        let starts = arrives.max(self.bank_free[bank]);
        self.bank_free[bank] = starts.after(self.params.bank_busy_cycles);
        self.counters.accesses += 1;
        self.counters.bank_wait_cycles += starts.since(arrives);

        let looked_up = starts.after(self.params.bank_cycles());
        let mut served = match self.tags.access(line) {
            Lookup::Hit(index) => self.found(looked_up, index),
            Lookup::Miss => self.missed(looked_up, line, bank),
        };
        self.lines[served.index].dirty |= kind.writes();
        // An access never performs before the one that the bank started before it.
        served.performs = served.performs.max(looked_up);
        served
    }

    /// A changed line of a first level comes back, which keeps its bank as any access does.
    pub(crate) fn write_back(&mut self, now: Cycle, addr: PhysAddr) {
        let bank = (self.tags.line(addr) & (self.params.banks - 1)) as usize;
        let arrives = now.after(self.params.request_cycles);
        let starts = arrives.max(self.bank_free[bank]);
        self.bank_free[bank] = starts.after(self.params.bank_busy_cycles);
    }

    /// Line `line` is used, and written if it `writes`, without time. Returns its index, and the line that it
    /// replaced with the cores that may hold it.
    pub(crate) fn warm(
        &mut self,
        line: u64,
        writes: bool,
    ) -> (usize, Option<(u64, [u64; SHARER_WORDS])>) {
        let (index, replaced) = match self.tags.access(line) {
            Lookup::Hit(index) => (index, None),
            Lookup::Miss => {
                let (index, old) = self.tags.fill(line);
                let before = std::mem::take(&mut self.lines[index]);
                (index, old.map(|line| (line, before.sharers)))
            }
        };
        self.lines[index].dirty |= writes;
        (index, replaced)
    }

    fn found(&mut self, looked_up: Cycle, index: usize) -> Served {
        let ready = self.lines[index].ready;
        let merged = ready > looked_up;
        self.counters.merged_misses += u64::from(merged);
        Served {
            performs: looked_up.max(ready),
            level: if merged { Level::Memory } else { Level::L2 },
            index,
            replaced: None,
        }
    }

    fn missed(&mut self, looked_up: Cycle, line: u64, bank: usize) -> Served {
        self.counters.misses += 1;
        let registers = &mut self.mshr_free[bank];
        let register = (0..registers.len())
            .min_by_key(|&n| registers[n])
            .unwrap_or(0);
        let registered = looked_up.max(registers[register]);
        self.counters.mshr_wait_cycles += registered.since(looked_up);

        let channel = bank % self.channel_free.len();
        let starts = registered.max(self.channel_free[channel]);
        self.counters.channel_wait_cycles += starts.since(registered);
        self.channel_free[channel] = starts.after(self.memory.line_transfer_cycles);
        let ready = starts.after(self.params.memory_cycles());
        registers[register] = ready;
        self.counters.outstanding_misses += ready.since(looked_up);

        let (index, old) = self.tags.fill(line);
        let before = std::mem::replace(
            &mut self.lines[index],
            Line {
                ready,
                ..Line::default()
            },
        );
        if old.is_some() && before.dirty {
            self.counters.writebacks += 1;
            self.channel_free[channel] =
                self.channel_free[channel].after(self.memory.line_transfer_cycles);
        }
        Served {
            performs: ready,
            level: Level::Memory,
            index,
            replaced: old.map(|line| (line, before.sharers)),
        }
    }
}
