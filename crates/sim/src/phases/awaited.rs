//! What ends the present phase and the repetition it belongs to, and whether that has come.

use loiter_hart::Hart;
use loiter_machine::Machine;
use loiter_observe::{MarkKind, Probe};
use loiter_types::Cycle;

use super::arrival::Arrival;
use super::plan::End;

/// What a run waits for.
#[derive(Debug, Default)]
pub(crate) struct Awaited {
    phase: Awaiting,
    repeat: Awaiting,
}

/// What it is that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The phase.
    Phase,
    /// The repetition that it belongs to.
    Repeat,
}

/// The end of a phase, or of a repetition.
#[derive(Debug, Default)]
pub(crate) enum Awaiting {
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
    /// What is waited for to end `scope`.
    pub(crate) fn of(&mut self, scope: Scope) -> &mut Awaiting {
        match scope {
            Scope::Phase => &mut self.phase,
            Scope::Repeat => &mut self.repeat,
        }
    }

    /// A probe passes. Returns whether it is one that is waited for.
    pub(crate) fn probe(&mut self, probe: &Probe) -> bool {
        let phase = self.phase.probe(probe);
        self.repeat.probe(probe) || phase
    }

    /// The cycle before which engines have to stop.
    pub(crate) fn cycle(&self) -> Cycle {
        self.phase.cycle().min(self.repeat.cycle())
    }

    /// The number of retired instructions at which engines have to stop.
    pub(crate) fn instructions(&self) -> Option<u64> {
        match (self.phase.instructions(), self.repeat.instructions()) {
            (Some(phase), Some(repeat)) => Some(phase.min(repeat)),
            (phase, repeat) => phase.or(repeat),
        }
    }

    /// Whether engines have to stop when a device may have said something.
    pub(crate) fn listens(&self) -> bool {
        [&self.phase, &self.repeat]
            .iter()
            .any(|it| matches!(it, Awaiting::Console(_)))
    }

    /// The output of console `port` is about to be taken.
    pub(crate) fn hear_and_forget(&mut self, machine: &Machine, port: usize) {
        for awaiting in [&mut self.phase, &mut self.repeat] {
            if let Awaiting::Console(listener) = awaiting {
                listener.hear(machine);
                listener.taken(port);
            }
        }
    }
}

impl Awaiting {
    /// The end that `end` is for what begins now. Where harts come is the inspector's affair.
    pub(crate) fn new(end: Option<&End>, machine: &Machine, now: Cycle, retired: u64) -> Self {
        match end {
            None => Awaiting::Nothing,
            Some(&End::Probe(kind)) => Awaiting::Probe {
                kind,
                passed: false,
            },
            Some(End::Symbol(_) | End::Program | End::User) => Awaiting::Arrival,
            Some(End::Console(text)) => Awaiting::Console(Listener::new(text, machine)),
            Some(End::Instructions(count)) => {
                Awaiting::Instructions(retired.saturating_add(*count))
            }
            Some(&End::Cycles(count)) => Awaiting::Cycle(now.after(count)),
        }
    }

    /// Whether it has come by `now`; `arrival` is the inspector's part of it.
    pub(crate) fn has_come(
        &mut self,
        machine: &Machine,
        arrival: Option<&Arrival>,
        now: Cycle,
        harts: &[Hart],
    ) -> bool {
        match self {
            Awaiting::Nothing => false,
            Awaiting::Probe { passed, .. } => *passed,
            Awaiting::Console(listener) => listener.hear(machine),
            Awaiting::Cycle(cycle) => now >= *cycle,
            &mut Awaiting::Instructions(count) => {
                harts.iter().map(|hart| hart.retired).sum::<u64>() >= count
            }
            Awaiting::Arrival => arrival.is_some_and(Arrival::is_reached),
        }
    }

    fn probe(&mut self, probe: &Probe) -> bool {
        match self {
            Awaiting::Probe { kind, passed }
                if MarkKind::of(probe).is_some_and(|(mark, _)| mark == *kind) =>
            {
                *passed = true;
                true
            }
            _ => false,
        }
    }

    fn cycle(&self) -> Cycle {
        match self {
            Awaiting::Cycle(cycle) => *cycle,
            _ => Cycle::NEVER,
        }
    }

    fn instructions(&self) -> Option<u64> {
        match self {
            Awaiting::Instructions(count) => Some(*count),
            _ => None,
        }
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
    fn taken(&mut self, port: usize) {
        if let Some((seen, _)) = self.ports.get_mut(port) {
            *seen = 0;
        }
    }
}
