//! The state of one hart, and how it enters and leaves traps.

use loiter_isa::{SINK, disassemble};
use loiter_machine::{Machine, WatchState, Watches};
use loiter_types::{HartId, PhysAddr, VirtAddr};

use crate::csr::{CsrFile, Privilege};
use crate::exec::Nap;
use crate::trap::{Cause, Interrupt, Trap, Unhandled};

/// Whether a hart executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HartState {
    /// It executes instructions.
    Running,
    /// It sleeps in `wfi` or `wrs` until what it waits for happens.
    Napping(Nap),
}

/// One hart: registers, program counter, privilege, CSRs.
#[derive(Clone, Debug)]
pub struct Hart {
    /// Its number, `mhartid`.
    pub id: HartId,
    /// Register slots of [`loiter_isa::Inst`]: x0..x31, f0..f31, and [`SINK`]. 256 long so that a
    /// slot number needs no bounds check.
    pub regs: [u64; 256],
    /// Address of the next instruction.
    pub pc: u64,
    /// Instructions retired since reset.
    pub retired: u64,
    /// Control and status registers, privilege included.
    pub csr: CsrFile,
    /// Whether it executes.
    pub state: HartState,
}

impl Hart {
    /// A hart at reset, in machine mode, about to execute at `pc` with the boot convention of bare
    /// metal: a0 = hart id, a1 = address of the device tree.
    #[must_use]
    pub fn new(id: HartId, pc: u64, device_tree: PhysAddr) -> Self {
        let mut regs = [0; 256];
        regs[10] = u64::from(id.0);
        regs[11] = device_tree.0;
        Self {
            id,
            regs,
            pc,
            retired: 0,
            csr: CsrFile::new(id),
            state: HartState::Running,
        }
    }

    /// Translates the address of a data access. Without paging, physical is virtual.
    #[inline(always)]
    pub fn translate_data(&self, addr: VirtAddr) -> Result<PhysAddr, Trap> {
        Ok(PhysAddr(addr.0))
    }

    /// Translates the address of an instruction. Without paging, physical is virtual.
    #[inline(always)]
    pub fn translate_fetch(&self, pc: VirtAddr) -> Result<PhysAddr, Trap> {
        Ok(PhysAddr(pc.0))
    }

    /// The interrupt that the hart would take now, given the device lines last set.
    #[must_use]
    pub fn pending_interrupt(&self) -> Option<Interrupt> {
        let pending = self.csr.pending_enabled();
        if pending == 0 {
            return None;
        }
        let delegated = self.csr.mideleg;
        let machine = pending & !delegated;
        let supervisor = pending & delegated;
        let machine_on = self.csr.privilege < Privilege::Machine || self.csr.machine_interrupts();
        let supervisor_on = self.csr.privilege < Privilege::Supervisor
            || (self.csr.privilege == Privilege::Supervisor && self.csr.supervisor_interrupts());
        let takeable = if machine_on && machine != 0 {
            machine
        } else if supervisor_on {
            supervisor
        } else {
            0
        };
        Interrupt::BY_PRIORITY
            .into_iter()
            .find(|interrupt| takeable & interrupt.bit() != 0)
    }

    /// Whether something pends that ends a nap: any enabled interrupt, taken or not.
    #[must_use]
    pub fn wakes(&self) -> bool {
        self.csr.pending_enabled() != 0
    }

    /// Whether what `nap` waits for has happened, whoever sees it; the time limit of `wrs.sto` is the
    /// engine's affair.
    #[must_use]
    pub fn nap_is_over(&self, nap: Nap, watches: &Watches) -> bool {
        self.wakes() || nap != Nap::Wfi && watches.state(self.id) != WatchState::Held
    }

    /// Enters `trap`: saves the pc, switches privilege, goes to the handler.
    ///
    /// # Errors
    /// [`Unhandled`], with the hart unchanged, when the handler address holds no memory.
    pub fn take_trap(&mut self, trap: Trap, machine: &Machine) -> Result<(), Unhandled> {
        let handler = self.csr.handler(trap);
        if !machine.is_ram(PhysAddr(handler), 2) {
            return Err(Unhandled {
                trap,
                pc: self.pc,
                handler,
            });
        }
        self.csr.enter_trap(trap, self.pc);
        self.pc = handler;
        self.state = HartState::Running;
        Ok(())
    }

    /// The trap for fetching at `pc` in vain.
    #[must_use]
    pub fn fetch_fault(&self) -> Trap {
        Trap::Exception(Cause::FetchAccess, self.pc)
    }

    /// The registers and the instruction at the pc, for messages to people.
    #[must_use]
    pub fn describe(&self, machine: &Machine) -> String {
        const NAMES: [&str; 32] = [
            "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3",
            "a4", "a5", "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11",
            "t3", "t4", "t5", "t6",
        ];
        let mut text = match machine.fetch(PhysAddr(self.pc)) {
            Ok(bits) => format!("{:#x}: {}\n", self.pc, disassemble(bits, self.pc)),
            Err(_) => format!("{:#x}: no memory here\n", self.pc),
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
