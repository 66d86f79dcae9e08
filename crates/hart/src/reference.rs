//! The reference engine: one instruction after the other, a hart at a time, no timing.
//!
//! It is the definition that timing cores are checked against and the fast way through the parts of
//! a run that nobody measures. An instruction costs one cycle of the hart's clock.

use loiter_isa::{Width, dispatch};
use loiter_machine::{AccessFault, Machine};
use loiter_types::{HartId, PAGE_BYTES, PhysAddr, VirtAddr};

use crate::code::{CodeCache, slot};
use crate::exec::{DataPort, Exec, Flow, Nap};
use crate::hart::{Hart, HartState};
use crate::host_call::HostCall;
use crate::translate::Access;
use crate::trap::{Trap, Unhandled};

impl DataPort for Machine {
    #[inline(always)]
    fn load(&mut self, _: HartId, addr: PhysAddr, width: Width) -> Result<u64, AccessFault> {
        Machine::load(self, addr, width)
    }

    #[inline(always)]
    fn store(
        &mut self,
        hart: HartId,
        addr: PhysAddr,
        width: Width,
        value: u64,
    ) -> Result<(), AccessFault> {
        Machine::store(self, hart, addr, width, value)
    }

    #[inline(always)]
    fn machine(&mut self) -> &mut Machine {
        self
    }
}

/// The hot loop's port: RAM that nobody watches. It refuses everything else, so that devices, watches
/// and the end of the program need no test after every access.
pub(crate) struct PlainRam<'a>(pub(crate) &'a mut Machine);

impl DataPort for PlainRam<'_> {
    #[inline(always)]
    fn load(&mut self, _: HartId, addr: PhysAddr, width: Width) -> Result<u64, AccessFault> {
        self.0.ram.read(addr, width).ok_or(AccessFault { addr })
    }

    #[inline(always)]
    fn store(
        &mut self,
        _: HartId,
        addr: PhysAddr,
        width: Width,
        value: u64,
    ) -> Result<(), AccessFault> {
        if self.0.store_unwatched(addr, width, value) {
            Ok(())
        } else {
            Err(AccessFault { addr })
        }
    }

    #[inline(always)]
    fn machine(&mut self) -> &mut Machine {
        self.0
    }
}

/// Why a burst of instructions ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The budget is used up.
    Budget,
    /// The hart sleeps.
    Napping(Nap),
    /// The hart asked to yield (`pause`).
    Pause,
    /// A probe passed: code and value.
    Probe(u16, u64),
    /// A trap has no handler.
    Unhandled(Unhandled),
    /// The program ended the machine.
    Ended,
    /// An observer holds.
    Held,
    /// The hart is a virtual CPU and calls its host; the call has not run.
    Called(HostCall),
}

/// How many instructions a burst retired and why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Instructions retired.
    pub retired: u64,
    /// Traps entered, which use the budget up as instructions do.
    pub traps: u64,
    /// Why it ended.
    pub stop: Stop,
}

