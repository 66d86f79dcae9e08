//! One context: the seat of a hart, its instructions between fetch and retirement, and what it waits
//! for.

use loiter_hart::{Access, Detached, Hart};
use loiter_isa::{Class, Inst, decode};
use loiter_memory::Level;
use loiter_observe::{Accounts, Course, Doing, Purpose, Slot};
use loiter_types::{AddressSpace, ContextId, Cycle, HartId, PhysAddr};
use serde::{Deserialize, Serialize};
use serde_with::serde_as;

use super::core::CoreState;
use super::counters::ModeGroup;
use super::oracle::Oracle;
use super::pipeline::NOTHING_SQUASHED;
use super::positions::Positions;
use super::refill::Refill;
use super::registers::{NONE, ZERO};
use crate::predict::{BranchKind, Prediction};
use crate::shared::mode;
use crate::store_buffer::StoreBuffer;
use crate::wait::Sleep;
use crate::walker::Granted;
use crate::warm::Fetched;

/// How far an instruction has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum Progress {
    /// In the front end.
    Fetched,
    /// In a queue.
    Queued,
    /// Issued; its result is computed, or in flight.
    Issued,
    /// A load or store that waits for the translation of its address.
    Walking,
    /// A load that waits for its line.
    Missing(Level),
    /// It may retire once its cycle has come.
    Done,
}

/// Who brings an instruction to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum How {
    /// The core, out of order.
    Apart,
    /// The hart, when it is the oldest; nothing after it is held up but what needs its result.
    Oldest,
    /// The same, and loads after it wait: fences, and atomics that acquire.
    Barrier,
    /// The same, and nothing after it is fetched before: it may change how the hart executes.
    Serial,
    /// Nobody: fetching it raised an exception.
    Fault,
    /// Nobody: it has missed the translation of its data, or of itself.
    Refill,
    FetchRefill,
    /// The core, out of order: it is an instruction of a handler that the hart does not see.
    Handler,
}

impl How {
    /// Whether the core runs it, out of order.
    #[inline(always)]
    pub(super) fn is_apart(self) -> bool {
        matches!(self, How::Apart | How::Handler)
    }
}

/// An instruction between fetch and retirement. Two lines of a host's cache: first what the stages of
/// the pipeline ask about every instruction, then what comes of it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[repr(C, align(64))]
pub(super) struct Entry {
    pub(super) inst: Inst,
    /// Age among all instructions of the core; also tells this one from others that had its entry.
    pub(super) seq: u64,
    pub(super) pc: u64,
    /// In the front end: when it can be renamed. Later: when it can retire.
    pub(super) due: Cycle,
    pub(super) sources: [u16; 3],
    /// The register that gets its result, and the one that its destination stood for before.
    pub(super) destination: u16,
    pub(super) replaced: u16,
    pub(super) class: Class,
    pub(super) progress: Progress,
    pub(super) how: How,
    /// Whose entry of a queue it is: 0 the integer queue, 1 the floating-point queue.
    pub(super) queue: u8,
    pub(super) slot: u8,
    /// A load whose line was written after it had read it.
    pub(super) stale: bool,
    /// The translation of its data's address was looked up, or walked for.
    pub(super) translated: bool,
    pub(super) branch: Option<BranchKind>,
    pub(super) purpose: Purpose,
    pub(super) done: Detached,
    /// Where fetch continued after it.
    pub(super) predicted: u64,
    /// Virtual address of an issued load or store.
    pub(super) virt: u64,
    /// Where its data lie; its bytes are `bytes`, 0 before that is known.
    pub(super) addr: PhysAddr,
    pub(super) bytes: u64,
    /// Value of a store. Of a load, what stands after the store that it has its value from; 0: no store
    /// of the window.
    pub(super) data: u64,
}

const _: () = assert!(size_of::<Entry>() == 128 && std::mem::offset_of!(Entry, done) == 64);

impl Entry {
    /// Address after it.
    #[inline(always)]
    pub(super) fn next_pc(&self) -> u64 {
        self.pc.wrapping_add(u64::from(self.inst.len))
    }

    /// Whether it is one of [`Context::barriers`].
    #[inline(always)]
    pub(super) fn is_barrier(&self) -> bool {
        self.how == How::Barrier || self.class == Class::Atomic
    }

    /// Whether this branch, which has executed, leads away.
    #[inline(always)]
    pub(super) fn is_taken(&self, branch: BranchKind) -> bool {
        branch != BranchKind::Conditional || self.done.next != self.next_pc()
    }
}

