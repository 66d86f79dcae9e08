//! What an oracle does to a host: between two turns, virtual CPUs of a guest change places with others of it, at no cost.

use loiter_types::{CpuId, VcpuId};

use super::helping::{Between, Member};
use super::host::Host;
use super::vcpu::View;

impl Host {
    /// Lets a policy that sees all place the virtual CPUs of all guests.
    pub(super) fn place(&mut self) {
        if !self.help.sees_all() {
            return;
        }
        for guest in 0..self.guests.len() {
            let members = self.members(guest);
            let runs = |it: &Member| it.cpu.is_some();
            if members.iter().all(runs) || !members.iter().any(runs) {
                continue;
            }
            let view = View {
                vcpus: &self.vcpus,
                cpus: &self.cpus,
            };
            let placed = self.help.place(Between {
                guest,
                members: &members,
                locks: self.guests[guest].locks(&self.system),
                view,
                now: self.now,
                turn_cycles: self.file.host.turn_cycles,
            });
            for (cpu, vcpu) in placed {
                self.vcpus[vcpu.index()].counts.helped += 1;
                match self.timing {
                    // The present one has to leave its context first.
                    Some(_) => self.cpus[cpu.index()].comes = Some(vcpu),
                    None => self.put(cpu, vcpu),
                }
            }
        }
    }

    /// The virtual CPUs of `guest` that can change places.
    fn members(&self, guest: usize) -> Vec<Member> {
        let view = View {
            vcpus: &self.vcpus,
            cpus: &self.cpus,
        };
        let mut members = Vec::new();
        for n in (0..self.vcpus.len()).filter(|&n| self.vcpus[n].guest == guest) {
            let vcpu = VcpuId::new(n);
            let has_it = |cpu: &&CpuId| self.cpus[cpu.index()].current == Some(vcpu);
            let cpus: Vec<_> = (0..self.cpus.len()).map(CpuId::new).collect();
            let cpu = cpus.iter().find(has_it).copied();
            let can_change = match cpu {
                // One that chooses does so first.
                Some(cpu) => {
                    let cpu = &self.cpus[cpu.index()];
                    !cpu.chooses && cpu.now < cpu.slice_end && cpu.comes.is_none()
                }
                None => {
                    let is_expected = self.cpus.iter().any(|cpu| cpu.comes == Some(vcpu));
                    let can_run = cpus.iter().any(|&cpu| view.can_run(vcpu, cpu));
                    can_run && self.scheduler.is_queued(vcpu) && !is_expected
                }
            };
            if can_change {
                let vcpu = &self.vcpus[n];
                let spinning = self.system.spinning_cycles(vcpu.hart, self.now);
                members.push(Member {
                    vcpu: VcpuId::new(n),
                    cpu,
                    worked: vcpu.counts.run.saturating_sub(spinning),
                });
            }
        }
        members
    }

    /// Who is expected comes to a CPU that is free to take it, if it still can.
    pub(super) fn put_expected(&mut self, id: CpuId) {
        let Some(vcpu) = self.cpus[id.index()].comes.take() else {
            return;
        };
        let view = View {
            vcpus: &self.vcpus,
            cpus: &self.cpus,
        };
        let has_current = self.cpus[id.index()].current.is_some();
        if has_current && self.scheduler.is_queued(vcpu) && view.can_run(vcpu, id) {
            self.put(id, vcpu);
        }
    }

    /// `vcpu` runs instead of who runs on a CPU, for the rest of that one's slice and at no cost.
    fn put(&mut self, id: CpuId, vcpu: VcpuId) {
        let cpu = &mut self.cpus[id.index()];
        let current = cpu.current.expect("it has somebody");
        cpu.postponed = None;
        self.stop(id, current);
        self.scheduler.take(vcpu, id, current);
        self.load(id, vcpu);
        let cpu = &mut self.cpus[id.index()];
        (cpu.current, cpu.call_left) = (Some(vcpu), 0);
        if cpu.switch_left == 0 {
            self.begin(id, vcpu);
        }
    }
}
