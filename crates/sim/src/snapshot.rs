//! Systems in snapshots, and their hash. One that is saved between two turns of the reference engine is restored with the
//! engine or the cores of any machine that has the same hardware to the guest. One on timing cores is saved with all that
//! is in flight, and restored on the same machine.
//!
//! What observes is no state: marks, reports, accounts and symbols begin anew, but for what timing cores have counted,
//! what probes have said meanwhile, and who has locks and waits for them, if that was followed.

use std::path::Path;

use loiter_hart::SavedHart;
use loiter_machine::snapshot::{
    FileIdentity, Hardware, Header, SectionInfo, Snapshot, SnapshotError, SnapshotWriter,
    StateHash, StateHasher,
};
use loiter_machine::{DiskConfig, Machine, MachineConfig, MachineState};
use loiter_observe::Recorders;
use loiter_types::{Cycle, PhysAddr};
use serde::{Deserialize, Serialize};

use crate::config::MachineFile;
use crate::error::Error;
use crate::phases::Engines;
use crate::request::BootRequest;
use crate::saved_cores;
use crate::session::{Session, mark_waiting};
use crate::symbols::Symbols;
use crate::system::System;
use crate::waiting::WaitingTable;

const SYSTEM: &str = "system";
const MACHINE: &str = "machine";
const REQUEST: &str = "request";
const TIMED: &str = "timed";
const LOCKS: &str = "locks";

/// Harts, and what the time is.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SystemState {
    cycle: Cycle,
    /// Time is kept in cycles: with another clock it would be another time.
    clock_hz: u64,
    harts: Vec<SavedHart>,
}

/// What timing cores have done so far, beside what is in flight in them.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TimedState {
    timed_from: Option<Cycle>,
    timed_instructions: u64,
    attached_at: u64,
    recorders: Recorders,
}

/// Where a session comes from, for the headers of its snapshots.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    machine: String,
    machine_hash: String,
    booted: Booted,
    request: Option<BootRequest>,
}