/// Why a context is not fetched from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum Fetch {
    /// It is, from `fetch_from` on.
    Ready,
    /// Its instruction line is in flight.
    Line,
    /// The translation of its address is in flight.
    Walk,
    /// After an instruction that must retire first, or a branch whose target nobody knows, or an
    /// address that cannot be fetched.
    Blocked,
    /// It is, but for instructions of a handler for a translation that was missed.
    Handler,
    /// Those are fetched, and the handler is not through.
    Refill,
    /// The hart sleeps.
    Asleep(Sleep),
    /// There is no hart.
    Vacant,
}

/// What the oldest instruction, run by the hart, is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum Oldest {
    /// Nothing yet.
    Idle,
    /// Its access is in flight.
    Sent(Slot),
}

/// One context. What is asked in every cycle comes first, in few lines of a host's cache: between two cycles of a core
/// those of many others may pass.
#[serde_as]
#[derive(Debug, Deserialize, Serialize)]
#[repr(C, align(64))]
pub(super) struct Context {
    // The window, and what every stage asks in every cycle.
    /// The window: instructions `head..tail`, of which `head..renamed` have left the front end.
    pub(super) head: u64,
    pub(super) renamed: u64,
    pub(super) tail: u64,
    pub(super) capacity: u64,
    /// As many as a power of two, as are `predictions`.
    pub(super) entries: Box<[Entry]>,
    pub(super) fetch_from: Cycle,
    /// What cycles from the last one charged on are charged to.
    pub(super) slot_now: Slot,
    pub(super) retired_now: bool,
    pub(super) check_interrupts: bool,
    /// Ownership of the line of the oldest buffered store has been asked for.
    pub(super) owning: bool,
    /// A fence has retired that orders the buffered stores, or some of them, before stores to come.
    pub(super) fenced: bool,
    /// Its hart is about to leave while others stay.
    pub(super) leaves: bool,
    /// The mark of what was fetched last; [`NO_MARK`] after a probe which says that the hart waits, or does not.
    pub(super) fetch_mark: u8,
    /// What an instruction with that mark is for.
    pub(super) fetch_purpose: Purpose,
    // What the others of every cycle ask: who may fetch, drain, wake up.
    pub(super) fetch: Fetch,
    /// When a nap ends, if that is known: at its limit, or now.
    pub(super) nap_until: Cycle,
    /// When the oldest buffered store may ask again, if it was refused.
    pub(super) drain_from: Cycle,
    /// Cycles in which it could have been fetched from, but for those in which a branch that turned out to be
    /// mispredicted had led it astray.
    pub(super) led: u64,
    pub(super) hart: Option<HartId>,
    /// Instructions that have not issued.
    pub(super) unissued: u32,
    pub(super) buffer: StoreBuffer,
    /// Lines of younger ones that have been requested and are not there yet.
    pub(super) owning_ahead: u64,
    /// Stores after the oldest whose lines have been seen to.
    pub(super) seen_ahead: usize,
    pub(super) oldest: Oldest,
    /// What a cycle without instructions is charged to.
    pub(super) empty: Slot,
    /// A walk for fetch is in flight, on the present way or a wrong one.
    pub(super) fetch_walks: bool,
    // What fetch, rename and retirement ask of each instruction.
    pub(super) fetch_pc: u64,
    /// Line of the instruction cache that is in flight or was fetched from last.
    pub(super) fetch_line: u64,
    /// `hart` as an index.
    pub(super) hart_index: usize,
    /// The [`super::ModeGroup`] of its hart's mode.
    pub(super) mode: usize,
    /// The instruction with which the oldest interval begins that accounts keep open.
    pub(super) opens_at: u64,
    pub(super) predictions: Box<[Prediction]>,
    /// Of a branch: `led` when it was fetched.
    pub(super) led_then: Box<[u64]>,
    /// Its entries of the two queues, and its registers beside those of the architecture, of both kinds.
    pub(super) queued: [u32; 2],
    pub(super) renamings: [u32; 2],
    /// Loads and stores of the renamed window, oldest first.
    pub(super) loads: Positions,
    pub(super) stores: Positions,
    /// Atomics, and fences that hold loads back, of the renamed window.
    pub(super) barriers: Positions,
    /// Lines of loads that have read and not retired, by hash; may have bits of others.
    pub(super) lines_read: u64,
    pub(super) fetch_space: AddressSpace,
    pub(super) data_space: AddressSpace,
    /// Pages whose translation is at hand for the oldest instruction, and for fetch.
    pub(super) oldest_granted: Granted,
    pub(super) fetch_granted: Granted,
    pub(super) accounts: Accounts,
    /// Physical register of each register slot; so long that a slot needs no check.
    #[serde_as(as = "[_; 256]")]
    pub(super) map: [u16; 256],
    // What is rarely looked at.
    /// Until then the hart is leaving a nap, and takes no interrupt.
    pub(super) awake_from: Cycle,
    /// When the oldest instruction may ask memory again, if it was refused.
    pub(super) oldest_from: Cycle,
    /// The age of the instruction that was.
    pub(super) oldest_refused: u64,
    /// The last atomic that has taken what it takes beside its access.
    pub(super) held_up: u64,
    /// Walks for issued loads and stores: pages, and as what they are accessed.
    pub(super) data_walks: Vec<(u64, Access)>,
    pub(super) refill: Refill,
    /// What its hart does, as far as instructions have retired.
    pub(super) course: Course,
    /// Age of the oldest instruction that was squashed since an observer was last told.
    pub(super) squashed_from: u64,
    /// For what-if runs.
    pub(super) oracle: Option<Box<Oracle>>,
    /// Where its hart has fetched from last in the reference engine.
    pub(super) warmed: Fetched,
    pub(super) id: ContextId,
}

