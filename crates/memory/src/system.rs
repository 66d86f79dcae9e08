//! The memory system as the cores see it.

use loiter_types::{CoreId, CounterVisitor, Cycle, PhysAddr, StateVisitor};
use serde::{Deserialize, Serialize};

use crate::bus::Bus;
use crate::cache::{Cache, Lookup};
#[cfg(test)]
use crate::counters::L2Counters;
use crate::counters::{L1Counters, MissCounters, StoreCounters};
use crate::l2::{L2, SHARER_WORDS};
use crate::misses::{Found, MissRegisters};
use crate::params::{BusParams, L1MissParams, L1Params, L2Params, MemoryParams};
use crate::request::{Level, Missed, Request, RequestKind, Response, Told};
use crate::wheel::Wheel;

mod empty;
mod sharers;

pub(crate) use sharers::{cores_of, fill, fill_data};

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
enum Event {
    Perform(Response),
    FillInstructions(CoreId, PhysAddr),
    FillData(CoreId, PhysAddr),
    /// The same, as the core's own.
    FillOwned(CoreId, PhysAddr),
    /// A core has a second-level line no more to itself.
    Share(CoreId, u64),
    /// A second-level line is lost to a core's first level.
    Invalidate(CoreId, u64),
}

/// The parameters of a memory system.
#[derive(Clone, Debug)]
pub struct MemoryConfig {
    /// Number of cores, each with its own first level.
    pub cores: usize,
    /// Instruction caches.
    pub l1i: L1Params,
    /// Data caches.
    pub l1d: L1Params,
    /// Misses of the instruction caches and of the data caches.
    pub misses: [L1MissParams; 2],
    /// What connects the first level of each core to the second.
    pub bus: BusParams,
    /// Second level.
    pub l2: L2Params,
    /// Memory.
    pub memory: MemoryParams,
}

#[derive(Deserialize, Serialize)]
pub(crate) struct FirstLevel {
    pub(crate) instructions: Cache,
    pub(crate) data: Cache,
    /// By line of `data`: it is this core's own, to store to.
    pub(crate) owned: Vec<bool>,
    instruction_counters: L1Counters,
    data_counters: L1Counters,
    store_counters: StoreCounters,
    /// Miss registers of the instruction cache and of the data cache, with their counters.
    misses: [MissRegisters; 2],
    pub(crate) bus: Bus,
    miss_counters: [MissCounters; 2],
    /// Accesses that were more than a read of what is here.
    changes: u64,
    /// It is to be named before anything happens to it.
    named: bool,
}

impl FirstLevel {
    /// Shows `visitor` what reads that hit may depend on and change.
    fn visit_state(&mut self, visitor: &mut impl StateVisitor) {
        let Self {
            instructions,
            data,
            // Of stores.
            owned: _,
            instruction_counters,
            data_counters,
            store_counters: _,
            // Of misses: what is in flight is named before it comes.
            misses: _,
            bus: _,
            miss_counters: _,
            changes: _,
            named: _,
        } = self;
        instructions.visit_state(visitor);
        data.visit_state(visitor);
        visitor.counters(instruction_counters);
        visitor.counters(data_counters);
    }

    /// Whether what misses `cache` counts as a hit all the same.
    #[inline(always)]
    fn is_perfect(&self, cache: usize) -> bool {
        self.misses[cache].is_perfect()
    }
}

impl FirstLevel {
    /// The look-up of this request, which missed, does not count.
    fn forget_miss(&mut self, kind: RequestKind) {
        let counters = match kind {
            RequestKind::Own => {
                self.store_counters.stores -= 1;
                self.store_counters.store_misses -= 1;
                return;
            }
            RequestKind::Fetch => &mut self.instruction_counters,
            _ => &mut self.data_counters,
        };
        counters.accesses -= 1;
        counters.misses -= 1;
    }
}

/// Where in pairs of the two first-level caches each stands.
const INSTRUCTIONS: usize = 0;
const DATA: usize = 1;

/// First levels, second level, memory, and the events between them.
#[derive(Deserialize, Serialize)]
pub struct MemorySystem {
    pub(crate) first: Vec<FirstLevel>,
    pub(crate) l2: L2,
    device_latency_cycles: u64,
    events: Wheel<Event>,
    /// Events of the present cycle, of which the first `happened` have been seen to.
    due: Vec<Event>,
    happened: usize,
}