#[derive(Clone, Debug)]
enum Booted {
    /// Roles and paths.
    Files(Vec<(&'static str, String)>),
    /// As an earlier snapshot has them.
    Known(Vec<FileIdentity>),
}

impl Origin {
    /// A system that boots what `request` says.
    pub(crate) fn boot(request: &BootRequest, file: &MachineFile) -> Self {
        let initrd = request.initrd.iter().map(|path| ("initrd", path));
        let files = [("firmware", &request.firmware), ("kernel", &request.kernel)];
        let files = files.into_iter().chain(initrd);
        let files = files.map(|(role, path)| (role, path.clone()));
        Self::new(file, Booted::Files(files.collect()), Some(request))
    }

    /// A system that runs the program at `path` on bare metal.
    pub(crate) fn program(path: &str, file: &MachineFile) -> Self {
        Self::new(
            file,
            Booted::Files(vec![("program", path.to_owned())]),
            None,
        )
    }

    fn new(file: &MachineFile, booted: Booted, request: Option<&BootRequest>) -> Self {
        let description = file.describe();
        Self {
            machine: description.name,
            machine_hash: description.hash,
            booted,
            request: request.cloned(),
        }
    }

    /// The table of waiting code that its request names.
    pub(crate) fn waiting(&self) -> Option<&WaitingTable> {
        self.request.as_ref()?.waiting.as_ref()
    }

    fn files(&self) -> Result<Vec<FileIdentity>, Error> {
        match &self.booted {
            Booted::Known(files) => Ok(files.clone()),
            Booted::Files(files) => {
                let identify = |(role, path): &(&str, String)| {
                    FileIdentity::whole(role, Path::new(path)).map_err(|error| gone(path, &error))
                };
                files.iter().map(identify).collect()
            }
        }
    }
}

/// What a snapshot says of itself.
#[derive(Clone, Debug, Serialize)]
pub struct SnapshotDescription {
    /// What it is of.
    pub header: Header,
    /// What it consists of.
    pub sections: Vec<SectionInfo>,
    /// Length of the file.
    pub bytes: u64,
    /// What was asked for, of a system that booted; enough to restore it where its disks are.
    pub request: Option<BootRequest>,
}

/// Says what the snapshot at `path` is of, without reading the state of the system.
///
/// # Errors
/// When it is none, or damaged.
pub fn show_snapshot(path: &str) -> Result<SnapshotDescription, Error> {
    let snapshot = Snapshot::open(Path::new(path))?;
    Ok(SnapshotDescription {
        header: snapshot.header().clone(),
        sections: snapshot.sections().to_vec(),
        bytes: snapshot.bytes(),
        request: match snapshot.has(REQUEST) {
            true => snapshot.state(REQUEST)?,
            false => None,
        },
    })
}

impl System {
    fn state(&self) -> SystemState {
        SystemState {
            cycle: self.now,
            clock_hz: self.clock_hz,
            harts: self.harts.iter().map(loiter_hart::Hart::save).collect(),
        }
    }

    /// A hash of all that a guest can find out.
    pub(crate) fn state_hash(&self) -> StateHash {
        hash(&self.state(), &self.machine)
    }

    /// A hash of all that a guest can find out, which came to `cycle`.
    pub(crate) fn state_hash_of(&self, guest: usize, cycle: Cycle) -> StateHash {
        let machine = &self.machine;
        let harts = machine.harts_of(guest);
        let state = SystemState {
            cycle,
            clock_hz: self.clock_hz,
            harts: harts.map(|it| self.harts[it.index()].save()).collect(),
        };
        hash_of(&state, &machine.save_guest(guest), machine.ram_of(guest))
    }

    /// Makes a system with the snapshot's hardware what the snapshot is of.
    fn restore(&mut self, snapshot: &Snapshot) -> Result<(), Error> {
        let contradiction = |problem| Error::from(snapshot.contradiction(problem));
        let state: SystemState = snapshot.state(SYSTEM)?;
        let machine: MachineState = snapshot.state(MACHINE)?;
        self.machine.restore_ram(snapshot)?;
        self.machine.restore(&machine).map_err(contradiction)?;
        if state.harts.len() != self.harts.len() {
            let (theirs, ours) = (state.harts.len(), self.harts.len());
            return Err(contradiction(format!("it has {theirs} harts of {ours}")));
        }
        for (hart, saved) in self.harts.iter_mut().zip(&state.harts) {
            hart.restore(saved).map_err(contradiction)?;
        }
        self.now = self.cycle_of(&state);
        if self.clock_hz == state.clock_hz && snapshot.has(LOCKS) {
            self.saved_lock_stats = Some(snapshot.state(LOCKS)?);
        }
        for hart in &mut self.harts {
            hart.csr.move_clock(state.cycle.0, self.now.0);
        }
        Ok(())
    }

    /// The cycle of our clock at the time of a state, whose clock may be another. Time continues where it
    /// stood: both have the same time base.
    fn cycle_of(&self, state: &SystemState) -> Cycle {
        let timebase_hz = self.clock_hz / self.cycles_per_tick;
        let theirs = state.clock_hz / timebase_hz;
        let (ticks, rest) = (state.cycle.0 / theirs, state.cycle.0 % theirs);
        Cycle(ticks * self.cycles_per_tick + rest * self.cycles_per_tick / theirs)
    }
}

fn hash(state: &SystemState, machine: &Machine) -> StateHash {
    hash_of(state, &machine.save(), machine.ram_of(0))
}

fn hash_of(state: &SystemState, machine: &MachineState, ram: &[u8]) -> StateHash {
    let mut hasher = StateHasher::new();
    let plain = "states are plain data";
    hasher.state(SYSTEM, state).expect(plain);
    hasher.state(MACHINE, machine).expect(plain);
    hasher.ram(ram);
    hasher.finish()
}

impl Session {
    /// A hash of all that a guest can find out: the same whenever the same system has come to the same
    /// cycle, whether it was saved and restored on the way or not.
    #[must_use]
    pub fn state_hash(&self) -> StateHash {
        self.system.state_hash()
    }

    /// Saves the system as it stands now to `path` and returns the length of the file; if its cores are timed, with what
    /// is in flight in them. What consoles have been sent and nobody has taken is not saved.
    ///
    /// # Errors
    /// When a debugger holds it, or the host refuses.
    pub fn save(&self, path: &str, description: &str) -> Result<u64, Error> {
        if self.system.held_turn.is_some() {
            return Err(Error::User(format!(
                "{path}: a system that a debugger holds cannot be saved, for some harts have had their \
                 turn and some have not; let it go on first"
            )));
        }
        let machine = &self.system.machine;
        let state = self.system.state();
        let header = Header {
            loiter: env!("CARGO_PKG_VERSION").into(),
            description: description.into(),
            machine: self.origin.machine.clone(),
            machine_hash: self.origin.machine_hash.clone(),
            hardware: Hardware::from(machine.config()),
            cycle: self.system.now.0,
            instructions: self.system.instructions(),
            state_hash: hash(&state, machine),
            booted: self.origin.files()?,
            disks: disks(machine.config())?,
        };
        let fail = |fault| SnapshotError::new(Path::new(path), fault);
        let mut writer = SnapshotWriter::new(header);
        writer.state(REQUEST, &self.origin.request).map_err(fail)?;
        writer.state(SYSTEM, &state).map_err(fail)?;
        writer.state(MACHINE, &machine.save()).map_err(fail)?;
        if let Some(timing) = self.timing.as_ref().filter(|_| self.is_timed()) {
            let timed = TimedState {
                timed_from: self.timed_from,
                timed_instructions: self.timed_instructions,
                attached_at: self.attached_at,
                recorders: self.system.recorders.clone(),
            };
            writer.state(TIMED, &timed).map_err(fail)?;
            saved_cores::write(&mut writer, timing, &self.system.harts).map_err(fail)?;
        }
        let inspector = self.system.inspector.as_ref();
        if let Some(lock_stats) = inspector.and_then(|it| it.lock_stats.as_ref()) {
            writer.state(LOCKS, &lock_stats.save()).map_err(fail)?;
        }
        writer.ram(&machine.ram).map_err(fail)?;
        Ok(writer.write(Path::new(path))?)
    }

    /// The system that was saved to `path`, on the machine that `request` asks for, which needs to be
    /// the same one only to the guest, but where its cores were timed. Those go on as they stood, or, if
    /// `request` is to have no timed ones, are left. Nothing is booted: the files of a boot are not read.
    ///
    /// # Errors
    /// When the snapshot is damaged, or one of other hardware, other disks or other timed cores.
    pub fn restore(request: &BootRequest, path: &str) -> Result<Self, Error> {
        let file = MachineFile::read(&request.machine_name, &request.machine_toml, &request.set)?;
        let snapshot = Snapshot::open(Path::new(path))?;
        let config = MachineConfig {
            // No request speaks of it.
            entropy: snapshot.header().hardware.entropy,
            ..request.config(&file)?
        };
        snapshot.fits(&Hardware::from(&config))?;
        let header = snapshot.header();
        if let Some(differences) = other_disks(&header.disks, &disks(&config)?) {
            return Err(snapshot.other_machine(differences).into());
        }
        let machine = Machine::new(&config)?;
        let nowhere = PhysAddr(0);
        let mut system = System::assemble(&file, &config, machine, nowhere, nowhere);
        system.symbols = vec![Symbols::read(&request.symbols)?.into()];
        system.restore(&snapshot)?;
        system.are_virtual(request.is_virtual);
        mark_waiting(&mut system, &file, request.waiting.as_ref())?;
        let origin = Origin::new(&file, Booted::Known(header.booted.clone()), Some(request));
        let engines = Engines::of_boot(request);
        let mut session = Self::assemble(&request.machine_name, &file, system, origin);
        session.restore_cores(&snapshot)?;
        session.on(engines)
    }

    /// Makes cores that have not run those of a snapshot, if it has such.
    ///
    /// # Errors
    /// Other cores than ours, or damaged ones.
    fn restore_cores(&mut self, snapshot: &Snapshot) -> Result<(), Error> {
        let Origin {
            machine,
            machine_hash,
            ..
        } = &self.origin;
        let Some(cores) = saved_cores::read(snapshot, Some((machine, machine_hash)), "ours")?
        else {
            return Ok(());
        };
        let timed: TimedState = snapshot.state(TIMED)?;
        self.build_cores()?;
        let damaged = |problem: String| Error::from(snapshot.contradiction(problem));
        let timing = self.timing.as_mut();
        let timing = timing.ok_or_else(|| damaged("this machine has no timing cores".into()))?;
        cores
            .restore(timing, &mut self.system.harts)
            .map_err(damaged)?;
        self.timed_from = timed.timed_from;
        self.timed_instructions = timed.timed_instructions;
        self.attached_at = timed.attached_at;
        self.system.recorders = timed.recorders;
        Ok(())
    }
}

fn disks(config: &MachineConfig) -> Result<Vec<FileIdentity>, Error> {
    let identify = |(disk, role): (&DiskConfig, char)| identity(&format!("vd{role}"), disk);
    config.disks.iter().zip('a'..).map(identify).collect()
}

/// Which file a disk is of that is called `role`.
pub(crate) fn identity(role: &str, disk: &DiskConfig) -> Result<FileIdentity, Error> {
    match &disk.path {
        Some(path) => {
            FileIdentity::sampled(role, Path::new(path)).map_err(|error| gone(path, &error))
        }
        None => Ok(FileIdentity::none(role)),
    }
}

/// What differs between as many disks, in words.
pub(crate) fn other_disks(theirs: &[FileIdentity], ours: &[FileIdentity]) -> Option<String> {
    let say = |disk: &FileIdentity| match &*disk.name {
        "" => "no file".to_owned(),
        name => format!("{name} of {} bytes, {}", disk.bytes, disk.hash),
    };
    let mut pairs = theirs.iter().zip(ours);
    let (theirs, ours) = pairs.find(|(theirs, ours)| !theirs.is_same(ours))?;
    Some(format!(
        "its disk {} is {}, ours is {}",
        theirs.role,
        say(theirs),
        say(ours)
    ))
}

fn gone(path: &str, error: &std::io::Error) -> Error {
    Error::User(format!(
        "{path}: cannot be read any more, so a snapshot cannot say which file it was: {error}"
    ))
}
