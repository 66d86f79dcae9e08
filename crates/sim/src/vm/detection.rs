//! Finding that a virtual CPU waits though its guest does not say so: loops of `pause`, and long naps in `wrs.nto`.
//!
//! As Intel's processors do ("PAUSE-loop exiting" of the SDM, volume 3): a pause that comes at most a gap after the last one
//! belongs to the same loop, and one that comes more than a window after the first of its loop goes to the host. Only the
//! kernel's pauses count, and a loop begins anew when the virtual CPU is entered. A pause lasts until its CPU executes
//! the hart again, so the gap counts from then on.
//!
//! As hypervisors of RISC-V have it with `hstatus.VTW` (extension H; "Zawrs"): `wrs.nto` of a guest, in any mode, that is not over
//! in time raises a virtual-instruction exception. The host takes it for a call to yield, and the guest goes on behind
//! the instruction (KVM, `wrs_insn` in arch/riscv/kvm/vcpu_insn.c). To be entered ends the nap of before.

use loiter_hart::{HartState, Nap};
use loiter_types::{Cycle, HartId};
use serde::{Deserialize, Serialize};

use super::params::HelpingParams;

/// What a virtual CPU does that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Sign {
    /// It pauses, over and over.
    Pauses,
    /// It naps in `wrs.nto`.
    Naps,
}

/// A loop that goes on.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Loop {
    first: Cycle,
    /// When its last pause was over.
    last: Cycle,
}

/// The loops of all harts of a host; a nap is a loop without gaps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WaitLoops {
    pub(crate) sign: Sign,
    gap_cycles: u64,
    pub(crate) window_cycles: u64,
    loops: Vec<Option<Loop>>,
}

impl WaitLoops {
    /// If the host looks for them.
    pub(crate) fn new(params: &HelpingParams, harts: usize) -> Option<Self> {
        let (sign, gap_cycles) = match params.detection.as_str() {
            "pause_loop" => (Sign::Pauses, params.gap_cycles),
            "wrs_trap" => (Sign::Naps, 0),
            _ => return None,
        };
        Some(Self {
            sign,
            gap_cycles,
            window_cycles: params.window_cycles,
            loops: vec![None; harts],
        })
    }

    /// Whether a hart that gives way does what is looked for, by its state and by whether it is in its guest's kernel.
    pub(crate) fn counts(&self, state: HartState, in_kernel: bool) -> bool {
        match (self.sign, state) {
            (Sign::Naps, _) => state == HartState::Napping(Nap::WrsNto),
            (Sign::Pauses, HartState::Running) => in_kernel,
            (Sign::Pauses, HartState::Napping(nap)) => {
                in_kernel && matches!(nap, Nap::WrsNto | Nap::WrsSto)
            }
        }
    }

    /// A CPU begins to execute `hart`.
    pub(crate) fn enters(&mut self, hart: HartId) {
        self.loops[hart.index()] = None;
    }

    /// `hart` is about to pause from `from` to `until`, unless it has done so for too long. Returns whether it has.
    pub(crate) fn is_long(&mut self, hart: HartId, from: Cycle, until: Cycle) -> bool {
        let known = &mut self.loops[hart.index()];
        let first = match known {
            Some(it) if from.since(it.last) <= self.gap_cycles => it.first,
            _ => from,
        };
        let is_long = from.since(first) > self.window_cycles;
        *known = (!is_long).then_some(Loop { first, last: until });
        is_long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HART: HartId = HartId(0);

    fn loops() -> WaitLoops {
        WaitLoops {
            sign: Sign::Pauses,
            gap_cycles: 10,
            window_cycles: 100,
            loops: vec![None; 2],
        }
    }

    /// When `loops` find that pauses of 20 cycles each, `gap` cycles from one to the next, last long.
    fn found(loops: &mut WaitLoops, gap: u64, pauses: u64) -> Option<u64> {
        let mut begins = (0..pauses).map(|n| n * (20 + gap));
        begins.find(|&from| loops.is_long(HART, Cycle(from), Cycle(from + 20)))
    }

    #[test]
    fn a_loop_is_long_when_its_window_is_over() {
        // 0, 25, 50, 75, 100, 125.
        assert_eq!(found(&mut loops(), 5, 100), Some(125));
        assert_eq!(found(&mut loops(), 10, 100), Some(120));
        assert_eq!(found(&mut loops(), 11, 100), None);
    }

    #[test]
    fn a_loop_begins_anew_when_it_has_been_found_and_when_the_hart_is_entered() {
        let mut loops = loops();
        for from in [0, 20, 40, 60, 80, 100] {
            assert!(!loops.is_long(HART, Cycle(from), Cycle(from + 20)));
        }
        assert!(loops.is_long(HART, Cycle(120), Cycle(140)));
        assert!(!loops.is_long(HART, Cycle(130), Cycle(150)));
        assert!(!loops.is_long(HART, Cycle(150), Cycle(250)));
        loops.enters(HART);
        assert!(!loops.is_long(HART, Cycle(250), Cycle(270)));
        // Another hart's loop is its own.
        assert!(!loops.is_long(HartId(1), Cycle(350), Cycle(360)));
    }
}
