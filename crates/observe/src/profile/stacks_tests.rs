use super::*;
use crate::profile::tree::Function;

const USER: u64 = 7;

/// Functions lie 0x100 apart: `f1` at 0x100 and so on; `f10` is the root of new threads.
struct Guest {
    stacks: Stacks,
}

fn entry(n: u64) -> Entry {
    Entry {
        function: FunctionId(n as u32),
        range: n * 0x100..(n + 1) * 0x100,
    }
}

impl Guest {
    /// A hart in f1.
    fn new() -> Self {
        let mut stacks = Stacks::new(2, 0);
        for n in 0..=20_u32 {
            let id = stacks.tree.function(Function {
                name: format!("f{n}"),
                program: "test".into(),
                addr: 0x100 * u64::from(n),
            });
            assert_eq!(id, FunctionId(n));
        }
        for hart in 0..2 {
            stacks.begin(hart, FunctionId(10), entry(1));
        }
        Self { stacks }
    }

    /// What hart 0 executes, and what has led to it, without the root.
    fn stack(&self, hart: usize) -> Vec<u32> {
        let stack = self.stacks.stack(hart);
        stack.iter().map(|id| id.0).filter(|&id| id != 10).collect()
    }

    fn call(&mut self, hart: usize, n: u64, back: u64, sp: u64) {
        self.stacks.call(hart, entry(n), back, sp);
    }

    fn returns(&mut self, hart: usize, target: u64, sp: u64) {
        if !self.stacks.plain_return(hart, target, sp) {
            let owner = entry(target / 0x100);
            self.stacks
                .odd_return(hart, target, sp, owner, FunctionId(10));
        }
    }
}

#[test]
fn calls_and_returns_and_what_they_cost() {
    let mut guest = Guest::new();
    assert!(guest.stacks.count(0, 0x104) && !guest.stacks.count(0, 0x200));
    guest.stacks.charge(0, 5);
    guest.call(0, 2, 0x110, 0x9000);
    assert_eq!(guest.stack(0), [2, 1]);
    assert!((0..7).all(|_| guest.stacks.count(0, 0x210)));
    guest.stacks.charge(0, 12);
    guest.returns(0, 0x110, 0x9000);
    assert_eq!(guest.stack(0), [1]);
    guest.stacks.count(0, 0x114);
    guest.stacks.charge(0, 13);
    let samples: Vec<_> = guest.stacks.tree.samples().collect();
    let cost = |instructions, cycles| Cost {
        instructions,
        cycles,
    };
    let path = |ids: &[u32]| ids.iter().map(|&id| FunctionId(id)).collect::<Vec<_>>();
    assert_eq!(
        samples,
        [
            (0, path(&[1, 10]), cost(3, 6)),
            (0, path(&[2, 1, 10]), cost(7, 7))
        ]
    );
    assert_eq!(guest.stacks.tree.total(), cost(10, 13));
}

#[test]
fn a_tail_call_takes_the_place_of_its_function() {
    let mut guest = Guest::new();
    guest.call(0, 2, 0x110, 0x9000);
    guest.stacks.jump(0, entry(3));
    assert_eq!(guest.stack(0), [3, 1]);
    guest.returns(0, 0x110, 0x9000);
    assert_eq!(guest.stack(0), [1]);
}

#[test]
fn a_helper_that_saves_registers_moves_the_stack() {
    let mut guest = Guest::new();
    guest.call(0, 2, 0x110, 0x9000);
    guest.call(0, 3, 0x204, 0x9000);
    guest.returns(0, 0x204, 0x9000 - 64);
    assert_eq!(guest.stack(0), [2, 1]);
}

