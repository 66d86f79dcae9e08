//! The table as a whole.

use super::{Bench, Random, Shape};
use crate::compressed::COMPRESSED;
use crate::table::ENCODINGS;
use crate::{Class, Inst, Lock, Op, System, decode, dispatch};

/// Pairs of which the first is a special case of the second, and stands before it.
const SPECIAL: &[(Op, Op)] = &[
    (Op::Probe, Op::Slti),
    (Op::Pause, Op::Fence),
    (Op::FenceTso, Op::Fence),
];

const SPECIAL_COMPRESSED: &[(&str, &str)] = &[
    ("c.addi16sp", "c.lui"),
    ("c.srli64", "c.srli"),
    ("c.srai64", "c.srai"),
    ("c.slli64", "c.slli"),
    ("c.jr", "c.mv"),
    ("c.ebreak", "c.jalr"),
    ("c.ebreak", "c.add"),
    ("c.jalr", "c.add"),
];

/// Do two patterns share an encoding, and if so, is the first contained in the second?
fn overlap(a: (u32, u32), b: (u32, u32)) -> Option<bool> {
    let shared = (a.0 ^ b.0) & a.1 & b.1 == 0;
    shared.then_some(a.1 & b.1 == b.1 && a.1 != b.1)
}

#[test]
fn no_two_encodings_overlap() {
    let mut special = 0;
    for (n, first) in ENCODINGS.iter().enumerate() {
        for second in &ENCODINGS[n + 1..] {
            let pair = (first.op, second.op);
            match overlap((first.value, first.mask), (second.value, second.mask)) {
                None => {}
                Some(true) if SPECIAL.contains(&pair) => special += 1,
                _ => panic!("{pair:?} overlap"),
            }
        }
    }
    assert_eq!(special, SPECIAL.len());
    assert_eq!(ENCODINGS.len(), Op::ALL.len());
}

#[test]
fn no_two_compressed_encodings_overlap() {
    let mut special = 0;
    for (n, first) in COMPRESSED.iter().enumerate() {
        assert_eq!(first.value & !first.mask, 0, "{}", first.mnemonic);
        for second in &COMPRESSED[n + 1..] {
            let pair = (first.mnemonic, second.mnemonic);
            let pattern = |value: u16, mask: u16| (u32::from(value), u32::from(mask));
            let patterns = (
                pattern(first.value, first.mask),
                pattern(second.value, second.mask),
            );
            match overlap(patterns.0, patterns.1) {
                None => {}
                Some(true) if SPECIAL_COMPRESSED.contains(&pair) => special += 1,
                _ => panic!("{pair:?} overlap"),
            }
        }
    }
    assert_eq!(special, SPECIAL_COMPRESSED.len());
}

#[test]
fn mnemonics_are_unique() {
    let mut names: Vec<_> = Op::ALL.iter().filter(|&&op| op != Op::Probe).collect();
    names.sort_by_key(|op| op.mnemonic());
    for pair in names.windows(2) {
        assert_ne!(pair[0].mnemonic(), pair[1].mnemonic());
    }
}

/// Does a shape make sense for a class?
fn fits(class: Class, shape: Shape) -> bool {
    match shape {
        Shape::AluReg => matches!(class, Class::Alu | Class::Mul | Class::Div),
        Shape::AluImm | Shape::AluPc => class == Class::Alu,
        Shape::Branch => class == Class::Branch,
        Shape::Jump => class == Class::Jump,
        Shape::Load(_) | Shape::FpLoad(_) => class == Class::Load,
        Shape::Store(_) | Shape::FpStore(_) => class == Class::Store,
        Shape::Amo(_) | Shape::Lr(_) | Shape::Sc(_) | Shape::Cas(_) => class == Class::Atomic,
        Shape::Lock(Lock::Release) => class == Class::Store,
        Shape::Lock(Lock::Acquire | Lock::Wait) => class == Class::Atomic,
        Shape::Fp => {
            matches!(
                class,
                Class::FpAdd
                    | Class::FpMul
                    | Class::FpFma
                    | Class::FpDiv
                    | Class::FpSqrt
                    | Class::FpMove
            )
        }
        Shape::Csr(_) => class == Class::Csr,
        Shape::System(what) => match what {
            System::Illegal
            | System::Ecall
            | System::Ebreak
            | System::Mret
            | System::Sret
            | System::GuestLoad(_)
            | System::GuestStore(_) => class == Class::System,
            System::Wfi | System::WrsNto | System::WrsSto => class == Class::Nap,
            System::Pause => class == Class::Pause,
            System::Fence | System::FenceI | System::SfenceVma | System::HypervisorFence => {
                class == Class::Fence
            }
            System::Probe => class == Class::Probe,
        },
    }
}

#[test]
fn every_operation_is_reached_by_decode_and_dispatch() {
    let mut random = Random(3);
    for &op in Op::ALL {
        let (value, mask) = op.pattern().expect("in the table");
        let found: Vec<Inst> = (0..64)
            .map(|_| decode(value | random.next() as u32 & !mask))
            .filter(|i| i.op == op)
            .collect();
        assert!(
            found.len() > 8,
            "{op:?} decoded {} times of 64",
            found.len()
        );
        for i in found {
            let (shape, _) = dispatch(&mut Bench::default(), &i);
            assert!(
                fits(op.class(), shape),
                "{op:?}: {:?} and {shape:?}",
                op.class()
            );
        }
    }
    let (shape, _) = dispatch(&mut Bench::default(), &decode(0));
    assert_eq!(shape, Shape::System(System::Illegal));
    assert_eq!(Op::Illegal.pattern(), None);
}
