//! The credit scheduler of Xen 3.3 (xen/common/sched_credit.c), that of the published experiments with helping.
//!
//! Every CPU has a queue in order of priority: boosted, under (credit is left), over (none is), and ticks of its own. At
//! each of them whoever runs there pays for a whole tick (`csched_vcpu_acct`). At every so many ticks of CPU 0, the
//! accounting master, what all CPUs can earn is dealt to the guests that have run, by their weights, at most up to
//! their caps (`csched_acct`); each CPU sorts its queue at its own next tick (`csched_runq_sort`). A slice begins when a
//! virtual CPU is dispatched (`s_timer`). Who wakes with credit left is boosted until a tick finds it
//! running. A CPU whose next has no credit looks for a better one in the queues of its neighbours.
//!
//! There all ticks are started together when the host boots, and each is set anew when the last one has been handled, so CPUs
//! drift apart by the latencies of interrupts. Here the ticks of CPU `n` come `n` equal parts of a tick after those of the
//! master from the beginning, and its first slice ends after as many parts of a slice, as if something else had run there
//! before (assumed). There a guest earns once a tick has found it running; here all do from the beginning, as if they had
//! run before (assumed): over a few slices, who runs first would be ahead by what it earned alone.
//! A running virtual CPU is not moved to a socket with more idle cores.

use loiter_types::{CpuId, Cycle, VcpuId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Choice, Scheduler};
use crate::vm::file::VmFile;
use crate::vm::vcpu::{State, View};

/// What a virtual CPU pays at a tick.
const CREDITS_PER_TICK: i64 = 100;
/// The accounting master.
const MASTER: CpuId = CpuId(0);

