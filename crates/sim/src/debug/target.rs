//! A session as GDB sees it: harts are threads, numbered from 1.

use gdbstub::common::{Signal, Tid};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadResume, MultiThreadResumeOps, MultiThreadSchedulerLocking,
    MultiThreadSchedulerLockingOps, MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::single_register_access::{
    SingleRegisterAccess, SingleRegisterAccessOps,
};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, HwBreakpoint, HwBreakpointOps, HwWatchpoint, HwWatchpointOps,
    SwBreakpoint, SwBreakpointOps, WatchKind,
};
use gdbstub::target::ext::exec_file::ExecFileOps;
use gdbstub::target::ext::host_io::HostIoOps;
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd, MonitorCmdOps};
use gdbstub::target::ext::target_description_xml_override::{
    TargetDescriptionXmlOverride, TargetDescriptionXmlOverrideOps,
};
use gdbstub::target::ext::thread_extra_info::{ThreadExtraInfo, ThreadExtraInfoOps};
use gdbstub::target::{Target, TargetError, TargetResult};
use gdbstub_arch::riscv::Riscv64;
use gdbstub_arch::riscv::reg::RiscvCoreRegs;
use gdbstub_arch::riscv::reg::id::RiscvRegId;
use loiter_types::{HartId, PhysAddr};

use super::inspector::{Inspector, Watchpoint};
use super::server::copy_part;
use super::{monitor, registers};
use crate::session::Session;

/// `EFAULT`, which GDB takes for "cannot access memory".
const FAULT: u8 = 14;

/// The thread of a hart.
pub(crate) fn thread(hart: HartId) -> Tid {
    Tid::new(hart.index() + 1).expect("not zero")
}

fn hart_of(thread: Tid) -> HartId {
    HartId::new(thread.get() - 1)
}

impl Session {
    fn inspector(&mut self) -> &mut Inspector {
        self.system.inspector.get_or_insert_default()
    }

    /// Whether registers of `hart` can be changed now.
    fn is_between_instructions(&mut self, hart: HartId) -> bool {
        let timing = self.cores();
        timing.is_none_or(|timing| timing.cores().stands_between_instructions(hart))
    }

    pub(super) fn changed(&mut self, hart: HartId) {
        self.system.changed_from_outside(hart);
        let timing = self.timing.as_mut().filter(|timing| timing.is_attached());
        if let Some(timing) = timing {
            let now = self.system.now;
            timing
                .cores()
                .changed_from_outside(&self.system.harts[hart.index()], now);
        }
    }
}

impl Target for Session {
    type Arch = Riscv64;
    type Error = &'static str;

    fn base_ops(&mut self) -> BaseOps<'_, Self::Arch, Self::Error> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_monitor_cmd(&mut self) -> Option<MonitorCmdOps<'_, Self>> {
        Some(self)
    }