#[test]
fn longjmp_leaves_the_functions_between() {
    let mut guest = Guest::new();
    guest.call(0, 2, 0x110, 0x9000);
    guest.call(0, 3, 0x210, 0x8f00);
    guest.call(0, 4, 0x310, 0x8e00);
    guest.call(0, 5, 0x410, 0x8d00);
    // Back into f2 after its call of setjmp, whose frame is long gone.
    guest.returns(0, 0x230, 0x8f00);
    assert_eq!(guest.stack(0), [2, 1]);
    guest.call(0, 3, 0x240, 0x8f00);
    assert_eq!(guest.stack(0), [3, 2, 1]);
    guest.returns(0, 0x110, 0x9000);
    assert_eq!(
        guest.stack(0),
        [1],
        "an exception goes to a frame further down"
    );
}

#[test]
fn threads_keep_their_stacks_and_may_change_harts() {
    let mut guest = Guest::new();
    let switch = 6;
    guest.call(0, 2, 0x110, 0x9000);
    guest.call(0, switch, 0x220, 0x8f00);
    // A new thread: nobody has been there.
    guest.returns(0, 0x700, 0x2_0000);
    assert_eq!(guest.stack(0), [7]);
    guest.call(0, 8, 0x710, 0x1_ff00);
    guest.call(0, switch, 0x820, 0x1_fe00);
    guest.returns(0, 0x220, 0x8f00);
    assert_eq!(guest.stack(0), [2, 1], "the first one again");
    assert_eq!(guest.stack(1), [1]);
    guest.call(1, switch, 0x130, 0x5_0000);
    guest.returns(1, 0x820, 0x1_fe00);
    assert_eq!(guest.stack(1), [8, 7], "the second one, on the other hart");
    guest.returns(1, 0x710, 0x1_ff00);
    assert_eq!(guest.stack(1), [7]);
}

#[test]
fn a_thread_is_taken_up_with_what_the_kernel_did_for_it() {
    let mut guest = Guest::new();
    let interrupted = Left {
        target: 0x114,
        sp: 0x9000,
        space: USER,
    };
    let cause = FunctionId(11);
    guest.stacks.trap(0, cause, entry(12), interrupted);
    guest.call(0, 6, 0xc20, 0xf000);
    guest.returns(0, 0xd00, 0xe000);
    assert_eq!(guest.stack(0), [13], "another thread");
    guest.call(0, 6, 0xd20, 0xdf00);
    guest.returns(0, 0xc20, 0xf000);
    assert_eq!(guest.stack(0), [12, 11, 1]);
    assert!(!guest.stacks.plain_trap_return(
        0,
        Left {
            sp: 1,
            ..interrupted
        }
    ));
    let behind = Left {
        target: 0x118,
        ..interrupted
    };
    assert!(guest.stacks.plain_trap_return(0, behind));
    assert_eq!(guest.stack(0), [1]);
}

#[test]
fn a_signal_is_a_call_and_its_end_is_the_return() {
    let mut guest = Guest::new();
    let at = |target, sp, space| Left { target, sp, space };
    let root = FunctionId(10);
    let cause = FunctionId(11);
    guest.call(0, 2, 0x110, 0x9000);
    guest
        .stacks
        .trap(0, cause, entry(12), at(0x210, 0x8f00, USER));
    let handler = at(0x300, 0x8800, USER);
    assert!(!guest.stacks.plain_trap_return(0, handler));
    guest.stacks.odd_trap_return(0, handler, entry(3), root);
    assert_eq!(guest.stack(0), [3, 2, 1]);
    // rt_sigreturn.
    guest
        .stacks
        .trap(0, cause, entry(12), at(0x310, 0x8800, USER));
    let back = at(0x210, 0x8f00, USER);
    assert!(!guest.stacks.plain_trap_return(0, back));
    guest.stacks.odd_trap_return(0, back, entry(2), root);
    assert_eq!(guest.stack(0), [2, 1]);
    // exec: another address space.
    guest
        .stacks
        .trap(0, cause, entry(12), at(0x210, 0x8f00, USER));
    let new = at(0x400, 0x8000, USER + 1);
    assert!(!guest.stacks.plain_trap_return(0, new));
    guest.stacks.odd_trap_return(0, new, entry(4), root);
    assert_eq!(guest.stack(0), [4]);
}
