//! What an engine tells of the instructions that it runs.
//!
//! Engines are generic over an observer. Where nobody observes, all of it is compiled out, and an
//! observer sees what happens but cannot change it: a run with one is the run without.

use loiter_isa::{Inst, Width};
use loiter_machine::Machine;
use loiter_types::{HartId, PhysAddr};

use crate::csr::Privilege;
use crate::hart::Hart;
use crate::trap::Trap;

/// An instruction that has retired.
pub struct Retired<'a> {
    /// The hart, with the registers as the instruction left them; its field `pc` may be old.
    pub hart: &'a Hart,
    /// What it executes on.
    pub machine: &'a Machine,
    /// The instruction.
    pub inst: &'a Inst,
    /// Its address.
    pub pc: u64,
    /// Address of the instruction to be executed next.
    pub next: u64,
    /// What its first source register held: the base of the address of a load or store.
    pub base: u64,
    /// Privilege in which it executed.
    pub privilege: Privilege,
    /// Who accessed memory, and when.
    pub access: Accessed,
    /// When.
    pub cycle: u64,
}

/// Who makes the access of a load or store, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accessed {
    /// The hart, in this very moment; or the instruction accesses nothing.
    Now,
    /// The hart, to a buffer: [`InstructionObserver::performed`] tells when the store is in memory.
    Buffered,
    /// The core, without the hart: there a load has read before, or there a store goes, which is in a
    /// buffer.
    Apart(PhysAddr),
}

/// A store that was in a buffer and is in memory now, or a part of one.
#[derive(Clone, Copy, Debug)]
pub struct Performed {
    /// Whose store it is.
    pub hart: HartId,
    /// Where.
    pub addr: PhysAddr,
    /// How many bytes.
    pub width: Width,
    /// What, in the low bytes.
    pub value: u64,
    /// When.
    pub cycle: u64,
}

/// A trap that was entered.
pub struct Trapped<'a> {
    /// The hart, at the handler.
    pub hart: &'a Hart,
    /// What it executes on.
    pub machine: &'a Machine,
    /// The trap.
    pub trap: Trap,
    /// Where it interrupted.
    pub pc: u64,
    /// The privilege that it interrupted.
    pub privilege: Privilege,
    /// When.
    pub cycle: u64,
}

/// Watches the instructions of a run, and may ask the engine to hold.
pub trait InstructionObserver {
    /// Whether it wants to know anything; if not, engines are compiled as if there was none.
    const ACTIVE: bool = true;

    /// `hart` continues to execute in the page of `pc`: whether to be told of instructions there. It may
    /// be told of some others too.
    fn enters_page(&mut self, hart: &Hart, pc: u64) -> bool;

    /// Whether to hold before `hart` executes the instruction at `pc`, from `cycle` on. Where an interrupt comes first, it
    /// is asked again.
    fn holds_at(&mut self, hart: &Hart, pc: u64, cycle: u64) -> bool;

    /// An instruction has retired.
    fn retired(&mut self, event: &Retired<'_>);

    /// A trap was entered.
    fn trapped(&mut self, event: &Trapped<'_>);

    /// A store has left its buffer.
    #[inline(always)]
    fn performed(&mut self, _: &Performed) {}

    /// Whether the engine is to hold as soon as it can, which is before the next instruction.
    fn holds(&self) -> bool;
}

/// Observes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl InstructionObserver for Unobserved {
    const ACTIVE: bool = false;

    #[inline(always)]
    fn enters_page(&mut self, _: &Hart, _: u64) -> bool {
        false
    }

    #[inline(always)]
    fn holds_at(&mut self, _: &Hart, _: u64, _: u64) -> bool {
        false
    }

    #[inline(always)]
    fn retired(&mut self, _: &Retired<'_>) {}

    #[inline(always)]
    fn trapped(&mut self, _: &Trapped<'_>) {}

    #[inline(always)]
    fn holds(&self) -> bool {
        false
    }
}
