//! Environment calls of a virtual CPU that the host of the guest serves, below the guest's firmware.
//!
//! They are calls of the SBI: the extension in a7, the function in a6, arguments from a0 on, an error in a0 and a value
//! in a1 after them. The firmware of the guest never sees them. Without a host they go to the firmware, which
//! knows no such extension: a guest asks first.

use serde::{Deserialize, Serialize};

use crate::hart::Hart;
use crate::trap::{Cause, Trap};

/// Extension "yield": the caller has waited for long, and another virtual CPU may run instead. In the range that the
/// SBI leaves to experiments, 0x08000000 to 0x08ffffff; its letters are "YLD".
pub const YIELD_EXTENSION: u64 = 0x0859_4c44;

/// Its functions.
const YIELD: u64 = 0;
const WAIT: u64 = 1;
const KICK: u64 = 2;

/// The SBI's extension for steal time, "STA", and its function that says where the caller wants to see it.
pub const STEAL_TIME_EXTENSION: u64 = 0x0053_5441;
const SET_SHARED_MEMORY: u64 = 0;

/// The SBI's base extension, and its function that tells whether there is an extension.
const BASE_EXTENSION: u64 = 0x10;
const PROBE_FUNCTION: u64 = 3;

/// Registers of a call.
const A0: usize = 10;
const A1: usize = 11;
const A2: usize = 12;
const A6: usize = 16;
const A7: usize = 17;

/// An environment call is never compressed.
const CALL_BYTES: u64 = 4;

/// What a virtual CPU asks of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum HostCall {
    /// Whether the host serves this extension, which it does.
    Provides,
    /// Let another virtual CPU run.
    Yield,
    /// Sleep until another virtual CPU of the guest kicks this one.
    Wait,
    /// End the sleep of that hart of the guest, or its next one.
    Kick(u64),
    /// Show steal time from now on.
    ShowStealTime {
        /// Physical address of the caller's 64 bytes for it: the lower and the upper bits.
        low: u64,
        /// Both are all ones: show it no more.
        high: u64,
        /// For future use.
        flags: u64,
    },
    /// A function that an extension of the host does not have.
    Unknown,
}

/// Errors of the SBI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i64)]
pub enum HostCallError {
    /// `SBI_SUCCESS`.
    Success = 0,
    /// `SBI_ERR_NOT_SUPPORTED`.
    NotSupported = -2,
    /// `SBI_ERR_INVALID_PARAM`.
    InvalidParam = -3,
    /// `SBI_ERR_INVALID_ADDRESS`.
    InvalidAddress = -5,
}

impl Hart {
    /// What `trap` asks of the host, if the hart is a virtual CPU and its firmware is not to see it.
    #[must_use]
    pub fn host_call(&self, trap: Trap) -> Option<HostCall> {
        let calls = matches!(
            trap,
            Trap::Exception(Cause::EcallSupervisor | Cause::EcallMachine, _)
        );
        if !self.is_virtual || !calls {
            return None;
        }
        let (extension, function) = (self.regs[A7], self.regs[A6]);
        match (extension, function) {
            (BASE_EXTENSION, PROBE_FUNCTION) => {
                let asked = self.regs[A0];
                let is_served = [YIELD_EXTENSION, STEAL_TIME_EXTENSION].contains(&asked);
                is_served.then_some(HostCall::Provides)
            }
            (YIELD_EXTENSION, YIELD) => Some(HostCall::Yield),
            (YIELD_EXTENSION, WAIT) => Some(HostCall::Wait),
            (YIELD_EXTENSION, KICK) => Some(HostCall::Kick(self.regs[A0])),
            (STEAL_TIME_EXTENSION, SET_SHARED_MEMORY) => Some(HostCall::ShowStealTime {
                low: self.regs[A0],
                high: self.regs[A1],
                flags: self.regs[A2],
            }),
            (YIELD_EXTENSION | STEAL_TIME_EXTENSION, _) => Some(HostCall::Unknown),
            _ => None,
        }
    }

    /// The call at the pc is made, and counts as an instruction. It returns before the hart goes on.
    pub fn make_host_call(&mut self) {
        self.pc = self.pc.wrapping_add(CALL_BYTES);
        self.retired += 1;
    }

    /// A call that has been made returns.
    pub fn return_from_host_call(&mut self, error: HostCallError, value: u64) {
        self.regs[A0] = error as i64 as u64;
        self.regs[A1] = value;
    }
}

#[cfg(test)]
mod tests {
    use loiter_types::{HartId, PhysAddr};

    use super::*;
    use crate::Extensions;

    fn calling(extension: u64, function: u64, argument: u64) -> Hart {
        let mut hart = Hart::new(HartId(0), 0x8000_0000, PhysAddr(0), Extensions::default());
        hart.is_virtual = true;
        hart.regs[A7] = extension;
        hart.regs[A6] = function;
        hart.regs[A0] = argument;
        hart
    }

    const CALL: Trap = Trap::Exception(Cause::EcallSupervisor, 0);

    #[test]
    fn only_a_virtual_cpu_calls_its_host() {
        let mut hart = calling(YIELD_EXTENSION, 0, 0);
        assert_eq!(hart.host_call(CALL), Some(HostCall::Yield));
        let user = Trap::Exception(Cause::EcallUser, 0);
        assert_eq!(hart.host_call(user), None);
        hart.is_virtual = false;
        assert_eq!(hart.host_call(CALL), None);
    }

    #[test]
    fn other_extensions_are_the_firmwares() {
        let of_another = calling(BASE_EXTENSION, PROBE_FUNCTION, YIELD_EXTENSION + 1);
        assert_eq!(of_another.host_call(CALL), None);
        for (extension, function) in [(YIELD_EXTENSION, 3), (STEAL_TIME_EXTENSION, 1)] {
            let asks = calling(BASE_EXTENSION, PROBE_FUNCTION, extension);
            assert_eq!(asks.host_call(CALL), Some(HostCall::Provides));
            let unknown = calling(extension, function, 0);
            assert_eq!(unknown.host_call(CALL), Some(HostCall::Unknown));
        }
    }

    #[test]
    fn a_call_returns_behind_itself() {
        let mut hart = calling(YIELD_EXTENSION, 0, 7);
        hart.make_host_call();
        hart.return_from_host_call(HostCallError::NotSupported, 3);
        assert_eq!((hart.pc, hart.retired), (0x8000_0004, 1));
        assert_eq!((hart.regs[A0] as i64, hart.regs[A1]), (-2, 3));
    }
}
