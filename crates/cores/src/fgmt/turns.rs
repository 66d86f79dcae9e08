//! Whose turn it is among contexts: the order in which they were selected last, as far as selection has heard.

use loiter_types::StateVisitor;
use serde::{Deserialize, Serialize};

/// Most contexts whose order fits into a word.
const MOST_PACKED: usize = 8;
/// Cycles of which something is kept: more than `core.selection_lag_cycles`.
const KEPT: usize = 32;
/// The lowest bit of each byte.
const LOWEST: u64 = u64::MAX / 0xff;

/// What stays of a packed order when a context is selected, and what comes in.
const SELECTED: [(u64, u64); MOST_PACKED] = {
    let mut selected = [(0, 0); MOST_PACKED];
    let mut c = 0;
    while c < MOST_PACKED {
        selected[c] = (!(LOWEST << c), 0xff << (8 * c));
        c += 1;
    }
    selected
};

/// Whose turn it is. Contexts that were never selected are in the order of their numbers.
#[derive(Debug, Deserialize, Serialize)]
#[repr(C)]
pub(super) struct Turns {
    /// `core.selection_lag_cycles`.
    lag: u32,
    /// Cycles of which `past` keeps the order, less one: at least as many as the lag, and a power of two.
    kept: u32,
    /// For each context a byte: itself, and those that were selected longer ago. So whose turn it is takes no branch: it
    /// changes from cycle to cycle and cannot be predicted.
    order: u64,
    /// Of more contexts.
    wide: Option<Box<Wide>>,
    /// At the end of each cycle, by cycle modulo their number.
    past: [u64; KEPT],
}

/// The order of more contexts than fit into a word.
#[derive(Debug, Deserialize, Serialize)]
struct Wide {
    /// For each context, itself and those that were selected longer ago.
    order: Box<[u64]>,
    /// Who was selected, by cycle modulo their number, as long as selection has not heard of it.
    unheard: [u64; KEPT],
}

impl Turns {
    pub(super) fn new(contexts: usize, lag: u64) -> Self {
        debug_assert!(lag >= 1 && (lag as usize) < KEPT);
        let row = |c: usize| u64::MAX >> (63 - c);
        let rows = (0..MOST_PACKED).map(|c| (row(c) & 0xff) << (8 * c));
        let order = rows.fold(0, |all, row| all | row);
        let wide = || Wide {
            order: (0..contexts).map(row).collect(),
            unheard: [0; KEPT],
        };
        Self {
            lag: lag as u32,
            kept: (lag as u32).next_power_of_two() - 1,
            order,
            past: [order; KEPT],
            wide: (contexts > MOST_PACKED).then(|| Box::new(wide())),
        }
    }

    /// Cycle `now` begins, the one after the last.
    #[inline(always)]
    pub(super) fn begin(&mut self, now: u64) {
        if let Some(wide) = &mut self.wide {
            return wide.hear(now.wrapping_sub(self.lag.into()));
        }
        let before = self.kept_at(now.wrapping_sub(1));
        self.past[before] = self.order;
    }

    /// Where the order at the end of `cycle` is kept.
    #[inline(always)]
    fn kept_at(&self, cycle: u64) -> usize {
        (cycle as u32 & self.kept) as usize % KEPT
    }

    /// `passed` cycles have passed without a selection since `last` began.
    pub(super) fn pass_over(&mut self, last: u64, passed: u64) {
        let kept = passed.min(KEPT as u64);
        if let Some(wide) = &mut self.wide {
            // The later ones hear of nothing.
            let lag = u64::from(self.lag);
            (1..=kept).for_each(|ahead| wide.hear((last + ahead).wrapping_sub(lag)));
            return;
        }
        for ahead in passed - kept..passed {
            let at = self.kept_at(last + ahead);
            self.past[at] = self.order;
        }
    }

    /// Context `c` has been selected in cycle `now`, after all others.
    #[inline(always)]
    pub(super) fn select(&mut self, c: usize, now: u64) {
        if let Some(wide) = &mut self.wide {
            wide.unheard[now as usize % KEPT] |= 1 << c;
            return;
        }
        let (stays, comes) = SELECTED[c % MOST_PACKED];
        self.order = self.order & stays | comes;
    }

