//! What cores share with the rest of the system, and what every kind of core does with it.

use loiter_hart::{
    Accessed, CodeCache, Hart, Nap, Performed, Privilege, Retired, Trap, Trapped, Unhandled,
};
use loiter_isa::{Inst, Op, Width};
use loiter_machine::Machine;
use loiter_memory::{Caches, Emptied, Level, Memory, Told};
use loiter_observe::{Doing, Mode, Moment, Probe, Slot};
use loiter_types::{CoreId, Cycle, HartId, PhysAddr, VirtAddr};

use crate::Observer;

/// Longest name of a report.
const NAME_BYTES: usize = 256;

/// What the cores share with the rest of the system while they run.
pub struct Shared<'a, O> {
    /// All harts, by number.
    pub harts: &'a mut [Hart],
    /// RAM and devices.
    pub machine: &'a mut Machine,
    /// Caches and memory timing.
    pub memory: &'a mut Memory,
    /// Decoded instructions.
    pub code: &'a mut CodeCache,
    /// Who watches.
    pub observer: &'a mut O,
    /// Core clock cycles for each tick of the platform's timer.
    pub cycles_per_tick: u64,
    /// A trap that no handler takes ends the run.
    pub unhandled: Option<(HartId, Unhandled)>,
    /// Whether the observer of probes wants the run to stop after this cycle.
    pub stop: bool,
    /// Instructions that all harts have retired.
    pub retired: u64,
    /// Whether a device was accessed, so that timers may have changed.
    pub device_accessed: bool,
    /// What memory has said in the cycle that it stands at, and the cores have not heard.
    pub told: &'a mut Vec<Told>,
    /// The last cycle in which it has said anything while a core ran.
    pub told_at: Cycle,
    /// Whether that was now: the core has not begun that cycle, and there may be more to hear.
    pub delivered: bool,
    /// Whether memory may go on while a core runs, which then hears what is said to it alone.
    pub memory_goes_on: bool,
    /// Whether a core has heard anything by itself since that was last asked.
    pub heard: bool,
}

/// What an observer wants to know of an instruction and what is gone when it has run.
pub(crate) struct Before {
    pc: u64,
    base: u64,
    privilege: Privilege,
}

impl Before {
    /// Of `inst`, which `hart` is about to run.
    #[inline(always)]
    pub(crate) fn of(hart: &Hart, inst: &Inst) -> Self {
        Self {
            pc: hart.pc,
            base: hart.regs[inst.rs1 as usize],
            privilege: hart.csr.privilege,
        }
    }
}