impl MemorySystem {
    /// An idle memory system with empty caches.
    ///
    /// # Errors
    /// The section and what is impossible about it.
    pub fn new(config: MemoryConfig) -> Result<Self, (&'static str, String)> {
        let cache = |section, params: &L1Params| {
            Cache::new(
                params.size_kib * 1024,
                params.ways,
                params.line_bytes,
                &params.replacement,
            )
            .map_err(|problem| (section, problem))
        };
        if config.cores > 64 * SHARER_WORDS {
            let most = 64 * SHARER_WORDS;
            return Err((
                "system",
                format!("at most {most} cores can share a second level"),
            ));
        }
        for (section, line) in [
            ("l1i", config.l1i.line_bytes),
            ("l1d", config.l1d.line_bytes),
        ] {
            if line > config.l2.line_bytes {
                return Err((
                    section,
                    "a line must not be longer than one of the l2".into(),
                ));
            }
        }
        let mut first = Vec::with_capacity(config.cores);
        for _ in 0..config.cores {
            let data = cache("l1d", &config.l1d)?;
            first.push(FirstLevel {
                instructions: cache("l1i", &config.l1i)?,
                owned: vec![false; data.lines()],
                data,
                instruction_counters: L1Counters::default(),
                data_counters: L1Counters::default(),
                store_counters: StoreCounters::default(),
                misses: config.misses.each_ref().map(MissRegisters::new),
                bus: Bus::new(&config.bus),
                miss_counters: Default::default(),
                changes: 0,
                named: false,
            });
        }
        let device_latency_cycles = config.memory.device_latency_cycles;
        Ok(Self {
            first,
            l2: L2::new(config.l2, config.memory).map_err(|problem| ("l2", problem))?,
            device_latency_cycles,
            events: Wheel::default(),
            due: Vec::new(),
            happened: 0,
        })
    }

    /// Counters of a core's instruction cache and data cache.
    #[cfg(test)]
    pub(crate) fn l1_counters(&self, core: CoreId) -> (&L1Counters, &L1Counters) {
        let first = &self.first[core.index()];
        (&first.instruction_counters, &first.data_counters)
    }

    /// Shows `visitor` the counters of all parts.
    pub fn visit_counters(&self, visitor: &mut impl CounterVisitor) {
        for (n, first) in self.first.iter().enumerate() {
            let (instructions, data) = (format!("core{n}.l1i"), format!("core{n}.l1d"));
            visitor.visit(&instructions, &first.instruction_counters);
            visitor.visit(&data, &first.data_counters);
            visitor.visit(&data, &first.store_counters);
            visitor.visit(&instructions, &first.miss_counters[INSTRUCTIONS]);
            visitor.visit(&data, &first.miss_counters[DATA]);
            visitor.visit(&format!("core{n}.bus"), &first.bus.counters);
        }
        visitor.visit("l2", &self.l2.counters);
    }

    /// Counters of the second level and memory.
    #[cfg(test)]
    pub(crate) fn l2_counters(&self) -> &L2Counters {
        &self.l2.counters
    }

    /// Bytes of a line of the second level.
    #[must_use]
    pub fn l2_line_bytes(&self) -> u64 {
        self.l2.line_bytes()
    }

    /// As [`crate::Memory::reach`].
    #[must_use]
    pub fn reach(&self) -> u64 {
        let FirstLevel {
            instructions, data, ..
        } = &self.first[0];
        let first = instructions.reach().min(data.reach());
        first.min(self.l2.reach())
    }

    /// log2 of the bytes of an instruction-cache line.
    #[must_use]
    pub fn fetch_line_log2(&self) -> u32 {
        self.first[0].instructions.line_log2()
    }

    /// log2 of the bytes of a data-cache line.
    #[must_use]
    pub fn data_line_log2(&self) -> u32 {
        self.first[0].data.line_log2()
    }

    /// Looks up the instruction cache: whether `addr` can be fetched now. A miss must be followed by
    /// a [`MemorySystem::send`].
    #[inline]
    pub fn fetch(&mut self, core: CoreId, addr: PhysAddr) -> bool {
        let first = &mut self.first[core.index()];
        first.instruction_counters.accesses += 1;
        let line = first.instructions.line(addr);
        let hit = first.instructions.access(line) != Lookup::Miss || first.is_perfect(INSTRUCTIONS);
        first.instruction_counters.misses += u64::from(!hit);
        hit
    }

