//! Which contexts may be selected: bits that are set when their cycle comes, so that a cycle looks at no context that has
//! nothing to do in it.

use loiter_types::{Cycle, StateVisitor};

use super::context::Context;
use super::params::CoreParams;
use super::turns::Turns;

/// Cycles ahead for which contexts have bits.
const AHEAD: usize = 16;
/// Cycles of which selections are kept: more than `core.selection_lag_cycles`.
const KEPT: usize = 32;
const NEVER: u64 = u64::MAX;

/// Contexts of which something is so from a cycle on.
#[derive(Clone, Copy, Debug, Default)]
struct Coming {
    /// They may be selected.
    ready: u64,
    /// What they rely on is confirmed.
    firm: u64,
}

/// What selection knows of the contexts of a core.
#[derive(Debug)]
pub(super) struct Selection {
    /// The last cycle that began.
    now: u64,
    /// Contexts that may be selected.
    ready: u64,
    /// Contexts that may be selected, or will be, and rely on a hit that is not confirmed.
    unconfirmed: u64,
    /// Who was selected in the cycle before `yields_in`, in which they let others go first.
    yielding: u64,
    yields_in: u64,
    /// Bit n: some context may be selected from a cycle on that is n modulo `AHEAD`.
    occupied: u16,
    /// `core.alternates`.
    alternates: bool,
    turns: Turns,
    /// By cycle modulo their number.
    coming: [Coming; AHEAD],
    /// Who may be selected from a later cycle on, and the first of these cycles.
    later: u64,
    later_at: u64,
    /// Of whom it is known only later whether they rely on a hit.
    firm_later: u64,
    /// Who was selected, by cycle modulo their number, as long as selection has not heard of it.
    unheard: [u64; KEPT],
    /// `core.selection_lag_cycles`.
    lag: u64,
    /// Of each context, when it may be selected, and when that is firm; 0 if it is then.
    at: Box<[(u64, u64)]>,
}

impl Selection {
    pub(super) fn new(contexts: usize, params: &CoreParams) -> Self {
        debug_assert!((params.selection_lag_cycles as usize) < KEPT);
        Self {
            now: 0,
            ready: 0,
            unconfirmed: 0,
            yielding: 0,
            yields_in: 0,
            occupied: 0,
            alternates: params.alternates,
            turns: Turns::new(contexts),
            coming: [Coming::default(); AHEAD],
            later: 0,
            later_at: NEVER,
            firm_later: 0,
            unheard: [0; KEPT],
            lag: params.selection_lag_cycles,
            at: vec![(NEVER, 0); contexts].into(),
        }
    }

    /// When context `c` may be selected.
    #[inline(always)]
    pub(super) fn due(&self, c: usize) -> Cycle {
        Cycle(self.at[c].0)
    }

    /// Cycle `now` begins.
    #[inline(always)]
    pub(super) fn begin(&mut self, now: Cycle) {
        if now.0 != self.now + 1 {
            self.pass_over(now.0);
        }
        self.now = now.0;
        let slot = now.0 as usize % AHEAD;
        let Coming { ready, firm } = std::mem::take(&mut self.coming[slot]);
        self.ready |= ready;
        self.unconfirmed &= !firm;
        self.occupied &= !(1 << slot);
        if self.later_at <= now.0 || self.firm_later != 0 {
            self.look_at_later();
        }
        if self.lag > 1 {
            self.hear(now.0);
        }
    }

    /// Selection hears of what was selected `core.selection_lag_cycles` before `now`.
    #[inline(always)]
    fn hear(&mut self, now: u64) {
        let heard = &mut self.unheard[now.wrapping_sub(self.lag) as usize % KEPT];
        let mut selected = std::mem::take(heard);
        while selected != 0 {
            self.turns.select(selected.trailing_zeros() as usize);
            selected &= selected - 1;
        }
    }

    /// The cycles before `now` have passed without the core.
    fn pass_over(&mut self, now: u64) {
        let passed = now.saturating_sub(self.now + 1);
        for ahead in 1..=passed.min(AHEAD as u64) {
            let slot = (self.now + ahead) as usize % AHEAD;
            let Coming { ready, firm } = std::mem::take(&mut self.coming[slot]);
            self.ready |= ready;
            self.unconfirmed &= !firm;
            self.occupied &= !(1 << slot);
        }
        if self.lag > 1 {
            for ahead in 1..=passed.min(self.lag) {
                self.hear(self.now + ahead);
            }
        }
    }

    #[cold]
    fn look_at_later(&mut self) {
        for (c, &(at, firm)) in self.at.iter().enumerate() {
            let bit = 1 << c;
            if self.later & bit != 0 && at <= self.now {
                self.later &= !bit;
                self.ready |= bit;
            }
            if self.firm_later & bit != 0 && firm <= self.now {
                self.firm_later &= !bit;
                self.unconfirmed &= !bit;
            }
        }
        self.find_later();
    }

    fn find_later(&mut self) {
        let contexts = self.at.iter().enumerate();
        let later = contexts.filter(|&(c, _)| self.later >> c & 1 == 1);
        self.later_at = later.map(|(_, &(at, _))| at).min().unwrap_or(NEVER);
    }

