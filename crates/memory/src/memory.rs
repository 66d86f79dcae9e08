//! The memory system of a machine, of whichever kind it has.

use loiter_types::{ContextId, CoreId, CounterVisitor, Cycle, PhysAddr, StateVisitor};
use serde::{Deserialize, Serialize};

use crate::coherence::{
    Asked, Coherent, DirectoryParams, SnoopingParams, WriteThrough, WriteThroughParams,
};
use crate::request::{Caches, Emptied, Missed, Request, RequestKind, Told};
use crate::system::{MemoryConfig, MemorySystem};

/// Parameters of a memory system.
#[derive(Clone, Debug)]
pub enum AnyMemoryConfig {
    /// First levels and one second level that all cores share, at the same distance from each.
    Shared(Box<MemoryConfig>),
    /// Private caches, homes and a network between them.
    Directory(Box<DirectoryParams>),
    /// Private caches that watch one bus.
    Snooping(Box<SnoopingParams>),
    /// First levels that write through, and one second level.
    WriteThrough(Box<WriteThroughParams>),
}

/// A memory system. What cores ask of it is asked here.
#[derive(Deserialize, Serialize)]
pub enum Memory {
    /// First levels and one second level that all cores share, at the same distance from each.
    Shared(Box<MemorySystem>),
    /// Private caches, and homes and a network between them, or a bus.
    Coherent(Box<Coherent>),
    /// First levels that write through, and a second level that orders all stores.
    WriteThrough(Box<WriteThrough>),
}

macro_rules! each {
    ($memory:expr, $inner:ident => $body:expr) => {
        match $memory {
            Memory::Shared($inner) => $body,
            Memory::Coherent($inner) => $body,
            Memory::WriteThrough($inner) => $body,
        }
    };
}

impl AnyMemoryConfig {
    /// Number of cores.
    #[must_use]
    pub fn cores(&self) -> usize {
        match self {
            AnyMemoryConfig::Shared(config) => config.cores,
            AnyMemoryConfig::Directory(params) => params.cores,
            AnyMemoryConfig::Snooping(params) => params.cores,
            AnyMemoryConfig::WriteThrough(params) => params.cores,
        }
    }
}

impl Memory {
    /// An idle memory system with empty caches.
    ///
    /// # Errors
    /// The section and what is impossible about it.
    pub fn new(config: &AnyMemoryConfig) -> Result<Self, (&'static str, String)> {
        Ok(match config {
            AnyMemoryConfig::Shared(config) => {
                Self::Shared(Box::new(MemorySystem::new(MemoryConfig::clone(config))?))
            }
            AnyMemoryConfig::Directory(params) => {
                Self::Coherent(Box::new(Coherent::new(&params.config()?)?))
            }
            AnyMemoryConfig::Snooping(params) => {
                Self::Coherent(Box::new(Coherent::new(&params.config()?)?))
            }
            AnyMemoryConfig::WriteThrough(params) => {
                Self::WriteThrough(Box::new(WriteThrough::new(params)?))
            }
        })
    }

    /// Whether memory grants a core the right to write a line, so that its stores perform in its own data cache.
    #[inline(always)]
    #[must_use]
    pub fn grants_lines(&self) -> bool {
        matches!(self, Memory::Coherent(_))
    }

    /// Bytes of the lines that cores keep coherent.
    #[must_use]
    pub fn line_bytes(&self) -> u64 {
        match self {
            Memory::Shared(memory) => memory.l2_line_bytes(),
            Memory::Coherent(memory) => 1 << memory.data_line_log2(),
            Memory::WriteThrough(memory) => memory.line_bytes(),
        }
    }

    /// The first address beyond those whose lines all caches can tell apart: RAM must not reach beyond.
    #[must_use]
    pub fn reach(&self) -> u64 {
        each!(self, memory => memory.reach())
    }

    /// log2 of the bytes of an instruction-cache line.
    #[must_use]
    pub fn fetch_line_log2(&self) -> u32 {
        each!(self, memory => memory.fetch_line_log2())
    }

