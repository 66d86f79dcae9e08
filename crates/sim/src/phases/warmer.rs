//! Watches the reference engine for the cores that it warms, and for whoever else watches.

use loiter_hart::{Hart, InstructionObserver, Retired, Trapped};

use crate::debug::Inspector;
use crate::timing_phase::Timing;

/// Warms cores.
pub(crate) struct Warmer<'a> {
    pub(crate) cores: &'a mut Timing,
    pub(crate) inspector: Option<&'a mut Inspector>,
}

impl InstructionObserver for Warmer<'_> {
    fn enters_page(&mut self, hart: &Hart, pc: u64) -> bool {
        if let Some(inspector) = &mut self.inspector {
            inspector.enters_page(hart, pc);
        }
        true
    }

    fn holds_at(&mut self, hart: &Hart, pc: u64, cycle: u64) -> bool {
        let inspector = self.inspector.as_mut();
        inspector.is_some_and(|inspector| inspector.holds_at(hart, pc, cycle))
    }

    fn retired(&mut self, event: &Retired<'_>) {
        self.cores.warm(event);
        if let Some(inspector) = &mut self.inspector {
            inspector.retired(event);
        }
    }

    fn trapped(&mut self, event: &Trapped<'_>) {
        if let Some(inspector) = &mut self.inspector {
            inspector.trapped(event);
        }
    }

    fn holds(&self) -> bool {
        self.inspector.as_ref().is_some_and(|it| it.holds())
    }
}
