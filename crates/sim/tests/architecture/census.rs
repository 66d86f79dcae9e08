//! Which instructions a program executes and which traps it takes: it is stepped through the
//! semantics, without what makes the reference engine fast.

use std::collections::{BTreeMap, BTreeSet};

use loiter_hart::{CodeCache, Exec, Extensions, Flow, Hart, Trap};
use loiter_isa::{Inst, Op, decode, disassemble, dispatch, length};
use loiter_machine::{ElfImage, Machine, MachineConfig};
use loiter_types::HartId;

use crate::machines::RAM_MIB;

const BREAKPOINT: u64 = 3;

/// A trap that was entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entered {
    /// As in `mcause`.
    pub(crate) cause: u64,
    pub(crate) pc: u64,
    pub(crate) value: u64,
}

impl Entered {
    /// Whether the traps are the same but for values and causes that are excluded.
    pub(crate) fn same_but_excluded(&self, other: &Self) -> bool {
        let store = |cause: u64| {
            if cause == 5 { 7 } else { cause }
        };
        let value = |trap: &Self| {
            if trap.cause == BREAKPOINT {
                0
            } else {
                trap.value
            }
        };
        store(self.cause) == store(other.cause)
            && self.pc == other.pc
            && value(self) == value(other)
    }
}

/// What was executed.
#[derive(Default)]
pub(crate) struct Census {
    /// How often each operation retired; for those that never do, how often it trapped.
    pub(crate) ops: BTreeMap<Op, u64>,
    /// Mnemonics of compressed instructions that retired.
    pub(crate) compressed: BTreeSet<String>,
    /// Every trap, in order.
    pub(crate) traps: Vec<Entered>,
    seen: BTreeSet<u16>,
    code: CodeCache,
}

impl Census {
    /// Steps hart 0 through `elf` to its end.
    pub(crate) fn take(&mut self, elf: &[u8]) {
        self.code = CodeCache::new();
        let mut machine = Machine::new(&MachineConfig {
            ram_bytes: RAM_MIB << 20,
            isa: "rv64imafdc".into(),
            ..MachineConfig::default()
        })
        .expect("a valid machine");
        let image = ElfImage::parse("generated", elf).expect("a valid program");
        machine.load_elf(&image).expect("a program that fits");
        let tree = machine.place_device_tree();
        let mut hart = Hart::new(
            HartId::new(0),
            image.entry.0,
            tree,
            Extensions::of("rv64i_zawrs_xloiterlock"),
        );
        while machine.ended().is_none() {
            self.step(&mut hart, &mut machine);
        }
    }

    fn step(&mut self, hart: &mut Hart, machine: &mut Machine) {
        if let Some(interrupt) = hart.pending_interrupt() {
            return self.enter(hart, machine, Trap::Interrupt(interrupt));
        }
        let inst = match hart.fetch(machine, &mut self.code) {
            Ok(inst) => inst,
            Err(fault) => return self.enter(hart, machine, fault),
        };
        hart.csr.clock.cycle += 1;
        let mut exec = Exec::<_, true>::new(hart, machine);
        let flow = dispatch(&mut exec, &inst);
        exec.finish();
        match flow {
            Flow::Blocks(_) => {}
            Flow::Trap(trap) => {
                if matches!(inst.op, Op::Ecall | Op::Ebreak) {
                    self.count(&inst);
                }
                self.enter(hart, machine, trap);
            }
            Flow::Probe(..) => self.count(&inst),
            _ => {
                hart.retired += 1;
                self.count(&inst);
            }
        }
    }

    fn count(&mut self, inst: &Inst) {
        *self.ops.entry(inst.op).or_default() += 1;
        if inst.len == 2 && self.seen.insert(inst.raw as u16) {
            self.compressed.insert(mnemonic(inst.raw));
        }
    }

    fn enter(&mut self, hart: &mut Hart, machine: &Machine, trap: Trap) {
        self.traps.push(Entered {
            cause: trap.code(),
            pc: hart.pc,
            value: trap.value(),
        });
        hart.take_trap(trap, machine).expect("there are handlers");
    }
}

fn mnemonic(bits: u32) -> String {
    let text = disassemble(bits, 0);
    let word = text.split(' ').next().expect("a word");
    word.to_owned()
}

/// Every mnemonic that a compressed encoding can have.
pub(crate) fn compressed_mnemonics() -> BTreeSet<String> {
    let halves = (0..=u16::MAX).map(u32::from);
    let legal = halves.filter(|&half| length(half as u16) == 2 && decode(half).op != Op::Illegal);
    legal.map(mnemonic).collect()
}
