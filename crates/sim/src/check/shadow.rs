//! A hart as it must be.

use loiter_hart::{Access, Blocked, Exec, Flow, Hart, HartState, Retired, Trap, Trapped};
use loiter_isa::{Class, Inst, Op, decode, dispatch};
use loiter_machine::Machine;
use loiter_types::{PhysAddr, VirtAddr};

use super::around::{Around, Told};
use super::buffer::{Buffer, StoredPages};
use super::divergence::{differences, different};

/// Instructions between two comparisons of all CSRs; those that change them have one of their own.
const CSR_INTERVAL: u64 = 256;
/// Most probes that stand one after the other; more would be an endless loop of ours.
const MOST_PROBES: usize = 1 << 16;

/// The shadow of a hart.
pub(super) struct Shadow {
    pub(super) hart: Hart,
    pub(super) buffer: Buffer,
}

impl Shadow {
    /// The shadow of `hart`, which has no store in flight.
    pub(super) fn new(hart: &Hart) -> Self {
        let mut hart = hart.clone();
        hart.state = HartState::Running;
        Self {
            hart,
            buffer: Buffer::default(),
        }
    }

    /// Does what the timing core has done. Returns in what they differ.
    pub(super) fn retire(&mut self, event: &Retired<'_>, stored: &mut StoredPages) -> Vec<String> {
        let inst = event.inst;
        let mut wrong = Vec::new();
        self.pass_probes(event.pc, event.machine);
        different(&mut wrong, "pc", self.hart.pc, event.pc);
        let privilege = (self.hart.csr.privilege, event.privilege);
        if privilege.0 != privilege.1 {
            wrong.push(format!(
                "privilege: expected {:?}, found {:?}",
                privilege.0, privilege.1
            ));
        }
        different(
            &mut wrong,
            "first operand",
            self.hart.regs[usize::from(inst.rs1)],
            event.base,
        );
        if let Ok((there, addr)) = fetch(&mut self.hart, event.machine)
            && there != inst.marked(0)
            && !stored.contains(addr)
        {
            wrong.push(format!(
                "instruction: expected {:#x}, found {:#x}",
                there.raw, inst.raw
            ));
        }
        if !wrong.is_empty() {
            return wrong;
        }
        self.see_clocks(event.hart);
        let went_on = event.next == event.pc.wrapping_add(u64::from(inst.len));
        // Since when it has waited is not told: it may be for as long as anybody can.
        self.hart.blocked = (!went_on).then_some(Blocked {
            pc: event.pc,
            since: 0,
            limit: 0,
        });
        let mut around = Around {
            machine: event.machine,
            told: Told::Retired {
                hart: event.hart,
                inst: *inst,
                access: event.access,
                went_on,
            },
            buffer: &mut self.buffer,
            stored,
            handed: 0,
            wrong,
        };
        let flow = run(&mut self.hart, &mut around, inst);
        let mut wrong = around.wrong;
        match flow {
            Flow::Trap(trap) => {
                wrong.push(format!("expected {trap}, found that it retired"));
                return wrong;
            }
            Flow::Blocks(nap) => {
                let words = nap.words();
                wrong.push(format!("expected that it {words}, found that it retired"));
                return wrong;
            }
            _ => {}
        }
        self.hart.retired += 1;
        let changes_csrs = matches!(inst.op.class(), Class::Csr | Class::System);
        let all = changes_csrs || self.hart.retired.is_multiple_of(CSR_INTERVAL);
        differences(&mut wrong, &self.hart, event.hart, event.next, all);
        wrong
    }

