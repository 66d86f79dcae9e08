//! The oracle: for what-if runs, a predictor that knows where branches lead.
//!
//! It runs each context's instructions as they are fetched, on registers and stores of its own, by the
//! semantics that everything runs by. What it cannot know at fetch is what another hart will have
//! written when a load performs; then it is wrong, and the branch redirects fetch as any other.

use std::collections::VecDeque;

use loiter_hart::{Access, Hart, Operands, access_width, compute, extend};
use loiter_isa::{Class, Inst, Op, SINK, Width};
use loiter_machine::Machine;
use loiter_types::{PhysAddr, VirtAddr};
use serde::{Deserialize, Serialize};
use serde_with::serde_as;

use super::context::{Context, How};
use super::core::CoreState;
use crate::store_buffer::{StoreBuffer, overlay};

/// A store that has been fetched and has not retired.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Stored {
    n: u64,
    addr: PhysAddr,
    bytes: u64,
    value: u64,
}

/// What is known of a context at the point that fetch has reached.
#[serde_as]
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Oracle {
    #[serde_as(as = "[_; SINK as usize + 1]")]
    regs: [u64; SINK as usize + 1],
    /// By position in the window, what the destination held before.
    replaced: Vec<u64>,
    stores: VecDeque<Stored>,
}

impl Oracle {
    /// For a window with so much room, a power of two.
    pub(super) fn new(room: usize) -> Self {
        Self {
            regs: [0; SINK as usize + 1],
            replaced: vec![0; room],
            stores: VecDeque::new(),
        }
    }

    fn position(&self, n: u64) -> usize {
        n as usize & (self.replaced.len() - 1)
    }

    /// The bytes of a load, as it would read them if it performed now.
    fn read(
        &self,
        machine: &mut Machine,
        buffer: &StoreBuffer,
        addr: PhysAddr,
        width: Width,
    ) -> Option<u64> {
        let bytes = width.bytes();
        let mut value = machine
            .is_ram(addr, bytes)
            .then(|| machine.load(addr, width).ok())??;
        value = buffer.overlay(addr, bytes, value);
        for store in &self.stores {
            value = overlay(value, addr, bytes, store.addr, store.bytes, store.value);
        }
        Some(value)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "what fetch knows of an instruction"
    )]
    /// Runs instruction `n`. Returns where it leads, if that can be known.
    fn run(
        &mut self,
        n: u64,
        pc: u64,
        inst: &Inst,
        how: How,
        hart: &mut Hart,
        machine: &mut Machine,
        buffer: &StoreBuffer,
    ) -> Option<u64> {
        let place = self.position(n);
        let rd = inst.rd as usize;
        self.replaced[place] = self.regs[rd];
        let source = |slot: u8| self.regs[slot as usize];
        let operands = Operands {
            sources: [source(inst.rs1), source(inst.rs2), source(inst.rs3)],
            pc,
            frm: hart.csr.frm(),
        };
        let class = inst.op.class();
        let mut next = None;
        let value = match (how, class) {
            (How::Apart, _) => {
                let done = compute(inst, &operands);
                if !done.complete {
                    return None;
                }
                next = Some(done.next);
                match class {
                    Class::Load => {
                        let width = access_width(inst.op)?;
                        let addr = locate(hart, machine, done.value, width, Access::Load)?;
                        let bytes = self.read(machine, buffer, addr, width)?;
                        Some(extend(inst, bytes))
                    }
                    Class::Store => {
                        let width = access_width(inst.op)?;
                        let addr = locate(hart, machine, done.value, width, Access::Store)?;
                        self.stores.push_back(Stored {
                            n,
                            addr,
                            bytes: width.bytes(),
                            value: operands.sources[1],
                        });
                        None
                    }
                    _ => Some(done.value),
                }
            }
            // As if nobody came between.
            (How::Barrier | How::Oldest, Class::Atomic) => match inst.op {
                Op::ScW | Op::ScD => Some(0),
                _ => {
                    let width = access_width(inst.op)?;
                    let virt = operands.sources[0];
                    let addr = locate(hart, machine, virt, width, Access::Load)?;
                    let bytes = self.read(machine, buffer, addr, width)?;
                    Some(match width {
                        Width::W => bytes as i32 as u64,
                        _ => bytes,
                    })
                }
            },
            _ => None,
        };
        if let Some(value) = value
            && inst.rd != SINK
        {
            self.regs[rd] = value;
        }
        next
    }
}

/// Where the data of an access lie, if it is allowed.
fn locate(
    hart: &mut Hart,
    machine: &mut Machine,
    virt: u64,
    width: Width,
    access: Access,
) -> Option<PhysAddr> {
    let (addr, bytes) = (VirtAddr(virt), width.bytes());
    if addr.leaves_page(bytes) {
        return None;
    }
    let found = hart.locate(machine, addr, bytes, access).ok()?;
    machine.is_ram(found, bytes).then_some(found)
}

impl Context {
    /// Where the instruction at `pc`, which is being fetched, leads, if there is an oracle and it knows.
    #[inline]
    pub(super) fn ask_oracle(
        &mut self,
        pc: u64,
        inst: &Inst,
        how: How,
        hart: &mut Hart,
        machine: &mut Machine,
    ) -> Option<u64> {
        let oracle = self.oracle.as_deref_mut()?;
        if self.head == self.tail {
            let slots = oracle.regs.len();
            oracle.regs.copy_from_slice(&hart.regs[..slots]);
            oracle.stores.clear();
        }
        oracle.run(self.tail, pc, inst, how, hart, machine, &self.buffer)
    }

    /// The oracle forgets instruction `first` and all after it.
    pub(super) fn forget_from(&mut self, first: u64) {
        let Some(mut oracle) = self.oracle.take() else {
            return;
        };
        for n in (first..self.tail).rev() {
            let entry = self.entry(n);
            if !matches!(entry.how, How::Fault | How::FetchRefill) && entry.inst.rd != SINK {
                oracle.regs[entry.inst.rd as usize] = oracle.replaced[oracle.position(n)];
            }
        }
        while oracle.stores.back().is_some_and(|store| store.n >= first) {
            oracle.stores.pop_back();
        }
        self.oracle = Some(oracle);
    }

    /// The oracle was wrong: it learns the values that are there.
    pub(super) fn correct_oracle(&mut self, core: &CoreState) {
        let Some(oracle) = self.oracle.as_deref_mut() else {
            return;
        };
        for slot in 1..SINK as usize {
            let register = self.map[slot];
            if core.registers.is_ready(register) {
                oracle.regs[slot] = core.registers.values[register as usize];
            }
        }
    }

    /// The oldest instruction leaves; its store is in the store buffer.
    #[inline(always)]
    pub(super) fn oracle_retires(&mut self) {
        if let Some(oracle) = self.oracle.as_deref_mut()
            && oracle
                .stores
                .front()
                .is_some_and(|store| store.n == self.head)
        {
            oracle.stores.pop_front();
        }
    }
}
