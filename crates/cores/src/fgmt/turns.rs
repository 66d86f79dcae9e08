//! The order in which contexts were selected last.

use loiter_types::StateVisitor;

/// Most contexts whose order fits into a word.
const MOST_PACKED: usize = 8;
const LOWEST: u64 = u64::MAX / 0xff;

/// For each context, itself and those that were selected longer ago. Contexts that were never selected are in the order of
/// their numbers.
#[derive(Debug)]
pub(super) enum Turns {
    /// A byte for each. Whose turn it is takes no branch: it changes from cycle to cycle and cannot be predicted.
    Packed(u64),
    /// A word for each.
    Wide(Box<[u64]>),
}

impl Turns {
    pub(super) fn new(contexts: usize) -> Self {
        let row = |c: usize| u64::MAX >> (63 - c);
        if contexts <= MOST_PACKED {
            let rows = (0..MOST_PACKED).map(|c| row(c) << (8 * c));
            Self::Packed(rows.fold(0, |all, row| all | row))
        } else {
            Self::Wide((0..contexts).map(row).collect())
        }
    }

    /// Context `c` has been selected after all others.
    #[inline(always)]
    pub(super) fn select(&mut self, c: usize) {
        match self {
            Self::Packed(rows) => {
                *rows = *rows & !(LOWEST << c) | 0xff << (8 * c);
            }
            Self::Wide(rows) => {
                let others = rows.iter_mut();
                others.for_each(|row| *row &= !(1 << c));
                rows[c] = u64::MAX >> (64 - rows.len());
            }
        }
    }

    /// Of the contexts of `among`, which are some, the one that was selected longest ago.
    #[inline(always)]
    pub(super) fn first(&self, among: u64) -> usize {
        debug_assert!(among != 0);
        match self {
            Self::Packed(rows) => {
                // Of each context of `among`: itself and those before it. Only of the first it is alone.
                let ahead = rows & among.wrapping_mul(LOWEST);
                let itself = 0x8040_2010_0804_0201;
                let others = ahead ^ itself;
                let alone = others.wrapping_sub(LOWEST) & !others & (LOWEST << 7);
                alone.trailing_zeros() as usize / 8
            }
            Self::Wide(rows) => {
                let mut first = among.trailing_zeros() as usize;
                loop {
                    let before = rows[first] & among & !(1 << first);
                    if before == 0 {
                        return first;
                    }
                    first = before.trailing_zeros() as usize;
                }
            }
        }
    }

    /// Shows `visitor` the order.
    pub(super) fn shows_state(&self, visitor: &mut impl StateVisitor) {
        match self {
            Self::Packed(rows) => visitor.value(*rows),
            Self::Wide(rows) => rows.iter().for_each(|&row| visitor.value(row)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the cycles in which each was selected last, on all sorts of choices.
    fn agrees(contexts: usize) {
        let mut turns = Turns::new(contexts);
        let mut last = vec![0; contexts];
        let mut random = 0x1234_5678_9abc_def1_u64;
        for now in 1..5_000_u64 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let among = random & u64::MAX >> (64 - contexts);
            if among == 0 {
                continue;
            }
            let chosen = (0..contexts).filter(|c| among >> c & 1 == 1);
            let expected = chosen.min_by_key(|&c| last[c]);
            assert_eq!(
                Some(turns.first(among)),
                expected,
                "{among:#x} of {contexts}"
            );
            // Not always the one whose turn it was.
            let c = (random >> 32) as usize % contexts;
            last[c] = now;
            turns.select(c);
        }
    }

    #[test]
    fn the_first_is_the_least_recently_selected() {
        for contexts in [1, 2, 3, 4, 7, 8, 9, 16, 63, 64] {
            agrees(contexts);
        }
    }
}