/// In the order of their importance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Priority {
    Over,
    Under,
    Boost,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Account {
    guest: usize,
    credit: i64,
    priority: Priority,
    /// Whether it earns: it has since the beginning, or a tick has found it running since it last had too much.
    earns: bool,
    /// Whether it is kept from running, for its guest is over its cap.
    parked: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Share {
    weight: i64,
    cap_percent: i64,
}

/// The scheduler.
#[derive(Serialize, Deserialize)]
pub(super) struct Credit {
    slice_cycles: u64,
    tick_cycles: u64,
    ticks_per_slice: u64,
    /// When each CPU has its next tick.
    next_ticks: Vec<Cycle>,
    /// Ticks of the accounting master.
    ticks: u64,
    /// What each CPU's first slice is, if it is not a whole one, until it has begun.
    first_slices: Vec<Option<u64>>,
    queues: Vec<Vec<VcpuId>>,
    /// The CPU of each, to whose queue it comes.
    homes: Vec<CpuId>,
    accounts: Vec<Account>,
    shares: Vec<Share>,
    /// Guests that earn, in the order in which credit is dealt.
    earning: Vec<usize>,
    /// Sum of all credit after it was last dealt.
    balance: i64,
}

impl Credit {
    pub(super) fn new(file: &VmFile, guests: &[usize]) -> Self {
        let tick_cycles = file.slice_cycles() / file.scheduler.ticks_per_slice;
        let account = |&guest| Account {
            guest,
            credit: 0,
            priority: Priority::Under,
            earns: true,
            parked: false,
        };
        let shares = file.guests.iter().map(|guest| Share {
            weight: guest.weight as i64,
            cap_percent: guest.cap_percent as i64,
        });
        let (cpus, slice_cycles) = (file.host.cpus, file.slice_cycles());
        let parts = |cycles: u64| (0..cpus).map(move |n| cycles * n / cpus);
        let ticks = parts(tick_cycles).map(|part| Cycle(tick_cycles + part));
        let first_slices = parts(slice_cycles).map(|part| (part > 0).then_some(part));
        Self {
            slice_cycles,
            tick_cycles,
            ticks_per_slice: file.scheduler.ticks_per_slice,
            next_ticks: ticks.collect(),
            ticks: 0,
            first_slices: first_slices.collect(),
            queues: vec![Vec::new(); cpus as usize],
            homes: vec![CpuId(0); guests.len()],
            accounts: guests.iter().map(account).collect(),
            shares: shares.collect(),
            earning: (0..file.guests.len()).collect(),
            balance: 0,
        }
    }

    fn priority(&self, vcpu: VcpuId) -> Priority {
        self.accounts[vcpu.index()].priority
    }

    /// Behind all that are as important.
    fn enqueue(&mut self, cpu: CpuId, vcpu: VcpuId) {
        debug_assert!(!self.is_queued(vcpu));
        let priority = self.priority(vcpu);
        let queue = &self.queues[cpu.index()];
        let less = |&it: &VcpuId| self.accounts[it.index()].priority < priority;
        let at = queue.iter().position(less).unwrap_or(queue.len());
        self.queues[cpu.index()].insert(at, vcpu);
        self.homes[vcpu.index()] = cpu;
    }

    fn dequeue(&mut self, vcpu: VcpuId) {
        let home = self.homes[vcpu.index()];
        self.queues[home.index()].retain(|&it| it != vcpu);
    }

    /// `vcpu` has come to the queue of `cpu`: who has to choose anew.
    fn tell(&self, cpu: CpuId, vcpu: VcpuId, view: View<'_>) -> Vec<CpuId> {
        let Some(current) = view.cpus[cpu.index()].current else {
            return vec![cpu];
        };
        let mut told = Vec::new();
        if self.priority(vcpu) > self.priority(current) {
            told.push(cpu);
        }
        let idle = view.cpus.iter().enumerate();
        let idle = idle.filter(|(_, it)| it.current.is_none());
        told.extend(idle.map(|(n, _)| CpuId::new(n)));
        told
    }

    /// Somebody in the queue of a busy neighbour who is more important than `than`; none: than nobody.
    fn steal(&mut self, cpu: CpuId, than: Option<Priority>, view: View<'_>) -> Option<VcpuId> {
        let cpus = view.cpus.len();
        let neighbours = (1..cpus).map(|n| (cpu.index() + n) % cpus);
        let mut busy = neighbours.filter(|&n| view.cpus[n].current.is_some());
        let found = busy.find_map(|n| {
            let queue = self.queues[n].iter().copied();
            let mut better =
                queue.take_while(|&it| than.is_none_or(|than| self.priority(it) > than));
            better.find(|&it| view.can_run(it, cpu))
        })?;
        self.dequeue(found);
        self.homes[found.index()] = cpu;
        Some(found)
    }

    /// Who runs pays.
    fn charge(&mut self, vcpu: VcpuId) {
        let account = &mut self.accounts[vcpu.index()];
        if account.priority == Priority::Boost {
            account.priority = Priority::Under;
        }
        account.credit -= CREDITS_PER_TICK;
        if !account.earns {
            account.earns = true;
            let guest = account.guest;
            if !self.earning.contains(&guest) {
                self.earning.insert(0, guest);
            }
        }
    }

    fn earners(&self, guest: usize) -> Vec<usize> {
        let accounts = self.accounts.iter().enumerate();
        let earners = accounts.filter(|(_, it)| it.guest == guest && it.earns);
        earners.map(|(n, _)| n).collect()
    }

    /// Deals what the CPUs can earn in a slice. Returns those who are parked and who are so no longer.
    fn deal(&mut self) -> (Vec<VcpuId>, Vec<VcpuId>) {
        let per_slice = CREDITS_PER_TICK * self.ticks_per_slice as i64;
        let (mut parked, mut unparked) = (Vec::new(), Vec::new());
        let weights: i64 = self.earning.iter().map(|&it| self.shares[it].weight).sum();
        if weights == 0 {
            self.balance = 0;
            return (parked, unparked);
        }
        let debt = (-self.balance).max(0);
        let mut total = per_slice * self.queues.len() as i64 + debt;
        let (mut weights_left, mut balance, mut is_left_over) = (weights, 0, false);
        for guest in self.earning.clone() {
            let share = self.shares[guest].clone();
            let earners = self.earners(guest);
            let count = earners.len() as i64;
            weights_left -= share.weight;
            let mut peak = count * per_slice + ceil(debt * share.weight, weights);
            let mut cap = 0;
            if share.cap_percent != 0 {
                cap = ceil(share.cap_percent * per_slice, 100);
                peak = peak.min(cap);
                cap = ceil(cap, count);
            }
            let mut fair = ceil(total * share.weight, weights);
            if fair < peak {
                is_left_over = true;
            } else {
                if weights_left != 0 {
                    total += ceil((fair - peak) * weights, weights_left);
                }
                if is_left_over {
                    self.earning.retain(|&it| it != guest);
                    self.earning.insert(0, guest);
                }
                fair = peak;
            }
            let each = ceil(fair, count);
            for n in earners {
                let account = &mut self.accounts[n];
                account.credit += each;
                if account.credit < 0 {
                    account.priority = Priority::Over;
                    if share.cap_percent != 0 && account.credit < -cap && !account.parked {
                        account.parked = true;
                        parked.push(VcpuId::new(n));
                    }
                    account.credit = account.credit.max(-per_slice);
                } else {
                    account.priority = Priority::Under;
                    if std::mem::take(&mut account.parked) {
                        unparked.push(VcpuId::new(n));
                    }
                    if account.credit > per_slice {
                        account.earns = false;
                        account.credit = 0;
                    }
                }
                balance += account.credit;
            }
            if self.earners(guest).is_empty() {
                self.earning.retain(|&it| it != guest);
            }
        }
        self.balance = balance;
        (parked, unparked)
    }

    /// A CPU has its tick. Returns the CPUs that have to choose anew.
    fn tick_of(&mut self, cpu: CpuId, view: View<'_>) -> Vec<CpuId> {
        if let Some(current) = view.cpus[cpu.index()].current {
            self.charge(current);
        }
        let mut told = Vec::new();
        if cpu == MASTER {
            self.ticks += 1;
            if self.ticks.is_multiple_of(self.ticks_per_slice) {
                told = self.account(view);
            }
        }
        let queue = &mut self.queues[cpu.index()];
        // Stable: those with credit move before those without.
        queue.sort_by_key(|it| self.accounts[it.index()].priority == Priority::Over);
        told
    }

    /// Credit is dealt. Returns the CPUs that have to choose anew.
    fn account(&mut self, view: View<'_>) -> Vec<CpuId> {
        let (parked, unparked) = self.deal();
        let mut told = Vec::new();
        for vcpu in parked {
            self.dequeue(vcpu);
            let runs = view.cpus.iter().position(|cpu| cpu.current == Some(vcpu));
            told.extend(runs.map(CpuId::new));
        }
        for vcpu in unparked {
            let runs = view.cpus.iter().any(|cpu| cpu.current == Some(vcpu));
            if view.vcpus[vcpu.index()].state() == State::Runnable && !runs {
                let cpu = view.vcpus[vcpu.index()].cpu;
                self.enqueue(cpu, vcpu);
                told.extend(self.tell(cpu, vcpu, view));
            }
        }
        told
    }
}

impl Scheduler for Credit {
    fn save(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn restore(&mut self, saved: Value) -> serde_json::Result<()> {
        *self = serde_json::from_value(saved)?;
        Ok(())
    }

    fn wake(&mut self, vcpu: VcpuId, view: View<'_>) -> Vec<CpuId> {
        let account = &mut self.accounts[vcpu.index()];
        if account.parked {
            return Vec::new();
        }
        if account.priority == Priority::Under {
            account.priority = Priority::Boost;
        }
        let cpu = view.vcpus[vcpu.index()].cpu;
        self.enqueue(cpu, vcpu);
        self.tell(cpu, vcpu, view)
    }

    fn remove(&mut self, vcpu: VcpuId) {
        self.dequeue(vcpu);
        let account = &mut self.accounts[vcpu.index()];
        account.earns = false;
        let guest = account.guest;
        if self.earners(guest).is_empty() {
            self.earning.retain(|&it| it != guest);
        }
    }

    fn choose(&mut self, cpu: CpuId, current: Option<VcpuId>, view: View<'_>) -> Option<Choice> {
        if let Some(current) = current
            && !self.accounts[current.index()].parked
        {
            self.enqueue(cpu, current);
        }
        let own = self.queues[cpu.index()].first().copied();
        let than = own.map(|own| self.priority(own));
        let better = match than {
            Some(Priority::Under | Priority::Boost) => None,
            Some(Priority::Over) | None => self.steal(cpu, than, view),
        };
        let vcpu = better.or(own)?;
        self.dequeue(vcpu);
        let first = self.first_slices[cpu.index()].take();
        Some(Choice {
            vcpu,
            slice_cycles: first.unwrap_or(self.slice_cycles),
        })
    }

    fn is_queued(&self, vcpu: VcpuId) -> bool {
        self.queues[self.homes[vcpu.index()].index()].contains(&vcpu)
    }

    fn take(&mut self, vcpu: VcpuId, cpu: CpuId, current: VcpuId) {
        self.dequeue(vcpu);
        self.homes[vcpu.index()] = cpu;
        if !self.accounts[current.index()].parked {
            self.enqueue(cpu, current);
        }
    }

    fn next_tick(&self) -> Cycle {
        *self.next_ticks.iter().min().expect("a host has CPUs")
    }

    fn tick(&mut self, view: View<'_>) -> Vec<CpuId> {
        let now = self.next_tick();
        let mut told = Vec::new();
        for n in 0..self.queues.len() {
            if self.next_ticks[n] == now {
                told.extend(self.tick_of(CpuId::new(n), view));
                self.next_ticks[n] = now.after(self.tick_cycles);
            }
        }
        told
    }
}

fn ceil(dividend: i64, divisor: i64) -> i64 {
    (dividend + divisor - 1) / divisor
}
