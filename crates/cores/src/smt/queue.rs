//! An issue queue, shared by the contexts of a core.

/// Most entries of a queue.
pub(super) const MOST: usize = 128;

/// A set of entries.
pub(super) type Mask = u128;

/// An instruction in a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queued {
    /// Age among all instructions of the core.
    pub(super) seq: u64,
    /// Position in its context's window.
    pub(super) n: u64,
    pub(super) context: u8,
    /// Operands that it waits for.
    pending: u8,
}

/// The queue.
#[derive(Debug)]
pub(super) struct Queue {
    entries: [Queued; MOST],
    free: Mask,
    ready: Mask,
    capacity: u32,
}

impl Queue {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            entries: [Queued::default(); MOST],
            free: Mask::MAX >> (MOST - capacity),
            ready: 0,
            capacity: capacity as u32,
        }
    }

    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.free == 0
    }

    #[inline(always)]
    pub(super) fn occupancy(&self) -> u64 {
        u64::from(self.capacity - self.free.count_ones())
    }

    /// The entry that the next instruction will have.
    #[inline(always)]
    pub(super) fn next_slot(&self) -> u8 {
        self.free.trailing_zeros() as u8
    }

    /// Puts an instruction into `next_slot`, which waits for so many operands.
    #[inline(always)]
    pub(super) fn insert(&mut self, context: u8, n: u64, seq: u64, pending: u8) {
        let slot = self.next_slot();
        self.free &= self.free - 1;
        self.entries[slot as usize] = Queued {
            seq,
            n,
            context,
            pending,
        };
        self.ready |= Mask::from(pending == 0) << slot;
    }

    /// An operand of these entries is there.
    #[inline(always)]
    pub(super) fn wake(&mut self, mut slots: Mask) {
        while slots != 0 {
            let slot = slots.trailing_zeros();
            slots &= slots - 1;
            let entry = &mut self.entries[slot as usize];
            entry.pending -= 1;
            self.ready |= Mask::from(entry.pending == 0) << slot;
        }
    }

    #[inline(always)]
    pub(super) fn is_ready(&self, slot: u8) -> bool {
        self.ready >> slot & 1 == 1
    }

    /// The instruction leaves.
    #[inline(always)]
    pub(super) fn remove(&mut self, slot: u8) {
        self.free |= 1 << slot;
        self.ready &= !(1 << slot);
    }

    /// Whether there is an entry whose operands are all there.
    #[inline(always)]
    pub(super) fn has_ready(&self) -> bool {
        self.ready != 0
    }

    /// Puts the entries whose operands are all there into `out`, oldest first.
    #[inline(always)]
    pub(super) fn oldest_first(&self, out: &mut Vec<(u64, u8)>) {
        out.clear();
        let mut ready = self.ready;
        while ready != 0 {
            let slot = ready.trailing_zeros() as u8;
            ready &= ready - 1;
            let seq = self.entries[slot as usize].seq;
            // Few are ready at a time, so that each finds its place in a step or two.
            let before = out.iter().rposition(|&(other, _)| other < seq);
            out.insert(before.map_or(0, |at| at + 1), (seq, slot));
        }
    }

    #[inline(always)]
    pub(super) fn get(&self, slot: u8) -> Queued {
        self.entries[slot as usize]
    }
}
