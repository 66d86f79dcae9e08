//! The instruction table by what the generator does with it. All derives from `loiter-isa`: a new
//! line of its table is generated, and compared, without a change here.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use loiter_isa::{Class, Inst, Op, decode, length};

use super::exclusions::Target;

/// Operations and encodings that a target has.
pub(crate) struct Tables {
    /// Integer arithmetic.
    pub(crate) integer: Vec<Op>,
    /// Floating-point arithmetic.
    pub(crate) float: Vec<Op>,
    /// Loads, integer and floating point.
    pub(crate) loads: Vec<Op>,
    /// Stores, integer and floating point.
    pub(crate) stores: Vec<Op>,
    /// Atomics but for lr and sc.
    pub(crate) atomics: Vec<Op>,
    /// Conditional branches.
    pub(crate) branches: Vec<Op>,
    /// CSR instructions.
    pub(crate) csrs: Vec<Op>,
    /// Those that encodings which are none are made from.
    pub(crate) near: Vec<Op>,
    /// Compressed encodings by the operation of their expansion.
    pub(crate) compressed: BTreeMap<Op, Vec<u16>>,
}

static QEMU: LazyLock<Tables> = LazyLock::new(|| Tables::new(Target::Qemu));
static LOITER: LazyLock<Tables> = LazyLock::new(|| Tables::new(Target::Loiter));

impl Tables {
    /// The tables of `target`.
    pub(crate) fn of(target: Target) -> &'static Tables {
        match target {
            Target::Qemu => &QEMU,
            Target::Loiter => &LOITER,
        }
    }

    fn new(target: Target) -> Self {
        let of = |wanted: fn(Class) -> bool| {
            let ops = Op::ALL.iter().copied();
            ops.filter(|&op| wanted(op.class()) && target.has(op) && !is_lock(op))
                .collect::<Vec<Op>>()
        };
        let mut atomics = of(|class| class == Class::Atomic);
        atomics.retain(|op| !matches!(op, Op::LrW | Op::LrD | Op::ScW | Op::ScD));
        let mut compressed: BTreeMap<Op, Vec<u16>> = BTreeMap::new();
        for half in (0..=u16::MAX).filter(|&half| length(half) == 2) {
            let inst = decode(u32::from(half));
            compressed.entry(inst.op).or_default().push(half);
        }
        Self {
            integer: of(|class| matches!(class, Class::Alu | Class::Mul | Class::Div)),
            float: of(is_float),
            loads: of(|class| class == Class::Load),
            stores: of(|class| class == Class::Store),
            atomics,
            branches: of(|class| class == Class::Branch),
            csrs: of(|class| class == Class::Csr),
            near: {
                let ops = Op::ALL.iter().copied();
                ops.filter(|&op| !is_lock(op) || target.has(op))
                    .filter(|&op| !needs_guests(op))
                    .collect()
            },
            compressed,
        }
    }

    /// The operations of compressed encodings whose class `wanted` accepts.
    pub(crate) fn compressed_ops(&self, wanted: fn(Class) -> bool) -> Vec<Op> {
        let ops = self.compressed.keys().copied();
        ops.filter(|op| *op != Op::Illegal && wanted(op.class()))
            .collect()
    }
}

/// Those are no accesses with any operands: an item of their own writes them.
fn is_lock(op: Op) -> bool {
    matches!(op, Op::LockAcquire | Op::LockRelease | Op::LockWait)
}

/// Those are of harts that can have guests: the guest program `hypervisor` runs them in every mode.
pub(crate) fn needs_guests(op: Op) -> bool {
    // No others begin so.
    op.mnemonic().starts_with('h')
}

fn is_float(class: Class) -> bool {
    matches!(
        class,
        Class::FpAdd | Class::FpMul | Class::FpFma | Class::FpDiv | Class::FpSqrt | Class::FpMove
    )
}

/// Whether the destination of `op` is a floating-point register.
pub(crate) fn writes_float(op: Op) -> bool {
    let (value, _) = op.pattern().expect("in the table");
    (32..64).contains(&decode(value).rd)
}

/// The integer registers that `inst` writes.
pub(crate) fn integer_destinations(inst: &Inst) -> u32 {
    if !(1..32).contains(&inst.rd) {
        return 0;
    }
    let pair = if inst.op == Op::AmocasQ { 3 } else { 1 };
    pair << inst.rd
}
