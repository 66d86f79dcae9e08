//! Memory: channels, banks, and the row that each bank has open.
//!
//! Accesses of a channel are served in the order in which they arrive. Refresh is not modelled, nor are the turnarounds
//! between reads and writes.

use loiter_types::{Cycle, counters, params};
use serde::{Deserialize, Serialize};

params! {
    /// Memory of a machine made of messages: section `dram`.
    pub struct DramParams {
        /// Channels of each home; lines are interleaved over them.
        channels: int(1..=64),
        /// Banks of a channel.
        banks: int(1..=1024),
        /// Bytes of a row of a bank.
        row_bytes: int(64..=1048576),
        /// From a read's arrival to its value, when the row is open and nobody else is there.
        row_hit_cycles: int(1..=10000),
        /// The same, when another row is open.
        row_miss_cycles: int(1..=10000),
        /// Cycles for which the transfer of a line keeps its channel busy.
        line_transfer_cycles: int(1..=10000),
    }
}

impl DramParams {
    /// Checks what single bounds cannot.
    ///
    /// # Errors
    /// The section and what contradicts what.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        let (miss, hit) = (self.row_miss_cycles, self.row_hit_cycles);
        if miss < hit {
            let problem = format!("row_miss_cycles = {miss} is less than row_hit_cycles = {hit}");
            return Err(("dram", problem));
        }
        Ok(())
    }
}

counters! {
    /// Counters of the memory of a home.
    pub struct DramCounters {
        /// Lines read.
        reads: "lines",
        /// Lines written.
        writes: "lines",
        /// Reads and writes of a row that was open.
        row_hits: "accesses",
        /// Cycles that reads waited for their bank or channel.
        wait_cycles: "cycles",
    }
}

const NO_ROW: u64 = u64::MAX;

/// The memory of a home.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Dram {
    params: DramParams,
    lines_per_row: u64,
    channel_free: Vec<Cycle>,
    bank_free: Vec<Cycle>,
    open_row: Vec<u64>,
    pub(crate) counters: DramCounters,
}

impl Dram {
    pub(crate) fn new(params: &DramParams, line_bytes: u64) -> Self {
        let banks = (params.channels * params.banks) as usize;
        Self {
            lines_per_row: (params.row_bytes / line_bytes).max(1),
            channel_free: vec![Cycle(0); params.channels as usize],
            bank_free: vec![Cycle(0); banks],
            open_row: vec![NO_ROW; banks],
            counters: DramCounters::default(),
            params: params.clone(),
        }
    }

    /// Reads the `n`th line of this memory; returns when its value is there.
    pub(crate) fn read(&mut self, now: Cycle, n: u64) -> Cycle {
        self.counters.reads += 1;
        let (ready, unloaded) = self.access(now, n);
        self.counters.wait_cycles += ready.since(unloaded);
        ready
    }

    /// Writes the `n`th line of this memory.
    pub(crate) fn write(&mut self, now: Cycle, n: u64) {
        self.counters.writes += 1;
        self.access(now, n);
    }

    fn access(&mut self, now: Cycle, n: u64) -> (Cycle, Cycle) {
        let channel = n % self.params.channels;
        let row = n / self.params.channels / self.lines_per_row;
        let bank = (channel * self.params.banks + row % self.params.banks) as usize;
        let hit = self.open_row[bank] == row;
        self.counters.row_hits += u64::from(hit);
        self.open_row[bank] = row;
        let latency = match hit {
            true => self.params.row_hit_cycles,
            false => self.params.row_miss_cycles,
        };
        // A row that has to be opened keeps its bank for that; a transfer keeps the channel.
        let opens = latency - self.params.row_hit_cycles;
        let begins = now.max(self.bank_free[bank]);
        let opened = begins.after(opens);
        let channel_free = &mut self.channel_free[channel as usize];
        let transfers = opened.max(*channel_free);
        *channel_free = transfers.after(self.params.line_transfer_cycles);
        self.bank_free[bank] = transfers.after(self.params.line_transfer_cycles);
        (
            transfers.after(self.params.row_hit_cycles),
            now.after(latency),
        )
    }
}
