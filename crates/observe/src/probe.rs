//! Probes: what a guest tells by `slti x0, rs1, imm`, a HINT that costs nothing here.

/// The immediate of a probe. `guests/runtime/loiter_probe.h` holds the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
#[allow(missing_docs, reason = "each is documented at Probe")]
pub enum ProbeCode {
    RoiBegin = 0x01,
    RoiEnd = 0x02,
    WorkBegin = 0x03,
    WorkEnd = 0x04,
    Acquire = 0x05,
    Acquired = 0x06,
    Released = 0x07,
    LockRead = 0x08,
    ReportName = 0x09,
    ReportValue = 0x0a,
    ProgramBegin = 0x0b,
    ProgramEnd = 0x0c,
}

/// A probe with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// The region of interest begins.
    RoiBegin(u64),
    /// The region of interest ends.
    RoiEnd(u64),
    /// A repetition of the measured work begins.
    WorkBegin(u64),
    /// A repetition of the measured work ends.
    WorkEnd(u64),
    /// The hart starts to wait for the lock at this address.
    Acquire(u64),
    /// The hart has got the lock.
    Acquired(u64),
    /// The hart has released the lock.
    Released(u64),
    /// The hart reads the lock it waits for.
    LockRead(u64),
    /// The name of the values that follow.
    ReportName(String),
    /// A value under the last name.
    ReportValue(u64),
    /// A program of an operating system is about to begin at this address, in user mode.
    ProgramBegin(u64),
    /// The program has ended.
    ProgramEnd(u64),
}

impl Probe {
    /// Whether a probe with immediate `code` says that the hart begins or ends to wait for a lock.
    #[must_use]
    pub fn says_who_waits(code: u16) -> bool {
        code == ProbeCode::Acquire as u16 || code == ProbeCode::Acquired as u16
    }

    /// The probe with immediate `code` and value `value`; `None` for an immediate that means
    /// nothing. `read_text` reads the NUL-terminated string at a guest address.
    #[must_use]
    pub fn decode(code: u16, value: u64, read_text: impl FnOnce(u64) -> String) -> Option<Probe> {
        Some(match code {
            c if c == ProbeCode::RoiBegin as u16 => Probe::RoiBegin(value),
            c if c == ProbeCode::RoiEnd as u16 => Probe::RoiEnd(value),
            c if c == ProbeCode::WorkBegin as u16 => Probe::WorkBegin(value),
            c if c == ProbeCode::WorkEnd as u16 => Probe::WorkEnd(value),
            c if c == ProbeCode::Acquire as u16 => Probe::Acquire(value),
            c if c == ProbeCode::Acquired as u16 => Probe::Acquired(value),
            c if c == ProbeCode::Released as u16 => Probe::Released(value),
            c if c == ProbeCode::LockRead as u16 => Probe::LockRead(value),
            c if c == ProbeCode::ReportName as u16 => Probe::ReportName(read_text(value)),
            c if c == ProbeCode::ReportValue as u16 => Probe::ReportValue(value),
            c if c == ProbeCode::ProgramBegin as u16 => Probe::ProgramBegin(value),
            c if c == ProbeCode::ProgramEnd as u16 => Probe::ProgramEnd(value),
            _ => return None,
        })
    }
}
