//! What is on a disk: a file, and the blocks that the guest has written.
//!
//! The file is opened for reading only; what the guest writes is kept in memory, in blocks, and lies
//! over the file. Only a disk that is said to be writable changes its file.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use serde_bytes::ByteBuf;

/// Unit of capacity and of requests.
pub(crate) const SECTOR_BYTES: u64 = 512;
/// Unit of what is kept in memory.
const BLOCK_BYTES: u64 = 4096;

/// What a disk is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskConfig {
    /// The file with its contents; without one it is all zeroes.
    pub path: Option<String>,
    /// Capacity, a multiple of 512; what is beyond the end of the file is zero. By default the
    /// length of the file, rounded up.
    pub bytes: Option<u64>,
    /// Whether what the guest writes goes to the file.
    pub writable: bool,
}

/// A disk that cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {fault}")]
pub struct DiskError {
    /// The file, as the user named it.
    pub path: String,
    /// What is wrong.
    pub fault: DiskFault,
}

/// What is wrong with a disk.
#[derive(Debug, thiserror::Error)]
pub enum DiskFault {
    /// The host does not open the file.
    #[error("cannot be opened as a disk: {0}")]
    Open(io::Error),
    /// A directory, a pipe or the like.
    #[error("not a regular file or block device; give the image of a disk")]
    NotAFile,
    /// A capacity that is no whole number of sectors.
    #[error("a capacity of {0} bytes; it must be a multiple of {SECTOR_BYTES}")]
    Capacity(u64),
    /// A capacity that cuts the file.
    #[error("the file has {file} bytes, but the disk only {disk}; make the disk larger")]
    TooLong {
        /// Length of the file.
        file: u64,
        /// Capacity of the disk.
        disk: u64,
    },
    /// A replacement of another capacity.
    #[error("a capacity of {new} bytes, but the disk that it replaces has {old}")]
    OtherCapacity {
        /// Of the disk that is replaced.
        old: u64,
        /// Of the replacement.
        new: u64,
    },
    /// A replacement for nothing.
    #[error("cannot replace disk {number}: the machine has {disks}, counted from 0")]
    NoSuchDisk {
        /// Number of the disk.
        number: usize,
        /// Number of disks.
        disks: usize,
    },
    /// Neither a file nor a capacity.
    #[error("neither a file nor a capacity; give at least one")]
    Nothing,
    /// Nothing to write to.
    #[error("without a file there is nothing that could be writable")]
    NoFileToWrite,
}

/// A disk in use.
#[derive(Debug)]
pub(crate) struct Disk {
    path: String,
    file: Option<File>,
    /// Length of the file; zeroes follow.
    file_bytes: u64,
    bytes: u64,
    writable: bool,
    /// What the guest has written, by number of the block.
    overlay: BTreeMap<u64, Arc<[u8]>>,
}

impl Disk {
    pub(crate) fn open(config: &DiskConfig) -> Result<Self, DiskError> {
        let path = config.path.clone().unwrap_or_else(|| "disk".into());
        match Self::try_open(config, &path) {
            Ok(disk) => Ok(disk),
            Err(fault) => Err(DiskError { path, fault }),
        }
    }

    fn try_open(config: &DiskConfig, path: &str) -> Result<Self, DiskFault> {
        let (mut file, mut file_bytes) = (None, 0);
        if let Some(path) = &config.path {
            let opened = File::options()
                .read(true)
                .write(config.writable)
                .open(path)
                .map_err(DiskFault::Open)?;
            file_bytes = length(&opened)?;
            file = Some(opened);
        }
        if config.writable && file.is_none() {
            return Err(DiskFault::NoFileToWrite);
        }
        let bytes = match config.bytes {
            Some(bytes) if bytes % SECTOR_BYTES != 0 => return Err(DiskFault::Capacity(bytes)),
            Some(disk) if disk < file_bytes => {
                let file = file_bytes;
                return Err(DiskFault::TooLong { file, disk });
            }
            Some(bytes) => bytes,
            None if file.is_none() => return Err(DiskFault::Nothing),
            None => file_bytes.next_multiple_of(SECTOR_BYTES),
        };
        Ok(Self {
            path: path.into(),
            file,
            file_bytes,
            bytes,
            writable: config.writable,
            overlay: BTreeMap::new(),
        })
    }

