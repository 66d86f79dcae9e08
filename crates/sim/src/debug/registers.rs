//! The registers of a hart as GDB knows them: features and numbers of its "RISC-V Features".

use std::fmt::Write as _;

use gdbstub_arch::riscv::reg::id::RiscvRegId;
use loiter_hart::{Hart, Privilege};
use loiter_isa::csr::number::{FCSR, FFLAGS, FRM};
use loiter_isa::{csr, register_name};
use loiter_machine::Machine;

const FIRST_FLOAT: usize = 33;
const FIRST_CSR: usize = 65;
const PRIVILEGE: usize = 4161;
const CSRS: u16 = 4096;
/// Those that are part of the floating-point feature.
const FLOAT_CSRS: [u16; 3] = [FFLAGS, FRM, FCSR];
/// Slots of a hart's registers.
const FIRST_FLOAT_SLOT: usize = 32;

/// The target description: what registers there are.
pub(crate) fn description(hart: &Hart, machine: &Machine) -> String {
    let mut csrs = String::new();
    for number in 0..CSRS {
        let Some(name) = csr::name(number) else {
            continue;
        };
        if is_counter_of_events(&name) || hart.csr_from_outside(machine, number).is_none() {
            continue;
        }
        if !FLOAT_CSRS.contains(&number) {
            csrs += &register(&name, FIRST_CSR + usize::from(number), 64, "int");
        }
    }
    let mode = register("priv", PRIVILEGE, 8, "int");
    target("", &[("csr", csrs), ("virtual", mode)])
}

/// The target description of a hart of which only what a program uses is known: x, f, pc, and floating-point status. GDB
/// refuses programs that pass arguments in f registers, as most are compiled to, when a target has none. There is no operating
/// system: for Linux, GDB does not ask for steps, but sets breakpoints where it thinks that a step leads.
#[must_use]
pub fn program_description() -> String {
    target("<osabi>none</osabi>", &[])
}

/// That of a hart with these features, too.
fn target(system: &str, rest: &[(&str, String)]) -> String {
    let mut xml = format!(
        "<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\">\
         <target version=\"1.0\"><architecture>riscv:rv64</architecture>{system}",
    );
    let mut cpu = String::new();
    for slot in 0..32_u8 {
        let kind = match slot {
            1 => "code_ptr",
            2..=4 | 8 => "data_ptr",
            _ => "int",
        };
        cpu += &register(register_name(slot), slot.into(), 64, kind);
    }
    cpu += &register("pc", 32, 64, "code_ptr");
    let mut float = String::new();
    for n in 0..32_u8 {
        let name = register_name(FIRST_FLOAT_SLOT as u8 + n);
        float += &register(name, FIRST_FLOAT + usize::from(n), 64, "ieee_double");
    }
    for number in FLOAT_CSRS {
        let name = csr::name(number).expect("a known one");
        float += &register(&name, FIRST_CSR + usize::from(number), 64, "int");
    }
    for (name, registers) in [("cpu", cpu), ("fpu", float)].iter().chain(rest) {
        let name = format!("org.gnu.gdb.riscv.{name}");
        write!(xml, "<feature name=\"{name}\">{registers}</feature>").expect("text");
    }
    xml += "</target>";
    xml
}

/// Counters of performance events, of which there are none.
fn is_counter_of_events(name: &str) -> bool {
    name.contains("hpm")
}

fn register(name: &str, number: usize, bits: u32, kind: &str) -> String {
    format!("<reg name=\"{name}\" bitsize=\"{bits}\" regnum=\"{number}\" type=\"{kind}\"/>")
}

/// The value of a register and its bytes; `None` if there is none.
pub(crate) fn read(hart: &Hart, machine: &Machine, id: RiscvRegId<u64>) -> Option<(u64, usize)> {
    let value = match id {
        RiscvRegId::Gpr(n) => hart.regs[usize::from(n)],
        RiscvRegId::Fpr(n) => hart.regs[FIRST_FLOAT_SLOT + usize::from(n)],
        RiscvRegId::Pc => hart.pc,
        RiscvRegId::Csr(number) => hart.csr_from_outside(machine, number)?,
        RiscvRegId::Priv => return Some((hart.csr.privilege as u64, 1)),
        _ => return None,
    };
    Some((value, 8))
}

/// Writes a register. Returns whether it could.
pub(crate) fn write(
    hart: &mut Hart,
    machine: &mut Machine,
    id: RiscvRegId<u64>,
    value: u64,
) -> bool {
    match id {
        RiscvRegId::Gpr(0) => {}
        RiscvRegId::Gpr(n) => hart.regs[usize::from(n)] = value,
        RiscvRegId::Fpr(n) => hart.regs[FIRST_FLOAT_SLOT + usize::from(n)] = value,
        RiscvRegId::Pc if value & 1 != 0 => return false,
        RiscvRegId::Pc => hart.pc = value,
        RiscvRegId::Csr(number) => return hart.set_csr_from_outside(machine, number, value),
        RiscvRegId::Priv => match value {
            0 => hart.set_privilege_from_outside(Privilege::User),
            1 => hart.set_privilege_from_outside(Privilege::Supervisor),
            3 => hart.set_privilege_from_outside(Privilege::Machine),
            _ => return false,
        },
        _ => return false,
    }
    true
}
