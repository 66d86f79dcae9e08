//! A host with its guests, step by step.

use std::time::{Duration, Instant};

use loiter_machine::{ElfImage, MachineError};
use loiter_types::Cycle;
use serde::Serialize;

use super::file::VmFile;
use super::host::{Host, Progress};
use super::result::VmResult;
use crate::config::MachineFile;
use crate::error::Error;
use crate::request::{DiskRequest, Request};
use crate::session::Session;
use crate::system::System;

/// Turns between two looks at the clock of the computer.
const TURNS_PER_LOOK: u32 = 16;

/// A host that is put together, then runs.
pub struct Vm {
    file: VmFile,
    /// The machine whose contexts are the CPUs, if they are those of timing cores.
    machine: Option<MachineFile>,
    /// Systems of the first guests, each with whether somebody types to it.
    systems: Vec<(System, bool)>,
    host: Option<Host>,
}

/// Where a host stands.
#[derive(Clone, Debug, Serialize)]
pub struct VmStatus {
    /// `running`, `asleep` until somebody types, `over`, `limit`: the time of the file is over, or `paused`.
    pub state: &'static str,
    /// Simulated time.
    pub cycle: u64,
    /// Instructions of all guests.
    pub instructions: u64,
    /// Guests that have said something on a console that nobody has heard.
    pub said: Vec<usize>,
}

/// A host on timing cores is as its file says.
fn check_machine(file: &VmFile, machine: &MachineFile) -> Result<(), Error> {
    let name = &machine.name;
    let clock_mhz = machine.system().clock_mhz;
    let contexts = machine.harts() as u64;
    let problem = if machine.timing().is_none() {
        "its cores are not timed; leave host.machine away for the reference engine".to_owned()
    } else if clock_mhz != file.host.clock_mhz {
        format!(
            "its clock is {clock_mhz} MHz, and host.clock_mhz {}",
            file.host.clock_mhz
        )
    } else if contexts < file.host.cpus {
        format!(
            "it has {contexts} contexts, and host.cpus is {}",
            file.host.cpus
        )
    } else {
        return Ok(());
    };
    Err(Error::User(format!("host.machine = \"{name}\": {problem}")))
}

impl Vm {
    /// The host of a file, without guests; with `machine`, the one that it names, its CPUs are contexts of timing cores.
    ///
    /// # Errors
    /// A machine with another clock or fewer contexts, or without timing.
    pub fn new(file: VmFile, machine: Option<MachineFile>) -> Result<Self, Error> {
        if let Some(machine) = &machine {
            check_machine(&file, machine)?;
        }
        Ok(Self {
            file,
            machine,
            systems: Vec::new(),
            host: None,
        })
    }

    /// The next guest runs the program `elf` as `request` says, whose machine has the guest's harts, memory and clock.
    ///
    /// # Errors
    /// The user's mistakes; one whose locks are to be followed, without symbols of them.
    pub fn add_program(&mut self, request: &Request, elf: &[u8]) -> Result<(), Error> {
        let file = MachineFile::read(&request.machine_name, &request.machine_toml, &request.set)?;
        let elf = ElfImage::parse(&request.program, elf)?;
        self.add(System::bare(request, &file, &elf)?, false)
    }

    /// The next guest is a system that has booted, to which somebody types.
    ///
    /// # Errors
    /// One with another clock than the host; one whose locks are to be followed, without symbols of them.
    pub fn add_session(&mut self, session: Session) -> Result<(), Error> {
        let Session {
            mut system, origin, ..
        } = session;
        // Without time, nobody asks which code waits.
        if self.machine.is_some()
            && let Some(table) = origin.waiting()
        {
            system.mark_waiting(table)?;
        }
        self.add(system, true)
    }

    fn add(&mut self, mut system: System, is_driven: bool) -> Result<(), Error> {
        let guest = &self.file.guests[self.systems.len()];
        // Probes tell an oracle of the locks of a program.
        let for_oracle = is_driven && self.file.helping.policy == "oracle";
        if guest.lock_stats || for_oracle {
            system.begin_lock_stats(false).map_err(|error| {
                let who = match guest.lock_stats {
                    true => "lock_stats",
                    false => "helping.policy \"oracle\"",
                };
                let what = format!("{who} needs the symbols of lock functions");
                Error::User(format!("guest {}: {what}: {error}", guest.name))
            })?;
        }
        let clock_mhz = system.clock_hz / 1_000_000;
        if clock_mhz != self.file.host.clock_mhz {
            return Err(Error::User(format!(
                "guest {}: its machine has a clock of {clock_mhz} MHz, the host one of {} MHz",
                guest.name, self.file.host.clock_mhz
            )));
        }
        self.systems.push((system, is_driven));
        if self.systems.len() == self.file.guests.len() {
            let systems = std::mem::take(&mut self.systems);
            let host = Host::new(self.file.clone(), systems, self.machine.as_ref());
            self.host = Some(host?);
        }
        Ok(())
    }

