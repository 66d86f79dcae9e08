//! Where what is written down of a run begins.

use loiter_hart::Retired;
use loiter_types::PAGE_BYTES;

use crate::error::Error;
use crate::symbols::Symbols;

/// The word for the phases of timed cores.
const TIMING: &str = "timing";

/// Where a trace or a profile begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// At a cycle.
    Cycle(u64),
    /// Where any hart executes at an address.
    Address(u64),
    /// Where timed cores take over; it stops where they leave off.
    Timing,
    /// It has begun.
    Begun,
}

impl Begin {
    /// What `text`, given with `option`, says; nothing: at once.
    ///
    /// # Errors
    /// A text that is neither a cycle nor a symbol.
    pub(super) fn parse(
        option: &str,
        text: Option<&str>,
        symbols: &Symbols,
    ) -> Result<Self, Error> {
        let Some(text) = text else {
            return Ok(Begin::Begun);
        };
        match (text.parse(), symbols.address(text)) {
            _ if text == TIMING => Ok(Begin::Timing),
            (Ok(cycle), _) => Ok(Begin::Cycle(cycle)),
            (_, Some(addr)) => Ok(Begin::Address(addr)),
            _ => Err(Error::User(format!(
                "{option} {text}: neither a cycle, nor \"{TIMING}\", nor a symbol of the program, the kernel \
                 or the files of --symbols"
            ))),
        }
    }

    /// Whether an instruction belongs to what is written. `is_timed`: timed cores execute it.
    #[inline]
    pub(super) fn has_come(&mut self, event: &Retired<'_>, is_timed: bool) -> bool {
        let comes = match *self {
            Begin::Cycle(cycle) => event.cycle >= cycle,
            Begin::Address(addr) => event.pc == addr,
            Begin::Timing | Begin::Begun => return self.has_begun(is_timed),
        };
        if comes {
            *self = Begin::Begun;
        }
        comes
    }

    /// Whether what happens now belongs to what is written.
    pub(super) fn has_begun(self, is_timed: bool) -> bool {
        self == Begin::Begun || is_timed && self == Begin::Timing
    }

    /// Whether instructions in the page of `pc`, or with none any, may belong to it.
    pub(super) fn may_be_in_page(self, pc: Option<u64>, is_timed: bool) -> bool {
        match (self, pc) {
            (Begin::Address(addr), Some(pc)) => addr / PAGE_BYTES == pc / PAGE_BYTES,
            (Begin::Timing, _) => is_timed,
            _ => true,
        }
    }

    /// The cycle before which nothing belongs to it.
    pub(super) fn not_before(self) -> u64 {
        match self {
            Begin::Cycle(cycle) => cycle,
            Begin::Address(_) | Begin::Timing | Begin::Begun => 0,
        }
    }
}
