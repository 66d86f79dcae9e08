//! CSR and system instructions, which only full executors run.

use loiter_isa::csr::number::STIMECMP;
use loiter_isa::{CsrOperand, Inst, System};

use super::{Environment, Exec, Flow, Nap, illegal};
use crate::csr::Privilege;
use crate::trap::{Cause, Trap};

impl<P: Environment, const FULL: bool, const LENGTH: u64> Exec<'_, P, FULL, LENGTH> {
    /// As [`crate::CsrFile`] reads it, but for `stimecmp`, which stands beside the clock.
    fn read_csr(&mut self, number: u16, writes: bool) -> Option<u64> {
        if number != STIMECMP {
            return self.hart.csr.read(number, self.hart.retired, writes);
        }
        let id = self.hart.id;
        let allowed = self.hart.csr.supervisor_timer_allowed();
        allowed.then(|| self.port.supervisor_timer(id))
    }

    fn write_csr(&mut self, number: u16, value: u64) {
        self.hart.write_csr(self.port, number, value);
    }

    pub(super) fn full_system(&mut self, i: &Inst, what: System) -> Flow {
        let illegal = Flow::Trap(illegal(i));
        let privilege = self.hart.csr.privilege;
        let flow = match what {
            System::Illegal => return illegal,
            System::Ecall => {
                let cause = match privilege {
                    Privilege::User => Cause::EcallUser,
                    Privilege::Supervisor => Cause::EcallSupervisor,
                    Privilege::Machine => Cause::EcallMachine,
                };
                return Flow::Trap(Trap::Exception(cause, 0));
            }
            System::Ebreak => return Flow::Trap(Trap::Exception(Cause::Breakpoint, self.pc)),
            System::Mret | System::Sret => {
                let target = if what == System::Mret {
                    self.hart.csr.leave_machine_trap()
                } else {
                    self.hart.csr.leave_supervisor_trap()
                };
                return match target {
                    Some(pc) => {
                        self.hart.mode_changed();
                        self.pc = pc;
                        Flow::Interrupts
                    }
                    None => illegal,
                };
            }
            System::Wfi if self.hart.csr.wfi_allowed() => Flow::Nap(Nap::Wfi),
            System::WrsNto | System::WrsSto if !self.hart.csr.extensions.zawrs => return illegal,
            System::WrsNto if self.hart.csr.unbounded_wait_allowed() => Flow::Nap(Nap::WrsNto),
            System::Wfi | System::WrsNto => return illegal,
            System::WrsSto => Flow::Nap(Nap::WrsSto),
            System::SfenceVma if self.hart.csr.sfence_allowed() => Flow::Next,
            System::SfenceVma => return illegal,
            System::Pause => Flow::Pause,
            System::Fence => Flow::Next,
            System::FenceI => Flow::FenceI,
            System::Probe => Flow::Probe(i.imm as u16 & 0xfff, self.reg(i.rs1)),
        };
        self.next(i);
        flow
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
            return Flow::Trap(illegal(i));
        };
        if writes {
            let base = self.hart.csr.modify_base(number, old);
            self.write_csr(number, f(base, operand));
        }
        self.write_and_next(i, old);
        if writes { Flow::Interrupts } else { Flow::Next }
    }
}
