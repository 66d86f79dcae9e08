//! What the cores of a group have in common: a floating-point unit of the chip, and tables that all of them look into. A host
//! has one copy of those in its caches.

use serde::{Deserialize, Serialize};

use super::params::{CLASSES, FgmtParams, Simple};
use super::units::{ChipFpu, FLOATING_POINT, wanted_by_class};
use loiter_isa::Class;

/// What the cores of a group have in common.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Group {
    /// For ALU operations, branches and jumps; for a branch the second entry is that of a taken one.
    pub(super) simple: [[Simple; 2]; CLASSES],
    /// What instructions of each class want of the units that pipes share.
    wanted: [u8; CLASSES],
    /// `fpu.moves_registers`, where a chip has one unit.
    moves_registers: bool,
    /// The unit that a chip may have for all of them.
    pub(super) fpu: ChipFpu,
}

impl Group {
    /// Of cores that have nothing in common.
    pub(crate) fn none() -> Self {
        Self {
            simple: [[Simple::FREE; 2]; CLASSES],
            wanted: [0; CLASSES],
            moves_registers: false,
            fpu: ChipFpu::none(),
        }
    }

    pub(crate) fn new(params: &FgmtParams) -> Self {
        Self {
            simple: params.latency.simple_table(),
            wanted: wanted_by_class(params.fpu.does_integer),
            moves_registers: params.fpu.takes_place(),
            fpu: ChipFpu::new(&params.fpu),
        }
    }

    /// The units, one bit each, of which the pipes of a core can give one instruction of `class` a
    /// cycle between them. `fp_register` says that a load or store moves a floating-point register.
    #[inline(always)]
    pub(super) fn wanted(&self, class: Class, fp_register: impl FnOnce() -> bool) -> u8 {
        let wanted = self.wanted[class as usize];
        if self.moves_registers && matches!(class, Class::Load | Class::Store) && fp_register() {
            return wanted | FLOATING_POINT;
        }
        wanted
    }
}
