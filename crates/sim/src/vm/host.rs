//! A host: guests on physical CPUs, which execute virtual CPUs as the scheduler chooses.
//!
//! CPUs take turns: one after the other comes to the end of a turn, all in the same order. In its turn a CPU changes between
//! virtual CPUs in the very cycle in which a slice ends, one sleeps or one yields; who is woken, by a timer or by
//! another, is looked for between turns. A turn ends early when a timer of a guest or a tick of the scheduler is due.

use loiter_hart::{HartState, HostCall, HostCallError};
use loiter_types::{CpuId, Cycle, VcpuId};

use super::detection::{Sign, WaitLoops};
use super::file::VmFile;
use super::guest::{self, End, Guest, Left};
use super::helping::{self, Call, Candidate, Help, Policy};
use super::params::HostParams;
use super::scheduler::{self, Scheduler};
use super::session::VmStatus;
use super::vcpu::{Cpu, State, Vcpu, View};
use crate::config::MachineFile;
use crate::error::Error;
use crate::result::{Exit, ExitReason};
use crate::system::System;
use crate::timing_phase::Timing;

/// Guests on physical CPUs.
pub struct Host {
    pub(super) file: VmFile,
    params: HostParams,
    /// All guests' harts, memory and devices.
    pub(super) system: System,
    pub(super) guests: Vec<Guest>,
    pub(super) vcpus: Vec<Vcpu>,
    pub(super) cpus: Vec<Cpu>,
    /// The timing cores, if CPUs are contexts of such.
    pub(super) timing: Option<Timing>,
    /// Name and hash of their machine.
    pub(super) machine: Option<(String, String)>,
    pub(super) scheduler: Box<dyn Scheduler>,
    pub(super) help: Box<dyn Policy>,
    /// Loops in which harts pause, if the host looks for them.
    pub(super) loops: Option<WaitLoops>,
    pub(super) now: Cycle,
    pause: Option<Cycle>,
}

/// Where a host stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do.
    Running,
    /// All guests sleep until somebody types to one.
    Asleep,
    /// All guests are over, but for those in the background.
    Over,
    /// The time that the file allows is.
    Limit,
    /// The time has come at which somebody wants it to stand still.
    Paused,
}

impl Host {
    /// A host at power-on, with the systems of the guests of `file` in their order, each with whether somebody types to it. With
    /// `machine` its CPUs are contexts of that machine's cores.
    ///
    /// # Errors
    /// As [`System::host`]; a machine that cannot be.
    pub(crate) fn new(
        file: VmFile,
        systems: Vec<(System, bool)>,
        machine: Option<&MachineFile>,
    ) -> Result<Self, Error> {
        let timing = match machine {
            Some(machine) => Timing::new(&machine.name, machine.timing(), Cycle(0))?,
            None => None,
        };
        let (systems, driven): (Vec<_>, Vec<_>) = systems.into_iter().unzip();
        let mut system = System::host(systems)?;
        let guests = file.guests.iter().zip(driven).enumerate();
        let guests: Vec<_> = guests
            .map(|(n, (it, is_driven))| Guest::new(&it.name, n, &system, is_driven))
            .collect();
        let cpus = vec![Cpu::default(); file.host.cpus as usize];
        let vcpus = placed(&guests, cpus.len());
        let of_vcpus: Vec<_> = vcpus.iter().map(|vcpu| vcpu.guest).collect();
        let loops = WaitLoops::new(&file.helping, system.harts.len());
        let hears_pauses = loops.as_ref().is_some_and(|it| it.sign == Sign::Pauses);
        for hart in &mut system.harts {
            hart.tells_pauses = hears_pauses && timing.is_some();
        }
        let mut host = Self {
            params: file.host.clone(),
            scheduler: scheduler::by_name(&file, &of_vcpus),
            help: helping::by_name(&file.helping),
            file,
            system,
            guests,
            vcpus,
            cpus,
            timing,
            machine: machine.map(|it| (it.name.clone(), it.hash())),
            loops,
            now: Cycle(0),
            pause: None,
        };
        host.wake_sleepers();
        // They begin; nobody has woken them.
        for vcpu in &mut host.vcpus {
            vcpu.counts.wakes = 0;
            vcpu.woken = None;
        }
        Ok(host)
    }

    fn limit(&self) -> Cycle {
        Cycle(self.params.run_us * self.params.clock_mhz)
    }