    /// Of the contexts of `among`, which are some, the one that was selected longest ago, as far as selection has heard in
    /// cycle `now`, which has begun.
    #[inline(always)]
    pub(super) fn first(&self, among: u64, now: u64) -> usize {
        debug_assert!(among != 0);
        if let Some(wide) = &self.wide {
            return wide.first(among);
        }
        // Of each context of `among`: itself and those before it. Only of the first it is alone.
        let heard = self.past[self.kept_at(now.wrapping_sub(self.lag.into()))];
        let ahead = heard & among.wrapping_mul(LOWEST);
        let itself = 0x8040_2010_0804_0201;
        let others = ahead ^ itself;
        let alone = others.wrapping_sub(LOWEST) & !others & (LOWEST << 7);
        alone.trailing_zeros() as usize / 8
    }

    /// Shows `visitor` the order at the end of cycle `now`, and moves on.
    pub(super) fn shows_state(&mut self, now: u64, visitor: &mut impl StateVisitor) {
        let Self {
            lag,
            kept,
            order,
            past,
            wide,
        } = self;
        let lag = u64::from(*lag);
        if let Some(wide) = wide {
            let Wide { order, unheard } = &mut **wide;
            order.iter().for_each(|&row| visitor.value(row));
            let kept = |ago: u64| now.wrapping_sub(ago) as usize % KEPT;
            (0..lag).for_each(|ago| visitor.value(unheard[kept(ago)]));
            unheard.rotate_right(visitor.moves() as usize % KEPT);
            return;
        }
        visitor.value(*order);
        let last = *kept as usize;
        (1..lag).for_each(|ago| visitor.value(past[now.wrapping_sub(ago) as usize & last]));
        past[..=last].rotate_right(visitor.moves() as usize & last);
    }
}

impl Wide {
    /// Selection hears of what was selected in cycle `of`.
    fn hear(&mut self, of: u64) {
        let mut selected = std::mem::take(&mut self.unheard[of as usize % KEPT]);
        while selected != 0 {
            let c = selected.trailing_zeros() as usize;
            selected &= selected - 1;
            let rows = self.order.iter_mut();
            rows.for_each(|row| *row &= !(1 << c));
            self.order[c] = u64::MAX >> (64 - self.order.len());
        }
    }

    fn first(&self, among: u64) -> usize {
        let mut first = among.trailing_zeros() as usize;
        loop {
            let before = self.order[first] & among & !(1 << first);
            if before == 0 {
                return first;
            }
            first = before.trailing_zeros() as usize;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the cycles in which each was selected last, on all sorts of choices.
    fn agrees(contexts: usize, lag: u64) {
        let mut turns = Turns::new(contexts, lag);
        let mut last = vec![0; contexts];
        let mut unheard = std::collections::VecDeque::new();
        let mut random = 0x1234_5678_9abc_def1_u64;
        let mut now = 0;
        for _ in 0..5_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let passed = if random >> 60 == 0 {
                random >> 54 & 63
            } else {
                0
            };
            if passed > 0 {
                turns.pass_over(now, passed);
            }
            now += 1 + passed;
            turns.begin(now);
            while let Some(&(cycle, c)) = unheard.front()
                && cycle + lag <= now
            {
                last[c] = cycle;
                unheard.pop_front();
            }
            let among = random & u64::MAX >> (64 - contexts);
            if among != 0 {
                let chosen = (0..contexts).filter(|c| among >> c & 1 == 1);
                let expected = chosen.min_by_key(|&c| last[c]);
                let found = Some(turns.first(among, now));
                assert_eq!(
                    found, expected,
                    "{among:#x} of {contexts}, {lag} cycles late"
                );
            }
            // Not always the one whose turn it was, and not in each cycle.
            if random >> 40 & 3 != 0 {
                let c = (random >> 32) as usize % contexts;
                turns.select(c, now);
                unheard.push_back((now, c));
            }
        }
    }

    #[test]
    fn the_first_is_the_least_recently_selected_as_far_as_heard() {
        for contexts in [1, 2, 3, 4, 7, 8, 9, 16, 63, 64] {
            for lag in [1, 2, 4, 16] {
                agrees(contexts, lag);
            }
        }
    }
}