    /// log2 of the bytes of a data-cache line.
    #[must_use]
    pub fn data_line_log2(&self) -> u32 {
        each!(self, memory => memory.data_line_log2())
    }

    /// Looks up the instruction cache: whether `addr` can be fetched now. A miss must be followed by
    /// a [`Memory::send`] or [`Memory::miss`].
    #[inline]
    pub fn fetch(&mut self, core: CoreId, addr: PhysAddr) -> bool {
        each!(self, memory => memory.fetch(core, addr))
    }

    /// Looks up the data cache for a load; the same rule.
    #[inline]
    pub fn load(&mut self, now: Cycle, core: CoreId, addr: PhysAddr) -> bool {
        match self {
            Memory::Shared(memory) => memory.load(core, addr),
            Memory::Coherent(memory) => memory.load(now, core, addr),
            Memory::WriteThrough(memory) => memory.load(core, addr),
        }
    }

    /// Looks up the data cache for a store of a core that owns what it stores to: whether it may perform
    /// now. If not, [`RequestKind::Own`] must be sent.
    #[inline]
    pub fn store(&mut self, core: CoreId, addr: PhysAddr) -> bool {
        match self {
            Memory::Shared(memory) => memory.store(core, addr),
            Memory::Coherent(memory) => memory.store(core, addr),
            Memory::WriteThrough(_) => unreachable!("stores are sent"),
        }
    }

    /// Whether `core` may write the line of `addr` where memory grants lines. Nothing is counted.
    #[must_use]
    pub fn may_write(&self, core: CoreId, addr: PhysAddr) -> bool {
        match self {
            Memory::Shared(_) | Memory::WriteThrough(_) => true,
            Memory::Coherent(memory) => memory.state(core, addr).can_write(),
        }
    }

    /// Sends a fetch, a load or [`RequestKind::Own`] that missed the first level, if there is a miss
    /// register for it. Returns what will serve it, as far as that is known.
    ///
    /// # Errors
    /// A cycle in which a miss register may be free, when there is none; nothing was sent, and the look-up
    /// does not count: it comes again. [`Cycle::NEVER`] where [`Told::Retry`] says when.
    pub fn miss(&mut self, now: Cycle, request: Request) -> Result<Missed, Cycle> {
        match self {
            Memory::Shared(memory) => memory.miss(now, request),
            Memory::Coherent(memory) => {
                let asked = memory.ask(now, request);
                if asked == Asked::Full {
                    return Err(Cycle::NEVER);
                }
                Ok(Missed {
                    level: memory.whereabouts(request.core, request.addr),
                    merged: asked == Asked::Merged,
                })
            }
            Memory::WriteThrough(memory) => {
                let level = memory.whereabouts(request.addr);
                memory.send(now, request);
                let merged = false;
                Ok(Missed { level, merged })
            }
        }
    }

    /// Sends the read of an entry of a page table past the data cache.
    ///
    /// # Errors
    /// A cycle in which a miss register may be free, when it needs one and there is none.
    pub fn walk(&mut self, now: Cycle, request: Request) -> Result<(), Cycle> {
        match self {
            Memory::Shared(memory) => {
                memory.send(now, request);
                Ok(())
            }
            Memory::Coherent(memory) => match memory.ask(now, request) {
                Asked::Full => Err(now.after(1)),
                Asked::Sent | Asked::Merged => Ok(()),
            },
            Memory::WriteThrough(memory) => {
                memory.send(now, request);
                Ok(())
            }
        }
    }

    /// Sends a request, which performs when [`Memory::advance`] says.
    pub fn send(&mut self, now: Cycle, request: Request) {
        match self {
            Memory::Shared(memory) => {
                memory.send(now, request);
            }
            Memory::Coherent(memory) => {
                let asked = memory.ask(now, request);
                debug_assert_eq!(asked, Asked::Sent, "{request:?}");
            }
            Memory::WriteThrough(memory) => memory.send(now, request),
        }
    }

