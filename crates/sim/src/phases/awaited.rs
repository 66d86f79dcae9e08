//! What ends the present phase, and whether it has come.

use loiter_machine::Machine;
use loiter_observe::{MarkKind, Probe};
use loiter_types::Cycle;

use super::plan::End;

/// The end of a phase.
#[derive(Debug, Default)]
pub(crate) enum Awaited {
    /// That of the run.
    #[default]
    Nothing,
    /// A probe.
    Probe { kind: MarkKind, passed: bool },
    /// That a hart comes to an address: the inspector's affair.
    Arrival,
    /// That a console says something.
    Console(Listener),
    /// That harts have retired so many instructions since power-on.
    Instructions(u64),
    /// A cycle.
    Cycle(Cycle),
}

impl Awaited {
    /// The end that `end` is for a phase that begins now. Where harts come is the inspector's affair.
    pub(crate) fn new(end: Option<&End>, machine: &Machine, now: Cycle, retired: u64) -> Self {
        match end {
            None => Awaited::Nothing,
            Some(&End::Probe(kind)) => Awaited::Probe {
                kind,
                passed: false,
            },
            Some(End::Symbol(_) | End::Program | End::User) => Awaited::Arrival,
            Some(End::Console(text)) => Awaited::Console(Listener::new(text, machine)),
            Some(End::Instructions(count)) => Awaited::Instructions(retired.saturating_add(*count)),
            Some(&End::Cycles(count)) => Awaited::Cycle(now.after(count)),
        }
    }

    /// A probe passes. Answers whether it is the one.
    pub(crate) fn probe(&mut self, probe: &Probe) -> bool {
        match self {
            Awaited::Probe { kind, passed }
                if MarkKind::of(probe).is_some_and(|(mark, _)| mark == *kind) =>
            {
                *passed = true;
                true
            }
            _ => false,
        }
    }

    /// The cycle before which engines have to stop.
    pub(crate) fn cycle(&self) -> Cycle {
        match self {
            Awaited::Cycle(cycle) => *cycle,
            _ => Cycle::NEVER,
        }
    }

    /// The number of retired instructions at which engines have to stop.
    pub(crate) fn instructions(&self) -> Option<u64> {
        match self {
            Awaited::Instructions(count) => Some(*count),
            _ => None,
        }
    }

    /// Whether engines have to stop when a device may have said something.
    pub(crate) fn listens(&self) -> bool {
        matches!(self, Awaited::Console(_))
    }
}

/// Hears the consoles of a guest.
#[derive(Debug)]
pub(crate) struct Listener {
    text: Vec<u8>,
    /// By port: bytes of the output not yet taken that it has heard, and the last ones, as many as may
    /// belong to the text.
    ports: Vec<(usize, Vec<u8>)>,
    heard: bool,
}

impl Listener {
    /// Hears what is said from now on.
    fn new(text: &str, machine: &Machine) -> Self {
        let ports = 0..=machine.config().ports;
        Self {
            text: text.as_bytes().to_vec(),
            ports: ports
                .map(|port| (machine.output(port).len(), Vec::new()))
                .collect(),
            heard: false,
        }
    }

    /// Hears what is new; whether the text has been said.
    pub(crate) fn hear(&mut self, machine: &Machine) -> bool {
        for (port, (seen, tail)) in self.ports.iter_mut().enumerate() {
            let output = machine.output(port);
            if output.len() == *seen {
                continue;
            }
            tail.extend_from_slice(&output[*seen..]);
            *seen = output.len();
            let mut windows = tail.windows(self.text.len());
            self.heard |= windows.any(|window| window == self.text);
            let spare = (tail.len() + 1).saturating_sub(self.text.len());
            tail.drain(..spare);
        }
        self.heard
    }

    /// What a port has said has been taken.
    pub(crate) fn taken(&mut self, port: usize) {
        if let Some((seen, _)) = self.ports.get_mut(port) {
            *seen = 0;
        }
    }
}
