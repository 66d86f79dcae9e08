//! Reading a snapshot.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::de::DeserializeOwned;

use crate::ram::Ram;
use crate::snapshot::directory::{
    Directory, MAX_SECTION_BYTES, PREFACE_BYTES, Preface, SectionInfo, checksum,
};
use crate::snapshot::error::{SnapshotError, SnapshotFault};
use crate::snapshot::header::{Hardware, Header};
use crate::snapshot::other_format::LOOKED_AT_BYTES;
use crate::snapshot::ram;
use crate::snapshot::touched::touched;
use crate::snapshot::writer::side_by_side;

/// A snapshot whose directory has been read and found sound.
#[derive(Debug)]
pub struct Snapshot {
    path: PathBuf,
    file: File,
    bytes: u64,
    directory: Directory,
    /// Where each section begins, by its place in the directory.
    starts: Vec<u64>,
}

impl Snapshot {
    /// Opens the file and reads its directory; sections are read, and checked, when asked for.
    ///
    /// # Errors
    /// When it is no snapshot, of another format, truncated, or its directory is damaged.
    pub fn open(path: &Path) -> Result<Self, SnapshotError> {
        Self::open_file(path).map_err(|fault| SnapshotError::new(path, fault))
    }

    fn open_file(path: &Path) -> Result<Self, SnapshotFault> {
        let file = File::open(path).map_err(SnapshotFault::Read)?;
        let metadata = file.metadata().map_err(SnapshotFault::Read)?;
        if metadata.is_dir() {
            let found = "it is a folder".into();
            return Err(SnapshotFault::NotASnapshot { found });
        }
        let file_bytes = metadata.len();
        let mut start = Vec::new();
        let looked_at = LOOKED_AT_BYTES as u64;
        (&file)
            .take(looked_at)
            .read_to_end(&mut start)
            .map_err(SnapshotFault::Read)?;
        let preface = Preface::decode(&start, file_bytes)?;
        let mut end = PREFACE_BYTES as u64 + preface.directory_bytes;
        let cut_off = |part: String, needed: u64| SnapshotFault::Truncated {
            part,
            needed,
            found: file_bytes,
        };
        if end > file_bytes {
            return Err(cut_off("its directory".into(), end));
        }
        let json = read_at(&file, PREFACE_BYTES as u64, preface.directory_bytes)
            .map_err(SnapshotFault::Read)?;
        let directory = Directory::decode(&preface, &json)?;
        let mut starts = Vec::with_capacity(directory.sections.len());
        for section in &directory.sections {
            starts.push(end);
            let too_long = section.bytes > MAX_SECTION_BYTES;
            end = match end.checked_add(section.stored_bytes) {
                Some(end) if !too_long => end,
                _ => return Err(damaged(&section.name, "has an impossible length")),
            };
            if end > file_bytes {
                return Err(cut_off(format!("section \"{}\"", section.name), end));
            }
        }
        if end < file_bytes {
            let problem = format!("it has {} bytes after its end", file_bytes - end);
            return Err(SnapshotFault::Damaged(problem));
        }
        Ok(Self {
            path: path.into(),
            file,
            bytes: file_bytes,
            directory,
            starts,
        })
    }