    /// A disk to take the place of this one.
    pub(crate) fn replacement(&self, config: &DiskConfig) -> Result<Self, DiskError> {
        let new = Self::open(&DiskConfig {
            bytes: config.bytes.or(Some(self.bytes)),
            ..config.clone()
        })?;
        if new.bytes != self.bytes {
            let (old, new_bytes) = (self.bytes, new.bytes);
            let fault = DiskFault::OtherCapacity {
                old,
                new: new_bytes,
            };
            return Err(DiskError {
                path: new.path,
                fault,
            });
        }
        Ok(new)
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Capacity.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether all of `bytes` bytes from `offset` on are on the disk.
    pub(crate) fn contains(&self, offset: u64, bytes: u64) -> bool {
        offset <= self.bytes && bytes <= self.bytes - offset
    }

    /// Reads what [`Disk::contains`] says is there.
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut rest = buffer;
        let mut offset = offset;
        while !rest.is_empty() {
            let (number, within) = (offset / BLOCK_BYTES, offset % BLOCK_BYTES);
            let bytes = rest.len().min((BLOCK_BYTES - within) as usize);
            let (part, next) = rest.split_at_mut(bytes);
            match self.overlay.get(&number) {
                Some(block) => part.copy_from_slice(&block[within as usize..][..bytes]),
                None => self.read_file(offset, part)?,
            }
            offset += bytes as u64;
            rest = next;
        }
        Ok(())
    }

    /// Writes to what [`Disk::contains`] says is there.
    pub(crate) fn write(&mut self, offset: u64, buffer: &[u8]) -> io::Result<()> {
        if let (true, Some(file)) = (self.writable, &self.file) {
            file.write_all_at(buffer, offset)?;
            self.file_bytes = self.file_bytes.max(offset + buffer.len() as u64);
            return Ok(());
        }
        let mut rest = buffer;
        let mut offset = offset;
        while !rest.is_empty() {
            let (number, within) = (offset / BLOCK_BYTES, (offset % BLOCK_BYTES) as usize);
            let (part, next) = rest.split_at(rest.len().min(BLOCK_BYTES as usize - within));
            self.block_mut(number)?[within..][..part.len()].copy_from_slice(part);
            offset += part.len() as u64;
            rest = next;
        }
        Ok(())
    }

    /// Makes what was written last.
    pub(crate) fn flush(&self) -> io::Result<()> {
        match &self.file {
            Some(file) if self.writable => file.sync_data(),
            _ => Ok(()),
        }
    }

    /// What a snapshot keeps.
    pub(crate) fn overlay(&self) -> BTreeMap<u64, ByteBuf> {
        let blocks = self.overlay.iter();
        blocks
            .map(|(&number, block)| (number, ByteBuf::from(block.to_vec())))
            .collect()
    }

    /// Takes over what a snapshot holds.
    pub(crate) fn set_overlay(&mut self, saved: &BTreeMap<u64, ByteBuf>) -> Result<(), String> {
        let blocks = self.bytes.div_ceil(BLOCK_BYTES);
        for (&number, block) in saved {
            if number >= blocks || block.len() as u64 != BLOCK_BYTES {
                let bytes = block.len();
                return Err(format!("block {number} of {bytes} bytes cannot be"));
            }
        }
        if self.writable && !saved.is_empty() {
            return Err("what was written was kept aside, but here it is writable".into());
        }
        let blocks = saved.iter();
        self.overlay = blocks
            .map(|(&number, block)| (number, Arc::from(block.as_slice())))
            .collect();
        Ok(())
    }

    /// A block of the overlay, which begins as what the file holds.
    fn block_mut(&mut self, number: u64) -> io::Result<&mut [u8]> {
        if !self.overlay.contains_key(&number) {
            let mut block = vec![0; BLOCK_BYTES as usize];
            self.read_file(number * BLOCK_BYTES, &mut block)?;
            self.overlay.insert(number, block.into());
        }
        match self.overlay.entry(number) {
            Entry::Occupied(block) => Ok(Arc::make_mut(block.into_mut())),
            Entry::Vacant(_) => unreachable!("it is there now"),
        }
    }

    fn read_file(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let there = self.file_bytes.saturating_sub(offset);
        let there = usize::try_from(there).unwrap_or(usize::MAX);
        let (held, beyond) = buffer.split_at_mut(there.min(buffer.len()));
        beyond.fill(0);
        match &self.file {
            Some(file) => file.read_exact_at(held, offset),
            None => Ok(()),
        }
    }
}

/// Length of a file or block device.
fn length(mut file: &File) -> Result<u64, DiskFault> {
    use io::{Seek, SeekFrom};
    use std::os::unix::fs::FileTypeExt;
    let kind = file.metadata().map_err(DiskFault::Open)?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(DiskFault::NotAFile);
    }
    file.seek(SeekFrom::End(0)).map_err(DiskFault::Open)
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
