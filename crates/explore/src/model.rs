//! Memory models, as the orders that each makes an access keep.

use loiter_isa::{Class, Inst};

/// A memory model of RISC-V.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Model {
    /// Sequential consistency: all accesses of a thread in program order, and its own stores not before others see them.
    Sc,
    /// RVTSO (extension Ztso): loads acquire, stores release, atomics do both; a thread reads its own stores early.
    Tso,
    /// RVWMO, the model of RISC-V without extensions.
    Rvwmo,
}

impl Model {
    /// All of them, the strongest first.
    pub const ALL: [Model; 3] = [Model::Sc, Model::Tso, Model::Rvwmo];

    /// Its name, as options spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Model::Sc => "sc",
            Model::Tso => "tso",
            Model::Rvwmo => "rvwmo",
        }
    }
}

/// The order that one access keeps with the others of its thread, beside dependencies and fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// What comes later follows it.
    pub(crate) acquire: bool,
    /// It follows what came earlier.
    pub(crate) release: bool,
    /// It is annotated RCsc: such accesses keep their order among themselves.
    pub(crate) consistent: bool,
}

impl Order {
    /// That of the access of `inst`. The annotations of RISC-V's atomics are RCsc; Ztso gives plain accesses those of
    /// RCpc ("RVTSO", chapter "Ztso" of the unprivileged manual).
    pub(crate) fn of(model: Model, inst: &Inst) -> Self {
        let (aq, rl) = (inst.acquires(), inst.releases());
        let is_load = inst.op.class() == Class::Load || inst.op.only_reads();
        let is_atomic = inst.op.class() == Class::Atomic;
        match model {
            Model::Sc => Self {
                acquire: true,
                release: true,
                consistent: true,
            },
            Model::Tso if is_atomic && !is_pair(inst) => Self {
                acquire: true,
                release: true,
                consistent: true,
            },
            Model::Tso => Self {
                acquire: aq || is_load,
                release: rl || !is_load,
                consistent: aq || rl,
            },
            Model::Rvwmo => Self {
                acquire: aq,
                release: rl,
                consistent: aq || rl,
            },
        }
    }
}

/// Whether it is `lr` or `sc`, which load and store, and are no atomic memory operation.
fn is_pair(inst: &Inst) -> bool {
    use loiter_isa::Op::{LrD, LrW, ScD, ScW};
    matches!(inst.op, LrW | LrD | ScW | ScD)
}
