//! That observing changes nothing, tells everything, and that holding and continuing does not show.

use loiter_isa::csr::number::MTVEC;
use loiter_machine::{Machine, MachineConfig, RAM_BASE};
use loiter_types::{HartId, PhysAddr};

use crate::code::CodeCache;
use crate::csr::Extensions;
use crate::hart::Hart;
use crate::observed::run_observed;
use crate::observer::{InstructionObserver, Retired, Trapped};
use crate::reference::{Burst, Stop, run};

/// Over the end of a page: a counter, a look at the clock, a trap, and back.
const BEGIN: u64 = RAM_BASE + 0xff8;
const PROGRAM: [u32; 4] = [
    0x0012_8293, // addi t0, t0, 1
    READ_CYCLE,  // rdcycle t1
    0x0000_0073, // ecall
    0xff5f_f06f, // j BEGIN
];
const READ_CYCLE: u32 = 0xc000_2373;
const HANDLER: u64 = RAM_BASE + 0x2000;
const HANDLER_CODE: [u32; 4] = [
    0x3410_23f3, // csrr t2, mepc
    0x0043_8393, // addi t2, t2, 4
    0x3413_9073, // csrw mepc, t2
    0x3020_0073, // mret
];
/// Instructions of one turn of the program, and those with the trap.
const TURN: u64 = (PROGRAM.len() - 1 + HANDLER_CODE.len()) as u64;
const BUDGET: u64 = 100 * (TURN + 1);

struct Guest {
    machine: Machine,
    hart: Hart,
    code: CodeCache,
}

impl Guest {
    fn new() -> Self {
        let mut machine = Machine::new(&MachineConfig::default()).unwrap();
        for (at, words) in [(BEGIN, PROGRAM), (HANDLER, HANDLER_CODE)] {
            let bytes = words.map(u32::to_le_bytes).concat();
            let place = machine.ram.slice_mut(PhysAddr(at), bytes.len() as u64);
            place.unwrap().copy_from_slice(&bytes);
        }
        let mut hart = Hart::new(HartId(0), BEGIN, PhysAddr(0), Extensions::default());
        assert!(hart.set_csr_from_outside(&mut machine, MTVEC, HANDLER));
        hart.csr.clock.cycle = 1_000;
        Self {
            machine,
            hart,
            code: CodeCache::new(),
        }
    }

    fn observed(&mut self, budget: u64, observer: &mut Watcher) -> Burst {
        let (machine, code) = (&mut self.machine, &mut self.code);
        run_observed(&mut self.hart, machine, code, budget, observer)
    }

    /// All that a program can see of the hart.
    fn state(&self) -> Vec<u8> {
        rmp_serde::to_vec(&self.hart.save()).unwrap()
    }
}

#[derive(Default)]
struct Watcher {
    retired: u64,
    traps: u64,
    clocks: u64,
    last_next: Option<u64>,
    hold_at: Option<u64>,
    hold_after: Option<u64>,
    only_page: Option<u64>,
    held: bool,
}

impl InstructionObserver for Watcher {
    fn enters_page(&mut self, _: &Hart, pc: u64) -> bool {
        self.only_page.is_none_or(|page| pc >> 12 == page >> 12)
    }

    fn holds_at(&mut self, _: &Hart, pc: u64, _: u64) -> bool {
        self.held |= self.hold_at == Some(pc);
        self.held
    }

    fn retired(&mut self, event: &Retired<'_>) {
        if self.only_page.is_none() {
            assert!(self.last_next.is_none_or(|next| next == event.pc));
        }
        self.last_next = Some(event.next);
        self.retired += 1;
        if event.inst.raw == READ_CYCLE {
            self.clocks += 1;
            assert_eq!(event.hart.regs[6], event.cycle);
        }
        if event.inst.raw == PROGRAM[0] {
            assert_eq!(event.hart.regs[5], event.base + 1);
        }
        self.held |= self.hold_after == Some(self.retired);
    }

    fn trapped(&mut self, event: &Trapped<'_>) {
        assert_eq!((event.pc, event.hart.pc), (BEGIN + 8, HANDLER));
        self.last_next = Some(event.hart.pc);
        self.traps += 1;
    }

    fn holds(&self) -> bool {
        self.held
    }
}

#[test]
fn an_observer_is_told_everything_and_changes_nothing() {
    let (mut plain, mut watched) = (Guest::new(), Guest::new());
    let (machine, code) = (&mut plain.machine, &mut plain.code);
    let expected = run(&mut plain.hart, machine, code, BUDGET);
    let mut watcher = Watcher::default();
    let burst = watched.observed(BUDGET, &mut watcher);
    assert_eq!(burst, expected);
    assert_eq!(
        (burst.stop, burst.retired, burst.traps),
        (Stop::Budget, 100 * TURN, 100)
    );
    assert_eq!(
        (watcher.retired, watcher.traps),
        (burst.retired, burst.traps)
    );
    assert_eq!(watcher.clocks, 100);
    assert_eq!(watched.state(), plain.state());
}

#[test]
fn holding_does_not_show() {
    let mut plain = Guest::new();
    let (machine, code) = (&mut plain.machine, &mut plain.code);
    run(&mut plain.hart, machine, code, BUDGET);
    for hold_at in [BEGIN, BEGIN + 4, BEGIN + 8, HANDLER, HANDLER + 12] {
        let mut held = Guest::new();
        let (mut left, mut holds) = (BUDGET, 0);
        loop {
            let mut watcher = Watcher {
                hold_at: Some(hold_at),
                ..Watcher::default()
            };
            let cycle = held.hart.csr.clock.cycle;
            let burst = held.observed(left, &mut watcher);
            left -= burst.retired + burst.traps;
            if burst.stop != Stop::Held {
                assert_eq!(burst.stop, Stop::Budget);
                break;
            }
            holds += 1;
            assert_eq!(held.hart.pc, hold_at);
            // On over the place, as a debugger does it.
            held.hart.csr.clock.cycle = cycle + burst.retired;
            let mut step = Watcher {
                hold_after: Some(1),
                ..Watcher::default()
            };
            let cycle = held.hart.csr.clock.cycle;
            let burst = held.observed(left.min(2), &mut step);
            assert!(burst.retired + burst.traps >= 1);
            left -= burst.retired + burst.traps;
            held.hart.csr.clock.cycle = cycle + burst.retired;
        }
        assert_eq!(holds, 100, "at {hold_at:#x}");
        assert_eq!(held.state(), plain.state(), "held at {hold_at:#x}");
    }
}

#[test]
fn other_pages_go_untold_and_the_page_is_held_in() {
    let mut guest = Guest::new();
    let mut watcher = Watcher {
        only_page: Some(HANDLER),
        hold_at: Some(HANDLER),
        ..Watcher::default()
    };
    let burst = guest.observed(BUDGET, &mut watcher);
    assert_eq!((burst.stop, guest.hart.pc), (Stop::Held, HANDLER));
    assert_eq!(burst.retired, 2, "up to the trap");
}
