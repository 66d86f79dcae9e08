//! One context: the seat of a hart, and what it waits for.

use loiter_hart::{Access, Hart};
use loiter_isa::{Class, Inst, Op};
use loiter_observe::{Accounts, Course, Doing, Slot};
use loiter_types::{AddressSpace, ContextId, Cycle, HartId, PhysAddr};
use serde::{Deserialize, Serialize};
use serde_with::serde_as;

use super::core::CoreState;
use crate::shared::{doing, mode};
use crate::store_buffer::StoreBuffer;
use crate::wait::Sleep;
use crate::walker::{Granted, NO_PAGE};
use crate::warm::Fetched;

/// What a context without a known time of readiness waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum Waits {
    /// Nothing: it is ready at a known cycle.
    Time,
    /// Its instruction line.
    Fetch,
    /// A page walk.
    Walk,
    /// A load, atomic or device access in flight.
    Access,
    /// The line of its load, which has returned, to fill the first level.
    Fill,
    /// A unit whose operation waits for its data.
    Unit,
    /// An entry of its store buffer.
    StoreEntry,
    /// Its store buffer to be empty.
    Drain,
    /// The event that ends its nap.
    Wake(Sleep),
    /// Its hart to be detached.
    Leave,
    /// A hart.
    Hart,
}

/// What a context that is due can do with a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chance {
    /// It issues.
    Issues,
    /// It cannot issue, and has been stalled; the slot goes to another.
    Waits,
    /// It cannot issue, and the slot is lost.
    LosesSlot,
}

impl DataAddr {
    /// Which it is, and where.
    pub(super) fn as_words(self) -> (u64, u64) {
        match self {
            DataAddr::At(addr) => (0, addr.0),
            DataAddr::Split(addr) => (1, addr.0),
            DataAddr::Nowhere => (2, 0),
        }
    }
}

impl Chance {
    #[inline(always)]
    pub(super) fn issues(can: bool) -> Self {
        if can { Self::Issues } else { Self::Waits }
    }
}

/// Where the data of a load, store or atomic lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum DataAddr {
    /// From here on.
    At(PhysAddr),
    /// In two pages, the first of them from here on.
    Split(PhysAddr),
    /// Nowhere: it raises an exception.
    Nowhere,
}

/// What is known of the next instruction of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum Next {
    /// Nothing.
    Unknown,
    /// A copy of it has been taken when the one before issued, in the same page. It has not been fetched, and is good as long
    /// as `generation` stands: with several contexts in turn, the way from a pc to its instruction is long and its end, on
    /// which all branches depend, comes late.
    Ahead,
    /// It has been fetched.
    Fetched,
}

