//! Kinds of branches and jumps. In this crate a branch is any of them, unless it is called conditional.

use loiter_isa::{Class, Inst, Op, x};
use serde::{Deserialize, Serialize};

/// A branch or jump, as decode knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum BranchKind {
    /// Conditional branch.
    Conditional,
    /// Jump to a fixed target.
    Jump,
    /// Jump to a fixed target that links.
    Call,
    /// Jump to where a call linked to.
    Return,
    /// Jump to what a register says.
    Indirect,
    /// Jump to what a register says that links.
    IndirectCall,
}

impl BranchKind {
    /// What `inst` is; None: no branch.
    ///
    /// x1 and x5 are link registers, and a jump that writes or reads one is a hint to the return stack
    /// (unprivileged manual, "jalr", table of return-address stack prediction hints):
    ///
    /// | rd   | rs1  | the manual's hint | here                                          |
    /// |------|------|-------------------|-----------------------------------------------|
    /// | -    | -    | none              | `Indirect`                                    |
    /// | -    | link | pop               | `Return`                                      |
    /// | link | -    | push              | `IndirectCall`                                |
    /// | link | same | push              | `IndirectCall`                                |
    /// | link | other | pop, then push   | `IndirectCall`: pushes, pops nothing (assumed) |
    ///
    /// The last is a switch of coroutines, which compilers do not make: they keep x5 out of
    /// indirect calls for the sake of this very hint.
    #[inline]
    #[must_use]
    pub fn of(inst: &Inst) -> Option<BranchKind> {
        match inst.op.class() {
            Class::Branch => Some(BranchKind::Conditional),
            Class::Jump => Some(match (inst.op, links(inst.rd), links(inst.rs1)) {
                (Op::Jal, false, _) => BranchKind::Jump,
                (Op::Jal, true, _) => BranchKind::Call,
                (_, true, _) => BranchKind::IndirectCall,
                (_, false, true) => BranchKind::Return,
                (_, false, false) => BranchKind::Indirect,
            }),
            _ => None,
        }
    }
}

fn links(register: u8) -> bool {
    register == x(1) || register == x(5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use loiter_isa::decode;

    const REGISTERS: [u32; 6] = [0, 1, 2, 5, 6, 31];

    fn is_link(register: u32) -> bool {
        [1, 5].contains(&register)
    }

    #[test]
    fn jalr_follows_the_hints_of_its_registers() {
        for rd in REGISTERS {
            for rs1 in REGISTERS {
                let inst = decode(rs1 << 15 | rd << 7 | 0x67);
                let expected = match (is_link(rd), is_link(rs1)) {
                    (false, false) => BranchKind::Indirect,
                    (false, true) => BranchKind::Return,
                    (true, _) => BranchKind::IndirectCall,
                };
                assert_eq!(
                    BranchKind::of(&inst),
                    Some(expected),
                    "rd x{rd}, rs1 x{rs1}"
                );
            }
        }
    }

    #[test]
    fn jal_calls_if_it_links_whatever_its_offset_looks_like() {
        for rd in REGISTERS {
            // Bits 19:15 are the rs1 of jalr.
            for bits in REGISTERS {
                let expected = if is_link(rd) {
                    BranchKind::Call
                } else {
                    BranchKind::Jump
                };
                let inst = decode(bits << 15 | rd << 7 | 0x6f);
                assert_eq!(BranchKind::of(&inst), Some(expected), "rd x{rd}");
            }
        }
    }

    #[test]
    fn branches_and_compressed_forms_are_known_and_others_are_not() {
        for (bits, expected) in [
            (0x0000_0463, Some(BranchKind::Conditional)), // beq x0,x0,8
            (0xfe52_9ee3, Some(BranchKind::Conditional)), // bne x5,x5,-4
            (0xc091, Some(BranchKind::Conditional)),      // c.beqz
            (0xe091, Some(BranchKind::Conditional)),      // c.bnez
            (0xa011, Some(BranchKind::Jump)),             // c.j
            (0x8082, Some(BranchKind::Return)),           // c.jr ra
            (0x8282, Some(BranchKind::Return)),           // c.jr t0
            (0x8502, Some(BranchKind::Indirect)),         // c.jr a0
            (0x9502, Some(BranchKind::IndirectCall)),     // c.jalr a0
            (0x9282, Some(BranchKind::IndirectCall)),     // c.jalr t0
            (0x0000_80e7, Some(BranchKind::IndirectCall)), // jalr ra,ra
            (0x0000_0013, None),                          // nop
            (0x3020_0073, None),                          // mret
            (0x0000_0073, None),                          // ecall
            (0, None),                                    // illegal
        ] {
            assert_eq!(BranchKind::of(&decode(bits)), expected, "{bits:#x}");
        }
    }
}