/// No line: larger than the number of any line.
pub(super) const NO_LINE: u64 = u64::MAX;

/// The mark of no instruction.
pub(super) const NO_MARK: u8 = u8::MAX;

/// No interval is open: more than the number of any instruction.
pub(super) const NOTHING_OPEN: u64 = u64::MAX;

impl Context {
    /// A vacant context with room for `capacity` instructions.
    pub(super) fn new(
        id: ContextId,
        capacity: usize,
        buffer: StoreBuffer,
        prediction: Prediction,
        now: Cycle,
    ) -> Self {
        let room = capacity.next_power_of_two();
        let nothing = decode(0);
        let entry = Entry {
            inst: nothing,
            class: nothing.op.class(),
            progress: Progress::Fetched,
            how: How::Apart,
            queue: 0,
            slot: 0,
            stale: false,
            translated: false,
            branch: None,
            purpose: Purpose::Useful,
            seq: 0,
            pc: 0,
            predicted: 0,
            done: Detached {
                value: 0,
                next: 0,
                fflags: 0,
                complete: false,
            },
            due: Cycle(0),
            sources: [ZERO; 3],
            destination: NONE,
            replaced: NONE,
            virt: 0,
            addr: PhysAddr(0),
            bytes: 0,
            data: 0,
        };
        Self {
            id,
            hart: None,
            leaves: false,
            hart_index: 0,
            entries: vec![entry; room].into(),
            predictions: vec![prediction; room].into(),
            led_then: vec![0; room].into(),
            capacity: capacity as u64,
            head: 0,
            renamed: 0,
            tail: 0,
            map: [ZERO; 256],
            loads: Positions::new(capacity),
            stores: Positions::new(capacity),
            barriers: Positions::new(capacity),
            buffer,
            owning: false,
            owning_ahead: 0,
            seen_ahead: 0,
            fenced: false,
            drain_from: now,
            unissued: 0,
            queued: [0; 2],
            renamings: [0; 2],
            fetch: Fetch::Vacant,
            fetch_pc: 0,
            fetch_from: now,
            fetch_line: NO_LINE,
            empty: Slot::FrontEnd,
            oldest: Oldest::Idle,
            oldest_from: now,
            oldest_refused: 0,
            held_up: u64::MAX,
            oldest_granted: Granted::NOTHING,
            fetch_granted: Granted::NOTHING,
            fetch_walks: false,
            data_walks: Vec::new(),
            refill: Refill::NONE,
            fetch_space: AddressSpace::PHYSICAL,
            data_space: AddressSpace::PHYSICAL,
            check_interrupts: true,
            course: Course::default(),
            opens_at: NOTHING_OPEN,
            fetch_mark: 0,
            fetch_purpose: Purpose::Useful,
            led: 0,
            mode: 0,
            slot_now: Slot::Vacant,
            retired_now: false,
            nap_until: Cycle::NEVER,
            awake_from: now,
            lines_read: 0,
            squashed_from: NOTHING_SQUASHED,
            accounts: Accounts::new(id, now),
            oracle: None,
            warmed: Fetched::NOWHERE,
        }
    }

    #[inline(always)]
    pub(super) fn entry(&self, n: u64) -> &Entry {
        &self.entries[n as usize & (self.entries.len() - 1)]
    }

    #[inline(always)]
    pub(super) fn entry_mut(&mut self, n: u64) -> &mut Entry {
        &mut self.entries[n as usize & (self.entries.len() - 1)]
    }

    #[inline(always)]
    pub(super) fn prediction(&self, n: u64) -> &Prediction {
        &self.predictions[n as usize & (self.predictions.len() - 1)]
    }

    #[inline(always)]
    pub(super) fn prediction_mut(&mut self, n: u64) -> &mut Prediction {
        &mut self.predictions[n as usize & (self.predictions.len() - 1)]
    }

    /// It could be fetched from in this cycle.
    #[inline(always)]
    pub(super) fn is_led(&mut self) {
        self.led += 1;
    }

    /// Instruction `n`, a branch, is fetched.
    #[inline(always)]
    pub(super) fn note_branch(&mut self, n: u64) {
        self.led_then[n as usize & (self.led_then.len() - 1)] = self.led;
    }

