//! CSR and system instructions, which only full executors run.

use loiter_isa::csr::number::STIMECMP;
use loiter_isa::{CsrOperand, GuestLoad, Inst, Op, System, Width};

use super::access::sign_extend;
use super::{Environment, Exec, Flow, Nap, illegal};
use crate::csr::{Allowed, Privilege};
use crate::trap::{Cause, Trap};

impl<P: Environment, const FULL: bool, const LENGTH: u64> Exec<'_, P, FULL, LENGTH> {
    /// As [`crate::CsrFile`] reads it, but for `stimecmp`, which stands beside the clock.
    fn read_csr(&mut self, number: u16, writes: bool) -> Option<u64> {
        if number != STIMECMP || self.hart.csr.in_guest() {
            return self.hart.csr.read(number, self.hart.retired, writes);
        }
        let id = self.hart.id;
        let allowed = self.hart.csr.supervisor_timer_allowed();
        allowed.then(|| self.port.supervisor_timer(id))
    }

    fn write_csr(&mut self, number: u16, value: u64) {
        self.hart.write_csr(self.port, number, value);
    }

    /// Runs on if `allowed`.
    fn allowed(i: &Inst, allowed: Allowed) -> Result<(), Flow> {
        match allowed {
            Allowed::Yes => Ok(()),
            Allowed::Illegal => Err(Flow::Trap(illegal(i))),
            Allowed::Virtual => Err(Flow::Trap(is_virtual(i))),
        }
    }

    pub(super) fn full_system(&mut self, i: &Inst, what: System) -> Flow {
        self.system_or_trap(i, what).unwrap_or_else(|flow| flow)
    }

    /// As [`Exec::full_system`]; what it raises is an error.
    fn system_or_trap(&mut self, i: &Inst, what: System) -> Result<Flow, Flow> {
        let illegal = Err(Flow::Trap(illegal(i)));
        let privilege = self.hart.csr.privilege;
        let flow = match what {
            System::Illegal => return illegal,
            System::Ecall => {
                let cause = match privilege {
                    Privilege::User => Cause::EcallUser,
                    Privilege::Supervisor if self.hart.csr.in_guest() => Cause::EcallGuest,
                    Privilege::Supervisor => Cause::EcallSupervisor,
                    Privilege::Machine => Cause::EcallMachine,
                };
                return Err(Flow::Trap(Trap::Exception(cause, 0)));
            }
            System::Ebreak => {
                return Err(Flow::Trap(Trap::Exception(Cause::Breakpoint, self.pc)));
            }
            System::Mret | System::Sret => {
                let target = if what == System::Mret {
                    self.hart.csr.leave_machine_trap()
                } else {
                    self.hart.csr.leave_supervisor_trap()
                };
                return match target {
                    Ok(pc) => {
                        self.hart.mode_changed();
                        self.pc = pc;
                        Ok(Flow::Interrupts)
                    }
                    Err(refused) => Self::allowed(i, refused).map(|()| Flow::Next),
                };
            }
            System::Wfi => {
                Self::allowed(i, self.hart.csr.wfi_allowed())?;
                Flow::Nap(Nap::Wfi)
            }
            System::WrsNto | System::WrsSto if !self.hart.csr.extensions.zawrs => return illegal,
            System::WrsNto => {
                Self::allowed(i, self.hart.csr.unbounded_wait_allowed())?;
                Flow::Nap(Nap::WrsNto)
            }
            System::WrsSto => Flow::Nap(Nap::WrsSto),
            System::SfenceVma => {
                Self::allowed(i, self.hart.csr.sfence_allowed())?;
                Flow::Next
            }
            System::HypervisorFence => {
                let of_tables = i.op == Op::HfenceGvma;
                Self::allowed(i, self.hart.csr.hfence_allowed(of_tables))?;
                Flow::Next
            }
            System::GuestLoad(load) => return self.load_as_guest(i, load),
            System::GuestStore(width) => return self.store_as_guest(i, width),
            System::Pause => Flow::Pause,
            System::Fence => Flow::Next,
            System::FenceI => Flow::FenceI,
            System::Probe => Flow::Probe(i.imm as u16 & 0xfff, self.reg(i.rs1)),
        };
        self.next(i);
        Ok(flow)
    }

    /// What data accesses find while they are made as a guest makes them.
    fn as_guest<T>(
        &mut self,
        i: &Inst,
        of_code: bool,
        access: impl FnOnce(&mut Self) -> Result<T, Trap>,
    ) -> Result<T, Flow> {
        let csr = &mut self.hart.csr;
        let Some(privilege) = csr.guest_accesses() else {
            let refused = csr.refused_below();
            Self::allowed(i, refused)?;
            unreachable!("it is refused");
        };
        csr.lent = Some(csr.lends(privilege, of_code));
        self.hart.mode_changed();
        let found = access(self);
        self.hart.csr.lent = None;
        self.hart.mode_changed();
        found.map_err(|trap| Flow::Trap(trap.of_guest()))
    }

    #[cold]
    fn load_as_guest(&mut self, i: &Inst, load: GuestLoad) -> Result<Flow, Flow> {
        let GuestLoad {
            width,
            signed,
            of_code,
        } = load;
        let addr = self.reg(i.rs1);
        let value = self.as_guest(i, of_code, |exec| exec.load_at(addr, width))?;
        let value = if signed {
            sign_extend(value, width)
        } else {
            value
        };
        Ok(self.write_and_next(i, value))
    }

    #[cold]
    fn store_as_guest(&mut self, i: &Inst, width: Width) -> Result<Flow, Flow> {
        let (addr, value) = (self.reg(i.rs1), self.reg(i.rs2));
        self.as_guest(i, false, |exec| exec.store_at(addr, width, value))?;
        Ok(self.next(i))
    }

    pub(super) fn full_csr(
        &mut self,
        i: &Inst,
        operand: CsrOperand,
        f: impl FnOnce(u64, u64) -> u64,
    ) -> Flow {
        let number = i.imm as u16 & 0xfff;
        let immediate = (i.imm as u64 >> 12) & 0x1f;
        let (operand, writes) = match operand {
            CsrOperand::Write => (self.reg(i.rs1), true),
            CsrOperand::Modify => (self.reg(i.rs1), i.rs1 != 0),
            CsrOperand::WriteImm => (immediate, true),
            CsrOperand::ModifyImm => (immediate, immediate != 0),
        };
        let Some(old) = self.read_csr(number, writes) else {
            let csr = &self.hart.csr;
            return Flow::Trap(
                match csr.refused_to_guest(number, self.hart.retired, writes) {
                    true => is_virtual(i),
                    false => illegal(i),
                },
            );
        };
        if writes {
            let base = self.hart.csr.modify_base(number, old);
            self.write_csr(number, f(base, operand));
        }
        self.write_and_next(i, old);
        if writes { Flow::Interrupts } else { Flow::Next }
    }
}

/// A hypervisor is to do `i` for its guest.
fn is_virtual(i: &Inst) -> Trap {
    Trap::Exception(Cause::VirtualInstruction, u64::from(i.raw))
}