    /// The host, once all guests are there.
    fn host(&mut self) -> Result<&mut Host, Error> {
        let missing = self.file.guests.len() - self.systems.len();
        self.host
            .as_mut()
            .ok_or_else(|| Error::User(format!("{missing} guests of the file are not there yet")))
    }

    /// Runs for about `host_time`, or, where the caller wants that, until a guest has written to its console.
    ///
    /// # Errors
    /// Guests that are missing.
    pub fn step(&mut self, host_time: Duration, until_output: bool) -> Result<VmStatus, Error> {
        let host = self.host()?;
        let end = Instant::now() + host_time;
        let progress = 'steps: loop {
            for _ in 0..TURNS_PER_LOOK {
                let progress = host.turn()?;
                let heard = until_output && host.has_output();
                if progress != Progress::Running || heard {
                    break 'steps progress;
                }
            }
            if Instant::now() >= end {
                break Progress::Running;
            }
        };
        Ok(host.status(progress))
    }

    /// What has been found out so far.
    ///
    /// # Errors
    /// Guests that are missing; time that is lost.
    pub fn result(&mut self) -> Result<VmResult, Error> {
        self.host()?.result()
    }

    /// What guest `guest` has sent to console `port` since last asked.
    ///
    /// # Errors
    /// Guests that are missing.
    pub fn take_output(&mut self, guest: usize, port: usize) -> Result<Vec<u8>, Error> {
        let host = self.host()?;
        Ok(host.guests[guest].take_output(&mut host.system, port))
    }

    /// Types on console `port` of guest `guest`.
    ///
    /// # Errors
    /// Guests that are missing.
    pub fn push_input(&mut self, guest: usize, port: usize, bytes: &[u8]) -> Result<(), Error> {
        let host = self.host()?;
        host.system.machine.push_input_to(guest, port, bytes);
        // Nothing else may ever come that makes somebody look.
        host.wake_sleepers();
        Ok(())
    }

    /// Puts another disk in the place of disk `number` of guest `guest`, as [`Session::replace_disk`].
    ///
    /// # Errors
    /// Guests that are missing; a disk that cannot be had.
    pub fn replace_disk(
        &mut self,
        guest: usize,
        number: usize,
        disk: &DiskRequest,
    ) -> Result<(), Error> {
        let machine = &mut self.host()?.system.machine;
        let platform = machine.platform_mut(guest);
        let replaced = platform.replace_disk(number, &disk.config());
        Ok(replaced.map_err(MachineError::from)?)
    }

    /// The host is to stand still when it comes to `us` of simulated time, at the end of a turn.
    ///
    /// # Errors
    /// Guests that are missing.
    pub fn pause_at(&mut self, us: u64) -> Result<(), Error> {
        let cycle = us.saturating_mul(self.file.host.clock_mhz);
        self.host()?.pause_at(Cycle(cycle));
        Ok(())
    }

    /// Saves the host, which has run or not, to `path`. Returns the length of the file.
    ///
    /// # Errors
    /// Guests that are missing; a file that cannot be written.
    pub fn save(&mut self, path: &str) -> Result<u64, Error> {
        self.host()?.save(path)
    }

    /// Makes the host, which has not run, what the snapshot at `path` is of. Timing cores begin cold if that is of a host without.
    ///
    /// # Errors
    /// Guests that are missing; a snapshot that is damaged, or of another host.
    pub fn restore(&mut self, path: &str) -> Result<(), Error> {
        self.host()?.restore(path)
    }

    /// Ends guest `guest` from outside.
    ///
    /// # Errors
    /// Guests that are missing.
    pub fn kill(&mut self, guest: usize) -> Result<(), Error> {
        self.host()?.kill(guest);
        Ok(())
    }
}
