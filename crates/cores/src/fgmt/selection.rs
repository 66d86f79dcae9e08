//! Which contexts may be selected: bits that are set when their cycle comes, so that a cycle looks at no context that has
//! nothing to do in it.

use loiter_types::{Cycle, StateVisitor};
use serde::{Deserialize, Serialize};
use serde_with::serde_as;

use super::context::Context;
use super::params::CoreParams;
use super::turns::Turns;

/// Cycles ahead for which contexts have bits.
const AHEAD: usize = 8;
const NEVER: u64 = u64::MAX;
/// Bits of a word.
const MOST_CONTEXTS: usize = 64;

/// Contexts of which something is so from a cycle on.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
struct Coming {
    /// They may be selected.
    ready: u64,
    /// What they rely on is confirmed.
    firm: u64,
}

/// The contexts of a word.
fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let c = word.trailing_zeros() as usize;
        let some = word != 0;
        word &= word.wrapping_sub(1);
        some.then_some(c)
    })
}

/// What selection knows of the contexts of a core. What every cycle asks comes first.
#[serde_as]
#[derive(Debug, Deserialize, Serialize)]
#[repr(C)]
pub(super) struct Selection {
    /// The last cycle that began.
    now: u64,
    /// Contexts that may be selected.
    ready: u64,
    /// Contexts that may be selected, or will be, and rely on a hit that is not confirmed.
    unconfirmed: u64,
    /// Who has issued in this cycle, and in the one before.
    issued: u64,
    issued_before: u64,
    /// Who was selected in this cycle and has lost its slot.
    lost: u64,
    /// Who lets others go first in this cycle.
    yielding: u64,
    /// All that `core.alternates` concerns.
    alternating: u64,
    /// Not before this cycle there is something to be done about later cycles.
    look_at: u64,
    /// The contexts of the first pipe.
    first_pipe: u64,
    turns: Turns,
    /// By cycle modulo their number.
    coming: [Coming; AHEAD],
    /// Who may be selected from a later cycle on, and the first of these cycles.
    later: u64,
    later_at: u64,
    /// Of whom it is known only later whether they rely on a hit.
    firm_later: u64,
    /// Of each context, when it may be selected.
    #[serde_as(as = "[_; MOST_CONTEXTS]")]
    at: [u64; MOST_CONTEXTS],
    /// Of each that is unconfirmed, until when.
    #[serde_as(as = "[_; MOST_CONTEXTS]")]
    firm_at: [u64; MOST_CONTEXTS],
}

impl Selection {
    pub(super) fn new(contexts: usize, params: &CoreParams) -> Self {
        let group = contexts / params.pipes as usize;
        Self {
            now: 0,
            ready: 0,
            unconfirmed: 0,
            issued: 0,
            issued_before: 0,
            lost: 0,
            yielding: 0,
            alternating: if params.alternates { u64::MAX } else { 0 },
            turns: Turns::new(contexts, params.selection_lag_cycles),
            first_pipe: u64::MAX >> (64 - group),
            coming: [Coming::default(); AHEAD],
            later: 0,
            later_at: NEVER,
            look_at: NEVER,
            firm_later: 0,
            at: [NEVER; MOST_CONTEXTS],
            firm_at: [0; MOST_CONTEXTS],
        }
    }

    /// The contexts of the first pipe; those of the next one follow.
    #[inline(always)]
    pub(super) fn first_pipe(&self) -> u64 {
        self.first_pipe
    }

    /// When context `c` may be selected.
    #[inline(always)]
    pub(super) fn due(&self, c: usize) -> Cycle {
        Cycle(self.at[c % MOST_CONTEXTS])
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
        self.issued_before = std::mem::take(&mut self.issued);
        let selected = self.issued_before | std::mem::take(&mut self.lost);
        self.yielding = selected & self.alternating;
        self.turns.begin(now.0);
        if self.look_at <= now.0 {
            self.look_at_later();
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
        }
        self.turns.pass_over(self.now, passed);
        (self.issued, self.lost) = (0, 0);
    }