/// One context. What every instruction asks comes first, in few lines of a host's cache.
#[serde_as]
#[derive(Debug, Deserialize, Serialize)]
#[repr(C, align(64))]
pub(super) struct Context {
    // What every instruction asks: two lines.
    /// First cycle in which it may issue, as far as is known.
    pub(super) ready_at: Cycle,
    /// First cycle in which it may issue without relying on a hit that is not confirmed.
    pub(super) firm_at: Cycle,
    /// When all of `operands` can be read.
    pub(super) operands_until: Cycle,
    pub(super) inst_pc: u64,
    /// From that to where it lies, the same within a page.
    pub(super) inst_offset: u64,
    /// `hart` as a number.
    pub(super) hart_number: u32,
    /// The number of the decoded page of `inst_pc` when `generation` was noted.
    pub(super) code_page: u32,
    /// First byte of the line of the instruction cache that it fetches from.
    pub(super) fetch_line: u64,
    /// [`crate::Shared::code_generation`] when the page of `inst_pc` was translated; if there is none, the next instruction
    /// has to be.
    pub(super) generation: u64,
    /// The next instruction as far as `next` says, else the last one; at `inst_pc`.
    pub(super) inst: Inst,
    pub(super) class: Class,
    /// What the cycles before `ready_at` are charged to.
    pub(super) slot: Slot,
    pub(super) next: Next,
    /// Whether probes stand between the pc and the next instruction.
    pub(super) probes: bool,
    /// Whether its fetches are translated.
    pub(super) translates: bool,
    /// Whether interrupts must be looked at before the next instruction, or a rest has ended.
    pub(super) check_interrupts: bool,
    /// Its hart is about to leave while others stay.
    pub(super) leaves: bool,
    pub(super) course: Course,
    // What every instruction asks comes first here too.
    pub(super) accounts: Accounts,
    /// The page whose translation it has for its fetches, and their address space.
    pub(super) fetch_page: u64,
    pub(super) fetch_space: AddressSpace,
    /// First cycle in which it is selected on the assumption that its load hits, although that has
    /// missed.
    pub(super) speculates_at: Cycle,
    // What loads and stores ask: a line.
    pub(super) stores: StoreBuffer,
    /// Where its data lie, if it is a load, store or atomic that can issue.
    pub(super) data_addr: DataAddr,
    /// What it waits for when `ready_at` is not known.
    pub(super) waits: Waits,
    /// Address space of its data.
    pub(super) data_space: AddressSpace,
    /// Pages whose translation has been found for the data of the fetched instruction.
    pub(super) data_granted: Granted,
    /// The same for the instruction that is being fetched.
    pub(super) fetch_granted: Granted,
    // What is rarely looked at.
    /// Memory has been told of the `lr` that ran last: its hart has not come here since.
    pub(super) reserved: bool,
    /// When each register slot can be read, with stall = "use".
    #[serde_as(as = "Box<[_; 65]>")]
    pub(super) operands: Box<[Cycle; 65]>,
    /// Slots that it can still lose so.
    pub(super) miss_slots_left: u64,
    /// Instructions that an observer was told of.
    pub(super) fetched_count: u64,
    /// Its position in the core.
    pub(super) seat: usize,
    pub(super) id: ContextId,
    pub(super) hart: Option<HartId>,
    /// Where its hart has fetched from last in the reference engine.
    pub(super) warmed: Fetched,
}

/// No [`Context::generation`]: none ever becomes so large.
pub(super) const NO_GENERATION: u64 = u64::MAX;

/// No line: far from all that there are.
pub(super) const NO_LINE: u64 = 1 << 63;

impl Context {
    /// A vacant context.
    pub(super) fn new(
        id: ContextId,
        seat: usize,
        stores: StoreBuffer,
        nothing: Inst,
        now: Cycle,
    ) -> Self {
        Self {
            id,
            seat,
            hart: None,
            leaves: false,
            ready_at: Cycle::NEVER,
            firm_at: Cycle(0),
            speculates_at: Cycle::NEVER,
            miss_slots_left: 0,
            waits: Waits::Hart,
            slot: Slot::Vacant,
            accounts: Accounts::new(id, now),
            warmed: Fetched::NOWHERE,
            stores,
            inst: nothing,
            class: nothing.op.class(),
            inst_pc: 0,
            inst_offset: 0,
            generation: NO_GENERATION,
            code_page: u32::MAX,
            next: Next::Unknown,
            fetched_count: 0,
            probes: false,
            data_addr: DataAddr::Nowhere,
            fetch_line: NO_LINE,
            fetch_space: AddressSpace::PHYSICAL,
            translates: false,
            fetch_page: NO_PAGE,
            data_space: AddressSpace::PHYSICAL,
            fetch_granted: Granted::NOTHING,
            data_granted: Granted::NOTHING,
            course: Course::default(),
            check_interrupts: true,
            reserved: false,
            hart_number: 0,
            operands_until: Cycle(0),
            operands: Box::new([Cycle(0); 65]),
        }
    }

    /// The hart that sits here, as an index.
    #[inline(always)]
    pub(super) fn hart_index(&self) -> usize {
        self.hart_number as usize
    }

    /// The hart that sits here.
    #[inline(always)]
    pub(super) fn seated(&self) -> HartId {
        self.hart.expect("a context that is due has a hart")
    }

    /// Whether the fetched instruction, if it is a load or store, moves a floating-point register.
    #[inline(always)]
    pub(super) fn moves_fp(&self) -> bool {
        matches!(self.inst.rd, 32..64) || self.inst.rs2 >= 32
    }

    /// Where the instruction at `inst_pc` lies.
    #[inline(always)]
    pub(super) fn inst_addr(&self) -> PhysAddr {
        PhysAddr(self.inst_pc.wrapping_add(self.inst_offset))
    }

