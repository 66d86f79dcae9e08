//! The guest's profile: what instructions say of calls, handed to [`Stacks`].
//!
//! Who runs is known from the kernel itself: it names a task in `__set_task_comm`, makes one in
//! `wake_up_new_task`, and keeps the running one in register tp.

use std::collections::HashMap;
use std::sync::Arc;

use loiter_cores::predict::BranchKind;
use loiter_hart::{Hart, Privilege, Retired, Trap, Trapped};
use loiter_isa::{Inst, Op};
use loiter_machine::Machine;
use loiter_observe::profile::{Entry, Function, FunctionId, Left, Stacks, callgrind, pprof};
use loiter_types::{Cycle, VirtAddr};

use super::begin::Begin;
use crate::error::Error;
use crate::symbols::Symbols;

/// Registers by the calling convention.
const STACK_POINTER: usize = 2;
const THREAD_POINTER: usize = 4;
const FIRST_ARGUMENT: usize = 10;
const SECOND_ARGUMENT: usize = 11;

/// Functions of Linux that say who runs.
const NAMES_A_TASK: &str = "__set_task_comm";
const MAKES_A_TASK: &str = "wake_up_new_task";
/// Longest name of a task, `TASK_COMM_LEN`.
const TASK_NAME_BYTES: usize = 16;

/// Call targets that are found at once; a power of two.
const RECENT: usize = 1 << 12;

/// The space of addresses that a hart executes in: privilege and, for user mode, page tables.
type Space = u64;

/// What an instruction is to a stack.
enum Step {
    Call,
    Return,
    TrapReturn,
    /// A jump through a register.
    Jump,
    Plain,
}

/// Follows calls and counts.
pub(crate) struct Profiler {
    begin: Begin,
    /// By hart: whether costs are charged to what it executes.
    counts: Vec<bool>,
    stacks: Stacks,
    symbols: Arc<Symbols>,
    entries: HashMap<(Space, u64), Entry>,
    recent: Vec<Option<(Space, u64, Entry)>>,
    causes: HashMap<u64, FunctionId>,
    roots: HashMap<String, FunctionId>,
    names_a_task: Option<FunctionId>,
    makes_a_task: Option<FunctionId>,
    /// Names of tasks, by the kernel's address of each.
    tasks: HashMap<u64, String>,
    /// The task that last ran in the kernel, by hart.
    running: Vec<u64>,
}

impl Profiler {
    /// Begins at `from`: a cycle, a symbol, "timing" for what timed cores execute; none: at once.
    ///
    /// # Errors
    /// A place to begin that is none.
    pub(crate) fn new(
        from: Option<&str>,
        symbols: Arc<Symbols>,
        harts: usize,
        now: Cycle,
    ) -> Result<Self, Error> {
        Ok(Self {
            begin: Begin::parse("--profile-from", from, &symbols)?,
            counts: vec![from.is_none(); harts],
            stacks: Stacks::new(harts, now.0),
            symbols,
            entries: HashMap::new(),
            recent: vec![None; RECENT],
            causes: HashMap::new(),
            roots: HashMap::new(),
            names_a_task: None,
            makes_a_task: None,
            tasks: HashMap::new(),
            running: vec![0; harts],
        })
    }

    /// Timed cores have left off at `now`.
    pub(crate) fn timing_ends(&mut self, now: Cycle) {
        if self.begin == Begin::Timing {
            for hart in 0..self.running.len() {
                self.stacks.charge(hart, now.0);
                self.stacks.skip_to(hart, now.0);
                self.counts[hart] = false;
            }
        }
    }

    /// An instruction has retired.
    #[inline]
    pub(crate) fn retired(&mut self, event: &Retired<'_>, is_timed: bool) {
        let hart = event.hart;
        let n = hart.id.index();
        if !self.counts[n] {
            if !self.begin.has_come(event, is_timed) {
                return self.look_for_names(event);
            }
            self.counts[n] = true;
            self.stacks.skip_to(n, event.cycle);
        }
        if !self.stacks.is_known(n) {
            let entry = self.entry(hart, event.machine, event.privilege, event.pc);
            let root = self.root(hart, event.privilege);
            self.stacks.begin(n, root, entry);
        }
        let stays = self.stacks.count(n, event.next);
        match step(event.inst) {
            Step::Plain if stays => {}
            step => self.moved(event, step, stays),
        }
    }

