//! The reference engine for an observer, who is told of every instruction in the pages that he asks
//! for. It stands beside the plain one, which is written for speed alone; tests hold that they do the
//! same.

use loiter_isa::dispatch;
use loiter_machine::Machine;
use loiter_types::PAGE_BYTES;

use crate::code::{CodeCache, slot};
use crate::exec::{Exec, Flow};
use crate::hart::{Hart, HartState};
use crate::observer::{Accessed, InstructionObserver, Retired, Trapped};
use crate::reference::{Burst, PlainRam, Stop, find_page, host_call};
use crate::trap::{Trap, Unhandled};

/// As [`crate::run`], telling an observer.
pub fn run_observed<O: InstructionObserver>(
    hart: &mut Hart,
    machine: &mut Machine,
    code: &mut CodeCache,
    budget: u64,
    observer: &mut O,
) -> Burst {
    let before = hart.retired;
    let cycle = hart.csr.clock.cycle;
    let end = before + budget;
    let mut traps = 0;
    let stop = loop {
        if machine.pages.code_written() {
            code.refresh(machine);
        }
        hart.tlb.sync(&machine.pages);
        hart.csr.set_lines(machine.interrupt_lines(hart.id));
        if let Some(interrupt) = hart.pending_interrupt()
            && let Err(unhandled) = enter(hart, machine, Trap::Interrupt(interrupt), observer)
        {
            break Stop::Unhandled(unhandled);
        }
        if observer.holds() {
            break Stop::Held;
        }
        if hart.retired + traps >= end {
            break Stop::Budget;
        }
        let cycle_offset = cycle.wrapping_sub(before);
        let flow = hot(hart, machine, code, end - traps, cycle_offset, observer);
        if observer.holds() {
            break Stop::Held;
        }
        let flow = match flow {
            Ok(Flow::Full) => {
                hart.csr.clock.cycle = cycle + (hart.retired - before);
                full(hart, machine, code, observer)
            }
            Ok(flow) => flow,
            Err(trap) => Flow::Trap(trap),
        };
        if let Some(call) = host_call(flow, hart) {
            break Stop::Called(call);
        }
        traps += u64::from(matches!(flow, Flow::Trap(_)));
        match flow {
            Flow::Next | Flow::Jump | Flow::Full | Flow::Interrupts | Flow::FenceI => {}
            Flow::Trap(trap) => {
                if let Err(unhandled) = enter(hart, machine, trap, observer) {
                    break Stop::Unhandled(unhandled);
                }
            }
            Flow::Pause => break Stop::Pause,
            Flow::Nap(nap) | Flow::Blocks(nap) => {
                hart.state = HartState::Napping(nap);
                break Stop::Napping(nap);
            }
            Flow::Probe(code, value) => break Stop::Probe(code, value),
        }
        if machine.ends() {
            break Stop::Ended;
        }
    };
    Burst {
        retired: hart.retired - before,
        traps,
        stop,
    }
}

/// Enters a trap, and tells the observer.
fn enter<O: InstructionObserver>(
    hart: &mut Hart,
    machine: &Machine,
    trap: Trap,
    observer: &mut O,
) -> Result<(), Unhandled> {
    let (pc, privilege) = (hart.pc, hart.csr.privilege);
    hart.take_trap(trap, machine)?;
    observer.trapped(&Trapped {
        hart,
        machine,
        trap,
        pc,
        privilege,
        cycle: hart.csr.clock.cycle,
    });
    Ok(())
}

/// Runs the one instruction at the pc, whatever it is; tells of it and counts it if it retired.
#[cold]
fn full<O: InstructionObserver>(
    hart: &mut Hart,
    machine: &mut Machine,
    code: &mut CodeCache,
    observer: &mut O,
) -> Flow {
    hart.csr.clock.time = machine.time(hart.id);
    let inst = match hart.fetch(machine, code) {
        Ok(inst) => inst,
        Err(trap) => return Flow::Trap(trap),
    };
    let (pc, base, privilege) = (hart.pc, hart.regs[inst.rs1 as usize], hart.csr.privilege);
    let mut exec = Exec::<_, true>::new(hart, machine);
    let flow = dispatch(&mut exec, &inst);
    exec.finish();
    if !matches!(flow, Flow::Trap(_) | Flow::Probe(..) | Flow::Blocks(_)) {
        hart.retired += 1;
        observer.retired(&Retired {
            hart,
            machine,
            inst: &inst,
            pc,
            next: hart.pc,
            base,
            privilege,
            access: Accessed::Now,
            cycle: hart.csr.clock.cycle,
        });
    }
    flow
}

/// As the plain loop: runs until an instruction asks for something, the budget ends, or the page cannot
/// be fetched; and until the observer holds. `cycle_offset` is the cycle minus the hart's retired
/// instructions.
#[inline(never)]
fn hot<O: InstructionObserver>(
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
            let cycle = (end - left).wrapping_add(cycle_offset);
            if left == 0 || told && observer.holds_at(exec.hart, pc, cycle) {
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
                    access: Accessed::Now,
                    cycle,
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
