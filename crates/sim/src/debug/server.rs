//! The connection to GDB: accepted, listened to and answered between two turns of the system.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use gdbstub::common::Signal;
use gdbstub::conn::Connection;
use gdbstub::stub::state_machine::GdbStubStateMachine;
use gdbstub::stub::{DisconnectReason, GdbStub, GdbStubError, MultiThreadStopReason};
use loiter_types::HartId;

use super::inspector::Reason;
use super::target::thread;
use crate::error::Error;
use crate::session::Session;

/// Between two looks for a debugger, while none is there.
const ACCEPT_EVERY: Duration = Duration::from_millis(10);
/// Longest answer in one read.
const READ_BYTES: usize = 4096;
/// After so long, a debugger that takes no answer is gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

type Stub = GdbStubStateMachine<'static, Session, Link>;

/// Serves one debugger after the other.
pub(crate) struct Server {
    listener: TcpListener,
    stub: Option<Stub>,
    /// No debugger has come yet; until then nothing executes.
    awaited: bool,
    killed: bool,
    messages: Vec<String>,
}

/// What the debugger wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// The system is to run.
    Run,
    /// The system is to stand still.
    Hold,
    /// The system is to end.
    Kill,
}

impl Server {
    /// Listens at `address`, `[HOST:]PORT`; without a host to this computer alone. Port 0 is any that
    /// is free.
    ///
    /// # Errors
    /// An address that is none or is taken.
    pub(crate) fn listen(address: &str) -> Result<Self, Error> {
        let whole = match address.contains(':') {
            true => address.to_owned(),
            false => format!("localhost:{address}"),
        };
        let problem = |error: io::Error| {
            Error::User(format!(
                "--gdb {address}: cannot listen there: {error}; give [HOST:]PORT with a free port, or 0"
            ))
        };
        let addresses: Vec<SocketAddr> = whole.to_socket_addrs().map_err(problem)?.collect();
        let listener = TcpListener::bind(addresses.as_slice()).map_err(problem)?;
        listener.set_nonblocking(true).map_err(problem)?;
        Ok(Self {
            listener,
            stub: None,
            awaited: true,
            killed: false,
            messages: Vec::new(),
        })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> String {
        let address = self.listener.local_addr();
        address.map_or_else(|error| error.to_string(), |address| address.to_string())
    }

    /// What the user should know.
    pub(crate) fn take_messages(&mut self) -> Vec<String> {
        std::mem::take(&mut self.messages)
    }

    /// Whether a debugger is connected.
    pub(crate) fn is_connected(&self) -> bool {
        self.stub.is_some()
    }

    fn wants(&self) -> Served {
        match &self.stub {
            _ if self.killed => Served::Kill,
            Some(GdbStubStateMachine::Idle(_)) => Served::Hold,
            None if self.awaited => Served::Hold,
            _ => Served::Run,
        }
    }

    /// Hears the debugger. While the system is to stand still, waits for him, at most until `end`.
    pub(crate) fn attend(&mut self, session: &mut Session, end: Instant) -> Served {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let wait = match self.wants() {
                Served::Hold => left,
                _ => Duration::ZERO,
            };
            let heard = match self.stub.is_some() {
                true => self.read(session, wait),
                false => self.accept(session, wait),
            };
            let wants = self.wants();
            if !heard && (wants != Served::Hold || left.is_zero()) {
                return wants;
            }
        }
    }

    /// Takes a debugger who knocks. Returns whether one has come, or will be waited for again.
    fn accept(&mut self, session: &mut Session, wait: Duration) -> bool {
        match self.listener.accept() {
            Ok((stream, _)) => {
                let stub = Link::new(stream)
                    .map_err(|error| error.to_string())
                    .and_then(|link| {
                        let stub = GdbStub::new(link).run_state_machine(session);
                        stub.map_err(|error| error.to_string())
                    });
                match stub {
                    Ok(stub) => {
                        self.stub = Some(stub);
                        self.awaited = false;
                    }
                    Err(error) => self.messages.push(format!("gdb: {error}")),
                }
                true
            }
            Err(_) if wait.is_zero() => false,
            Err(_) => {
                std::thread::sleep(wait.min(ACCEPT_EVERY));
                false
            }
        }
    }