    /// Looks up the data cache for a load; the same rule.
    #[inline]
    pub fn load(&mut self, core: CoreId, addr: PhysAddr) -> bool {
        let first = &mut self.first[core.index()];
        first.data_counters.accesses += 1;
        let line = first.data.line(addr);
        let hit = first.data.access(line) != Lookup::Miss || first.is_perfect(DATA);
        first.data_counters.misses += u64::from(!hit);
        hit
    }

    /// Looks up the data cache for a store of a core that owns what it stores to: whether it may perform
    /// now. If not, [`RequestKind::Own`] must be sent.
    #[inline]
    pub fn store(&mut self, core: CoreId, addr: PhysAddr) -> bool {
        let first = &mut self.first[core.index()];
        first.changes += 1;
        first.store_counters.stores += 1;
        let line = first.data.line(addr);
        let owned = match first.data.access(line) {
            Lookup::Hit(index) => first.owned[index],
            Lookup::Miss => false,
        } || first.is_perfect(DATA);
        first.store_counters.store_misses += u64::from(!owned);
        owned
    }

    /// Sends a fetch, a load or [`RequestKind::Own`] that missed the first level, if there is a miss
    /// register for it. Returns what will serve it.
    ///
    /// # Errors
    /// The cycle in which a miss register is free, when there is none; nothing was sent, and the look-up
    /// does not count: it comes again.
    pub fn miss(&mut self, now: Cycle, request: Request) -> Result<Missed, Cycle> {
        let first = &mut self.first[request.core.index()];
        first.changes += 1;
        let (which, cache) = match request.kind {
            RequestKind::Fetch => (INSTRUCTIONS, &first.instructions),
            _ => (DATA, &first.data),
        };
        let counters = &mut first.miss_counters[which];
        let line = cache.line(request.addr);
        let owns = request.kind == RequestKind::Own;
        match first.misses[which].find(now, line, owns) {
            Found::Line(miss) => {
                counters.merged_misses += 1;
                let done = miss.done.max(now.after(1));
                let performs = if owns { done } else { miss.performs };
                let response = Response {
                    request,
                    done,
                    level: miss.level,
                };
                let performs = performs.max(now.after(1));
                self.events.insert(performs, Event::Perform(response));
                Ok(Missed {
                    level: miss.level,
                    merged: true,
                })
            }
            Found::Full(until) => {
                counters.refused_misses += 1;
                first.forget_miss(request.kind);
                Err(until)
            }
            Found::Free => {
                let (level, performs, done) = self.dispatch(now, request);
                let first = &mut self.first[request.core.index()];
                first.miss_counters[which].outstanding_misses += done.since(now);
                first.misses[which].take(line, owns, performs, done, level);
                Ok(Missed {
                    level,
                    merged: false,
                })
            }
        }
    }

    /// Sends a request; its [`Response`] comes out of [`MemorySystem::advance`]. Returns what will serve
    /// it.
    pub fn send(&mut self, now: Cycle, request: Request) -> Level {
        self.dispatch(now, request).0
    }

    /// Returns what will serve a request, when it performs, and when its asker has the answer.
    fn dispatch(&mut self, now: Cycle, request: Request) -> (Level, Cycle, Cycle) {
        self.first[request.core.index()].changes += 1;
        if request.kind == RequestKind::Device {
            let performs = now.after(self.device_latency_cycles - 1);
            let response = Response {
                request,
                done: performs.after(1),
                level: Level::Device,
            };
            self.events.insert(performs, Event::Perform(response));
            return (Level::Device, performs, response.done);
        }
        let mut served = self.l2.serve(now, request.kind, request.addr);
        self.take_from_owner(&mut served, request);
        let mut done = served.performs.after(self.l2.reply_cycles());
        let cache = match request.kind {
            RequestKind::Fetch => Some(INSTRUCTIONS),
            RequestKind::Load | RequestKind::Own => Some(DATA),
            _ => None,
        };
        if let Some(cache) = cache {
            done = self.first[request.core.index()].bus.fill(now, cache, done);
        }
        if let Some((line, sharers)) = served.replaced {
            self.invalidate_sharers(served.performs, line, sharers, None);
        }
        let core = request.core;
        // A line of one's own is written when it is there.
        let performs = if request.kind == RequestKind::Own {
            done
        } else {
            served.performs
        };
        self.events.insert(
            performs,
            Event::Perform(Response {
                request,
                done,
                level: served.level,
            }),
        );
        match request.kind {
            RequestKind::Fetch => {
                self.share(served.index, core);
                self.events
                    .insert(done, Event::FillInstructions(core, request.addr));
            }
            RequestKind::Load => {
                self.share(served.index, core);
                self.events
                    .insert(done, Event::FillData(core, request.addr));
            }
            RequestKind::Own => {
                let line = self.l2.line(request.addr);
                let sharers = self.l2.lines[served.index].sharers;
                self.invalidate_sharers(served.performs, line, sharers, Some(core));
                let entry = &mut self.l2.lines[served.index];
                entry.sharers = [0; SHARER_WORDS];
                entry.owner = Some(core);
                self.share(served.index, core);
                self.events
                    .insert(done, Event::FillOwned(core, request.addr));
            }
            RequestKind::Walk | RequestKind::Device => {}
            kind => unreachable!("{kind:?} is of other memory systems"),
        }
        (served.level, performs, done)
    }