    /// What the snapshot is of.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.directory.header
    }

    /// The sections, in their order in the file.
    #[must_use]
    pub fn sections(&self) -> &[SectionInfo] {
        &self.directory.sections
    }

    /// Whether it has a section of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.sections().iter().any(|it| it.name == name)
    }

    /// Length of the file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Asks that the snapshot is of a machine with `hardware`.
    ///
    /// # Errors
    /// When something differs, with what.
    pub fn fits(&self, hardware: &Hardware) -> Result<(), SnapshotError> {
        match self.header().hardware.differences(hardware) {
            None => Ok(()),
            Some(differences) => Err(self.other_machine(differences)),
        }
    }

    /// The contents of a section.
    ///
    /// # Errors
    /// When it is missing or damaged.
    pub fn section(&self, name: &str) -> Result<Vec<u8>, SnapshotError> {
        let place = self
            .sections()
            .iter()
            .position(|section| section.name == name);
        let place = place.ok_or_else(|| self.error(self.missing(name)))?;
        self.read(place).map_err(|fault| self.error(fault))
    }

    /// The state that a section holds.
    ///
    /// # Errors
    /// When the section is missing or damaged, or holds another kind of state.
    pub fn state<T: DeserializeOwned>(&self, name: &str) -> Result<T, SnapshotError> {
        let bytes = self.section(name)?;
        let mut rest = &bytes[..];
        let layout = |problem: String| {
            self.error(SnapshotFault::Layout {
                name: name.into(),
                problem,
                loiter: self.header().loiter.clone(),
                ours: env!("CARGO_PKG_VERSION"),
            })
        };
        let state = rmp_serde::from_read(&mut rest).map_err(|error| layout(error.to_string()))?;
        match rest.len() {
            0 => Ok(state),
            more => Err(layout(format!("{more} bytes follow it"))),
        }
    }

    /// Makes RAM what it was, whatever it holds now. Pages that were zero then and are untouched now
    /// stay untouched.
    ///
    /// # Errors
    /// When RAM has another size or the snapshot is damaged; what RAM holds then is undefined.
    pub(crate) fn restore_ram(&self, ram: &mut Ram) -> Result<(), SnapshotError> {
        let (then, now) = (self.header().hardware.ram_bytes, ram.bytes());
        if then != now {
            let differences = format!("its RAM has {then} bytes, ours {now}");
            return Err(self.other_machine(differences));
        }
        self.restore_windows(ram).map_err(|fault| self.error(fault))
    }

    fn restore_windows(&self, ram: &mut Ram) -> Result<(), SnapshotFault> {
        let mut places = BTreeMap::new();
        for (place, section) in self.sections().iter().enumerate() {
            if let Some(index) = ram::window_of(&section.name)
                && (section.bytes > ram::MAX_PACKED_BYTES as u64
                    || places.insert(index, place).is_some())
            {
                return Err(damaged(&section.name, "is too long or there twice"));
            }
        }
        let touched = touched(ram.as_slice());
        let windows = ram.as_mut_slice().chunks_mut(ram::WINDOW_BYTES);
        let touched = touched.chunks(ram::WINDOW_BYTES / crate::map::PAGE_BYTES as usize);
        let jobs: Vec<_> = windows
            .zip(touched)
            .enumerate()
            .filter_map(|(index, (window, touched))| {
                let place = places.remove(&index);
                let has_work = place.is_some() || touched.contains(&true);
                has_work.then(|| (place, Mutex::new(window), touched))
            })
            .collect();
        if let Some((_, &place)) = places.first_key_value() {
            return Err(damaged(
                &self.sections()[place].name,
                "lies beyond the end of RAM",
            ));
        }
        let results = side_by_side(jobs.len(), |n| {
            let (place, window, touched) = &jobs[n];
            let mut window = window.lock().expect("no other thread has this window");
            match place {
                None => {
                    ram::clear_window(&mut window, touched);
                    Ok(())
                }
                Some(place) => ram::unpack(&self.read(*place)?, &mut window, touched)
                    .map_err(|problem| damaged(&self.sections()[*place].name, &problem)),
            }
        });
        results.into_iter().collect()
    }

    fn read(&self, place: usize) -> Result<Vec<u8>, SnapshotFault> {
        let section = &self.sections()[place];
        let stored = read_at(&self.file, self.starts[place], section.stored_bytes)
            .map_err(SnapshotFault::Read)?;
        if checksum(&stored) != section.xxh3 {
            return Err(damaged(
                &section.name,
                "has another checksum than it was written with",
            ));
        }
        decompress(&stored, section.bytes).map_err(|problem| damaged(&section.name, &problem))
    }

    fn missing(&self, name: &str) -> SnapshotFault {
        let known = self.sections().iter().map(|section| section.name.as_str());
        let mut known: Vec<_> = known
            .filter(|name| ram::window_of(name).is_none())
            .collect();
        if known.len() < self.sections().len() {
            known.push("RAM");
        }
        SnapshotFault::Missing {
            name: name.into(),
            known: known.join(", "),
            loiter: self.header().loiter.clone(),
        }
    }

    /// The error about a snapshot whose states contradict each other or themselves.
    #[must_use]
    pub fn contradiction(&self, problem: String) -> SnapshotError {
        self.error(SnapshotFault::Damaged(problem))
    }

    /// The error about a snapshot of another machine.
    #[must_use]
    pub fn other_machine(&self, differences: String) -> SnapshotError {
        self.error(SnapshotFault::OtherMachine { differences })
    }

    fn error(&self, fault: SnapshotFault) -> SnapshotError {
        SnapshotError::new(&self.path, fault)
    }
}

fn damaged(section: &str, problem: &str) -> SnapshotFault {
    SnapshotFault::Damaged(format!("section \"{section}\" {problem}"))
}

/// Exactly `bytes` bytes from one zstd frame. Room grows with what comes out, not with what is
/// announced.
fn decompress(stored: &[u8], bytes: u64) -> Result<Vec<u8>, String> {
    let cannot = |error: io::Error| format!("cannot be decompressed ({error})");
    let decoder = zstd::Decoder::with_buffer(stored).map_err(cannot)?;
    let mut out = Vec::new();
    decoder
        .take(bytes + 1)
        .read_to_end(&mut out)
        .map_err(cannot)?;
    if out.len() as u64 != bytes {
        return Err(format!("does not decompress to the {bytes} bytes it had"));
    }
    Ok(out)
}

fn read_at(file: &File, at: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let mut buffer = vec![0; length];
    file.read_exact_at(&mut buffer, at)?;
    Ok(buffer)
}
