//! The host-target interface of Spike: words in RAM named `tohost` and `fromhost`.
//!
//! A store to `tohost` is a command: device in bits 63:56, command in 55:48, payload below. Device
//! 0 with an odd payload ends the run with code `payload >> 1`; with an even one the payload is the
//! address of a system call's number and arguments, of which `write` and `exit` are served. Device
//! 1, command 1 writes one character. Source: riscv-isa-sim, `fesvr/` (htif, syscall, device).

use loiter_isa::Width;
use loiter_types::PhysAddr;
use serde::{Deserialize, Serialize};

use crate::machine::AccessFault;
use crate::partition::Partition;
use crate::ram::Ram;

const SYS_WRITE: u64 = 64;
const SYS_EXIT: u64 = 93;
/// -ENOSYS, as Linux returns it.
const UNKNOWN_CALL: u64 = -38_i64 as u64;

const DEVICE_CONSOLE: u64 = 1;
const COMMAND_READ: u64 = 0;
const COMMAND_WRITE: u64 = 1;

/// The two words.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Htif {
    pub(crate) tohost: PhysAddr,
    pub(crate) fromhost: Option<PhysAddr>,
    /// Where the addresses that programs give lie.
    #[serde(skip)]
    pub(crate) partition: Partition,
}

/// What a store to `tohost` led to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The run ends with this code.
    pub(crate) exit: Option<u32>,
    /// Output.
    pub(crate) console: Vec<u8>,
    /// The 8-byte words that the host wrote, for the watches on them.
    pub(crate) written: [Option<PhysAddr>; 3],
}

impl Htif {
    /// The program is a guest from now on.
    pub(crate) fn join(&mut self, partition: Partition) {
        self.tohost = partition.place(self.tohost);
        self.fromhost = self.fromhost.map(|word| partition.place(word));
        self.partition = partition;
    }

    /// Reacts to a store that RAM holds already.
    ///
    /// A program that stores `tohost` in two halves means the command once the upper half is
    /// there. Only an exit does not wait for it: its upper half is zero anyway.
    pub(crate) fn stored(
        &self,
        addr: PhysAddr,
        bytes: u64,
        ram: &mut Ram,
    ) -> Result<Answer, AccessFault> {
        let (word, end) = (self.tohost.0, self.tohost.0 + Width::D.bytes());
        let touched = addr.0 < end && addr.0 + bytes > word;
        let command = ram.read(self.tohost, Width::D).unwrap_or(0);
        if !touched || command == 0 {
            return Ok(Answer::default());
        }
        let whole = addr.0 + bytes >= end;
        let (device, number) = (command >> 56, (command >> 48) & 0xff);
        let payload = command & ((1 << 48) - 1);
        let mut answer = match (device, number) {
            (0, 0) if payload & 1 != 0 => Answer {
                exit: Some(code(payload)),
                ..Answer::default()
            },
            _ if !whole => return Ok(Answer::default()),
            (0, 0) => self.system_call(self.partition.place(PhysAddr(payload)), ram)?,
            (DEVICE_CONSOLE, COMMAND_WRITE) => Answer {
                console: vec![payload as u8],
                ..Answer::default()
            },
            // No input comes this way: like Spike while nobody types.
            (DEVICE_CONSOLE, COMMAND_READ) => Answer::default(),
            _ => return Err(AccessFault { addr: self.tohost }),
        };
        write(ram, self.tohost, 0)?;
        answer.written[0] = Some(self.tohost);
        Ok(answer)
    }

    fn system_call(&self, block: PhysAddr, ram: &mut Ram) -> Result<Answer, AccessFault> {
        let mut words = [0; 4];
        for (word, addr) in words.iter_mut().zip((block.0..).step_by(8)) {
            *word = read(ram, PhysAddr(addr))?;
        }
        let [number, argument, buffer, bytes] = words;
        let mut answer = Answer::default();
        let result = match number {
            SYS_WRITE => {
                let addr = self.partition.place(PhysAddr(buffer));
                let text = ram.slice(addr, bytes).ok_or(AccessFault { addr })?;
                answer.console = text.to_vec();
                bytes
            }
            SYS_EXIT => {
                answer.exit = Some(argument as u32);
                return Ok(answer);
            }
            _ => UNKNOWN_CALL,
        };
        write(ram, block, result)?;
        answer.written[1] = Some(block);
        if let Some(fromhost) = self.fromhost {
            write(ram, fromhost, 1)?;
            answer.written[2] = Some(fromhost);
        }
        Ok(answer)
    }
}

/// The exit code in a payload. One too large for the interface is still a failure.
fn code(payload: u64) -> u32 {
    u32::try_from(payload >> 1).unwrap_or(u32::MAX)
}

fn read(ram: &Ram, addr: PhysAddr) -> Result<u64, AccessFault> {
    ram.read(addr, Width::D).ok_or(AccessFault { addr })
}

fn write(ram: &mut Ram, addr: PhysAddr, value: u64) -> Result<(), AccessFault> {
    ram.write(addr, Width::D, value)
        .then_some(())
        .ok_or(AccessFault { addr })
}

#[cfg(test)]
#[path = "htif_tests.rs"]
mod tests;