    /// `context` of `core`, whose `lr` reads at `addr`, keeps the line for a while, where memory grants lines.
    pub fn reserve(&mut self, now: Cycle, core: CoreId, context: ContextId, addr: PhysAddr) {
        if let Memory::Coherent(memory) = self {
            memory.reserve(now, core, context, addr);
        }
    }

    /// `context` keeps no line any more.
    pub fn release(&mut self, now: Cycle, context: ContextId) {
        if let Memory::Coherent(memory) = self {
            memory.release(now, context);
        }
    }

    /// Caches of `core` lose all lines but those that `stays` names, by number, and some that are being requested. What
    /// was written is written back. Puts into `told` which lines the core has lost, where memory tells of that.
    pub fn empty(
        &mut self,
        now: Cycle,
        core: CoreId,
        which: Caches,
        stays: impl Fn(u64) -> bool,
        told: &mut Vec<Told>,
    ) -> Emptied {
        match self {
            Memory::Shared(memory) => memory.empty(now, core, which, stays),
            Memory::WriteThrough(memory) => memory.empty(core, which, stays),
            Memory::Coherent(memory) => memory.empty(now, core, which, stays, told),
        }
    }

    /// All caches of `core` lose all lines, without time. Nothing is counted, and nothing may be outstanding.
    pub fn empty_at_once(&mut self, core: CoreId) {
        match self {
            Memory::Shared(memory) => memory.empty_at_once(core),
            Memory::WriteThrough(memory) => memory.empty_at_once(core),
            Memory::Coherent(memory) => memory.empty_at_once(core),
        }
    }

    /// The earliest cycle in which something happens.
    #[inline(always)]
    #[must_use]
    pub fn next(&self) -> Cycle {
        each!(self, memory => memory.next())
    }

    /// Goes to cycle `now`; puts what cores are told into `told`, in order. Returns a core of which
    /// [`Memory::name_ahead`] wants to know that something is about to happen to its private caches; then it has to be
    /// called again.
    #[inline]
    pub fn advance(&mut self, now: Cycle, told: &mut Vec<Told>) -> Option<CoreId> {
        each!(self, memory => memory.advance(now, told))
    }

    /// Whether `core` is named before anything happens to its private caches.
    pub fn name_ahead(&mut self, core: CoreId, named: bool) {
        each!(self, memory => memory.name_ahead(core, named));
    }

    /// Whether loads of `core` may read the line of `addr` until [`Memory::advance`] says that a store to it performs.
    #[must_use]
    pub fn reads(&self, core: CoreId, addr: PhysAddr) -> bool {
        match self {
            Memory::Shared(memory) => memory.reads(core, addr),
            // It has lost the line before.
            Memory::Coherent(_) => false,
            Memory::WriteThrough(memory) => memory.reads(core, addr),
        }
    }

    /// How many accesses of `core` were more than a read of what its first level has.
    #[inline(always)]
    #[must_use]
    pub fn changes(&self, core: CoreId) -> u64 {
        each!(self, memory => memory.changes(core))
    }

    /// Shows `visitor` what reads of `core` that hit the first level may depend on and change.
    pub fn visit_state(&mut self, core: CoreId, visitor: &mut impl StateVisitor) {
        each!(self, memory => memory.visit_state(core, visitor));
    }

    /// `core` has made an access to RAM at `addr`, without time: tags are as if it had. A store is
    /// [`RequestKind::Store`] where stores write through, and else [`RequestKind::Own`].
    pub fn warm(&mut self, core: CoreId, kind: RequestKind, addr: PhysAddr) {
        each!(self, memory => memory.warm(core, kind, addr));
    }

    /// Shows `visitor` the counters of all parts.
    pub fn visit_counters(&self, visitor: &mut impl CounterVisitor) {
        each!(self, memory => memory.visit_counters(visitor));
    }
}