    /// Branch `n` is in flight. Returns in how many cycles the context could have been fetched from since.
    pub(super) fn led_since_branch(&self, n: u64) -> u64 {
        let then = self.led_then[n as usize & (self.led_then.len() - 1)];
        self.led.wrapping_sub(then)
    }

    /// In how many cycles it could have been fetched from.
    pub(super) fn led(&self) -> u64 {
        self.led
    }

    /// The cycles since it has been in so many did not happen.
    pub(super) fn set_led(&mut self, led: u64) {
        self.led = led;
    }

    /// Branch `n` was mispredicted. Returns in how many cycles the context could have been fetched from since, as
    /// far as no other has returned them.
    pub(super) fn misled_since(&mut self, n: u64) -> u64 {
        let then = self.led_then[n as usize & (self.led_then.len() - 1)];
        std::mem::replace(&mut self.led, then) - then
    }

    /// Whether instruction `n` is still the one that had age `seq`.
    #[inline(always)]
    pub(super) fn has(&self, n: u64, seq: u64) -> bool {
        (self.head..self.tail).contains(&n) && self.entry(n).seq == seq
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// The hart that sits here.
    #[inline(always)]
    pub(super) fn seated(&self) -> HartId {
        self.hart.expect("a context with instructions has a hart")
    }

    /// Charges the cycles before `now` to what it waited for.
    #[inline(always)]
    pub(super) fn settle(&mut self, now: Cycle) {
        self.accounts.charge(now, self.slot_now);
    }

    /// Charges what has been, then notes what the hart does from now on.
    pub(super) fn reconsider(&mut self, now: Cycle, hart: &Hart, doing: Doing) {
        self.settle(now);
        let mode = mode(hart);
        self.mode = ModeGroup::of(mode) as usize;
        self.course.set_mode(mode);
        self.accounts.changed(self.course.activity(doing));
        self.sees_mark(self.course.mark());
        let fetch_space = hart.address_space(Access::Fetch);
        if fetch_space != self.fetch_space {
            self.fetch_space = fetch_space;
            self.fetch_granted = Granted::NOTHING;
        }
        self.data_space = hart.address_space(Access::Load);
    }

    /// Whether it is fetched from at `now`.
    #[inline(always)]
    pub(super) fn is_fetchable(&self, now: Cycle) -> bool {
        matches!(self.fetch, Fetch::Ready | Fetch::Handler)
            && self.fetch_from <= now
            && self.tail - self.head < self.capacity
    }

    /// Whether its references do not touch the caches.
    #[inline(always)]
    pub(super) fn bypasses_caches(&self, core: &CoreState) -> bool {
        core.kernel_bypasses_caches && self.mode == ModeGroup::Kernel as usize
    }

    /// Instructions in the front end.
    #[inline(always)]
    pub(super) fn in_front(&self) -> u64 {
        self.tail - self.renamed
    }

    /// Instruction `n` is fetched, which may begin an activity.
    #[cold]
    #[inline(never)]
    pub(super) fn open_interval(&mut self, core: &CoreState, n: u64, mark: u8) {
        self.settle(core.charged_to);
        self.accounts.open(n, mark);
        self.opens_at = self.opens_at.min(n);
        self.sees_mark(mark);
    }

    /// What is fetched from now on has `mark`.
    fn sees_mark(&mut self, mark: u8) {
        self.fetch_mark = mark;
        self.fetch_purpose = self.course.purpose(mark);
    }

    /// The instruction has retired with which the oldest open interval begins.
    #[cold]
    #[inline(never)]
    pub(super) fn settle_interval(&mut self, core: &CoreState) {
        self.settle(core.charged_to);
        if let Some((_, mark)) = self.accounts.first_open() {
            self.course.comes_to(mark);
            self.accounts
                .settle_first(self.course.activity(Doing::Executing));
            if self.fetch_mark != NO_MARK {
                self.sees_mark(self.fetch_mark);
            }
        }
        self.see_first_open();
    }

    /// Instruction `first` and all after it are squashed.
    #[cold]
    #[inline(never)]
    pub(super) fn retract_intervals(&mut self, core: &CoreState, first: u64) {
        self.settle(core.charged_to);
        self.accounts.retract(first);
        self.see_last_mark();
        self.see_first_open();
    }

    /// Fetch continues after what it has fetched last, and has passed no probe there.
    #[cold]
    #[inline(never)]
    pub(super) fn see_last_mark(&mut self) {
        let last = self.accounts.last_mark();
        self.sees_mark(last.unwrap_or(self.course.mark()));
    }

    fn see_first_open(&mut self) {
        let first = self.accounts.first_open();
        self.opens_at = first.map_or(NOTHING_OPEN, |(n, _)| n);
    }
}