    /// The host stands still between the two turns that end before and after `at`. Turns are what they would be anyway.
    pub(super) fn pause_at(&mut self, at: Cycle) {
        self.pause = Some(at);
    }

    /// A turn of every CPU.
    ///
    /// # Errors
    /// Our own.
    pub fn turn(&mut self) -> Result<Progress, Error> {
        let mut awaited = self.file.guests.iter().zip(&self.guests);
        if awaited.all(|(params, guest)| params.background || guest.over.is_some()) {
            return Ok(Progress::Over);
        }
        if self.now >= self.limit() {
            return Ok(Progress::Limit);
        }
        if self.pause.is_some_and(|at| self.now >= at) {
            return Ok(Progress::Paused);
        }
        let Some(end) = self.end_of_turn() else {
            return Ok(Progress::Asleep);
        };
        match self.timing.take() {
            Some(mut timing) => {
                if !timing.is_attached() {
                    timing.open(self.now);
                    let inspectors = &mut self.system.guest_inspectors;
                    inspectors.timing_begins(self.now, &self.system.harts);
                }
                let ran = self.run_cores(&mut timing, end);
                self.timing = Some(timing);
                ran?;
            }
            None => {
                for n in 0..self.cpus.len() {
                    self.run_cpu(CpuId::new(n), end);
                }
                self.now = end;
            }
        }
        if self.scheduler.next_tick() <= end {
            let told = self.scheduler.tick(View {
                vcpus: &self.vcpus,
                cpus: &self.cpus,
            });
            self.tell(&told);
        }
        self.wake_sleepers();
        self.place();
        self.find_stuck();
        Ok(Progress::Running)
    }

    /// When the next turn ends; none, if nothing can happen before somebody types.
    fn end_of_turn(&self) -> Option<Cycle> {
        let alive = self.guests.iter().filter(|guest| guest.over.is_none());
        let timers = alive.filter_map(|guest| guest.next_wake(&self.system));
        let timer = timers.filter(|&due| due > self.now).min();
        let is_idle = |cpu: &Cpu| cpu.current.is_none() && !cpu.chooses;
        let turn = match self.cpus.iter().all(is_idle) {
            true => self.waits_for_somebody(timer)?,
            false => self.now.after(self.params.turn_cycles),
        };
        let due = self.scheduler.next_tick().min(self.limit());
        Some(turn.min(due).min(timer.unwrap_or(due)))
    }

    /// No CPU has anything to do before `timer`.
    fn waits_for_somebody(&self, timer: Option<Cycle>) -> Option<Cycle> {
        // Who is runnable may be kept from it until a tick.
        let is_kept = self.vcpus.iter().any(|it| it.state() == State::Runnable);
        timer.or(is_kept.then_some(self.limit()))
    }

    /// Wakes who sleeps and has something to do.
    pub(super) fn wake_sleepers(&mut self) {
        self.system.now = self.now;
        let ticks = self.now.0 / self.system.cycles_per_tick;
        self.system.machine.set_time(ticks);
        for n in 0..self.vcpus.len() {
            let vcpu = &mut self.vcpus[n];
            if vcpu.state() == State::Blocked && self.system.awake(vcpu.hart.index()) {
                vcpu.enter(State::Runnable, self.now);
                vcpu.waits_for_kick = false;
                vcpu.counts.wakes += 1;
                vcpu.woken = Some(self.now);
                let view = View {
                    vcpus: &self.vcpus,
                    cpus: &self.cpus,
                };
                let told = self.scheduler.wake(VcpuId::new(n), view);
                self.tell(&told);
            }
        }
    }

    fn tell(&mut self, told: &[CpuId]) {
        for cpu in told {
            self.cpus[cpu.index()].chooses = true;
        }
    }

    /// Ends guests all of whose virtual CPUs sleep without anything that could wake one.
    fn find_stuck(&mut self) {
        for n in 0..self.guests.len() {
            let guest = &self.guests[n];
            if guest.over.is_some() || guest.is_driven || guest.next_wake(&self.system).is_some() {
                continue;
            }
            let mut own = self.vcpus.iter().filter(|vcpu| vcpu.guest == n);
            if own.all(|vcpu| vcpu.state() == State::Blocked) {
                let end = guest.stuck(&self.system);
                self.end_guest(n, self.now, end);
            }
        }
    }

