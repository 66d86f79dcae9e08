//! Why a system stands still, as GDB is told.

use gdbstub::common::{Signal, Tid};
use gdbstub::stub::MultiThreadStopReason;
use loiter_types::HartId;

use super::inspector::Reason;
use super::server::{DebugServer, Debugged};
use super::target::thread;
use crate::session::Session;

impl Debugged for Session {
    fn present_thread(&self) -> Tid {
        thread(self.present_hart())
    }

    fn release(&mut self) {
        self.let_go();
    }
}

impl DebugServer<Session> {
    /// Tells a waiting debugger why the system stands still, if it was held.
    pub(crate) fn report_held(&mut self, session: &mut Session) {
        let held = session.system.inspector.as_mut();
        let Some((hart, reason)) = held.and_then(|inspector| inspector.take_held()) else {
            return;
        };
        let tid = thread(hart);
        let signal = Signal::SIGTRAP;
        self.report(
            session,
            match reason {
                Reason::Breakpoint => MultiThreadStopReason::SwBreak(tid),
                Reason::Step => MultiThreadStopReason::SignalWithThread { tid, signal },
                Reason::Watch(watchpoint) => MultiThreadStopReason::Watch {
                    tid,
                    kind: watchpoint.kind,
                    addr: watchpoint.addr,
                },
            },
        );
    }

    /// Tells a waiting debugger that the system has ended.
    pub(crate) fn report_exit(&mut self, session: &mut Session, code: u32) {
        self.report(session, MultiThreadStopReason::Exited(code as u8));
    }

    /// Tells a waiting debugger that `hart` cannot continue, and the user why.
    pub(crate) fn report_fault(&mut self, session: &mut Session, hart: HartId, why: String) {
        self.inform(why);
        let (tid, signal) = (thread(hart), Signal::SIGSEGV);
        self.report(
            session,
            MultiThreadStopReason::SignalWithThread { tid, signal },
        );
    }
}
