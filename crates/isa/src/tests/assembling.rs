//! Assembling is the inverse of disassembling.

use crate::table::ENCODINGS;
use crate::{AssembleError, Class, assemble, decode, disassemble};

fn alone(line: &str) -> Result<u32, AssembleError> {
    assemble(line, |_| None)
}

/// Every integer encoding, with several operands: its text assembles to itself.
#[test]
fn text_assembles_to_what_it_came_from() {
    let mut tried = 0;
    let known = |letters: &str| letters.chars().all(|c| ",dcstjlqAbpaf".contains(c));
    for encoding in ENCODINGS.iter().filter(|e| known(e.operands)) {
        for operands in [0x0062_8313_u32, 0xfe73_a7b3, 0x8195_6fd3, 0x7ff0_0fff] {
            let bits = encoding.value | operands & !encoding.mask;
            // Another line of the table may come first.
            if decode(bits).op != encoding.op {
                continue;
            }
            let text = disassemble(bits, 0);
            if text.contains("unknown") {
                continue;
            }
            // Targets are printed as addresses, here the offset from 0.
            let wide = |word: &str| {
                let hex = word
                    .strip_prefix("0x")
                    .and_then(|hex| u64::from_str_radix(hex, 16).ok());
                hex.map(|value| value as i64)
            };
            let again = assemble(&text, wide).unwrap_or_else(|error| panic!("{text}: {error}"));
            // Fences have fields that are ignored.
            if encoding.op.class() != Class::Fence {
                assert_eq!(again, bits, "{text}");
            }
            assert_eq!(disassemble(again, 0), text);
            tried += 1;
        }
    }
    assert!(tried > 200, "{tried}");
}

#[test]
fn pseudo_instructions_and_both_names_of_registers() {
    assert_eq!(alone("li a0,-1"), alone("addi x10,zero,-1"));
    assert_eq!(alone("mv t0,t1"), alone("addi x5,x6,0"));
    assert_eq!(alone("fence"), alone("fence iorw,iorw"));
    assert_eq!(alone("lr.w.aq.rl x5,0(x6)"), alone("lr.w.aqrl t0,(t1)"));
    assert_eq!(
        assemble("bnez a0,away", |label| (label == "away").then_some(8)),
        alone("bne a0,x0,8")
    );
}

#[test]
fn mistakes_say_what_is_wrong() {
    let operand = |text: &str| AssembleError::Operand(text.to_owned());
    assert_eq!(
        alone("lx a0,0(a1)"),
        Err(AssembleError::Mnemonic("lx".to_owned()))
    );
    assert_eq!(alone("fadd.d fa0,fa1,fa2,rne").map_err(|_| ()), Err(()));
    assert_eq!(alone("lw a0"), Err(AssembleError::Operands(2)));
    assert_eq!(alone("lw a0,a1"), Err(operand("a1")));
    assert_eq!(alone("lw x32,0(a1)"), Err(operand("x32")));
    assert_eq!(alone("addi a0,a0,2048"), Err(AssembleError::Range(2048)));
    assert_eq!(alone("lr.w a0,4(a1)"), Err(AssembleError::Range(4)));
    assert_eq!(alone("beqz a0,nowhere"), Err(operand("nowhere")));
}
