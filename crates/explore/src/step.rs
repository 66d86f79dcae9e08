//! What can come of one instruction of one thread, given the memory. What accesses do is in `access.rs`.

use loiter_hart::{Access, Environment, Exec, Flow, Hart, Trap, access_width};
use loiter_isa::{Class, Inst, Op, Width, dispatch};
use loiter_machine::AccessFault;
use loiter_types::{HartId, PhysAddr, VirtAddr};
use rustc_hash::FxHashMap;

use crate::cells::{Cells, Changed, Covered};
use crate::fault::Fault;
use crate::future::{Fact, Future};
use crate::memory::{Location, Memory, Message, Time};
use crate::model::Model;
use crate::origin::{UNKNOWN, either};
use crate::program::Program;
use crate::thread::Thread;

/// Why a step is not to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// The program cannot be explored.
    Fault(Fault),
    /// Explore again.
    Changed,
}

impl From<Fault> for Halt {
    fn from(fault: Fault) -> Self {
        Halt::Fault(fault)
    }
}

impl From<Changed> for Halt {
    fn from(_: Changed) -> Self {
        Halt::Changed
    }
}

/// A write that a step has added at the end of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Added {
    pub(crate) message: Message,
    /// The write stands after this time, so it could have been promised when memory ended there.
    pub(crate) bound: Time,
}

/// What an access did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Event {
    pub(crate) location: Location,
    /// What was read, and the time of the last of the writes that it is of.
    pub(crate) read: Option<(u64, Time)>,
    /// What was written, and where it stands.
    pub(crate) wrote: Option<(u64, Time)>,
}

/// A thread after one more instruction, and what it wrote that it had not promised.
#[derive(Clone, Debug)]
pub(crate) struct Next {
    pub(crate) thread: Thread,
    pub(crate) added: Option<Added>,
    pub(crate) event: Option<Event>,
}

/// Runs instructions for all threads: one hart, whose registers are replaced.
pub(crate) struct Stepper<'a> {
    pub(crate) model: Model,
    pub(crate) program: &'a Program,
    pub(crate) cells: &'a mut Cells,
    pub(crate) future: &'a mut Future,
    /// What accesses covered that have been met in this exploration.
    pub(crate) met: FxHashMap<Fact, Covered>,
    /// Something was learnt: what is explored from here on is explored only to learn more.
    pub(crate) stale: bool,
    pub(crate) hart: Hart,
    /// Loads stand here, whatever they read; 0 if they stand where they can.
    pub(crate) late: Time,
}

/// What an instruction finds outside of its hart: one value to load, and a place for one store.
pub(crate) struct Port {
    pub(crate) load: u64,
    pub(crate) reserved: bool,
    pub(crate) stored: Option<u64>,
}

impl Environment for Port {
    fn load(&mut self, _: HartId, _: PhysAddr, _: Width) -> Result<u64, AccessFault> {
        Ok(self.load)
    }

    fn store(&mut self, _: HartId, _: PhysAddr, _: Width, value: u64) -> Result<(), AccessFault> {
        self.stored = Some(value);
        Ok(())
    }

    fn store_atomic(
        &mut self,
        hart: HartId,
        addr: PhysAddr,
        width: Width,
        value: u64,
    ) -> Result<(), AccessFault> {
        self.store(hart, addr, width, value)
    }

    fn translate(
        &mut self,
        _: &mut Hart,
        addr: VirtAddr,
        _: u64,
        _: Access,
    ) -> Result<PhysAddr, Trap> {
        Ok(PhysAddr(addr.0))
    }

    fn is_ram(&mut self, _: PhysAddr, _: u64) -> bool {
        true
    }

    fn reserve(&mut self, _: HartId, _: PhysAddr) {}

    fn is_reserved(&mut self, _: HartId, _: PhysAddr) -> bool {
        self.reserved
    }

    fn give_up_reservation(&mut self, _: HartId) {}

    fn supervisor_timer(&mut self, _: HartId) -> u64 {
        0
    }

    fn set_supervisor_timer(&mut self, _: HartId, _: u64) -> u64 {
        0
    }

    fn set_guest_timer(&mut self, _: HartId, _: u64, _: u64) -> u64 {
        0
    }
}

/// The CSR with the number of the hart.
const MHARTID: i32 = 0xf14;

