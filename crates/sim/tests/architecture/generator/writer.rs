//! Writes random instructions: which registers they may use, and which kind comes next.

use loiter_isa::{Inst, Op, decode};

use super::asm::{Assembler, GP};
use super::exclusions::Target;
use super::layout;
use super::privileged::Arena;
use super::random::Random;
use super::tables::{Tables, integer_destinations};

/// The privilege mode that the code being written runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    User,
    Supervisor,
    Machine,
}

impl Mode {
    /// What `mstatus.MPP` has for it.
    pub(crate) fn field(self) -> i64 {
        match self {
            Mode::User => 0,
            Mode::Supervisor => 1,
            Mode::Machine => 3,
        }
    }
}

/// Nesting of loops and branches ends here.
const DEEPEST: u32 = 2;

/// Writes a few instructions that belong together.
pub(crate) type Item = fn(&mut Writer);

/// Kinds of items with their weights.
const ITEMS: &[(u64, Item)] = &[
    (26, Writer::integer),
    (14, Writer::compressed_integer),
    (22, Writer::float),
    (4, Writer::refresh_integer),
    (7, Writer::refresh_float),
    (14, Writer::load_or_store),
    (5, Writer::compressed_load_or_store),
    (4, Writer::atomic),
    (2, Writer::reservation),
    (2, Writer::fence_or_hint),
    (1, Writer::new_code),
    (3, Writer::float_state),
    (4, Writer::control_state),
    (3, Writer::trap),
    (6, Writer::branch_forward),
    (3, Writer::loop_back),
    (3, Writer::jump_over),
    (2, Writer::call),
];

/// The same for programs with address spaces.
const PRIVILEGED_ITEMS: &[(u64, Item)] = &[
    (14, Writer::integer),
    (8, Writer::compressed_integer),
    (5, Writer::float),
    (3, Writer::refresh_integer),
    (2, Writer::refresh_float),
    (8, Writer::load_or_store),
    (3, Writer::compressed_load_or_store),
    (2, Writer::atomic),
    (2, Writer::reservation),
    (2, Writer::fence_or_hint),
    (1, Writer::new_code),
    (1, Writer::float_state),
    (4, Writer::control_state),
    (3, Writer::trap),
    (3, Writer::branch_forward),
    (2, Writer::loop_back),
    (1, Writer::jump_over),
    (2, Writer::call),
    (22, Writer::arena_accesses),
    (7, Writer::arena_jump),
    (4, Writer::change_entry),
    (2, Writer::change_code),
    (2, Writer::switch_space),
    (4, Writer::rights),
    (3, Writer::any_register),
    (2, Writer::counter),
    (3, Writer::interrupts),
    (1, Writer::wait),
];

/// Writes random instructions.
pub(crate) struct Writer {
    pub(crate) asm: Assembler,
    pub(crate) random: Random,
    pub(crate) target: Target,
    pub(crate) tables: &'static Tables,
    pub(crate) mode: Mode,
    /// The hart that the code is for.
    pub(crate) hart: usize,
    /// The memory of a privileged program.
    pub(crate) arena: Option<Arena>,
    /// Integer registers that must not be written now, a bit each.
    reserved: u32,
    depth: u32,
}

impl Writer {
    /// A writer of code that begins at `base`.
    pub(crate) fn new(seed: u64, base: u64, target: Target) -> Self {
        Self {
            asm: Assembler::new(base),
            random: Random::new(seed),
            target,
            tables: Tables::of(target),
            mode: Mode::Machine,
            hart: 0,
            arena: None,
            reserved: 1 << GP,
            depth: 0,
        }
    }

    /// Writes `count` random items.
    pub(crate) fn items(&mut self, count: u64) {
        let items = if self.arena.is_some() {
            PRIVILEGED_ITEMS
        } else {
            ITEMS
        };
        for _ in 0..count {
            let total = items.iter().map(|&(weight, _)| weight).sum();
            let mut left = self.random.below(total);
            let chosen = items.iter().find(|&&(weight, _)| {
                let found = left < weight;
                left = left.saturating_sub(weight);
                found
            });
            chosen.expect("the weights cover the range").1(self);
        }
    }

    /// Whether loops and branches may nest deeper.
    pub(crate) fn may_nest(&self) -> bool {
        self.depth < DEEPEST
    }

    /// Writes something whose code must not write `registers`.
    pub(crate) fn nested(&mut self, registers: &[u8], write: impl FnOnce(&mut Self)) {
        let before = self.reserved;
        for &register in registers {
            self.reserved |= 1 << register;
        }
        self.depth += 1;
        write(self);
        self.depth -= 1;
        self.reserved = before;
    }

    /// Any integer register to read.
    pub(crate) fn source(&mut self) -> u8 {
        self.random.below(32) as u8
    }

    /// An integer register to write, x0 included.
    pub(crate) fn destination(&mut self) -> u8 {
        loop {
            let register = self.source();
            if register == 0 || self.may_write(register) {
                return register;
            }
        }
    }

    /// An integer register to write that is none of `others` and holds what is written.
    pub(crate) fn scratch(&mut self, others: &[u8]) -> u8 {
        loop {
            let register = self.destination();
            if register != 0 && !others.contains(&register) {
                return register;
            }
        }
    }

    pub(crate) fn may_write(&self, register: u8) -> bool {
        self.reserved >> register & 1 == 0
    }

    /// Whether `inst` writes no reserved register.
    pub(crate) fn allows(&self, inst: &Inst) -> bool {
        integer_destinations(inst) & self.reserved == 0
    }

    /// An encoding of `op` with random operands.
    pub(crate) fn fill(&mut self, op: Op) -> u32 {
        let (value, mask) = op.pattern().expect("in the table");
        loop {
            let bits = value | self.random.bits() & !mask;
            let inst = decode(bits);
            if inst.op == op && self.allows(&inst) {
                return bits;
            }
        }
    }

    /// One of the compressed encodings of `op` that `accept` accepts and that write no reserved
    /// register; none if a few attempts find none.
    pub(crate) fn fill_short(
        &mut self,
        op: Op,
        accept: impl Fn(&Self, &Inst) -> bool,
    ) -> Option<u16> {
        let tables = self.tables;
        let halves = &tables.compressed[&op];
        (0..200).find_map(|_| {
            let half = self.random.pick(halves);
            let inst = decode(u32::from(half));
            (self.allows(&inst) && accept(self, &inst)).then_some(half)
        })
    }

    /// `register = gp + offset`
    pub(crate) fn point(&mut self, register: u8, offset: i32) {
        self.asm.i(Op::Addi, register, GP, offset);
    }

    /// An offset from `gp` at which an access of `width` bytes lies in the window.
    pub(crate) fn window_offset(&mut self, width: i32, aligned: bool) -> i32 {
        let last = layout::WINDOW + layout::WINDOW_BYTES - width;
        let offset = self.random.between(layout::WINDOW, last);
        if aligned { offset & -width } else { offset }
    }

    /// An offset from `gp` of a constant of the pool.
    pub(crate) fn pool_offset(&mut self) -> i32 {
        layout::POOL + 8 * self.random.below(layout::POOL_ENTRIES as u64) as i32
    }
}
