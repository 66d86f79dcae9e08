//! The hot loop of the reference engine for an observer, who is told of every instruction in the pages
//! that he asks for. It stands beside the plain one, which is written for speed alone.

use loiter_isa::dispatch;
use loiter_machine::Machine;
use loiter_types::PAGE_BYTES;

use crate::code::{CodeCache, slot};
use crate::exec::{Exec, Flow};
use crate::hart::Hart;
use crate::observer::{InstructionObserver, Retired};
use crate::reference::{PlainRam, find_page};
use crate::trap::Trap;

/// As the plain loop: runs until an instruction asks for something, the budget ends, or the page cannot
/// be fetched; and until the observer holds. `cycle_offset` is the cycle minus the hart's retired
/// instructions.
#[inline(never)]
pub(crate) fn hot<O: InstructionObserver>(
    hart: &mut Hart,
    machine: &mut Machine,
    code: &mut CodeCache,
    end: u64,
    cycle_offset: u64,
    observer: &mut O,
) -> Result<Flow, Trap> {
    let mut left = end - hart.retired;
    let outcome = 'pages: loop {
        let pc = hart.pc;
        let known = hart.tlb.fetch(pc);
        let page = match known.and_then(|addr| code.decoded_page(addr)) {
            Some(page) => page,
            None => match find_page(hart, machine, code) {
                Ok(addr) => code.decoded_page(addr).expect("just decoded"),
                Err(trap) => break Err(trap),
            },
        };
        let base = pc & !(PAGE_BYTES - 1);
        let told = observer.enters_page(hart, pc);
        let privilege = hart.csr.privilege;
        let mut port = PlainRam(machine);
        let mut exec = Exec::<_, false>::new(hart, &mut port);
        loop {
            let pc = exec.pc;
            if pc.wrapping_sub(base) >= PAGE_BYTES {
                exec.finish();
                continue 'pages;
            }
            if left == 0 || told && observer.holds_at(exec.hart, pc) {
                exec.finish();
                break 'pages Ok(Flow::Next);
            }
            let inst = &page[slot(pc)];
            let first_source = exec.hart.regs[inst.rs1 as usize];
            match dispatch(&mut exec, inst) {
                Flow::Next | Flow::Jump => left -= 1,
                flow => {
                    exec.finish();
                    break 'pages Ok(flow);
                }
            }
            if told {
                observer.retired(&Retired {
                    hart: exec.hart,
                    machine: &*exec.port.0,
                    inst,
                    pc,
                    next: exec.pc,
                    base: first_source,
                    privilege,
                    cycle: (end - left - 1).wrapping_add(cycle_offset),
                });
                if observer.holds() {
                    exec.finish();
                    break 'pages Ok(Flow::Next);
                }
            }
        }
    };
    hart.retired = end - left;
    outcome
}

#[cfg(test)]
#[path = "observed_tests.rs"]
mod tests;
