//! Physical registers: two files, shared by the contexts of a core, in one space of numbers.

use super::queue::{Mask, WORDS, word_and_bit};

/// Register that reads as zero and is never written: x0 of every context.
pub(super) const ZERO: u16 = 0;
/// No register: the destination of an instruction that has none.
pub(super) const NONE: u16 = u16::MAX;

/// Which file a register is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum File {
    Integer,
    Fp,
}

impl File {
    /// The file of a register slot of an instruction.
    #[inline(always)]
    pub(super) fn of(slot: u8) -> Self {
        if slot < 32 { File::Integer } else { File::Fp }
    }
}

/// The registers.
#[derive(Debug)]
pub(super) struct Registers {
    pub(super) values: Vec<u64>,
    /// Whether an instruction that reads it may issue.
    ready: Vec<bool>,
    /// Queue entries that wait for it.
    waiters: Vec<Mask>,
    free: [Vec<u16>; 2],
    first_fp: u16,
}

impl Registers {
    /// The two files, all registers free.
    pub(super) fn new(integer: usize, fp: usize) -> Self {
        let total = 1 + integer + fp;
        let first_fp = 1 + integer as u16;
        Self {
            values: vec![0; total],
            ready: vec![true; total],
            waiters: vec![[0; WORDS]; total],
            free: [
                (1..first_fp).rev().collect(),
                (first_fp..total as u16).rev().collect(),
            ],
            first_fp,
        }
    }

    #[inline(always)]
    pub(super) fn has_free(&self, file: File) -> bool {
        !self.free[file as usize].is_empty()
    }

    /// Takes a free register whose value is to come.
    #[inline(always)]
    pub(super) fn take(&mut self, file: File) -> Option<u16> {
        let register = self.free[file as usize].pop()?;
        self.ready[register as usize] = false;
        debug_assert_eq!(self.waiters[register as usize], [0; WORDS]);
        Some(register)
    }

    /// Gives a register back.
    #[inline(always)]
    pub(super) fn release(&mut self, register: u16) {
        debug_assert!(register != ZERO && register != NONE);
        let file = if register < self.first_fp {
            File::Integer
        } else {
            File::Fp
        };
        self.free[file as usize].push(register);
    }

    /// Whether the value of a register is there.
    #[inline(always)]
    pub(super) fn is_ready(&self, register: u16) -> bool {
        self.ready[register as usize]
    }

    /// Sets a value that is there at once.
    pub(super) fn set(&mut self, register: u16, value: u64) {
        self.values[register as usize] = value;
        self.ready[register as usize] = true;
    }

    /// Whether the queue entry at `slot` has to wait for `register`; it will be told.
    #[inline(always)]
    pub(super) fn waits(&mut self, register: u16, slot: u8) -> bool {
        let register = register as usize;
        if self.ready[register] {
            return false;
        }
        let (word, bit) = word_and_bit(slot);
        let waiters = &mut self.waiters[register][word];
        let waited = *waiters & bit != 0;
        *waiters |= bit;
        !waited
    }

    /// The queue entry at `slot` is not to be told any more.
    #[inline(always)]
    pub(super) fn forget(&mut self, register: u16, slot: u8) {
        let (word, bit) = word_and_bit(slot);
        self.waiters[register as usize][word] &= !bit;
    }

    /// Instructions that read it may issue now. Returns the queue entries that waited.
    #[inline(always)]
    pub(super) fn wake(&mut self, register: u16) -> Mask {
        self.ready[register as usize] = true;
        std::mem::take(&mut self.waiters[register as usize])
    }
}
