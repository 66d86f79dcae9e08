//! A host in a file: all that decides how it goes on.
//!
//! A host is put together from its file and its guests' programs as always, and is then made what the snapshot is of.
//! Between two turns every CPU stands at the same cycle. What is in flight then is in timing cores and their memory, which are saved as
//! they are and restored on the same machine only. A host without them may go on with them, and they begin cold.

use std::collections::BTreeMap;
use std::path::Path;

use loiter_hart::SavedHart;
use loiter_machine::snapshot::{
    FileIdentity, Hardware, Header, Snapshot, SnapshotError, SnapshotWriter, StateHash, StateHasher,
};
use loiter_machine::{MachineState, WatchesState};
use loiter_observe::Recorders;
use loiter_types::Cycle;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::detection::WaitLoops;
use super::guest::End;
use super::host::Host;
use super::vcpu::{Cpu, Vcpu};
use crate::debug::{LockStats, SavedLockStats};
use crate::error::Error;
use crate::saved_cores::{self, SavedCores};
use crate::snapshot::{identity, other_disks};
use crate::timing_phase::Timing;

/// The section with the state of a host.
const HOST: &str = "host";
/// What stands for the machine of a host without.
const NO_MACHINE: &str = "host";
/// What of a file may be another one when a host goes on: how long it runs, and what executes its virtual CPUs.
const FREE_KEYS: [&str; 3] = ["host.run_us", "host.machine", "host.machine_set"];

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostState {
    /// The file's keys, as text: JSON.
    file: String,
    now: Cycle,
    guests: Vec<GuestState>,
    harts: Vec<SavedHart>,
    watches: WatchesState,
    vcpus: Vec<Vcpu>,
    cpus: Vec<Cpu>,
    scheduler: Value,
    helping: Value,
    loops: Option<WaitLoops>,
    recorders: Recorders,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GuestState {
    machine: MachineState,
    retired: Vec<u64>,
    over: Option<(Cycle, End)>,
    /// What each console has said that nobody has taken.
    said: BTreeMap<usize, Vec<u8>>,
    /// Of its locks, if they are followed.
    locks: Option<SavedLockStats>,
}

impl Host {
    /// Saves the host as it stands between two turns. Returns the length of the file.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(super) fn save(&self, path: &str) -> Result<u64, Error> {
        let machine = &self.system.machine;
        let guests = self.guests.iter().map(|guest| {
            let platform = machine.platform(guest.number());
            let consoles = platform.consoles();
            GuestState {
                machine: machine.save_guest(guest.number()),
                retired: guest.retired.clone(),
                over: guest.over.clone(),
                locks: self.lock_stats(guest.number()).map(LockStats::save),
                said: consoles
                    .map(|port| (port, platform.output(port).to_vec()))
                    .collect(),
            }
        });
        let state = HostState {
            file: self.file.values.to_string(),
            now: self.now,
            guests: guests.collect(),
            harts: self
                .system
                .harts
                .iter()
                .map(loiter_hart::Hart::save)
                .collect(),
            watches: machine.watches.save(),
            vcpus: self.vcpus.clone(),
            cpus: self.cpus.clone(),
            scheduler: self.scheduler.save(),
            helping: self.help.save(),
            loops: self.loops.clone(),
            recorders: self.system.recorders.clone(),
        };
        let fail = |fault| SnapshotError::new(Path::new(path), fault);
        let mut writer = SnapshotWriter::new(self.header()?);
        writer.state(HOST, &state).map_err(fail)?;
        if let Some(timing) = &self.timing {
            saved_cores::write(&mut writer, timing, &self.system.harts).map_err(fail)?;
        }
        writer.ram(&machine.ram).map_err(fail)?;
        Ok(writer.write(Path::new(path))?)
    }

    /// Who follows the locks of a guest, if anybody does.
    fn lock_stats(&self, guest: usize) -> Option<&LockStats> {
        let inspector = self.system.guest_inspectors.get(guest)?;
        inspector?.lock_stats.as_ref()
    }

    fn header(&self) -> Result<Header, Error> {
        let names: Vec<_> = self
            .guests
            .iter()
            .map(|guest| guest.name.as_str())
            .collect();
        let nothing = || (NO_MACHINE.into(), String::new());
        let (machine, machine_hash) = self.machine.clone().unwrap_or_else(nothing);
        Ok(Header {
            loiter: env!("CARGO_PKG_VERSION").into(),
            description: format!("a host of the guests {}", names.join(", ")),
            machine,
            machine_hash,
            hardware: self.hardware(),
            cycle: self.now.0,
            instructions: self.system.instructions(),
            state_hash: self.state_hash(),
            booted: Vec::new(),
            disks: self.disks()?,
        })
    }

    /// The disks that guests have beside those of their images, below what they have written to them.
    fn disks(&self) -> Result<Vec<FileIdentity>, Error> {
        let guests = self.guests.iter().zip(&self.file.guests);
        let own = guests.filter(|(_, its)| !its.disk.is_empty());
        own.filter_map(|(guest, its)| {
            let config = self.system.machine.platform(guest.number()).config();
            let disk = config.disks.last()?;
            Some(identity(&format!("of guest {}", its.name), disk))
        })
        .collect()
    }

    fn state_hash(&self) -> StateHash {
        let mut hasher = StateHasher::new();
        for guest in &self.guests {
            let hash = self.system.state_hash_of(guest.number(), self.now);
            let stated = hasher.state(&guest.name, &hash.to_string());
            stated.expect("text is plain data");
        }
        hasher.finish()
    }

    /// What all guests have together.
    fn hardware(&self) -> Hardware {
        let machine = &self.system.machine;
        Hardware {
            harts: self.system.harts.len(),
            ram_bytes: machine.ram.bytes(),
            ..Hardware::from(machine.config())
        }
    }

    /// Makes the host, which has not run, what the snapshot at `path` is of. If that is of a host without timing cores, ours begin
    /// cold, with who was running.
    ///
    /// # Errors
    /// A snapshot that is damaged, or of another host, or of one on other timing cores.
    pub(super) fn restore(&mut self, path: &str) -> Result<(), Error> {
        let snapshot = Snapshot::open(Path::new(path))?;
        snapshot.fits(&self.hardware())?;
        let state: HostState = snapshot.state(HOST)?;
        let damaged = |problem: String| Error::from(snapshot.contradiction(problem));
        let theirs = serde_json::from_str(&state.file).map_err(|it| damaged(it.to_string()))?;
        if let Some(key) = other_key("", &theirs, &self.file.values) {
            return Err(snapshot
                .other_machine(format!("its {key} is another one"))
                .into());
        }
        if let Some(differences) = other_disks(&snapshot.header().disks, &self.disks()?) {
            return Err(snapshot.other_machine(differences).into());
        }
        let ours = self.machine.as_ref();
        let ours = ours.map(|(name, hash)| (name.as_str(), hash.as_str()));
        let cores = saved_cores::read(&snapshot, ours, "host.machine")?;
        let system = &mut self.system;
        let counts = [
            state.harts.len(),
            state.vcpus.len(),
            state.guests.len(),
            state.cpus.len(),
        ];
        let ours = [
            system.harts.len(),
            self.vcpus.len(),
            self.guests.len(),
            self.cpus.len(),
        ];
        if counts != ours {
            return Err(damaged(format!(
                "it counts {counts:?}, where there are {ours:?}"
            )));
        }
        system.machine.restore_ram(&snapshot)?;
        let machines: Vec<_> = state.guests.iter().map(|it| it.machine.clone()).collect();
        let restored = system.machine.restore_guests(&state.watches, &machines);
        restored.map_err(damaged)?;
        for (hart, saved) in system.harts.iter_mut().zip(&state.harts) {
            hart.restore(saved).map_err(damaged)?;
        }
        for (guest, saved) in self.guests.iter_mut().zip(state.guests) {
            let platform = system.machine.platform_mut(guest.number());
            if saved.over.is_some() {
                platform.stop();
            }
            for (port, said) in saved.said {
                platform.restore_output(port, said).map_err(damaged)?;
            }
            if let Some(locks) = saved.locks {
                let followed = system.guest_inspectors.place(guest.number());
                let lock_stats = followed.as_mut().and_then(|it| it.lock_stats.as_mut());
                let lock_stats =
                    lock_stats.ok_or_else(|| damaged("nobody follows locks".into()))?;
                lock_stats.restore(locks).map_err(damaged)?;
            }
            guest.retired = saved.retired;
            guest.over = saved.over;
        }
        system.recorders = state.recorders;
        system.now = state.now;
        self.now = state.now;
        (self.vcpus, self.cpus) = (state.vcpus, state.cpus);
        self.loops = state.loops;
        let knows = |it: serde_json::Result<()>| it.map_err(|error| damaged(error.to_string()));
        knows(self.scheduler.restore(state.scheduler))?;
        knows(self.help.restore(state.helping))?;
        match cores {
            Some(cores) => self.restore_cores(cores).map_err(damaged),
            None => Ok(()),
        }
    }

    fn restore_cores(&mut self, cores: SavedCores<Timing>) -> Result<(), String> {
        let timing = self.timing.as_mut().ok_or("there are no timing cores")?;
        cores.restore(timing, &mut self.system.harts)?;
        if timing.is_attached() {
            let inspectors = &mut self.system.guest_inspectors;
            inspectors.timing_begins(self.now, &self.system.harts);
        }
        Ok(())
    }
}

/// The first key whose values differ.
fn other_key(at: &str, theirs: &Value, ours: &Value) -> Option<String> {
    let named = |key: &str| match at {
        "" => key.to_owned(),
        at => format!("{at}.{key}"),
    };
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => theirs.iter().find_map(|(key, value)| {
            let name = named(key);
            if FREE_KEYS.contains(&name.as_str()) {
                return None;
            }
            match ours.get(key) {
                Some(own) => other_key(&name, value, own),
                None => Some(name),
            }
        }),
        (Value::Array(theirs), Value::Array(ours)) if theirs.len() == ours.len() => {
            let pairs = theirs.iter().zip(ours).enumerate();
            let mut keys = pairs.map(|(n, (it, own))| other_key(&named(&n.to_string()), it, own));
            keys.find_map(|key| key)
        }
        _ => (theirs != ours).then(|| at.to_owned()),
    }
}