    /// A CPU comes to the end of a turn.
    fn run_cpu(&mut self, id: CpuId, end: Cycle) {
        loop {
            let cpu = &self.cpus[id.index()];
            if cpu.now >= end {
                return;
            }
            let is_over = cpu.current.is_some() && cpu.now >= cpu.slice_end;
            if (cpu.chooses || is_over) && !self.postpones(id) {
                self.choose(id);
            }
            let cpu = &mut self.cpus[id.index()];
            let left = end.since(cpu.now);
            let Some(vcpu) = cpu.current else {
                cpu.counts.idle += left;
                cpu.now = end;
                return;
            };
            if cpu.switch_left > 0 {
                let cycles = cpu.switch_left.min(left);
                cpu.switch_left -= cycles;
                cpu.counts.switching += cycles;
                cpu.now = cpu.now.after(cycles);
                if cpu.switch_left == 0 {
                    self.begin(id, vcpu);
                }
                continue;
            }
            let budget = left.min(self.until_choice(id));
            self.execute(id, vcpu, budget);
        }
    }

    /// The scheduler chooses for a CPU.
    pub(super) fn choose(&mut self, id: CpuId) {
        self.cpus[id.index()].chooses = false;
        let before = self.cpus[id.index()].current;
        if let Some(vcpu) = before {
            self.stop(id, vcpu);
        }
        let view = View {
            vcpus: &self.vcpus,
            cpus: &self.cpus,
        };
        let choice = self.scheduler.choose(id, before, view);
        let Some(choice) = choice else {
            self.cpus[id.index()].current = None;
            return;
        };
        if let Some(before) = before.filter(|&before| before != choice.vcpu) {
            self.vcpus[before.index()].counts.preemptions += 1;
        }
        let slice_end = self.cpus[id.index()].now.after(choice.slice_cycles);
        self.attach(id, choice.vcpu, slice_end);
    }

    /// `vcpu`, which the CPU executes or was changing to, could go on but does not.
    pub(super) fn stop(&mut self, id: CpuId, vcpu: VcpuId) {
        let now = self.cpus[id.index()].now;
        let stopped = &mut self.vcpus[vcpu.index()];
        if stopped.state() == State::Running {
            stopped.enter(State::Runnable, now);
            self.show_steal_time(vcpu, true);
        }
    }

    /// `vcpu` comes to a CPU, which may have to change its registers first.
    fn attach(&mut self, id: CpuId, vcpu: VcpuId, slice_end: Cycle) {
        let cpu = &mut self.cpus[id.index()];
        let can_run = self.vcpus[vcpu.index()].can_run(cpu.now);
        assert!(can_run, "{vcpu} is on two CPUs");
        cpu.current = Some(vcpu);
        cpu.slice_end = slice_end;
        cpu.postponed = None;
        if self.load(id, vcpu) {
            let cpu = &mut self.cpus[id.index()];
            cpu.switch_left = self.params.switch_cycles;
            cpu.call_left = 0;
        }
        if self.cpus[id.index()].switch_left == 0 {
            self.begin(id, vcpu);
        }
    }

    /// A CPU gets the registers of `vcpu`. Returns whether it had others.
    pub(super) fn load(&mut self, id: CpuId, vcpu: VcpuId) -> bool {
        let state = &mut self.vcpus[vcpu.index()];
        if state.cpu != id {
            state.cpu = id;
            state.counts.migrations += 1;
        }
        if self.cpus[id.index()].loaded == Some(vcpu) {
            return false;
        }
        state.counts.switches += 1;
        for other in &mut self.cpus {
            other.loaded = other.loaded.filter(|&it| it != vcpu);
        }
        let cpu = &mut self.cpus[id.index()];
        cpu.loaded = Some(vcpu);
        cpu.counts.switches += 1;
        true
    }

    /// A CPU begins to execute `vcpu`.
    pub(super) fn begin(&mut self, id: CpuId, vcpu: VcpuId) {
        let now = self.cpus[id.index()].now;
        let begun = &mut self.vcpus[vcpu.index()];
        begun.enter(State::Running, now);
        begun.yielded = None;
        if let Some(woken) = begun.woken.take() {
            let waited = now.since(woken);
            begun.counts.wake_wait += waited;
            begun.counts.longest_wake_wait = begun.counts.longest_wake_wait.max(waited);
        }
        if let Some(loops) = &mut self.loops {
            loops.enters(begun.hart);
        }
        self.show_steal_time(vcpu, false);
    }