    /// Hands on what the debugger has sent. Returns whether it was anything.
    fn read(&mut self, session: &mut Session, wait: Duration) -> bool {
        let Some(stub) = &mut self.stub else {
            return false;
        };
        let bytes = link(stub).read(wait);
        match bytes {
            Ok(bytes) if bytes.is_empty() => {
                self.lost(session);
                true
            }
            Ok(bytes) => {
                for byte in bytes {
                    self.advance(session, |stub, session| feed(stub, session, byte));
                }
                true
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                false
            }
            Err(_) => {
                self.lost(session);
                true
            }
        }
    }

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
        self.messages.push(why);
        let (tid, signal) = (thread(hart), Signal::SIGSEGV);
        self.report(
            session,
            MultiThreadStopReason::SignalWithThread { tid, signal },
        );
    }

    fn report(&mut self, session: &mut Session, reason: MultiThreadStopReason<u64>) {
        self.advance(session, |stub, session| match stub {
            GdbStubStateMachine::Running(stub) => stub.report_stop(session, reason),
            stub => Ok(stub),
        });
    }

    /// Does `step`, and what follows from where that leads.
    fn advance(
        &mut self,
        session: &mut Session,
        step: impl FnOnce(Stub, &mut Session) -> Result<Stub, GdbStubError<&'static str, io::Error>>,
    ) {
        let Some(stub) = self.stub.take() else {
            return;
        };
        match step(stub, session) {
            Ok(GdbStubStateMachine::Disconnected(mut stub)) => {
                // The last answer; whoever has gone does not miss it.
                let _ = stub.borrow_conn().flush();
                self.killed = stub.get_reason() == DisconnectReason::Kill;
                session.release();
            }
            Ok(stub) => self.stub = Some(stub),
            Err(error) => {
                self.messages.push(format!("gdb: {error}"));
                session.release();
            }
        }
    }

    /// The debugger has gone without a word: the system runs on.
    fn lost(&mut self, session: &mut Session) {
        self.stub = None;
        session.release();
    }
}

/// Hands a byte on. An interrupt by the debugger holds the system at once: nothing executes now.
fn feed(
    stub: Stub,
    session: &mut Session,
    byte: u8,
) -> Result<Stub, GdbStubError<&'static str, io::Error>> {
    let stub = match stub {
        GdbStubStateMachine::Idle(stub) => stub.incoming_data(session, byte)?,
        GdbStubStateMachine::Running(stub) => stub.incoming_data(session, byte)?,
        stub => stub,
    };
    match stub {
        GdbStubStateMachine::CtrlCInterrupt(stub) => {
            let tid = thread(session.present_hart());
            let signal = Signal::SIGINT;
            let reason = MultiThreadStopReason::SignalWithThread { tid, signal };
            stub.interrupt_handled(session, Some(reason))
        }
        stub => Ok(stub),
    }
}

fn link(stub: &mut Stub) -> &mut Link {
    match stub {
        GdbStubStateMachine::Idle(stub) => stub.borrow_conn(),
        GdbStubStateMachine::Running(stub) => stub.borrow_conn(),
        GdbStubStateMachine::CtrlCInterrupt(stub) => stub.borrow_conn(),
        GdbStubStateMachine::Disconnected(stub) => stub.borrow_conn(),
    }
}

/// A connection whose answers are sent whole.
struct Link {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Link {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        Ok(Self {
            stream,
            answer: Vec::new(),
        })
    }

    /// What has come, at most after `wait`; nothing when the other side is gone.
    fn read(&mut self, wait: Duration) -> io::Result<Vec<u8>> {
        let mut bytes = [0; READ_BYTES];
        let count = if wait.is_zero() {
            self.stream.set_nonblocking(true)?;
            let count = self.stream.read(&mut bytes);
            self.stream.set_nonblocking(false)?;
            count?
        } else {
            self.stream.set_read_timeout(Some(wait))?;
            self.stream.read(&mut bytes)?
        };
        Ok(bytes[..count].to_vec())
    }
}

impl Connection for Link {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> io::Result<()> {
        self.answer.push(byte);
        Ok(())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.answer.extend(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let answer = std::mem::take(&mut self.answer);
        Write::write_all(&mut self.stream, &answer)
    }
}
