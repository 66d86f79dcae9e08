//! The state of one hart, and how it enters and leaves traps.

use loiter_isa::{Inst, SINK, decode, disassemble};
use loiter_machine::{Machine, Partition, WatchState, Watches};
use loiter_types::{Cycle, HartId, PhysAddr, StateVisitor, VirtAddr};

use crate::code::{CodeCache, crosses};
use crate::csr::{CsrFile, Extensions, Paging, Privilege};
use crate::exec::Nap;
use crate::host_call::HostCall;
use crate::tlb::Tlb;
use crate::translate::Access;
use crate::trap::{Interrupt, Trap, Unhandled};

/// Whether a hart executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HartState {
    /// It executes instructions.
    Running,
    /// It sleeps in `wfi` or `wrs` until what it waits for happens.
    Napping(Nap),
}

/// Since when a hart waits at an instruction of the hardware lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blocked {
    /// Address of the instruction.
    pub pc: u64,
    /// Cycle in which it first found that it has to wait, since the last trap.
    pub since: u64,
    /// For how many cycles it waits at most; 0: without limit.
    pub limit: u64,
}

/// One hart: registers, program counter, privilege, CSRs.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Hart {
    // What every instruction asks comes first, in few lines of a host's cache.
    /// Register slots of [`loiter_isa::Inst`]: x0..x31, f0..f31, and [`SINK`]. 256 long so that a
    /// slot number needs no bounds check.
    pub regs: [u64; 256],
    /// Address of the next instruction.
    pub pc: u64,
    /// Instructions retired since reset.
    pub retired: u64,
    /// Its number in the machine.
    pub id: HartId,
    /// Control and status registers, privilege included.
    pub csr: CsrFile,
    /// Whether it executes.
    pub state: HartState,
    /// Waiting at an instruction of the hardware lock, that has not run to its end.
    pub blocked: Option<Blocked>,
    /// Whether it is a virtual CPU, whose host serves some of its environment calls.
    pub is_virtual: bool,
    /// Where it wants to see its steal time, in its guest's memory: it has asked its host, this one or one before.
    pub steal_time: Option<PhysAddr>,
    /// What it has called its host for, as a virtual CPU on a timing core: the call has been made, and the host has not heard.
    pub called: Option<HostCall>,
    /// Whether the host of a virtual CPU on a timing core wants to hear of its pauses.
    pub tells_pauses: bool,
    /// From when to when it has paused, if the host has not heard yet.
    pub paused: Option<(Cycle, Cycle)>,
    /// Where its physical addresses lie in the machine.
    pub(crate) partition: Partition,
    pub(crate) tlb: Tlb,
}

impl Hart {
    /// A hart at reset, in machine mode, about to execute at `pc` with the boot convention of bare
    /// metal: a0 = hart id, a1 = address of the device tree.
    #[must_use]
    pub fn new(id: HartId, pc: u64, device_tree: PhysAddr, extensions: Extensions) -> Self {
        let mut regs = [0; 256];
        regs[10] = u64::from(id.0);
        regs[11] = device_tree.0;
        let mut hart = Self {
            id,
            regs,
            pc,
            retired: 0,
            csr: CsrFile::new(id, extensions),
            state: HartState::Running,
            blocked: None,
            is_virtual: false,
            steal_time: None,
            called: None,
            tells_pauses: false,
            paused: None,
            partition: Partition::WHOLE,
            tlb: Tlb::new(id),
        };
        hart.mode_changed();
        hart
    }

    /// It is hart `id` of a machine from now on, in which `partition` is its guest's; it has been another machine's. What it calls
    /// itself it keeps. The clock of that machine begins at 0, and stood at `cycle` where it comes from.
    pub fn join(&mut self, id: HartId, partition: Partition, cycle: Cycle) {
        self.id = id;
        self.partition = partition;
        self.is_virtual = true;
        self.tlb = Tlb::new(id);
        self.csr.move_clock(cycle.0, 0);
        self.mode_changed();
    }

    /// What it calls itself, `mhartid`: its number in its guest, if it is one's.
    #[must_use]
    pub fn number(&self) -> HartId {
        self.csr.hart()
    }

    /// Where its physical addresses lie in the machine.
    #[must_use]
    pub fn partition(&self) -> Partition {
        self.partition
    }

    /// To be called after anything that changes how accesses are translated.
    pub(crate) fn mode_changed(&mut self) {
        let (fetch, data) = (self.csr.fetch_mode(), self.csr.data_mode());
        let spaces = (self.space_of(fetch), self.space_of(data));
        self.tlb.enter((fetch, spaces.0), (data, spaces.1));
    }

    /// Shows `visitor` what instructions that access no CSR, do not trap and do not wait may depend on and change.
    pub fn visit_state(&mut self, visitor: &mut impl StateVisitor) {
        let Self {
            id: _,
            regs,
            pc,
            retired,
            // The flags of floating point are those that one period raises.
            csr: _,
            state,
            blocked,
            is_virtual: _,
            steal_time: _,
            called: _,
            tells_pauses,
            paused: _,
            partition: _,
            tlb: _,
        } = self;
        let is_alone = blocked.is_none() && !*tells_pauses;
        visitor.require(*state == HartState::Running && is_alone);
        let (integer, fp) = regs[..SINK as usize].split_at_mut(32);
        integer.iter_mut().for_each(|value| visitor.quantity(value));
        fp.iter().for_each(|&value| visitor.value(value));
        visitor.value(*pc);
        visitor.count(retired);
    }