impl<O: Observer> Shared<'_, O> {
    /// Whether something has happened in this cycle that others must see before the cores continue.
    #[inline(always)]
    pub(crate) fn stops(&self) -> bool {
        let happened = self.unhandled.is_some()
            | self.device_accessed
            | self.stop
            | self.machine.watches.any_lost()
            | self.machine.pages.tables_written()
            | self.machine.ends();
        happened || (O::ACTIVE && self.observer.holds())
    }

    /// Memory goes on up to cycle `next`, before `until`, as long as it has nothing to say. Returns the first cycle in which
    /// it has, or may have.
    #[inline]
    pub(crate) fn memory_goes_on(&mut self, next: Cycle, until: Cycle) -> Cycle {
        let mut at = self.memory.next();
        while self.memory_goes_on && at <= next && at < until {
            let named = self.memory.advance(at, self.told);
            debug_assert!(named.is_none(), "no core is skipped");
            if !self.told.is_empty() {
                self.told_at = at;
                self.delivered = true;
                return at;
            }
            at = self.memory.next();
        }
        at
    }

    /// Another number whenever a decoded instruction, or a translation of any hart, may be stale.
    #[inline(always)]
    pub(crate) fn code_generation(&self) -> u64 {
        let (decoded, marks) = (self.machine.pages.generation(), self.code.version());
        decoded.wrapping_add(marks)
    }

    /// Sets the clocks that `hart` can read.
    pub(crate) fn set_clock(&mut self, hart: HartId, now: Cycle) {
        let time = now.0 / self.cycles_per_tick;
        self.machine.set_time(time);
        let clock = &mut self.harts[hart.index()].csr.clock;
        clock.cycle = now.0;
        // What a guest has written to mtime counts.
        clock.time = self.machine.time(hart);
    }

    /// An instruction has retired: the sum of all harts counts it, and the observer is told.
    #[inline(always)]
    pub(crate) fn tell_retired(
        &mut self,
        hart: usize,
        inst: &Inst,
        before: &Before,
        access: Accessed,
        now: Cycle,
    ) {
        self.retired += 1;
        if O::ACTIVE {
            let hart = &self.harts[hart];
            self.observer.retired(&Retired {
                hart,
                machine: self.machine,
                inst,
                pc: before.pc,
                next: hart.pc,
                base: before.base,
                privilege: before.privilege,
                access,
                cycle: now.0,
            });
            self.observer.holds_at(hart, hart.pc, now.0);
        }
    }

    /// A store of `hart` leaves its buffer: it is in memory from now on. `parts` are such as
    /// instructions make.
    #[inline(always)]
    pub(crate) fn perform_stores(
        &mut self,
        hart: HartId,
        parts: impl Iterator<Item = (PhysAddr, Width, u64)>,
        now: Cycle,
    ) {
        for (addr, width, value) in parts {
            let stored = self.machine.store(hart, addr, width, value);
            // It found RAM when it issued.
            debug_assert!(stored.is_ok());
            if O::ACTIVE {
                self.observer.performed(&Performed {
                    hart,
                    addr,
                    width,
                    value,
                    cycle: now.0,
                });
            }
        }
    }

    /// Caches of `core` are emptied, but for lines that one of its `harts` watches. Returns what has become of them, and
    /// the lines of whose loss the core has to be told.
    pub(crate) fn empty(
        &mut self,
        core: CoreId,
        which: Caches,
        harts: impl Iterator<Item = HartId> + Clone,
        now: Cycle,
    ) -> (Emptied, Vec<u64>) {
        let (watches, line_log2) = (&self.machine.watches, self.memory.data_line_log2());
        let is_watched = |line| (harts.clone()).any(|hart| watches.watches(hart, line, line_log2));
        let mut told = Vec::new();
        let emptied = self.memory.empty(now, core, which, is_watched, &mut told);
        let lines = told.iter().filter_map(|told| match *told {
            Told::Lost { line, .. } => Some(line),
            Told::Performs(_) | Told::Retry(_) => None,
        });
        (emptied, lines.collect())
    }

    /// A hart begins a nap. Its host takes a virtual CPU that sleeps until an interrupt from its context.
    pub(crate) fn naps(&mut self, hart: usize, nap: Nap) {
        self.stop |= nap == Nap::Wfi && self.harts[hart].is_virtual;
    }

    /// A hart pauses from `now` to `until`. A host that looks for loops of pauses hears of it.
    pub(crate) fn pauses(&mut self, hart: usize, now: Cycle, until: Cycle) {
        let hart = &mut self.harts[hart];
        if hart.tells_pauses {
            hart.paused = Some((now, until));
            self.stop = true;
        }
    }

    /// A hart enters a trap; one that no handler takes is noted. Of a call that its host
    /// serves, the host hears.
    pub(crate) fn enter_trap(&mut self, hart: usize, trap: Trap, now: Cycle) {
        let hart = &mut self.harts[hart];
        if let Some(call) = hart.host_call(trap) {
            hart.make_host_call();
            hart.called = Some(call);
            self.stop = true;
            return;
        }
        let (pc, privilege) = (hart.pc, hart.csr.privilege);
        if let Err(unhandled) = hart.take_trap(trap, self.machine) {
            self.unhandled = Some((hart.id, unhandled));
        } else if O::ACTIVE {
            self.observer.trapped(&Trapped {
                hart,
                machine: self.machine,
                trap,
                pc,
                privilege,
                cycle: now.0,
            });
            self.observer.holds_at(hart, hart.pc, now.0);
        }
    }

    /// Passes the probes between a hart's pc and `to`, and tells the observer of them. Returns whether
    /// the hart spins after them, if they say so; all but reads of locks count as changes.
    #[cold]
    pub(crate) fn pass_probes(
        &mut self,
        hart: usize,
        to: u64,
        now: Cycle,
        changes: &mut u64,
    ) -> Option<bool> {
        let mut spinning = None;
        while self.harts[hart].pc != to {
            let hart = &mut self.harts[hart];
            let Ok(inst) = hart.fetch(self.machine, self.code) else {
                break;
            };
            debug_assert_eq!(inst.op, Op::Probe, "at {:#x}", hart.pc);
            let moment = Moment {
                hart: hart.id,
                cycle: now,
                retired: hart.retired,
                pc: hart.pc,
            };
            let value = hart.regs[inst.rs1 as usize];
            hart.pc += u64::from(inst.len);
            let code = inst.imm as u16 & 0xfff;
            let machine = &*self.machine;
            let probe = Probe::decode(code, value, |addr| {
                let addr = hart.peek(machine, VirtAddr(addr));
                addr.and_then(|addr| machine.ram.c_string(addr, NAME_BYTES))
                    .unwrap_or_default()
            });
            let Some(probe) = probe else { continue };
            *changes += u64::from(!matches!(probe, Probe::LockRead(_)));
            match probe {
                Probe::Acquire(_) => spinning = Some(true),
                Probe::Acquired(_) => spinning = Some(false),
                _ => {}
            }
            self.stop |= self.observer.probe(moment, probe);
        }
        spinning
    }
}

/// What a cycle is charged to in which a load waits for what `level` serves.
pub(crate) fn slot_of(level: Level) -> Slot {
    match level {
        Level::L2 | Level::Home => Slot::L2Hit,
        Level::L3 => Slot::L3Hit,
        Level::OtherCache => Slot::OtherCache,
        Level::Memory => Slot::L2Miss,
        Level::Device => Slot::Device,
    }
}

/// Whether an instruction waits in hardware, for a time that its hart's clock tells.
pub(crate) fn is_lock(op: Op) -> bool {
    matches!(op, Op::LockAcquire | Op::LockWait)
}

/// How a hart executes.
pub(crate) fn mode(hart: &Hart) -> Mode {
    match hart.csr.privilege {
        Privilege::User => Mode::User,
        Privilege::Supervisor => Mode::Supervisor,
        Privilege::Machine => Mode::Machine,
    }
}

/// How a hart waits in a nap.
pub(crate) fn doing(nap: Nap) -> Doing {
    match nap {
        Nap::Wfi => Doing::Idle,
        Nap::WrsNto | Nap::WrsSto => Doing::Napping,
        Nap::Lock | Nap::Flags => Doing::Blocked,
    }
}
