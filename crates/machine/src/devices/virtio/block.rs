//! A disk.

use std::io::{Read, Write};

use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_F_FLUSH, VIRTIO_BLK_F_SEG_MAX, VIRTIO_BLK_F_SIZE_MAX, VIRTIO_BLK_ID_BYTES,
    VIRTIO_BLK_S_IOERR, VIRTIO_BLK_S_OK, VIRTIO_BLK_S_UNSUPP, VIRTIO_BLK_T_FLUSH,
    VIRTIO_BLK_T_GET_ID, VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT,
};
use virtio_bindings::virtio_ids::VIRTIO_ID_BLOCK;
use virtio_queue::Writer;

use super::Function;
use super::request::{Broken, MAX_REQUEST_BYTES, Request};
use crate::disk::{Disk, SECTOR_BYTES};

/// A request begins with kind, reserved, and sector.
const HEADER_BYTES: usize = 16;
/// Limits that keep a driver below the longest request that is taken.
const SEGMENT_BYTES: u32 = 1 << 16;
const SEGMENTS: u32 = 126;
const _: () = assert!(SEGMENT_BYTES as u64 * (SEGMENTS as u64 + 1) < MAX_REQUEST_BYTES);
/// So many bytes are copied at a time.
const PART_BYTES: usize = 1 << 16;

pub(crate) struct Block {
    /// Number of the disk: 0 is `vda`.
    number: usize,
    pub(crate) disk: Disk,
    message: Option<String>,
    /// Whether the user has heard that the host fails.
    told: bool,
}

/// What the disk answers.
enum Outcome {
    Done,
    Unsupported,
    Failed,
}

impl Block {
    pub(crate) fn new(number: usize, disk: Disk) -> Self {
        Self {
            number,
            disk,
            message: None,
            told: false,
        }
    }

    fn read(&mut self, sector: u64, to: &mut Writer) -> Outcome {
        let bytes = to.available_bytes();
        let Some(mut offset) = self.byte_offset(sector, bytes) else {
            return Outcome::Failed;
        };
        let mut part = vec![0; PART_BYTES.min(bytes)];
        let mut left = bytes;
        while left > 0 {
            let part = &mut part[..left.min(PART_BYTES)];
            if let Err(error) = self.disk.read(offset, part) {
                return self.failed("read", &error);
            }
            to.write_all(part).expect("there is room");
            offset += part.len() as u64;
            left -= part.len();
        }
        Outcome::Done
    }

    fn write(&mut self, sector: u64, from: &mut impl Read, bytes: usize) -> Outcome {
        let Some(mut offset) = self.byte_offset(sector, bytes) else {
            return Outcome::Failed;
        };
        let mut part = vec![0; PART_BYTES.min(bytes)];
        let mut left = bytes;
        while left > 0 {
            let part = &mut part[..left.min(PART_BYTES)];
            from.read_exact(part).expect("so many are there");
            if let Err(error) = self.disk.write(offset, part) {
                return self.failed("written", &error);
            }
            offset += part.len() as u64;
            left -= part.len();
        }
        Outcome::Done
    }

    fn flush(&mut self) -> Outcome {
        match self.disk.flush() {
            Ok(()) => Outcome::Done,
            Err(error) => self.failed("written", &error),
        }
    }

    /// Where whole sectors begin, if they are on the disk.
    fn byte_offset(&self, sector: u64, bytes: usize) -> Option<u64> {
        let offset = sector.checked_mul(SECTOR_BYTES)?;
        let whole = (bytes as u64).is_multiple_of(SECTOR_BYTES);
        (whole && self.disk.contains(offset, bytes as u64)).then_some(offset)
    }

    /// The host's own fault, of which the guest sees an error and the user hears once.
    fn failed(&mut self, what: &str, error: &std::io::Error) -> Outcome {
        if !std::mem::replace(&mut self.told, true) {
            let (path, name) = (self.disk.path(), self.name());
            self.message = Some(format!(
                "{path} ({name}) could not be {what}: {error}; the guest was told of an I/O error"
            ));
        }
        Outcome::Failed
    }
}

impl Function for Block {
    fn id(&self) -> u32 {
        VIRTIO_ID_BLOCK
    }

    fn name(&self) -> String {
        // The names that Linux gives have letters; the machine has at most as many disks.
        format!("disk vd{}", char::from(b'a' + self.number as u8))
    }

    fn features(&self) -> u64 {
        1 << VIRTIO_BLK_F_SIZE_MAX | 1 << VIRTIO_BLK_F_SEG_MAX | 1 << VIRTIO_BLK_F_FLUSH
    }

    fn queues(&self) -> usize {
        1
    }

    fn config(&self) -> Vec<u8> {
        let mut config = (self.disk.bytes() / SECTOR_BYTES).to_le_bytes().to_vec();
        config.extend(SEGMENT_BYTES.to_le_bytes());
        config.extend(SEGMENTS.to_le_bytes());
        config
    }

    fn handle(&mut self, _queue: usize, request: Request) -> Result<u32, Broken> {
        let Request {
            mut reader,
            mut writer,
            ..
        } = request;
        let mut header = [0; HEADER_BYTES];
        reader.read_exact(&mut header).map_err(|_| Broken::Short)?;
        let [kind, _, low, high] = std::array::from_fn(|n| {
            let word = header[4 * n..].first_chunk().expect("of sixteen bytes");
            u32::from_le_bytes(*word)
        });
        let sector = u64::from(high) << 32 | u64::from(low);

        // The last byte is the status.
        let data = writer.available_bytes().checked_sub(1);
        let mut status = writer
            .split_at(data.ok_or(Broken::Short)?)
            .map_err(|_| Broken::Short)?;
        let outcome = match kind {
            VIRTIO_BLK_T_IN => self.read(sector, &mut writer),
            VIRTIO_BLK_T_OUT => {
                let bytes = reader.available_bytes();
                self.write(sector, &mut reader, bytes)
            }
            VIRTIO_BLK_T_FLUSH => self.flush(),
            VIRTIO_BLK_T_GET_ID => {
                let mut id = format!("loiter-disk-{}", self.number).into_bytes();
                id.resize(VIRTIO_BLK_ID_BYTES as usize, 0);
                id.truncate(writer.available_bytes());
                writer.write_all(&id).expect("there is room");
                Outcome::Done
            }
            _ => Outcome::Unsupported,
        };
        let answer = match outcome {
            Outcome::Done => VIRTIO_BLK_S_OK,
            Outcome::Failed => VIRTIO_BLK_S_IOERR,
            Outcome::Unsupported => VIRTIO_BLK_S_UNSUPP,
        };
        status.write_all(&[answer as u8]).expect("there is room");
        Ok((writer.bytes_written() + status.bytes_written()) as u32)
    }

    fn take_message(&mut self) -> Option<String> {
        self.message.take()
    }
}