    fn support_exec_file(&mut self) -> Option<ExecFileOps<'_, Self>> {
        self.symbol_elf.is_some().then_some(self)
    }

    fn support_host_io(&mut self) -> Option<HostIoOps<'_, Self>> {
        self.symbol_elf.is_some().then_some(self)
    }

    fn support_target_description_xml_override(
        &mut self,
    ) -> Option<TargetDescriptionXmlOverrideOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for Session {
    fn read_registers(
        &mut self,
        regs: &mut RiscvCoreRegs<u64>,
        tid: Tid,
    ) -> TargetResult<(), Self> {
        let hart = &self.system.harts[hart_of(tid).index()];
        regs.x.copy_from_slice(&hart.regs[..32]);
        regs.pc = hart.pc;
        Ok(())
    }

    fn write_registers(&mut self, regs: &RiscvCoreRegs<u64>, tid: Tid) -> TargetResult<(), Self> {
        let hart = hart_of(tid);
        if !self.is_between_instructions(hart) {
            return Err(TargetError::NonFatal);
        }
        let state = &mut self.system.harts[hart.index()];
        state.regs[1..32].copy_from_slice(&regs.x[1..]);
        state.pc = regs.pc & !1;
        self.changed(hart);
        Ok(())
    }

    fn support_single_register_access(&mut self) -> Option<SingleRegisterAccessOps<'_, Tid, Self>> {
        Some(self)
    }

    fn read_addrs(&mut self, start: u64, data: &mut [u8], tid: Tid) -> TargetResult<usize, Self> {
        let hart = hart_of(tid);
        let mut done = 0;
        for (at, length) in self.pieces(hart, start, data.len()) {
            let part = &mut data[done..done + length];
            let ram = &self.system.machine.ram;
            part.copy_from_slice(ram.slice(at, length as u64).expect("RAM"));
            if let Some(timing) = self.cores() {
                for (n, byte) in part.iter_mut().enumerate() {
                    let at = PhysAddr(at.0 + n as u64);
                    *byte = timing.cores().buffered_byte(hart, at).unwrap_or(*byte);
                }
            }
            done += length;
        }
        match done {
            0 if !data.is_empty() => Err(TargetError::Errno(FAULT)),
            _ => Ok(done),
        }
    }

    fn write_addrs(&mut self, start: u64, data: &[u8], tid: Tid) -> TargetResult<(), Self> {
        match self.write(hart_of(tid), start, data) {
            true => Ok(()),
            false => Err(TargetError::Errno(FAULT)),
        }
    }

    fn list_active_threads(
        &mut self,
        thread_is_active: &mut dyn FnMut(Tid),
    ) -> Result<(), Self::Error> {
        for hart in &self.system.harts {
            thread_is_active(thread(hart.id));
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

impl SingleRegisterAccess<Tid> for Session {
    fn read_register(
        &mut self,
        tid: Tid,
        id: RiscvRegId<u64>,
        buf: &mut [u8],
    ) -> TargetResult<usize, Self> {
        let system = &self.system;
        let hart = &system.harts[hart_of(tid).index()];
        let (value, bytes) =
            registers::read(hart, &system.machine, id).ok_or(TargetError::NonFatal)?;
        buf[..bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
        Ok(bytes)
    }

    fn write_register(
        &mut self,
        tid: Tid,
        id: RiscvRegId<u64>,
        value: &[u8],
    ) -> TargetResult<(), Self> {
        let hart = hart_of(tid);
        if !self.is_between_instructions(hart) {
            return Err(TargetError::NonFatal);
        }
        let mut bytes = [0; 8];
        let length = value.len().min(8);
        bytes[..length].copy_from_slice(&value[..length]);
        let system = &mut self.system;
        let state = &mut system.harts[hart.index()];
        let value = u64::from_le_bytes(bytes);
        if !registers::write(state, &mut system.machine, id, value) {
            return Err(TargetError::NonFatal);
        }
        self.changed(hart);
        Ok(())
    }
}

impl MultiThreadResume for Session {
    fn resume(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<(), Self::Error> {
        self.inspector().step(None);
        self.system.alone = None;
        self.chosen = None;
        Ok(())
    }

    fn set_resume_action_continue(
        &mut self,
        tid: Tid,
        _: Option<Signal>,
    ) -> Result<(), Self::Error> {
        self.chosen = Some(hart_of(tid));
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSingleStep for Session {
    fn set_resume_action_step(&mut self, tid: Tid, _: Option<Signal>) -> Result<(), Self::Error> {
        let hart = hart_of(tid);
        self.inspector().step(Some(hart));
        self.chosen = Some(hart);
        Ok(())
    }
}

impl MultiThreadSchedulerLocking for Session {
    /// Only the hart that was chosen runs. On a timing core the others cannot be kept from it.
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), Self::Error> {
        self.let_run_alone();
        Ok(())
    }
}

impl ThreadExtraInfo for Session {
    fn thread_extra_info(&self, tid: Tid, buf: &mut [u8]) -> Result<usize, Self::Error> {
        let text = self.mode_and_sleep(hart_of(tid));
        Ok(copy_part(text.as_bytes(), 0, buf.len(), buf))
    }
}

impl Breakpoints for Session {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

/// Software breakpoints are the same as those of hardware: nothing is written into the program.
impl SwBreakpoint for Session {
    fn add_sw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        self.inspector().add_breakpoint(addr);
        Ok(true)
    }

    fn remove_sw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.inspector().remove_breakpoint(addr))
    }
}

impl HwBreakpoint for Session {
    fn add_hw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        self.inspector().add_breakpoint(addr);
        Ok(true)
    }

    fn remove_hw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.inspector().remove_breakpoint(addr))
    }
}

impl HwWatchpoint for Session {
    fn add_hw_watchpoint(
        &mut self,
        addr: u64,
        bytes: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        self.inspector()
            .add_watchpoint(Watchpoint { addr, bytes, kind });
        Ok(true)
    }

    fn remove_hw_watchpoint(
        &mut self,
        addr: u64,
        bytes: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        Ok(self
            .inspector()
            .remove_watchpoint(&Watchpoint { addr, bytes, kind }))
    }
}

impl MonitorCmd for Session {
    fn handle_monitor_cmd(
        &mut self,
        command: &[u8],
        mut out: ConsoleOutput<'_>,
    ) -> Result<(), Self::Error> {
        let text = monitor::answer(self, &String::from_utf8_lossy(command));
        gdbstub::outputln!(out, "{text}");
        Ok(())
    }
}

impl TargetDescriptionXmlOverride for Session {
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
        let system = &self.system;
        let xml = registers::description(&system.harts[0], &system.machine);
        Ok(copy_part(xml.as_bytes(), offset, length, buf))
    }
}