    /// The instruction at the pc.
    ///
    /// # Errors
    /// The exception that fetching it raises.
    pub fn fetch(&mut self, machine: &mut Machine, code: &mut CodeCache) -> Result<Inst, Trap> {
        self.fetch_at(self.pc, machine, code)
    }

    /// The instruction at `pc`, as [`Hart::fetch`].
    ///
    /// # Errors
    /// Likewise.
    pub fn fetch_at(
        &mut self,
        pc: u64,
        machine: &mut Machine,
        code: &mut CodeCache,
    ) -> Result<Inst, Trap> {
        if machine.pages.code_written() {
            code.refresh(machine);
        }
        let addr = self.translate(machine, VirtAddr(pc), 2, Access::Fetch)?;
        let nothing = |pc| Access::Fetch.access_fault(pc);
        let inst = code.fetch(machine, addr).ok_or(nothing(pc))?;
        if !crosses(&inst) {
            return Ok(inst);
        }
        let next = pc.wrapping_add(2);
        let upper = self.translate(machine, VirtAddr(next), 2, Access::Fetch)?;
        let low = machine.fetch16(addr).map_err(|_| nothing(pc))?;
        let high = machine.fetch16(upper).map_err(|_| nothing(next))?;
        let whole = decode(u32::from(low) | u32::from(high) << 16);
        Ok(whole.marked(inst.mark()))
    }

    /// The interrupt that the hart would take now, given the device lines last set.
    #[must_use]
    pub fn pending_interrupt(&self) -> Option<Interrupt> {
        self.csr.takeable_interrupt()
    }

    /// Whether an interrupt pends that ends `nap`: any enabled one, taken or not; of the hardware lock,
    /// one that would be taken.
    #[must_use]
    pub fn interrupts(&self, nap: Nap) -> bool {
        match nap {
            Nap::Wfi | Nap::WrsNto | Nap::WrsSto => self.csr.pending_enabled() != 0,
            // Others would only make it look again.
            Nap::Lock | Nap::Flags => self.pending_interrupt().is_some(),
        }
    }

    /// Whether what `nap` waits for has happened, whoever sees it; time limits are the engine's affair.
    #[must_use]
    pub fn nap_is_over(&self, nap: Nap, watches: &Watches) -> bool {
        self.interrupts(nap) || nap.watches() && watches.state(self.id) != WatchState::Held
    }

    /// The cycle in which a nap in the hardware lock ends at the latest, if it has a limit.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        let blocked = self.blocked.filter(|blocked| blocked.limit != 0)?;
        Some(blocked.since.saturating_add(blocked.limit))
    }

    /// Enters `trap`: saves the pc, switches privilege, goes to the handler.
    ///
    /// # Errors
    /// [`Unhandled`], with the hart unchanged, when the handler address holds no memory.
    pub fn take_trap(&mut self, trap: Trap, machine: &Machine) -> Result<(), Unhandled> {
        let (handler, privilege) = self.csr.handler(trap);
        let physical = match privilege {
            Some(Privilege::Machine) => true,
            Some(_) => self.csr.paging() == Paging::Bare,
            // Its hypervisor hears of what its memory does not have.
            None => false,
        };
        if physical && !machine.is_ram(self.partition.place(PhysAddr(handler)), 2) {
            return Err(Unhandled {
                trap,
                pc: self.pc,
                handler,
            });
        }
        self.csr.enter_trap(trap, self.pc);
        self.mode_changed();
        self.pc = handler;
        self.blocked = None;
        self.state = HartState::Running;
        Ok(())
    }

    /// The registers and the instruction at the pc, for messages to people.
    #[must_use]
    pub fn describe(&self, machine: &Machine) -> String {
        const NAMES: [&str; 32] = [
            "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3",
            "a4", "a5", "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11",
            "t3", "t4", "t5", "t6",
        ];
        let addr = self.peek(machine, VirtAddr(self.pc));
        let bits = addr.and_then(|addr| machine.fetch(addr).ok());
        let mut text = match bits {
            Some(bits) => format!("{:#x}: {}\n", self.pc, disassemble(bits, self.pc)),
            None => format!("{:#x}: no memory here\n", self.pc),
        };
        for (n, name) in NAMES.iter().enumerate() {
            let end = if n % 4 == 3 { '\n' } else { ' ' };
            text += &format!("{name:>4} {:016x}{end}", self.regs[n]);
        }
        text
    }

    /// Restores the invariant that slot 0 is zero and forgets what the sink swallowed.
    #[inline(always)]
    pub(crate) fn write(&mut self, slot: u8, value: u64) {
        debug_assert!(slot != 0 && slot <= SINK);
        self.regs[slot as usize] = value;
    }
}