    /// Whether the fetched instruction has what it needs when it has its operands, and does nothing but compute and branch.
    #[inline(always)]
    pub(super) fn is_simple(&self) -> bool {
        // As bits, so that a compiler makes no jump by class of this and what follows: a host predicts this branch, which goes
        // at issue as it goes before.
        const SIMPLE: u32 =
            1 << Class::Alu as u32 | 1 << Class::Branch as u32 | 1 << Class::Jump as u32;
        SIMPLE >> self.class as u32 & 1 != 0
    }

    /// When it may be selected, for an instruction that issues or for one that does not.
    #[inline(always)]
    pub(super) fn due(&self) -> Cycle {
        self.ready_at.min(self.speculates_at)
    }

    /// Charges the cycles before `now`: stalled until it was ready, then passed over.
    #[inline]
    pub(super) fn settle(&mut self, now: Cycle) {
        self.accounts.charge(self.ready_at.min(now), self.slot);
        self.accounts.charge(now, Slot::NotSelected);
    }

    /// Its account if it was closed at `now`: with what has been, without what was charged ahead of time.
    pub(super) fn accounts_at(&self, now: Cycle) -> Accounts {
        let mut accounts = self.accounts.clone();
        accounts.charge(self.ready_at.min(now), self.slot);
        accounts.charge(now, Slot::NotSelected);
        accounts.refund(now, Slot::UnitBusy);
        accounts
    }

    /// Stalls until `until`, for a reason that begins now.
    #[inline]
    pub(super) fn stall(&mut self, now: Cycle, until: Cycle, slot: Slot) {
        self.settle(now);
        self.ready_at = until;
        self.slot = slot;
        self.waits = Waits::Time;
    }

    /// Stalls until an event, for a reason that begins now.
    #[inline]
    pub(super) fn block(&mut self, now: Cycle, waits: Waits, slot: Slot) {
        self.stall(now, Cycle::NEVER, slot);
        self.waits = waits;
    }

    /// The event has come; ready at `at`.
    #[inline]
    pub(super) fn unblock(&mut self, at: Cycle) {
        self.ready_at = at;
        self.speculates_at = Cycle::NEVER;
        self.waits = Waits::Time;
    }

    /// Charges what has been, then notes what the hart does from now on.
    pub(super) fn reconsider(&mut self, now: Cycle, hart: &Hart, doing: Doing) {
        self.settle(now);
        self.course.set_mode(mode(hart));
        self.accounts.changed(self.course.activity(doing));
        let space = hart.address_space(Access::Fetch);
        if space != self.fetch_space {
            self.fetch_space = space;
            self.translates = space != AddressSpace::PHYSICAL;
            self.fetch_page = NO_PAGE;
        }
        self.data_space = hart.address_space(Access::Load);
        self.check_interrupts |= doing != Doing::Executing;
    }

    /// Sleeps from `now` until something ends the nap.
    pub(super) fn sleep(&mut self, now: Cycle, sleep: Sleep, core: &mut CoreState, hart: &Hart) {
        core.changes += 1;
        self.reconsider(now, hart, doing(sleep.nap));
        self.block(now, Waits::Wake(sleep), Slot::Waiting);
        self.sleeps(sleep, core);
    }

    /// Sleeps so from now on.
    pub(super) fn sleeps(&mut self, sleep: Sleep, core: &mut CoreState) {
        self.waits = Waits::Wake(sleep);
        self.ready_at = core.params.wait.continues_by_itself(&sleep);
        core.idle
            .sleeps(self.seat, sleep.nap, sleep.entered, sleep.limit);
        core.note_due();
        if core.idle.may_lose_translations() {
            self.fetch_page = NO_PAGE;
            self.fetch_granted = Granted::NOTHING;
            self.data_granted = Granted::NOTHING;
        }
    }

    /// Forgets the fetched instruction: the pc has changed.
    #[inline(always)]
    pub(super) fn refetch(&mut self) {
        self.next = Next::Unknown;
        self.probes = false;
    }
}

/// Whether an instruction is a probe.
#[inline(always)]
pub(super) fn is_probe(inst: &Inst) -> bool {
    inst.op == Op::Probe
}