    /// Context `c` may be selected from `at` on, without relying on a hit from `firm` on.
    #[inline(always)]
    pub(super) fn set(&mut self, c: usize, at: Cycle, firm: Cycle) {
        let (at, bit) = (at.0, 1 << c);
        let firm = if firm.0 > at { firm.0 } else { 0 };
        let (before, firm_before) = std::mem::replace(&mut self.at[c], (at, firm));
        if at != before {
            if self.ready & bit == 0 {
                self.take_out(bit, before);
            }
            self.ready &= !bit;
            let slot = at as usize % AHEAD;
            if at.wrapping_sub(self.now + 1) < AHEAD as u64 - 1 {
                self.coming[slot].ready |= bit;
                self.occupied |= 1 << slot;
            } else {
                self.set_otherwise(bit, at);
            }
        }
        if firm | firm_before != 0 {
            self.set_firm(bit, firm, firm_before);
        }
    }

    /// A context that was not ready may not be selected from `before` on any more.
    fn take_out(&mut self, bit: u64, before: u64) {
        if before == NEVER {
            return;
        }
        if self.later & bit != 0 {
            self.later &= !bit;
            self.find_later();
            return;
        }
        let slot = before as usize % AHEAD;
        let ready = &mut self.coming[slot].ready;
        *ready &= !bit;
        if *ready == 0 {
            self.occupied &= !(1 << slot);
        }
    }

    /// A context may be selected at once, or in a cycle for which there are no bits.
    fn set_otherwise(&mut self, bit: u64, at: u64) {
        if at <= self.now {
            self.ready |= bit;
        } else if at != NEVER {
            self.later |= bit;
            self.later_at = self.later_at.min(at);
        }
    }

    #[inline(always)]
    fn set_firm(&mut self, bit: u64, firm: u64, before: u64) {
        self.coming[before as usize % AHEAD].firm &= !bit;
        self.firm_later &= !bit;
        self.unconfirmed &= !bit;
        if firm > self.now {
            self.unconfirmed |= bit;
            if firm - self.now < AHEAD as u64 {
                self.coming[firm as usize % AHEAD].firm |= bit;
            } else {
                self.firm_later |= bit;
            }
        }
    }

    /// Of the contexts of `group`, the one to select: the least recently selected of those that may be, as far as selection
    /// has heard. Those that rely on an unconfirmed hit, and one that would issue twice in a row where contexts alternate,
    /// only when there is no other.
    #[inline(always)]
    pub(super) fn choose(&self, group: u64) -> Option<usize> {
        let ready = self.ready & group;
        if ready == 0 {
            return None;
        }
        let mut among = ready;
        if self.alternates {
            let yielding = if self.yields_in == self.now {
                self.yielding
            } else {
                0
            };
            let others = among & !yielding;
            among = if others != 0 { others } else { among };
        }
        let confirmed = among & !self.unconfirmed;
        among = if confirmed != 0 { confirmed } else { among };
        Some(self.turns.first(among))
    }

    /// Context `c` has had the slot of this cycle: selection hears of it.
    #[inline(always)]
    pub(super) fn selected(&mut self, c: usize) {
        let bit = 1 << c;
        if self.alternates {
            let next = self.now + 1;
            let already = if self.yields_in == next {
                self.yielding
            } else {
                0
            };
            self.yielding = already | bit;
            self.yields_in = next;
        }
        if self.lag == 1 {
            self.turns.select(c);
        } else {
            self.unheard[self.now as usize % KEPT] |= bit;
        }
    }

    /// The first cycle after this one in which a context may be selected.
    #[inline(always)]
    pub(super) fn next(&self) -> Cycle {
        let next = self.now + 1;
        if self.ready != 0 {
            return Cycle(next);
        }
        let occupied = self.occupied.rotate_right(next as u32 % AHEAD as u32);
        let ahead = match occupied {
            0 => NEVER,
            occupied => next + u64::from(occupied.trailing_zeros()),
        };
        Cycle(ahead.min(self.later_at))
    }

    /// Shows `visitor` what does not follow from the contexts, and moves on with them.
    pub(super) fn shows_state(&mut self, contexts: &[Context], visitor: &mut impl StateVisitor) {
        let Self {
            now,
            // They follow from when contexts may issue, and the present cycle.
            ready,
            unconfirmed,
            yielding,
            yields_in,
            occupied,
            alternates: _,
            turns,
            coming,
            later,
            later_at,
            firm_later,
            unheard,
            lag,
            at,
        } = self;
        let mut through = Cycle(*now);
        visitor.instant(&mut through);
        visitor.value(if *yields_in > *now { *yielding } else { 0 });
        turns.shows_state(visitor);
        for ago in 0..*lag {
            visitor.value(unheard[now.wrapping_sub(ago) as usize % KEPT]);
        }
        let moves = visitor.moves();
        if moves == 0 {
            return;
        }
        *now = through.0;
        *yields_in += moves;
        unheard.rotate_right(moves as usize % KEPT);
        (*ready, *unconfirmed, *occupied) = (0, 0, 0);
        (*later, *later_at, *firm_later) = (0, NEVER, 0);
        *coming = [Coming::default(); AHEAD];
        at.fill((NEVER, 0));
        for (c, context) in contexts.iter().enumerate() {
            self.set(c, context.due(), context.firm_at);
        }
    }
}
