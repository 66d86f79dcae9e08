//! In what a timing core and the reference engine differ, in words.

use loiter_hart::{CsrFile, Hart, Trap};
use loiter_isa::{Inst, SINK, register_name};
use loiter_types::{HartId, PhysAddr};
use serde_json::Value;

/// What a timing core has done otherwise than the reference engine.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    /// It has retired an instruction.
    Instruction(Inst),
    /// It has entered a trap.
    Trap(Trap),
    /// A store has left its buffer.
    Store(PhysAddr),
    /// It has given its hart up.
    Detached,
}

/// The first difference between a timing core and the reference engine.
#[derive(Debug)]
pub(crate) struct Divergence {
    pub(crate) hart: HartId,
    pub(crate) pc: u64,
    pub(crate) cycle: u64,
    /// Instructions that were checked up to here.
    pub(crate) checked: u64,
    pub(crate) what: What,
    /// One line each: what was expected and what was found.
    pub(crate) wrong: Vec<String>,
}

/// Notes a number that is not what it must be.
pub(super) fn different(wrong: &mut Vec<String>, name: &str, expected: u64, found: u64) {
    if expected != found {
        wrong.push(format!("{name}: expected {expected:#x}, found {found:#x}"));
    }
}

/// Notes in what a hart differs from its shadow, with all CSRs or those that any instruction changes.
pub(super) fn differences(
    wrong: &mut Vec<String>,
    shadow: &Hart,
    hart: &Hart,
    next: u64,
    all_csrs: bool,
) {
    let slots = 0..usize::from(SINK);
    if shadow.regs[slots.clone()] != hart.regs[slots.clone()] {
        for slot in slots {
            let name = register_name(slot as u8);
            different(wrong, name, shadow.regs[slot], hart.regs[slot]);
        }
    }
    different(wrong, "next pc", shadow.pc, next);
    different(wrong, "instructions retired", shadow.retired, hart.retired);
    let (csr, found) = (&shadow.csr, &hart.csr);
    if all_csrs && csr != found || csr.privilege != found.privilege || csr.fflags != found.fflags {
        csr_differences(wrong, csr, found);
    }
}

#[cold]
fn csr_differences(wrong: &mut Vec<String>, expected: &CsrFile, found: &CsrFile) {
    let fields = |csr: &CsrFile| match serde_json::to_value(csr) {
        Ok(Value::Object(fields)) => fields,
        other => unreachable!("CSRs are a struct of plain data, not {other:?}"),
    };
    let (expected, found) = (fields(expected), fields(found));
    for (name, expected) in &expected {
        let found = found.get(name).unwrap_or(&Value::Null);
        if expected != found {
            wrong.push(format!(
                "{name}: expected {}, found {}",
                show(expected),
                show(found)
            ));
        }
    }
}

fn show(value: &Value) -> String {
    match value.as_u64() {
        Some(number) => format!("{number:#x}"),
        None => value.to_string(),
    }
}