    /// An instruction before the beginning: names of tasks are of use later.
    fn look_for_names(&mut self, event: &Retired<'_>) {
        if let Step::Call = step(event.inst) {
            let (hart, machine) = (event.hart, event.machine);
            let called = self.entry(hart, machine, event.privilege, event.next);
            self.observe_kernel(hart, machine, event.privilege, called.function);
        }
    }

    fn moved(&mut self, event: &Retired<'_>, step: Step, stays: bool) {
        let (hart, machine) = (event.hart, event.machine);
        let (n, sp) = (hart.id.index(), hart.regs[STACK_POINTER]);
        self.stacks.charge(n, event.cycle + 1);
        match step {
            Step::Call => {
                let entry = self.entry(hart, machine, event.privilege, event.next);
                self.observe_kernel(hart, machine, event.privilege, entry.function);
                let back = event.pc.wrapping_add(u64::from(event.inst.len));
                self.stacks.call(n, entry, back, sp);
            }
            Step::Return => {
                if !self.stacks.plain_return(n, event.next, sp) {
                    let entry = self.entry(hart, machine, event.privilege, event.next);
                    let root = self.root(hart, event.privilege);
                    self.stacks.odd_return(n, event.next, sp, entry, root);
                }
            }
            Step::TrapReturn => {
                let privilege = hart.csr.privilege;
                let to = Left {
                    target: event.next,
                    sp,
                    space: space(hart, privilege),
                };
                if !self.stacks.plain_trap_return(n, to) {
                    let entry = self.entry(hart, machine, privilege, event.next);
                    let root = self.root(hart, privilege);
                    self.stacks.odd_trap_return(n, to, entry, root);
                }
            }
            Step::Jump if stays && !self.is_other(event) => {}
            Step::Jump | Step::Plain => {
                let entry = self.entry(hart, machine, event.privilege, event.next);
                self.stacks.jump(n, entry);
            }
        }
    }

    /// Whether a jump from code without symbols goes to another function.
    fn is_other(&mut self, event: &Retired<'_>) -> bool {
        let from = self.find(event.hart, event.machine, event.privilege, event.pc);
        let to = self.find(event.hart, event.machine, event.privilege, event.next);
        from != to
    }

    /// Number of the symbol, if there is one.
    fn find(
        &mut self,
        hart: &Hart,
        machine: &Machine,
        privilege: Privilege,
        addr: u64,
    ) -> Option<FunctionId> {
        let entry = self.entry(hart, machine, privilege, addr);
        (entry.range.end != u64::MAX).then_some(entry.function)
    }

    /// A trap was entered.
    pub(crate) fn trapped(&mut self, event: &Trapped<'_>) {
        let (hart, machine) = (event.hart, event.machine);
        let n = hart.id.index();
        if !self.counts[n] {
            return;
        }
        self.stacks.charge(n, event.cycle);
        let cause = self.cause(event.trap);
        let handler = self.entry(hart, machine, hart.csr.privilege, hart.pc);
        let interrupted = Left {
            target: event.pc,
            sp: hart.regs[STACK_POINTER],
            space: space(hart, event.privilege),
        };
        self.stacks.trap(n, cause, handler, interrupted);
    }

    /// The function that `addr` belongs to. Code without symbols is known by the address at which it was
    /// called.
    fn entry(&mut self, hart: &Hart, machine: &Machine, privilege: Privilege, addr: u64) -> Entry {
        let space = space(hart, privilege);
        let slot = (addr >> 1 ^ addr >> 13 ^ space) as usize % RECENT;
        if let Some((known_space, known, entry)) = &self.recent[slot]
            && (*known_space, *known) == (space, addr)
        {
            return entry.clone();
        }
        let entry = match self.entries.get(&(space, addr)) {
            Some(entry) => entry.clone(),
            None => {
                let entry = self.new_entry(hart, machine, privilege, addr);
                self.entries.insert((space, addr), entry.clone());
                entry
            }
        };
        self.recent[slot] = Some((space, addr, entry.clone()));
        entry
    }

    fn new_entry(
        &mut self,
        hart: &Hart,
        machine: &Machine,
        privilege: Privilege,
        addr: u64,
    ) -> Entry {
        let (function, range) = match self.symbols.find(hart, machine, addr) {
            Some(place) => (
                Function {
                    name: place.name.to_owned(),
                    program: self.symbols.file_name(place.file),
                    addr: place.range.start,
                },
                place.range,
            ),
            None => (
                Function {
                    name: format!("{addr:#x}"),
                    program: self.program(hart, privilege),
                    addr,
                },
                0..u64::MAX,
            ),
        };
        let name = function.name.clone();
        let function = self.stacks.tree.function(function);
        if privilege == Privilege::Supervisor {
            match name.as_str() {
                NAMES_A_TASK => self.names_a_task = Some(function),
                MAKES_A_TASK => self.makes_a_task = Some(function),
                _ => {}
            }
        }
        Entry { function, range }
    }