    /// A CPU executes its virtual CPU for at most `budget` cycles.
    fn execute(&mut self, id: CpuId, vcpu: VcpuId, budget: u64) {
        let cpu = &mut self.cpus[id.index()];
        if cpu.call_left > 0 {
            let cycles = cpu.call_left.min(budget);
            cpu.call_left -= cycles;
            self.pass(id, vcpu, cycles);
            return;
        }
        let Vcpu { guest, hart, .. } = self.vcpus[vcpu.index()];
        let done = guest::execute(&mut self.system, &mut self.loops, hart, cpu.now, budget);
        self.pass(id, vcpu, done.cycles);
        let now = self.cpus[id.index()].now;
        match done.left {
            Left::Budget => {}
            Left::Blocked => self.blocks(id, vcpu),
            Left::Called(call) => {
                self.system.harts[hart.index()].make_host_call();
                self.pass(id, vcpu, 1);
                self.serve(id, vcpu, call);
            }
            Left::Waits => self.finds_waiter(id, vcpu),
            Left::Over(end) => self.end_guest(guest, now, end),
        }
    }

    /// The host finds that `vcpu` waits, though it has not said so.
    pub(super) fn finds_waiter(&mut self, id: CpuId, vcpu: VcpuId) {
        self.cpus[id.index()].call_left = self.params.call_cycles;
        let found = &mut self.vcpus[vcpu.index()];
        match self.loops.as_ref().map(|loops| loops.sign) {
            Some(Sign::Naps) => {
                found.counts.wrs_traps += 1;
                self.system.harts[found.hart.index()].state = HartState::Running;
            }
            _ => found.counts.pause_loops += 1,
        }
        self.help(id, vcpu);
    }

    /// `vcpu` sleeps, and gives its CPU up.
    pub(super) fn blocks(&mut self, id: CpuId, vcpu: VcpuId) {
        let now = self.cpus[id.index()].now;
        self.vcpus[vcpu.index()].enter(State::Blocked, now);
        let cpu = &mut self.cpus[id.index()];
        cpu.current = None;
        cpu.chooses = true;
    }

    /// `cycles` pass in which a CPU executes `vcpu`.
    pub(super) fn pass(&mut self, id: CpuId, vcpu: VcpuId, cycles: u64) {
        let cpu = &mut self.cpus[id.index()];
        cpu.now = cpu.now.after(cycles);
        cpu.counts.run += cycles;
        let counts = &mut self.vcpus[vcpu.index()].counts;
        counts.run += cycles;
        if cpu.postponed.is_some() {
            counts.postponed += cycles;
        }
    }

    /// Serves a call that `vcpu` has made.
    pub(super) fn serve(&mut self, id: CpuId, vcpu: VcpuId, call: HostCall) {
        self.cpus[id.index()].call_left = self.params.call_cycles;
        let Vcpu { guest, hart, .. } = self.vcpus[vcpu.index()];
        let (error, value) = match call {
            HostCall::Provides => (HostCallError::Success, 1),
            HostCall::Yield | HostCall::Wait => (HostCallError::Success, 0),
            HostCall::Kick(hart) => (self.kick(guest, hart), 0),
            HostCall::ShowStealTime { low, high, flags } => {
                (self.set_steal_time(vcpu, low, high, flags), 0)
            }
            HostCall::Unknown => (HostCallError::NotSupported, 0),
        };
        self.system.harts[hart.index()].return_from_host_call(error, value);
        let counts = &mut self.vcpus[vcpu.index()].counts;
        match call {
            HostCall::Yield => {
                counts.yields += 1;
                self.help(id, vcpu);
            }
            HostCall::Wait => {
                counts.kick_waits += 1;
                self.wait_for_kick(id, vcpu);
            }
            _ => {}
        }
    }