    #[cold]
    fn look_at_later(&mut self) {
        for c in bits(self.later | self.firm_later) {
            let (at, firm, bit) = (self.at[c], self.firm_at[c], 1 << c);
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
        let later = bits(self.later).map(|c| self.at[c]);
        self.later_at = later.min().unwrap_or(NEVER);
        self.look_at = if self.firm_later != 0 {
            0
        } else {
            self.later_at
        };
    }

    /// Context `c` may be selected from `at` on, without relying on a hit from `firm` on.
    #[inline(always)]
    pub(super) fn set(&mut self, c: usize, at: Cycle, firm: Cycle) {
        let bit = 1 << c;
        let before = self.at[c % MOST_CONTEXTS];
        if at.0 != before {
            if self.ready & bit == 0 {
                self.take_out(bit, before);
            }
            self.put_in(c, at);
        }
        self.confirm(c, at, firm);
    }

    /// Context `c`, which nothing is known of, may be selected from `at` on.
    #[inline(always)]
    fn put_in(&mut self, c: usize, Cycle(at): Cycle) {
        let bit = 1 << c;
        self.at[c % MOST_CONTEXTS] = at;
        self.ready &= !bit;
        if at.wrapping_sub(self.now + 1) < AHEAD as u64 - 1 {
            self.coming[at as usize % AHEAD].ready |= bit;
        } else {
            self.set_otherwise(bit, at);
        }
    }

    /// A context that was not ready may not be selected from `before` on any more.
    fn take_out(&mut self, bit: u64, before: u64) {
        if self.later & bit != 0 {
            self.later &= !bit;
            self.find_later();
            return;
        }
        self.coming[before as usize % AHEAD].ready &= !bit;
    }

    /// A context may be selected at once, or in a cycle for which there are no bits.
    fn set_otherwise(&mut self, bit: u64, at: u64) {
        if at <= self.now {
            self.ready |= bit;
        } else if at != NEVER {
            self.later |= bit;
            self.later_at = self.later_at.min(at);
            self.look_at = self.look_at.min(at);
        }
    }

    /// Context `c`, which may be selected from `at` on, relies on no hit from `firm` on.
    #[inline(always)]
    fn confirm(&mut self, c: usize, at: Cycle, firm: Cycle) {
        let bit = 1 << c;
        if self.unconfirmed & bit != 0 {
            let before = self.firm_at[c % MOST_CONTEXTS];
            self.coming[before as usize % AHEAD].firm &= !bit;
            self.firm_later &= !bit;
            self.unconfirmed &= !bit;
        }
        if firm > at {
            self.set_unconfirmed(c, firm.0);
        }
    }

    #[inline(always)]
    fn set_unconfirmed(&mut self, c: usize, firm: u64) {
        let bit = 1 << c;
        if firm <= self.now {
            return;
        }
        self.unconfirmed |= bit;
        self.firm_at[c % MOST_CONTEXTS] = firm;
        if firm - self.now < AHEAD as u64 {
            self.coming[firm as usize % AHEAD].firm |= bit;
        } else {
            self.firm_later |= bit;
            self.look_at = 0;
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
        let others = ready & !self.yielding;
        let among = if others != 0 { others } else { ready };
        let confirmed = among & !self.unconfirmed;
        let among = if confirmed != 0 { confirmed } else { among };
        Some(self.turns.first(among, self.now))
    }

    /// As [`Selection::set`], of a context that issues, and that [`Selection::choose`] has returned in this cycle.
    #[inline(always)]
    pub(super) fn issued<const SHARES: bool>(&mut self, c: usize, at: Cycle, firm: Cycle) {
        self.issued |= 1 << c;
        self.turns.select(c, self.now);
        debug_assert!(SHARES || self.ready >> c & 1 != 0);
        if SHARES && self.ready >> c & 1 == 0 {
            // Another pipe has put it off meanwhile.
            self.take_out(1 << c, self.at[c % MOST_CONTEXTS]);
        }
        self.put_in(c, at);
        self.confirm(c, at, firm);
    }

    /// Context `c` has had the slot of this cycle for nothing: selection hears of it.
    pub(super) fn selected_in_vain(&mut self, c: usize) {
        self.lost |= 1 << c;
        self.turns.select(c, self.now);
    }

    /// Whether context `c` has issued in the cycle before.
    #[inline(always)]
    pub(super) fn has_issued_before(&self, c: usize) -> bool {
        self.issued_before >> c & 1 != 0
    }

    /// Whether a context may be selected already.
    #[inline(always)]
    pub(super) fn any_ready(&self) -> bool {
        self.ready != 0
    }

    /// The first cycle after this one in which a context may be selected, when none may already.
    #[inline(always)]
    pub(super) fn next(&self) -> Cycle {
        let next = self.now + 1;
        let mut soon = next..next + (AHEAD as u64 - 1);
        let soon = soon.find(|&at| self.coming[at as usize % AHEAD].ready != 0);
        Cycle(soon.unwrap_or(NEVER).min(self.later_at))
    }

    /// Shows `visitor` what does not follow from the contexts, and moves on with them.
    pub(super) fn shows_state(&mut self, contexts: &[Context], visitor: &mut impl StateVisitor) {
        let Self {
            now,
            // They follow from when contexts may issue, and the present cycle.
            ready,
            unconfirmed,
            issued,
            issued_before: _,
            lost,
            yielding: _,
            alternating: _,
            first_pipe: _,
            turns,
            coming,
            later,
            later_at,
            look_at,
            firm_later,
            at,
            firm_at: _,
        } = self;
        let mut through = Cycle(*now);
        visitor.instant(&mut through);
        visitor.value(*issued);
        visitor.value(*lost);
        turns.shows_state(*now, visitor);
        if visitor.moves() == 0 {
            return;
        }
        *now = through.0;
        (*ready, *unconfirmed) = (0, 0);
        (*later, *later_at, *look_at, *firm_later) = (0, NEVER, NEVER, 0);
        *coming = [Coming::default(); AHEAD];
        at.fill(NEVER);
        for (c, context) in contexts.iter().enumerate() {
            self.set(c, context.due(), context.firm_at);
        }
    }
}