    /// What code without symbols belongs to.
    fn program(&self, hart: &Hart, privilege: Privilege) -> String {
        match privilege {
            Privilege::Machine => "firmware".into(),
            Privilege::Supervisor => "kernel".into(),
            Privilege::User => self.process(hart).unwrap_or("user").to_owned(),
        }
    }

    fn process(&self, hart: &Hart) -> Option<&str> {
        let task = self.running[hart.id.index()];
        self.tasks.get(&task).map(String::as_str)
    }

    /// What the stack of a new thread begins with.
    fn root(&mut self, hart: &Hart, privilege: Privilege) -> FunctionId {
        let name = match (privilege, self.process(hart)) {
            (Privilege::User, Some(name)) => format!("[process {name}]"),
            (Privilege::User, None) => "[user]".into(),
            (Privilege::Supervisor, _) => "[kernel]".into(),
            (Privilege::Machine, _) => format!("[{}]", hart.id),
        };
        let tree = &mut self.stacks.tree;
        *self
            .roots
            .entry(name)
            .or_insert_with_key(|name| tree.function(pseudo(name)))
    }

    fn cause(&mut self, trap: Trap) -> FunctionId {
        let tree = &mut self.stacks.tree;
        *self.causes.entry(trap.code()).or_insert_with(|| {
            let name = match (trap.cause(), trap) {
                (None, Trap::Interrupt(interrupt)) => format!("[interrupt {interrupt:?}]"),
                (cause, _) => format!("[{}]", cause.expect("no interrupt")),
            };
            tree.function(pseudo(&name))
        })
    }

    /// Learns from a call in the kernel who runs and how tasks are called.
    fn observe_kernel(
        &mut self,
        hart: &Hart,
        machine: &Machine,
        privilege: Privilege,
        callee: FunctionId,
    ) {
        if privilege != Privilege::Supervisor {
            return;
        }
        let current = hart.regs[THREAD_POINTER];
        self.running[hart.id.index()] = current;
        let task = hart.regs[FIRST_ARGUMENT];
        if self.names_a_task == Some(callee) {
            let text = hart.peek(machine, VirtAddr(hart.regs[SECOND_ARGUMENT]));
            let name = text.and_then(|addr| machine.ram.c_string(addr, TASK_NAME_BYTES));
            if let Some(name) = name {
                self.tasks.insert(task, name);
            }
        } else if self.makes_a_task == Some(callee)
            && let Some(name) = self.tasks.get(&current)
        {
            self.tasks.insert(task, name.clone());
        }
    }

    /// The profile up to now: pprof for a name that ends in `.pprof` or `.pb.gz`, else callgrind.
    pub(crate) fn write(&mut self, now: Cycle, path: &str, command: &str) -> Vec<u8> {
        for hart in (0..self.running.len()).filter(|&hart| self.counts[hart]) {
            self.stacks.charge(hart, now.0);
        }
        if path.ends_with(".pprof") || path.ends_with(".pb.gz") {
            pprof::write(&self.stacks.tree, command)
        } else {
            callgrind::write(&self.stacks.tree, command).into_bytes()
        }
    }
}

/// A name that stands for no code.
fn pseudo(name: &str) -> Function {
    Function {
        name: name.to_owned(),
        program: "guest".into(),
        addr: 0,
    }
}

fn space(hart: &Hart, privilege: Privilege) -> Space {
    match privilege {
        Privilege::User => hart.page_tables(),
        privilege => privilege as Space,
    }
}

#[inline(always)]
fn step(inst: &Inst) -> Step {
    match BranchKind::of(inst) {
        Some(BranchKind::Call | BranchKind::IndirectCall) => Step::Call,
        Some(BranchKind::Return) => Step::Return,
        Some(BranchKind::Indirect) => Step::Jump,
        Some(BranchKind::Conditional | BranchKind::Jump) => Step::Plain,
        None if matches!(inst.op, Op::Mret | Op::Sret) => Step::TrapReturn,
        None => Step::Plain,
    }
}
