//! Writing a snapshot.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde::Serialize;

use crate::ram::Ram;
use crate::snapshot::directory::{Directory, MAX_SECTION_BYTES, SectionInfo, checksum};
use crate::snapshot::error::{SnapshotError, SnapshotFault};
use crate::snapshot::hash::encode;
use crate::snapshot::header::Header;
use crate::snapshot::ram;

/// Level of zstd: its default. Higher ones take longer than the disk saves; level 1 writes a seventh
/// more in hardly less time.
const LEVEL: i32 = 3;

/// What any user may do with a snapshot before the umask is applied, as for any file.
const MODE: u32 = 0o666;

/// A snapshot that is being put together.
#[derive(Debug)]
pub struct SnapshotWriter {
    directory: Directory,
    stored: Vec<Vec<u8>>,
}

impl SnapshotWriter {
    /// An empty snapshot of what `header` says.
    #[must_use]
    pub fn new(header: Header) -> Self {
        Self {
            directory: Directory {
                header,
                sections: Vec::new(),
            },
            stored: Vec::new(),
        }
    }

    /// Adds a section. Names are used once.
    ///
    /// # Errors
    /// When it is too large.
    pub fn section(&mut self, name: &str, bytes: &[u8]) -> Result<(), SnapshotFault> {
        let stored = compress(name, bytes)?;
        self.add(name.into(), bytes.len(), stored);
        Ok(())
    }

    /// Adds a section that holds `state`.
    ///
    /// # Errors
    /// When it is too large, or cannot be encoded, which is our own fault.
    pub fn state(&mut self, name: &str, state: &impl Serialize) -> Result<(), SnapshotFault> {
        self.section(name, &encode(name, state)?)
    }

    /// Adds what RAM holds.
    ///
    /// # Errors
    /// Our own fault, when it cannot be compressed.
    pub fn ram(&mut self, ram: &Ram) -> Result<(), SnapshotFault> {
        let windows = ram::windows(ram);
        let sections = side_by_side(windows.len(), |n| {
            let (index, bytes, touched) = &windows[n];
            let Some(packed) = ram::pack(bytes, touched) else {
                return Ok(None);
            };
            let name = ram::section_name(*index);
            compress(&name, &packed).map(|stored| Some((name, packed.len(), stored)))
        });
        for section in sections {
            if let Some((name, bytes, stored)) = section? {
                self.add(name, bytes, stored);
            }
        }
        Ok(())
    }

    /// Writes the file, whole or not at all, and returns its length.
    ///
    /// # Errors
    /// When the host refuses.
    pub fn write(&self, path: &Path) -> Result<u64, SnapshotError> {
        let fail = |fault| SnapshotError::new(path, fault);
        let start = self.directory.encode().map_err(fail)?;
        self.write_file(path, &start)
            .map_err(|error| fail(SnapshotFault::Write(error)))
    }

    fn write_file(&self, path: &Path, start: &[u8]) -> io::Result<u64> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        // Removed when it is dropped before it has its name.
        let mut file = tempfile::Builder::new()
            .prefix(".snapshot-")
            .permissions(Permissions::from_mode(MODE))
            .tempfile_in(folder)?;
        file.write_all(start)?;
        let mut bytes = start.len() as u64;
        for stored in &self.stored {
            file.write_all(stored)?;
            bytes += stored.len() as u64;
        }
        // Some hosts report that there is no room only now.
        file.as_file().sync_data()?;
        file.persist(path)?;
        Ok(bytes)
    }

    fn add(&mut self, name: String, bytes: usize, stored: Vec<u8>) {
        debug_assert!(
            self.directory
                .sections
                .iter()
                .all(|other| other.name != name)
        );
        self.directory.sections.push(SectionInfo {
            name,
            stored_bytes: stored.len() as u64,
            bytes: bytes as u64,
            xxh3: checksum(&stored),
        });
        self.stored.push(stored);
    }
}

fn compress(name: &str, bytes: &[u8]) -> Result<Vec<u8>, SnapshotFault> {
    if bytes.len() as u64 > MAX_SECTION_BYTES {
        return Err(SnapshotFault::TooLarge {
            name: name.into(),
            bytes: bytes.len() as u64,
            limit: MAX_SECTION_BYTES,
        });
    }
    zstd::bulk::compress(bytes, LEVEL).map_err(|error| SnapshotFault::Encode {
        name: name.into(),
        problem: error.to_string(),
    })
}

/// What `work` gives for 0 to `count - 1`, in that order, computed by as many threads as the host has
/// processors.
pub(crate) fn side_by_side<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = thread::available_parallelism()
        .map_or(1, usize::from)
        .min(count);
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= count {
                return done;
            }
            done.push((n, work(n)));
        }
    };
    let mut done: Vec<(usize, T)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("a worker does not panic"))
            .collect()
    });
    done.sort_by_key(|(n, _)| *n);
    done.into_iter().map(|(_, result)| result).collect()
}