/// Runs `hart` for at most `budget` instructions. The caller has set the hart's clocks for the start
/// of the burst.
///
/// [`crate::run_observed`] does the same for an observer. The two stand apart, each whole: with one
/// generic function for both, the compiler makes another, slower one of the hot loop here.
pub fn run(hart: &mut Hart, machine: &mut Machine, code: &mut CodeCache, budget: u64) -> Burst {
    let before = hart.retired;
    let cycle = hart.csr.clock.cycle;
    let end = before + budget;
    // A trap costs as much as an instruction: a handler that traps at once must not continue for ever.
    let mut traps = 0;
    let stop = loop {
        if machine.pages.code_written() {
            code.refresh(machine);
        }
        hart.tlb.sync(&machine.pages);
        hart.csr.set_lines(machine.interrupt_lines(hart.id));
        if let Some(interrupt) = hart.pending_interrupt()
            && let Err(unhandled) = hart.take_trap(Trap::Interrupt(interrupt), machine)
        {
            break Stop::Unhandled(unhandled);
        }
        if hart.retired + traps >= end {
            break Stop::Budget;
        }
        let flow = match hot(hart, machine, code, end - traps) {
            Ok(Left::Budget) => Flow::Next,
            Ok(Left::Full) => {
                hart.csr.clock.cycle = cycle + (hart.retired - before);
                full(hart, machine, code)
            }
            Err(trap) => Flow::Trap(trap),
        };
        if let Some(call) = host_call(flow, hart) {
            break Stop::Called(call);
        }
        traps += u64::from(matches!(flow, Flow::Trap(_)));
        if let Some(stop) = after(flow, hart, machine) {
            break stop;
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

/// What an instruction asks of the hart's host.
#[inline]
pub(crate) fn host_call(flow: Flow, hart: &Hart) -> Option<HostCall> {
    match flow {
        Flow::Trap(trap) => hart.host_call(trap),
        _ => None,
    }
}

/// What the engine does once an instruction asked for something.
#[inline]
fn after(flow: Flow, hart: &mut Hart, machine: &Machine) -> Option<Stop> {
    match flow {
        Flow::Next | Flow::Jump | Flow::Full | Flow::Interrupts | Flow::FenceI => None,
        Flow::Trap(trap) => hart.take_trap(trap, machine).err().map(Stop::Unhandled),
        Flow::Pause => Some(Stop::Pause),
        Flow::Nap(nap) | Flow::Blocks(nap) => {
            hart.state = HartState::Napping(nap);
            Some(Stop::Napping(nap))
        }
        Flow::Probe(code, value) => Some(Stop::Probe(code, value)),
    }
}

/// Why the hot loop was left.
enum Left {
    /// The budget is used up.
    Budget,
    /// The instruction at the pc needs a full executor.
    Full,
}

/// Runs until an instruction needs a full executor, the budget ends, or the page cannot be fetched.
#[inline(never)]
fn hot(
    hart: &mut Hart,
    machine: &mut Machine,
    code: &mut CodeCache,
    end: u64,
) -> Result<Left, Trap> {
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
        let mut port = PlainRam(machine);
        let mut exec = Exec::<_, false>::new(hart, &mut port);
        loop {
            if exec.pc.wrapping_sub(base) >= PAGE_BYTES {
                exec.finish();
                continue 'pages;
            }
            if left == 0 {
                exec.finish();
                break 'pages Ok(Left::Budget);
            }
            // So many instructions cannot run over the end of the page, unless one jumps.
            let to_end = PAGE_BYTES - exec.pc % PAGE_BYTES;
            let most = (to_end / 4).max(1).min(left);
            let mut todo = most;
            let ran = loop {
                match exec.run_by_length(&page[slot(exec.pc)]) {
                    Flow::Next => {
                        todo -= 1;
                        if todo == 0 {
                            break true;
                        }
                    }
                    Flow::Jump => {
                        todo -= 1;
                        break true;
                    }
                    // Not the flow: what it might hold would cost the whole loop registers.
                    _ => break false,
                }
            };
            left -= most - todo;
            if !ran {
                exec.finish();
                break 'pages Ok(Left::Full);
            }
        }
    };
    hart.retired = end - left;
    outcome
}

/// Translates the pc and decodes its page; nothing may be stale before, and nothing is after.
#[cold]
#[inline(never)]
pub(crate) fn find_page(
    hart: &mut Hart,
    machine: &mut Machine,
    code: &mut CodeCache,
) -> Result<PhysAddr, Trap> {
    let addr = hart.translate(machine, VirtAddr(hart.pc), 2, Access::Fetch)?;
    // The walk may have written to a page table among instructions.
    if machine.pages.code_written() {
        code.refresh(machine);
    }
    code.page(machine, addr)
        .ok_or(Access::Fetch.access_fault(hart.pc))?;
    // Decoding has marked the page.
    hart.tlb.sync(&machine.pages);
    Ok(addr)
}

/// Runs the one instruction at the pc, whatever it is, and counts it if it retired.
#[cold]
fn full(hart: &mut Hart, machine: &mut Machine, code: &mut CodeCache) -> Flow {
    hart.csr.clock.time = machine.time(hart.id);
    let inst = match hart.fetch(machine, code) {
        Ok(inst) => inst,
        Err(trap) => return Flow::Trap(trap),
    };
    let mut exec = Exec::<_, true>::new(hart, machine);
    let flow = dispatch(&mut exec, &inst);
    exec.finish();
    if !matches!(flow, Flow::Trap(_) | Flow::Probe(..) | Flow::Blocks(_)) {
        hart.retired += 1;
    }
    flow
}
