//! The issue queues, shared by the contexts of a core.
//!
//! Sets of entries are bit masks of 64-bit words. An entry is numbered over both queues, so that one
//! word of the mask and one bit in it follow from its number.

use serde::{Deserialize, Serialize};
use serde_with::serde_as;

use super::ranked::Ranked;

/// Most entries of a queue.
const MOST: usize = 128;
const WORDS_OF_QUEUE: usize = MOST / 64;
/// Words of a set of entries of both queues.
pub(super) const WORDS: usize = 2 * WORDS_OF_QUEUE;

/// A set of entries of both queues.
pub(super) type Mask = [u64; WORDS];

/// The word of a mask that entry `slot` is in, and its bit.
#[inline(always)]
pub(super) fn word_and_bit(slot: u8) -> (usize, u64) {
    (slot as usize / 64 % WORDS, 1 << (slot % 64))
}

/// An instruction in a queue.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(super) struct Queued {
    /// Age among all instructions of the core.
    pub(super) seq: u64,
    /// Position in its context's window.
    pub(super) n: u64,
    pub(super) context: u8,
    /// Operands that it waits for.
    pending: u8,
}

/// The integer queue, 0, and the floating-point queue, 1.
#[serde_as]
#[derive(Debug, Deserialize, Serialize)]
#[repr(C)]
pub(super) struct Queues {
    free: Mask,
    ready: Mask,
    capacities: [u32; 2],
    free_entries: [u32; 2],
    #[serde_as(as = "[_; 2 * MOST]")]
    entries: [Queued; 2 * MOST],
}

impl Queues {
    pub(super) fn new(capacities: [u64; 2]) -> Self {
        let capacities = capacities.map(|capacity| capacity as u32);
        let mut free = [0; WORDS];
        for (queue, &capacity) in capacities.iter().enumerate() {
            for slot in queue * MOST..queue * MOST + capacity as usize {
                free[slot / 64] |= 1 << (slot % 64);
            }
        }
        Self {
            entries: [Queued::default(); 2 * MOST],
            free,
            ready: [0; WORDS],
            capacities,
            free_entries: capacities,
        }
    }

    #[inline(always)]
    pub(super) fn is_full(&self, queue: usize) -> bool {
        self.free_entries[queue] == 0
    }

    #[inline(always)]
    pub(super) fn occupancy(&self, queue: usize) -> u64 {
        u64::from(self.capacities[queue] - self.free_entries[queue])
    }

    /// The entry that the next instruction will have in a queue that is not full.
    #[inline(always)]
    pub(super) fn next_slot(&self, queue: usize) -> u8 {
        let first = queue * WORDS_OF_QUEUE;
        let words = &self.free[first..first + WORDS_OF_QUEUE];
        let word = words.iter().position(|&word| word != 0).unwrap_or(0);
        ((first + word) * 64) as u8 + words[word].trailing_zeros() as u8
    }

    /// Puts an instruction into entry `slot`, which waits for so many operands.
    #[inline(always)]
    pub(super) fn insert(&mut self, slot: u8, context: u8, n: u64, seq: u64, pending: u8) {
        let (word, bit) = word_and_bit(slot);
        self.free[word] &= !bit;
        self.free_entries[queue_of(slot)] -= 1;
        self.entries[slot as usize] = Queued {
            seq,
            n,
            context,
            pending,
        };
        if pending == 0 {
            self.ready[word] |= bit;
        }
    }

    /// An operand of these entries is there.
    #[inline(always)]
    pub(super) fn wake(&mut self, slots: Mask) {
        for (word, mut slots) in slots.into_iter().enumerate() {
            while slots != 0 {
                let bit = slots.trailing_zeros();
                slots &= slots - 1;
                let entry = &mut self.entries[word * 64 + bit as usize];
                entry.pending -= 1;
                self.ready[word] |= u64::from(entry.pending == 0) << bit;
            }
        }
    }

    #[inline(always)]
    pub(super) fn is_ready(&self, slot: u8) -> bool {
        let (word, bit) = word_and_bit(slot);
        self.ready[word] & bit != 0
    }

    /// Operands that the instruction waits for.
    pub(super) fn pending(&self, slot: u8) -> u8 {
        self.entries[slot as usize].pending
    }

    /// The instruction leaves.
    #[inline(always)]
    pub(super) fn remove(&mut self, slot: u8) {
        let (word, bit) = word_and_bit(slot);
        self.free[word] |= bit;
        self.free_entries[queue_of(slot)] += 1;
        self.ready[word] &= !bit;
    }

    /// Whether a queue has an entry whose operands are all there.
    #[inline(always)]
    pub(super) fn has_ready(&self, queue: usize) -> bool {
        let first = queue * WORDS_OF_QUEUE;
        self.ready[first..first + WORDS_OF_QUEUE]
            .iter()
            .any(|&word| word != 0)
    }

    /// Puts the entries of a queue whose operands are all there into `out`, oldest first.
    #[inline(always)]
    pub(super) fn oldest_first(&self, queue: usize, out: &mut Ranked) {
        out.clear();
        for word in queue * WORDS_OF_QUEUE..(queue + 1) * WORDS_OF_QUEUE {
            let mut ready = self.ready[word];
            while ready != 0 {
                let slot = (word * 64) as u8 + ready.trailing_zeros() as u8;
                ready &= ready - 1;
                out.insert(self.entries[slot as usize].seq, slot);
            }
        }
    }

    #[inline(always)]
    pub(super) fn get(&self, slot: u8) -> Queued {
        self.entries[slot as usize]
    }
}

#[inline(always)]
fn queue_of(slot: u8) -> usize {
    slot as usize / MOST
}