    /// `vcpu` yields: somebody else may run instead.
    fn help(&mut self, id: CpuId, caller: VcpuId) {
        let guest = self.vcpus[caller.index()].guest;
        let view = View {
            vcpus: &self.vcpus,
            cpus: &self.cpus,
        };
        let waits = |&vcpu: &VcpuId| {
            let it = &self.vcpus[vcpu.index()];
            it.guest == guest && view.can_run(vcpu, id) && self.scheduler.is_queued(vcpu)
        };
        let candidate = |vcpu: VcpuId| Candidate {
            vcpu,
            in_kernel: guest::in_kernel(&self.system, self.vcpus[vcpu.index()].hart),
        };
        let ids = (0..self.vcpus.len()).map(VcpuId::new);
        let candidates: Vec<_> = ids.filter(waits).map(candidate).collect();
        let call = Call {
            cpu: id,
            caller: candidate(caller),
            candidates: &candidates,
            cpus_per_cache: self.params.cpus_per_cache as usize,
            locks: self.guests[guest].locks(&self.system),
            view,
        };
        let help = match self.help.choose(call) {
            // Nothing is left of a slice beyond which the caller has kept its CPU.
            Help::This(_) if self.cpus[id.index()].postponed.is_some() => Help::Next,
            help => help,
        };
        match help {
            Help::Nobody => {}
            Help::Next => {
                self.stop(id, caller);
                self.vcpus[caller.index()].yielded = Some(self.cpus[id.index()].now);
                self.cpus[id.index()].chooses = true;
            }
            Help::This(vcpu) => {
                self.stop(id, caller);
                self.vcpus[caller.index()].yielded = Some(self.cpus[id.index()].now);
                self.vcpus[vcpu.index()].counts.helped += 1;
                self.scheduler.take(vcpu, id, caller);
                let slice_end = self.cpus[id.index()].slice_end;
                self.attach(id, vcpu, slice_end);
            }
        }
    }

    /// A guest is over: its virtual CPUs run no more.
    pub(super) fn end_guest(&mut self, guest: usize, at: Cycle, end: End) {
        self.guests[guest].over = Some((at, end));
        let platform = self.guests[guest].number();
        self.system.machine.platform_mut(platform).stop();
        for n in 0..self.vcpus.len() {
            if self.vcpus[n].guest != guest {
                continue;
            }
            let id = VcpuId::new(n);
            self.scheduler.remove(id);
            let mut over = at.max(self.vcpus[n].since());
            for cpu in &mut self.cpus {
                if cpu.current == Some(id) {
                    // It may have come further, or less far, than the one that ends the guest.
                    over = cpu.now;
                    cpu.current = None;
                    cpu.switch_left = 0;
                    cpu.chooses = true;
                }
                if cpu.loaded == Some(id) {
                    cpu.loaded = None;
                }
            }
            self.vcpus[n].enter(State::Over, over);
        }
    }
}

/// The virtual CPUs of all guests: of each guest the first on a CPU that has fewest, the others on the next ones in a ring.
fn placed(guests: &[Guest], cpus: usize) -> Vec<Vcpu> {
    let mut vcpus: Vec<Vcpu> = Vec::new();
    for (number, guest) in guests.iter().enumerate() {
        let load = |cpu: usize| vcpus.iter().filter(|it| it.cpu.index() == cpu).count();
        let first = (0..cpus).min_by_key(|&cpu| load(cpu)).unwrap_or(0);
        let harts = guest.harts().iter().enumerate();
        vcpus.extend(harts.map(|(n, &hart)| {
            let cpu = CpuId::new((first + n) % cpus);
            Vcpu::new(number, hart, n, cpu)
        }));
    }
    vcpus
}

impl Host {
    /// Whether a guest has said something that nobody has heard.
    pub(super) fn has_output(&self) -> bool {
        let mut driven = self.guests.iter().filter(|guest| guest.is_driven);
        driven.any(|guest| guest.has_output(&self.system))
    }

    pub(super) fn status(&self, progress: Progress) -> VmStatus {
        let guests = self.guests.iter().enumerate();
        let said = guests.filter(|(_, guest)| guest.has_output(&self.system));
        VmStatus {
            state: match progress {
                Progress::Running => "running",
                Progress::Asleep => "asleep",
                Progress::Over => "over",
                Progress::Limit => "limit",
                Progress::Paused => "paused",
            },
            cycle: self.now.0,
            instructions: (self.guests.iter())
                .map(|guest| guest.all_instructions(&self.system))
                .sum(),
            said: said.map(|(n, _)| n).collect(),
        }
    }

    /// Ends a guest from outside, if it is not over.
    pub(super) fn kill(&mut self, guest: usize) {
        if self.guests[guest].over.is_none() {
            let end = End::Exit(Exit {
                reason: ExitReason::Killed,
                code: 1,
                message: "ended from outside".into(),
            });
            self.end_guest(guest, self.now, end);
        }
    }
}