impl Stepper<'_> {
    /// All that can come of `inst`, at the pc of `thread`.
    pub(crate) fn step(
        &mut self,
        number: usize,
        thread: &Thread,
        inst: &Inst,
        memory: &Memory,
    ) -> Result<Vec<Next>, Halt> {
        if has_float(inst) {
            return Err(refused(number, thread, inst));
        }
        match inst.op.class() {
            Class::Load => self.load(number, thread, inst, memory),
            Class::Store if inst.op != Op::LockRelease => self.store(number, thread, inst, memory),
            Class::Atomic => match inst.op {
                Op::LrW | Op::LrD => self.load(number, thread, inst, memory),
                Op::ScW | Op::ScD => {
                    let mut all = self.store(number, thread, inst, memory)?;
                    if thread.floor == 0 {
                        all.push(self.failed_sc(number, thread, inst)?);
                    }
                    Ok(all)
                }
                Op::AmocasW | Op::AmocasD | Op::AmocasQ | Op::LockAcquire | Op::LockWait => {
                    Err(refused(number, thread, inst))
                }
                _ => self.amo(number, thread, inst, memory),
            },
            _ => {
                let mut after = thread.clone();
                self.advance(number, &mut after, inst)?;
                Ok(vec![Next {
                    thread: after,
                    added: None,
                    event: None,
                }])
            }
        }
    }

    /// Runs `inst`, which accesses no memory, at the pc of `thread`.
    pub(crate) fn advance(
        &mut self,
        number: usize,
        thread: &mut Thread,
        inst: &Inst,
    ) -> Result<(), Halt> {
        if has_float(inst) {
            return Err(refused(number, thread, inst));
        }
        match inst.op.class() {
            Class::Fence => self.fence(number, thread, inst),
            Class::Alu
            | Class::Mul
            | Class::Div
            | Class::Branch
            | Class::Jump
            | Class::Pause
            | Class::Probe => self.compute(number, thread, inst),
            // It may end at any time.
            Class::Nap if inst.op != Op::Wfi => {
                thread.pc = thread.pc.wrapping_add(u64::from(inst.len));
                Ok(())
            }
            Class::Csr if inst.op == Op::Csrrs && inst.rs1 == 0 && inst.imm == MHARTID => {
                thread.pc = thread.pc.wrapping_add(u64::from(inst.len));
                if let rd @ 1..32 = inst.rd {
                    thread.regs[usize::from(rd)] = number as u64;
                    thread.set_view(rd, 0);
                    thread.set_origin(rd, UNKNOWN);
                }
                Ok(())
            }
            _ => Err(refused(number, thread, inst)),
        }
    }

    /// Runs the instruction itself, which reads what `port` has. Changes pc and registers of `thread`, and returns what it
    /// stores.
    pub(crate) fn run(
        &mut self,
        number: usize,
        thread: &mut Thread,
        inst: &Inst,
        mut port: Port,
    ) -> Result<Option<u64>, Halt> {
        self.hart.regs[..32].copy_from_slice(&thread.regs);
        self.hart.pc = thread.pc;
        let mut exec = Exec::<_, true>::new(&mut self.hart, &mut port);
        let flow = dispatch(&mut exec, inst);
        exec.finish();
        if !matches!(
            flow,
            Flow::Next | Flow::Jump | Flow::Pause | Flow::Probe(..) | Flow::FenceI
        ) {
            let text = loiter_isa::disassemble(inst.raw, thread.pc);
            return Err(Fault::Traps(number, thread.pc, text).into());
        }
        thread.regs.copy_from_slice(&self.hart.regs[..32]);
        thread.pc = self.hart.pc;
        Ok(port.stored)
    }

    /// Whether `inst` is a step that can come before or after those of other threads.
    pub(crate) fn is_visible(
        &mut self,
        number: usize,
        thread: &Thread,
        inst: &Inst,
    ) -> Result<bool, Halt> {
        match inst.op.class() {
            Class::Load | Class::Store | Class::Atomic if access_width(inst.op).is_some() => {
                let (_, covered) = self.access(number, thread, inst)?;
                // An `sc` may fail, wherever it goes.
                Ok(covered.shared || matches!(inst.op, Op::ScW | Op::ScD))
            }
            _ => Ok(false),
        }
    }

    /// What `inst`, which is visible, accesses.
    pub(crate) fn covered(
        &mut self,
        number: usize,
        thread: &Thread,
        inst: &Inst,
    ) -> Result<Covered, Halt> {
        Ok(self.access(number, thread, inst)?.1)
    }

    /// Arithmetic, jumps and branches: a result depends on what its operands do.
    fn compute(&mut self, number: usize, thread: &mut Thread, inst: &Inst) -> Result<(), Halt> {
        let origin = either(thread.origin(inst.rs1), thread.origin(inst.rs2));
        self.run(number, thread, inst, IDLE)?;
        let sources = thread.view(inst.rs1).max(thread.view(inst.rs2));
        match inst.op.class() {
            Class::Branch => thread.control = thread.control.max(sources),
            Class::Jump => {
                thread.control = thread.control.max(sources);
                thread.set_view(inst.rd, 0);
                thread.set_origin(inst.rd, UNKNOWN);
            }
            _ => {
                thread.set_view(inst.rd, sources);
                thread.set_origin(inst.rd, origin);
            }
        }
        Ok(())
    }

    fn fence(&mut self, number: usize, thread: &mut Thread, inst: &Inst) -> Result<(), Halt> {
        const READ: i32 = 2;
        const WRITE: i32 = 1;
        self.run(number, thread, inst, IDLE)?;
        let (reads, writes) = (thread.reads, thread.writes);
        match inst.op {
            Op::Fence => {
                let (predecessor, successor) = (inst.imm >> 4, inst.imm);
                let of = |bit, view| if predecessor & bit != 0 { view } else { 0 };
                let view = of(READ, reads).max(of(WRITE, writes));
                if successor & READ != 0 {
                    thread.before_reads = thread.before_reads.max(view);
                }
                if successor & WRITE != 0 {
                    thread.before_writes = thread.before_writes.max(view);
                }
            }
            Op::FenceTso => {
                thread.before_reads = thread.before_reads.max(reads);
                thread.before_writes = thread.before_writes.max(reads.max(writes));
            }
            // Orders fetches, of which the models say nothing.
            _ => {}
        }
        Ok(())
    }
}

/// Whether `inst` has a floating-point register.
fn has_float(inst: &Inst) -> bool {
    let is_float = |slot: u8| (32..64).contains(&slot);
    [inst.rd, inst.rs1, inst.rs2, inst.rs3]
        .into_iter()
        .any(is_float)
}

fn refused(number: usize, thread: &Thread, inst: &Inst) -> Halt {
    let text = loiter_isa::disassemble(inst.raw, thread.pc);
    Halt::Fault(Fault::Refused(number, thread.pc, text))
}

/// Whether an access may write.
pub(crate) fn writes(inst: &Inst) -> bool {
    !(inst.op.class() == Class::Load || inst.op.only_reads())
}

pub(crate) const IDLE: Port = Port {
    load: 0,
    reserved: false,
    stored: None,
};
