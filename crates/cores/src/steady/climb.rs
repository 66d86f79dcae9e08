//! Registers that climb: a loop that counts repeats itself but for the registers it counts in.
//!
//! The instructions of one period are run apart, each register as a value and by how much that grows from one period to
//! the next. Growth may pass through additions and decide branches as long as those go the same way; whatever else depends
//! on it (an address, a divisor, a shift) changes more than registers, and the loop is none of ours. What comes out is for
//! how many periods all branches go the way that they went in the one that has been.

use loiter_hart::{CodeCache, Hart, Operands, access_width, compute, extend};
use loiter_isa::{Class, Inst, Op, SINK};
use loiter_machine::Machine;
use loiter_types::VirtAddr;

const REGISTERS: usize = 256;

/// A hart that goes through a period apart.
struct Walk<'a> {
    hart: Hart,
    machine: &'a mut Machine,
    code: &'a mut CodeCache,
    /// By how much each register grows from one period to the next, as an integer modulo 2^64.
    growth: [u64; REGISTERS],
    /// For so many periods all goes as in this one.
    periods: u64,
}

/// `hart` stands at the end of a period in which it has retired so many `instructions`, and its registers have grown by
/// `growth`. Returns how many periods like it follow at least.
pub(crate) fn periods(
    hart: &Hart,
    (instructions, growth): (u64, &[u64]),
    machine: &mut Machine,
    code: &mut CodeCache,
) -> u64 {
    let mut walk = Walk {
        hart: hart.clone(),
        machine,
        code,
        growth: [0; REGISTERS],
        periods: u64::MAX,
    };
    // From the beginning of that period: what it did is what comes.
    walk.growth[..growth.len()].copy_from_slice(growth);
    for (value, growth) in walk.hart.regs.iter_mut().zip(growth) {
        *value = value.wrapping_sub(*growth);
    }
    let ends_here = walk.goes_through(instructions).is_some()
        && walk.hart.pc == hart.pc
        && walk.hart.regs[..growth.len()] == hart.regs[..growth.len()]
        && walk.growth[..growth.len()] == *growth;
    match ends_here {
        true => walk.periods,
        false => 0,
    }
}

impl Walk<'_> {
    /// Runs so many instructions. `None` if one of them is more than it can follow.
    fn goes_through(&mut self, instructions: u64) -> Option<()> {
        let mut left = instructions;
        while left > 0 {
            let inst = self.hart.fetch(self.machine, self.code).ok()?;
            if inst.op == Op::Probe {
                self.hart.pc += u64::from(inst.len);
                continue;
            }
            self.step(&inst)?;
            left -= 1;
        }
        // It stands before the next instruction, and what probes tell comes with that.
        Some(())
    }

    fn step(&mut self, inst: &Inst) -> Option<()> {
        let sources = [inst.rs1, inst.rs2, inst.rs3].map(|slot| self.hart.regs[slot as usize]);
        let growth = [inst.rs1, inst.rs2].map(|slot| self.growth[slot as usize]);
        let operands = Operands {
            sources,
            pc: self.hart.pc,
            frm: self.hart.csr.frm(),
        };
        let done = compute(inst, &operands);
        if !done.complete {
            return None;
        }
        let grows = growth != [0, 0];
        let mut value = done.value;
        let grown = match inst.op.class() {
            Class::Alu if grows => self.sum(inst.op, growth, value)?,
            Class::Branch if grows => {
                self.branch(inst.op, sources, growth)?;
                0
            }
            Class::Alu | Class::Branch | Class::Jump | Class::Mul | Class::Div if !grows => 0,
            Class::Fence | Class::Pause => 0,
            // What is in floating-point registers does not grow.
            class if class.is_fp() && !grows => 0,
            Class::Load if growth[0] == 0 => {
                value = self.loads(inst, done.value)?;
                0
            }
            _ => return None,
        };
        self.hart.pc = done.next;
        if inst.rd != SINK {
            self.hart.regs[inst.rd as usize] = value;
            self.growth[inst.rd as usize] = grown;
        }
        Some(())
    }

    /// What a load reads from RAM.
    fn loads(&self, inst: &Inst, addr: u64) -> Option<u64> {
        let width = access_width(inst.op)?;
        let virt = VirtAddr(addr);
        if virt.leaves_page(width.bytes()) {
            return None;
        }
        let found = self.hart.peek(self.machine, virt)?;
        Some(extend(inst, self.machine.ram.read(found, width)?))
    }

    /// By how much a sum grows.
    fn sum(&mut self, op: Op, growth: [u64; 2], value: u64) -> Option<u64> {
        let [a, b] = growth;
        let grown = match op {
            Op::Addi | Op::Addiw => a,
            Op::Add | Op::Addw => a.wrapping_add(b),
            Op::Sub | Op::Subw => a.wrapping_sub(b),
            _ => return None,
        };
        if matches!(op, Op::Addiw | Op::Addw | Op::Subw) {
            // The word that comes out climbs as long as it does not wrap, whatever stands above the words that go in.
            let bounds = (i128::from(i32::MIN), i128::from(i32::MAX));
            self.stays_within(i128::from(value as i64), grown as i64, bounds);
        }
        Some(grown)
    }

    /// A value that grows by `growth` a period is to stay in `low..=high`.
    fn stays_within(&mut self, value: i128, growth: i64, (low, high): (i128, i128)) {
        let growth = i128::from(growth);
        let room = match growth {
            0 => return,
            1.. => (high - value) / growth,
            _ => (value - low) / -growth,
        };
        self.periods = self.periods.min(room.try_into().unwrap_or(u64::MAX));
    }

    /// A branch is to go the same way.
    fn branch(&mut self, op: Op, sources: [u64; 3], growth: [u64; 2]) -> Option<()> {
        let signed = matches!(op, Op::Blt | Op::Bge);
        let bounds = match signed {
            true => (i128::from(i64::MIN), i128::from(i64::MAX)),
            false => (0, i128::from(u64::MAX)),
        };
        let value = |bits: u64| match signed {
            true => i128::from(bits as i64),
            false => i128::from(bits),
        };
        let [a, b] = [value(sources[0]), value(sources[1])];
        let [by_a, by_b] = growth.map(|growth| growth as i64);
        self.stays_within(a, by_a, bounds);
        self.stays_within(b, by_b, bounds);
        let (difference, by) = (a - b, by_a.checked_sub(by_b)?);
        let everything = (-(1 << 66), 1 << 66);
        let same = match op {
            Op::Beq | Op::Bne => match difference {
                0 if by != 0 => {
                    self.periods = 0;
                    everything
                }
                0 => everything,
                1.. => (1, everything.1),
                _ => (everything.0, -1),
            },
            Op::Blt | Op::Bge | Op::Bltu | Op::Bgeu => match difference {
                0.. => (0, everything.1),
                _ => (everything.0, -1),
            },
            _ => return None,
        };
        self.stays_within(difference, by, same);
        Some(())
    }
}

#[cfg(test)]
#[path = "climb_tests.rs"]
mod tests;
