//! A failing execution as GDB sees it: harts are threads, numbered from 1; nothing can be changed.

use gdbstub::common::{Signal, Tid};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadRangeStepping, MultiThreadRangeSteppingOps, MultiThreadResume,
    MultiThreadResumeOps, MultiThreadSchedulerLocking, MultiThreadSchedulerLockingOps,
    MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::reverse_exec::{
    ReverseCont, ReverseContOps, ReverseStep, ReverseStepOps,
};
use gdbstub::target::ext::base::single_register_access::{
    SingleRegisterAccess, SingleRegisterAccessOps,
};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, SwBreakpoint, SwBreakpointOps,
};
use gdbstub::target::ext::target_description_xml_override::{
    TargetDescriptionXmlOverride, TargetDescriptionXmlOverrideOps,
};
use gdbstub::target::ext::thread_extra_info::{ThreadExtraInfo, ThreadExtraInfoOps};
use gdbstub::target::{Target, TargetError, TargetResult};
use gdbstub_arch::riscv::Riscv64;
use gdbstub_arch::riscv::reg::RiscvCoreRegs;
use gdbstub_arch::riscv::reg::id::RiscvRegId;
use loiter_sim::{Debugged, copy_part, program_description};

use crate::replay::{Replayed, Wish, hart_of, thread};

/// `EFAULT`, which GDB takes for "cannot access memory".
const FAULT: u8 = 14;
/// `EROFS`.
const READ_ONLY: u8 = 30;

impl Debugged for Replayed {
    fn present_thread(&self) -> Tid {
        thread(self.present())
    }

    fn release(&mut self) {
        self.breakpoints.clear();
        self.wish = Wish::Continue;
    }
}

impl Replayed {
    fn refuse<T>(&mut self) -> TargetResult<T, Self> {
        const WHY: &str =
            "gdb: what is replayed has happened: memory and registers cannot be changed";
        self.messages.push(WHY.to_owned());
        Err(TargetError::Errno(READ_ONLY))
    }
}

impl Target for Replayed {
    type Arch = Riscv64;
    type Error = &'static str;

    fn base_ops(&mut self) -> BaseOps<'_, Self::Arch, Self::Error> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_target_description_xml_override(
        &mut self,
    ) -> Option<TargetDescriptionXmlOverrideOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for Replayed {
    fn read_registers(
        &mut self,
        regs: &mut RiscvCoreRegs<u64>,
        tid: Tid,
    ) -> TargetResult<(), Self> {
        let hart = &self.replay.harts()[hart_of(tid)];
        regs.x = hart.x;
        regs.pc = hart.pc;
        Ok(())
    }

    fn write_registers(&mut self, _: &RiscvCoreRegs<u64>, _: Tid) -> TargetResult<(), Self> {
        self.refuse()
    }

    fn support_single_register_access(&mut self) -> Option<SingleRegisterAccessOps<'_, Tid, Self>> {
        Some(self)
    }

    fn read_addrs(&mut self, start: u64, data: &mut [u8], tid: Tid) -> TargetResult<usize, Self> {
        match self.replay.read(hart_of(tid), start, data) {
            0 if !data.is_empty() => Err(TargetError::Errno(FAULT)),
            count => Ok(count),
        }
    }

    fn write_addrs(&mut self, _: u64, _: &[u8], _: Tid) -> TargetResult<(), Self> {
        self.refuse()
    }

    fn list_active_threads(
        &mut self,
        thread_is_active: &mut dyn FnMut(Tid),
    ) -> Result<(), Self::Error> {
        for hart in 0..self.replay.harts().len() {
            thread_is_active(thread(hart));
        }
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }

    fn support_thread_extra_info(&mut self) -> Option<ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

impl SingleRegisterAccess<Tid> for Replayed {
    fn read_register(
        &mut self,
        tid: Tid,
        id: RiscvRegId<u64>,
        buf: &mut [u8],
    ) -> TargetResult<usize, Self> {
        let hart = &self.replay.harts()[hart_of(tid)];
        let value = match id {
            RiscvRegId::Gpr(n) => hart.x[usize::from(n)],
            RiscvRegId::Pc => hart.pc,
            // No instruction that can be explored changes them.
            RiscvRegId::Fpr(_) | RiscvRegId::Csr(_) => 0,
            _ => return Err(TargetError::NonFatal),
        };
        buf[..8].copy_from_slice(&value.to_le_bytes());
        Ok(8)
    }

    fn write_register(&mut self, _: Tid, _: RiscvRegId<u64>, _: &[u8]) -> TargetResult<(), Self> {
        self.refuse()
    }
}

impl MultiThreadResume for Replayed {
    fn resume(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<(), Self::Error> {
        self.wish = Wish::Continue;
        Ok(())
    }

    fn set_resume_action_continue(&mut self, _: Tid, _: Option<Signal>) -> Result<(), Self::Error> {
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_range_step(&mut self) -> Option<MultiThreadRangeSteppingOps<'_, Self>> {
        Some(self)
    }

    fn support_reverse_step(&mut self) -> Option<ReverseStepOps<'_, Tid, Self>> {
        Some(self)
    }

    fn support_reverse_cont(&mut self) -> Option<ReverseContOps<'_, Tid, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSingleStep for Replayed {
    fn set_resume_action_step(&mut self, tid: Tid, _: Option<Signal>) -> Result<(), Self::Error> {
        self.wish = Wish::Moment(hart_of(tid));
        Ok(())
    }
}

impl MultiThreadRangeStepping for Replayed {
    fn set_resume_action_range_step(
        &mut self,
        tid: Tid,
        start: u64,
        end: u64,
    ) -> Result<(), Self::Error> {
        self.wish = Wish::Range(hart_of(tid), start..end);
        Ok(())
    }
}

impl MultiThreadSchedulerLocking for Replayed {
    /// So GDB steps over a breakpoint that it has removed. Others cannot be kept from what they did.
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), Self::Error> {
        if let Wish::Moment(hart) = self.wish {
            self.wish = Wish::Instruction(hart);
        }
        Ok(())
    }
}

impl ReverseCont<Tid> for Replayed {
    fn reverse_cont(&mut self) -> Result<(), Self::Error> {
        self.wish = Wish::Back;
        Ok(())
    }
}

impl ReverseStep<Tid> for Replayed {
    fn reverse_step(&mut self, tid: Tid) -> Result<(), Self::Error> {
        self.wish = Wish::MomentBack(hart_of(tid));
        Ok(())
    }
}

impl ThreadExtraInfo for Replayed {
    fn thread_extra_info(&self, tid: Tid, buf: &mut [u8]) -> Result<usize, Self::Error> {
        let text = self.says(hart_of(tid));
        Ok(copy_part(text.as_bytes(), 0, buf.len(), buf))
    }
}

impl Breakpoints for Replayed {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Replayed {
    fn add_sw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        self.breakpoints.push(addr);
        Ok(true)
    }

    fn remove_sw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        let found = self.breakpoints.iter().position(|&it| it == addr);
        Ok(found.map(|at| self.breakpoints.swap_remove(at)).is_some())
    }
}

impl TargetDescriptionXmlOverride for Replayed {
    fn target_description_xml(
        &self,
        annex: &[u8],
        offset: u64,
        length: usize,
        buf: &mut [u8],
    ) -> TargetResult<usize, Self> {
        if annex != b"target.xml" {
            return Err(TargetError::NonFatal);
        }
        let xml = program_description();
        Ok(copy_part(xml.as_bytes(), offset, length, buf))
    }
}