    /// Enters the trap that the timing core has entered. Returns in what they differ.
    pub(super) fn trap(&mut self, event: &Trapped<'_>, stored: &mut StoredPages) -> Vec<String> {
        let mut wrong = Vec::new();
        self.pass_probes(event.pc, event.machine);
        different(&mut wrong, "pc", self.hart.pc, event.pc);
        self.see_clocks(event.hart);
        match event.trap {
            Trap::Interrupt(found) => {
                let expected = self.hart.pending_interrupt();
                if expected != Some(found) {
                    wrong.push(format!("interrupt: expected {expected:?}, found {found:?}"));
                }
            }
            Trap::Exception(..) | Trap::Guest(_) => {
                let (expected, addr) = self.raise(event.machine, stored);
                let known = addr.is_none_or(|addr| !stored.contains(addr));
                if expected != Some(event.trap) && known {
                    let words = expected.map_or("that it retires".into(), |trap| trap.to_string());
                    wrong.push(format!("expected {words}, found {}", event.trap));
                }
            }
        }
        if !wrong.is_empty() {
            return wrong;
        }
        if self.hart.take_trap(event.trap, event.machine).is_err() {
            wrong.push("the trap has no handler".into());
        }
        differences(&mut wrong, &self.hart, event.hart, event.hart.pc, true);
        wrong
    }

    /// What the next instruction raises, and where it lies.
    fn raise(
        &mut self,
        machine: &Machine,
        stored: &mut StoredPages,
    ) -> (Option<Trap>, Option<PhysAddr>) {
        let pc = self.hart.pc;
        let (inst, addr) = loop {
            match fetch(&mut self.hart, machine) {
                // An exception after a probe stands at the probe.
                Ok((inst, _)) if inst.op == Op::Probe => self.hart.pc += u64::from(inst.len),
                Ok(found) => break found,
                Err(trap) => {
                    self.hart.pc = pc;
                    return (Some(trap), None);
                }
            }
        };
        let mut around = Around {
            machine,
            told: Told::Raised,
            buffer: &mut self.buffer,
            stored,
            handed: 0,
            wrong: Vec::new(),
        };
        let mut hart = self.hart.clone();
        let flow = run(&mut hart, &mut around, &inst);
        self.hart.pc = pc;
        match flow {
            Flow::Trap(trap) => (Some(trap), Some(addr)),
            _ => (None, Some(addr)),
        }
    }

    /// Clocks and interrupt lines are those of the timing core.
    fn see_clocks(&mut self, hart: &Hart) {
        self.hart.csr.clock = hart.csr.clock;
        self.hart.csr.set_lines(hart.csr.lines());
    }

    /// Probes are no instructions: continues to `pc` if only probes stand before it.
    fn pass_probes(&mut self, pc: u64, machine: &Machine) {
        let before = self.hart.pc;
        for _ in 0..MOST_PROBES {
            if self.hart.pc == pc {
                return;
            }
            match fetch(&mut self.hart, machine) {
                Ok((inst, _)) if inst.op == Op::Probe => self.hart.pc += u64::from(inst.len),
                _ => break,
            }
        }
        self.hart.pc = before;
    }
}

fn run(hart: &mut Hart, around: &mut Around<'_>, inst: &Inst) -> Flow {
    let mut exec = Exec::<_, true>::new(hart, around);
    let flow = dispatch(&mut exec, inst);
    exec.finish();
    flow
}

/// The instruction at the pc as memory holds it, and where it lies.
fn fetch(hart: &mut Hart, machine: &Machine) -> Result<(Inst, PhysAddr), Trap> {
    let pc = hart.pc;
    let addr = hart.locate(machine, VirtAddr(pc), 2, Access::Fetch)?;
    let low = machine
        .fetch16(addr)
        .map_err(|_| Access::Fetch.access_fault(pc))?;
    if low & 3 != 3 {
        return Ok((decode(low.into()), addr));
    }
    let next = pc.wrapping_add(2);
    let upper = match VirtAddr(pc).leaves_page(4) {
        true => hart.locate(machine, VirtAddr(next), 2, Access::Fetch)?,
        false => PhysAddr(addr.0 + 2),
    };
    let high = machine
        .fetch16(upper)
        .map_err(|_| Access::Fetch.access_fault(next))?;
    Ok((decode(u32::from(low) | u32::from(high) << 16), addr))
}
