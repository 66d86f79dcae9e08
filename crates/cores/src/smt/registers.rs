//! Physical registers: two files, shared by the contexts of a core, in one space of numbers.

use serde::{Deserialize, Serialize};

use super::queue::{Mask, WORDS, word_and_bit};

/// Register that reads as zero and is never written: x0 of every context.
pub(super) const ZERO: u16 = 0;
/// No register: the destination of an instruction that has none.
pub(super) const NONE: u16 = u16::MAX;

/// Registers of the architecture that a context has in each file: all integer ones but x0, and all of floating point.
const OF_CONTEXT: [usize; 2] = [31, 32];

/// Which file a register is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
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
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Registers {
    pub(super) values: Vec<u64>,
    /// Whether an instruction that reads it may issue.
    ready: Vec<bool>,
    /// Queue entries that wait for it.
    waiters: Vec<Mask>,
    free: [Vec<u16>; 2],
    /// How many of those are not for renaming: vacant contexts need them as soon as harts come.
    reserved: [usize; 2],
    first_fp: u16,
}

impl Registers {
    /// The two files of a core whose `contexts` are all vacant, with so many registers beside those of the architecture.
    pub(super) fn new(contexts: usize, integer: usize, fp: usize) -> Self {
        let reserved = OF_CONTEXT.map(|count| contexts * count);
        let (integer, fp) = (integer + reserved[0], fp + reserved[1]);
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
            reserved,
            first_fp,
        }
    }

    /// A hart comes into a vacant context, and takes the registers that are kept for it.
    pub(super) fn unreserve(&mut self) {
        for (reserved, count) in self.reserved.iter_mut().zip(OF_CONTEXT) {
            *reserved -= count;
        }
    }

    /// A context is vacant, and has given its registers back.
    pub(super) fn reserve(&mut self) {
        for (reserved, count) in self.reserved.iter_mut().zip(OF_CONTEXT) {
            *reserved += count;
        }
    }

    /// Whether there is one for renaming.
    #[inline(always)]
    pub(super) fn has_free(&self, file: File) -> bool {
        self.free[file as usize].len() > self.reserved[file as usize]
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

#[cfg(test)]
mod tests {
    use super::*;

    /// As many registers for renaming as `registers` gives.
    fn renames(registers: &mut Registers, file: File) -> usize {
        let mut count = 0;
        while registers.has_free(file) {
            registers.take(file).expect("there is one");
            count += 1;
        }
        count
    }

    #[test]
    fn renaming_leaves_vacant_contexts_what_their_harts_will_need() {
        for (file, count, renaming) in [(File::Integer, 31, 5), (File::Fp, 32, 7)] {
            let mut registers = Registers::new(3, 5, 7);
            registers.unreserve();
            let first: Vec<_> = (0..count).map(|_| registers.take(file).unwrap()).collect();
            assert_eq!(renames(&mut registers, file), renaming);
            // The others come, one after the other.
            for _ in 0..2 {
                registers.unreserve();
                assert!((0..count).all(|_| registers.take(file).is_some()));
                assert_eq!(renames(&mut registers, file), 0);
            }
            assert_eq!(registers.take(file), None);
            // And one leaves.
            first.into_iter().for_each(|it| registers.release(it));
            registers.reserve();
            assert_eq!(renames(&mut registers, file), 0);
        }
    }
}