    /// The earliest cycle in which something happens.
    #[inline(always)]
    #[must_use]
    pub fn next(&self) -> Cycle {
        self.events.next()
    }

    /// Goes to cycle `now`; puts the accesses that perform in it into `told`, in order. Returns a core of which
    /// [`MemorySystem::name_ahead`] wants to know that something is about to happen to its first level; then it has to be
    /// called again.
    #[inline]
    pub fn advance(&mut self, now: Cycle, told: &mut Vec<Told>) -> Option<CoreId> {
        if self.happened == self.due.len() {
            self.due.clear();
            self.happened = 0;
            self.events.advance(now, &mut self.due);
        }
        while let Some(&event) = self.due.get(self.happened) {
            let core = match event {
                Event::Perform(response) => {
                    self.happened += 1;
                    told.push(Told::Performs(response));
                    continue;
                }
                Event::FillInstructions(core, _)
                | Event::FillData(core, _)
                | Event::FillOwned(core, _)
                | Event::Share(core, _)
                | Event::Invalidate(core, _) => core,
            };
            if self.first[core.index()].named {
                return Some(core);
            }
            self.happened += 1;
            self.happens(now, event);
        }
        None
    }

    /// Something happens to a first level.
    #[inline]
    fn happens(&mut self, now: Cycle, event: Event) {
        match event {
            Event::Perform(_) => unreachable!("it concerns no first level"),
            Event::FillInstructions(core, addr) => {
                let first = &mut self.first[core.index()];
                fill(&mut first.instructions, &self.l2, core, addr);
            }
            Event::FillData(core, addr) => {
                let first = &mut self.first[core.index()];
                let changed = fill_data(first, &self.l2, core, addr);
                self.write_back(now, core, changed);
            }
            Event::FillOwned(core, addr) => {
                let changed = self.fill_owned(core, addr);
                self.write_back(now, core, changed);
            }
            Event::Share(core, line) => {
                self.write_back_parts(now, core, line);
                self.disown(core, line);
            }
            Event::Invalidate(core, line) => {
                self.write_back_parts(now, core, line);
                self.invalidate(core, line);
            }
        }
    }

    /// Whether `core` is named before anything happens to its first level.
    pub fn name_ahead(&mut self, core: CoreId, named: bool) {
        self.first[core.index()].named = named;
    }

    /// Whether the data cache of `core` has the line of `addr`.
    #[must_use]
    pub fn reads(&self, core: CoreId, addr: PhysAddr) -> bool {
        let data = &self.first[core.index()].data;
        data.find(data.line(addr)) != Lookup::Miss
    }

    /// How many accesses of `core` were more than a read of what its first level has.
    #[inline(always)]
    #[must_use]
    pub fn changes(&self, core: CoreId) -> u64 {
        self.first[core.index()].changes
    }

    /// Shows `visitor` what reads of `core` that hit the first level may depend on and change.
    pub fn visit_state(&mut self, core: CoreId, visitor: &mut impl StateVisitor) {
        self.first[core.index()].visit_state(visitor);
    }
}

#[cfg(test)]
#[path = "system_tests.rs"]
pub(crate) mod tests;

#[cfg(test)]
#[path = "queue_tests.rs"]
mod queue_tests;
