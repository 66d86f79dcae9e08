//! A hart's coming to where a phase ends: the address of a symbol, the beginning of a program, user mode.

use std::sync::Arc;

use loiter_hart::{Hart, Privilege, Retired};
use loiter_observe::Probe;
use loiter_types::{HartId, PAGE_BYTES};

use super::awaited::Scope;
use crate::symbols::Symbols;

/// Where the phase ends.
enum Destination {
    /// A symbol at an address.
    Fixed(u64),
    /// The beginning of a program, in user mode, once a probe has told its address.
    Program(Option<u64>),
    /// Anywhere in user mode.
    UserMode,
    /// A symbol in a page that lies wherever the guest's kernel has put it.
    Moving {
        symbols: Arc<Symbols>,
        name: String,
        offset_in_page: u64,
    },
}

/// What harts are to come to: where the phase ends, and where the repetition does that it belongs to.
#[derive(Default)]
pub(crate) struct Arrivals {
    phase: Option<Arrival>,
    repeat: Option<Arrival>,
}

impl Arrivals {
    pub(crate) fn of(&self, scope: Scope) -> Option<&Arrival> {
        match scope {
            Scope::Phase => self.phase.as_ref(),
            Scope::Repeat => self.repeat.as_ref(),
        }
    }

    pub(crate) fn set(&mut self, scope: Scope, arrival: Option<Arrival>) {
        match scope {
            Scope::Phase => self.phase = arrival,
            Scope::Repeat => self.repeat = arrival,
        }
    }

    fn each(&self) -> impl Iterator<Item = &Arrival> {
        self.phase.iter().chain(&self.repeat)
    }

    fn each_mut(&mut self) -> impl Iterator<Item = &mut Arrival> {
        self.phase.iter_mut().chain(&mut self.repeat)
    }

    pub(crate) fn are_none(&self) -> bool {
        self.each().next().is_none()
    }

    /// A probe passes.
    pub(crate) fn probe(&mut self, probe: &Probe) {
        self.each_mut().for_each(|it| it.probe(probe));
    }

    /// Whether the hart may come to one in the page of `pc`.
    pub(crate) fn may_be_in_page(&self, hart: &Hart, pc: u64) -> bool {
        self.each().any(|it| it.may_be_in_page(hart, pc))
    }

    /// The hart is about to execute at `pc`.
    #[inline]
    pub(crate) fn holds_at(&mut self, hart: &Hart, pc: u64) {
        self.each_mut().for_each(|it| it.holds_at(hart, pc));
    }

    /// A hart continues.
    #[inline]
    pub(crate) fn moved(&mut self, hart: HartId) {
        self.each_mut().for_each(|it| it.moved(hart));
    }

    /// A hart continues after an instruction.
    #[inline]
    pub(crate) fn retired(&mut self, event: &Retired<'_>) {
        self.each_mut().for_each(|it| it.retired(event));
    }

    #[inline]
    pub(crate) fn is_any_reached(&self) -> bool {
        self.each().any(Arrival::is_reached)
    }
}

/// Waits until a hart is about to execute somewhere.
pub(crate) struct Arrival {
    destination: Destination,
    /// Harts that have stood there from the beginning, and have not come.
    standing: Vec<HartId>,
    reached: bool,
}

impl Arrival {
    /// At the address of a symbol; none if no file has it.
    pub(crate) fn at_symbol(name: &str, symbols: &Arc<Symbols>, harts: &[Hart]) -> Option<Self> {
        let destination = match symbols.address(name) {
            Some(addr) => Destination::Fixed(addr),
            None => Destination::Moving {
                symbols: Arc::clone(symbols),
                name: name.to_owned(),
                offset_in_page: symbols.moving_address(name)? % PAGE_BYTES,
            },
        };
        let there = harts.iter().filter(|hart| match destination {
            Destination::Fixed(addr) => hart.pc == addr,
            _ => false,
        });
        Some(Self {
            standing: there.map(|hart| hart.id).collect(),
            destination,
            reached: false,
        })
    }

    /// At the beginning of the program that a probe will announce.
    pub(crate) fn at_program() -> Self {
        Self::anywhere(Destination::Program(None))
    }

    /// In user mode.
    pub(crate) fn in_user_mode() -> Self {
        Self::anywhere(Destination::UserMode)
    }

    fn anywhere(destination: Destination) -> Self {
        Self {
            destination,
            standing: Vec::new(),
            reached: false,
        }
    }

    /// A probe passes.
    fn probe(&mut self, probe: &Probe) {
        if let (Destination::Program(addr), &Probe::ProgramBegin(value)) =
            (&mut self.destination, probe)
        {
            *addr = Some(value);
        }
    }

    /// Whether the hart may come there in the page of `pc`.
    fn may_be_in_page(&self, hart: &Hart, pc: u64) -> bool {
        let in_page = |addr: u64| pc / PAGE_BYTES == addr / PAGE_BYTES;
        let in_user_mode = hart.csr.privilege == Privilege::User;
        match self.destination {
            Destination::Fixed(addr) => in_page(addr),
            Destination::Program(addr) => in_user_mode && addr.is_some_and(in_page),
            Destination::UserMode => in_user_mode,
            Destination::Moving { .. } => true,
        }
    }

    /// The hart is about to execute at `pc`.
    #[inline]
    fn holds_at(&mut self, hart: &Hart, pc: u64) {
        let in_user_mode = hart.csr.privilege == Privilege::User;
        self.reached |= match self.destination {
            Destination::Fixed(addr) => pc == addr && !self.standing.contains(&hart.id),
            Destination::Program(addr) => in_user_mode && addr == Some(pc),
            Destination::UserMode => in_user_mode,
            Destination::Moving { .. } => false,
        };
    }

    /// A hart continues.
    #[inline]
    fn moved(&mut self, hart: HartId) {
        if !self.standing.is_empty() {
            self.standing.retain(|&standing| standing != hart);
        }
    }

    /// A hart continues after an instruction.
    #[inline]
    fn retired(&mut self, event: &Retired<'_>) {
        self.moved(event.hart.id);
        if let Destination::Moving {
            symbols,
            name,
            offset_in_page,
        } = &self.destination
            && event.next % PAGE_BYTES == *offset_in_page
        {
            self.reached |= symbols.is_at(event.hart, event.machine, event.next, name);
        }
    }

    pub(crate) fn is_reached(&self) -> bool {
        self.reached
    }
}
