//! The connection to GDB: accepted, listened to and answered between two turns of what is debugged.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use gdbstub::common::{Signal, Tid};
use gdbstub::conn::Connection;
use gdbstub::stub::state_machine::GdbStubStateMachine;
use gdbstub::stub::{DisconnectReason, GdbStub, GdbStubError, MultiThreadStopReason};
use gdbstub::target::Target;
use gdbstub_arch::riscv::Riscv64;

use crate::error::Error;

/// Between two looks for a debugger, while none is there.
const ACCEPT_EVERY: Duration = Duration::from_millis(10);
/// Longest answer in one read.
const READ_BYTES: usize = 4096;
/// After so long, a debugger that takes no answer is gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

type Stub<T> = GdbStubStateMachine<'static, T, Link>;

/// What a debugger looks at: harts are threads.
pub trait Debugged: Target<Arch = Riscv64, Error = &'static str> + 'static {
    /// The hart that an interrupt by the debugger stops.
    fn present_thread(&self) -> Tid;

    /// The debugger goes: its breakpoints and steps are dropped.
    fn release(&mut self);
}

/// Copies to `to` what of `from` is at `offset`, at most `length` bytes, as GDB reads texts and files part by part. Returns how
/// many.
pub fn copy_part(from: &[u8], offset: u64, length: usize, to: &mut [u8]) -> usize {
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    let rest = from.get(offset..).unwrap_or_default();
    let length = rest.len().min(length).min(to.len());
    to[..length].copy_from_slice(&rest[..length]);
    length
}

/// Serves one debugger after the other.
pub struct DebugServer<T: Debugged> {
    listener: TcpListener,
    stub: Option<Stub<T>>,
    /// No debugger has come yet; until then nothing executes.
    awaited: bool,
    killed: bool,
    messages: Vec<String>,
}

/// What the debugger wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// The system is to run.
    Run,
    /// The system is to stand still.
    Hold,
    /// The system is to end.
    Kill,
}

impl<T: Debugged> DebugServer<T> {
    /// Listens at `address`, `[HOST:]PORT`; without a host to this computer alone. Port 0 is any that
    /// is free.
    ///
    /// # Errors
    /// An address that is none or is taken.
    pub fn listen(address: &str) -> Result<Self, Error> {
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
    #[must_use]
    pub fn address(&self) -> String {
        let address = self.listener.local_addr();
        address.map_or_else(|error| error.to_string(), |address| address.to_string())
    }

    /// What the user should know.
    pub fn take_messages(&mut self) -> Vec<String> {
        std::mem::take(&mut self.messages)
    }

    /// Whether a debugger is connected.
    #[must_use]
    pub fn is_connected(&self) -> bool {
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
    pub fn attend(&mut self, target: &mut T, end: Instant) -> Served {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let wait = match self.wants() {
                Served::Hold => left,
                _ => Duration::ZERO,
            };
            let heard = match self.stub.is_some() {
                true => self.read(target, wait),
                false => self.accept(target, wait),
            };
            let wants = self.wants();
            if !heard && (wants != Served::Hold || left.is_zero()) {
                return wants;
            }
        }
    }

    /// Takes a debugger who knocks. Returns whether one has come, or will be waited for again.
    fn accept(&mut self, target: &mut T, wait: Duration) -> bool {
        match self.listener.accept() {
            Ok((stream, _)) => {
                let stub = Link::new(stream)
                    .map_err(|error| error.to_string())
                    .and_then(|link| {
                        let stub = GdbStub::new(link).run_state_machine(target);
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
    fn read(&mut self, target: &mut T, wait: Duration) -> bool {
        let Some(stub) = &mut self.stub else {
            return false;
        };
        let bytes = link(stub).read(wait);
        match bytes {
            Ok(bytes) if bytes.is_empty() => {
                self.lost(target);
                true
            }
            Ok(bytes) => {
                for byte in bytes {
                    self.advance(target, |stub, target| feed(stub, target, byte));
                }
                true
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                false
            }
            Err(_) => {
                self.lost(target);
                true
            }
        }
    }

    /// Has something to tell the user.
    pub(crate) fn inform(&mut self, message: String) {
        self.messages.push(message);
    }

    /// Tells a waiting debugger why what is debugged stands still.
    pub fn report(&mut self, target: &mut T, reason: MultiThreadStopReason<u64>) {
        self.advance(target, |stub, target| match stub {
            GdbStubStateMachine::Running(stub) => stub.report_stop(target, reason),
            stub => Ok(stub),
        });
    }

    /// Does `step`, and what follows from where that leads.
    fn advance(
        &mut self,
        target: &mut T,
        step: impl FnOnce(Stub<T>, &mut T) -> Result<Stub<T>, GdbStubError<&'static str, io::Error>>,
    ) {
        let Some(stub) = self.stub.take() else {
            return;
        };
        match step(stub, target) {
            Ok(GdbStubStateMachine::Disconnected(mut stub)) => {
                // The last answer; whoever has gone does not miss it.
                let _ = stub.borrow_conn().flush();
                self.killed = stub.get_reason() == DisconnectReason::Kill;
                target.release();
            }
            Ok(stub) => self.stub = Some(stub),
            Err(error) => {
                self.messages.push(format!("gdb: {error}"));
                target.release();
            }
        }
    }

    /// The debugger has gone without a word: the system runs on.
    fn lost(&mut self, target: &mut T) {
        self.stub = None;
        target.release();
    }
}

/// Hands a byte on. An interrupt by the debugger holds the system at once: nothing executes now.
fn feed<T: Debugged>(
    stub: Stub<T>,
    target: &mut T,
    byte: u8,
) -> Result<Stub<T>, GdbStubError<&'static str, io::Error>> {
    let stub = match stub {
        GdbStubStateMachine::Idle(stub) => stub.incoming_data(target, byte)?,
        GdbStubStateMachine::Running(stub) => stub.incoming_data(target, byte)?,
        stub => stub,
    };
    match stub {
        GdbStubStateMachine::CtrlCInterrupt(stub) => {
            let tid = target.present_thread();
            let signal = Signal::SIGINT;
            let reason = MultiThreadStopReason::SignalWithThread { tid, signal };
            stub.interrupt_handled(target, Some(reason))
        }
        stub => Ok(stub),
    }
}

fn link<T: Debugged>(stub: &mut Stub<T>) -> &mut Link {
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
