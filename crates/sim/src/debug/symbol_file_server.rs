//! The file of symbols, as GDB reads it through its own connection.

use gdbstub::common::Pid;
use gdbstub::target::TargetResult;
use gdbstub::target::ext::exec_file::ExecFile;
use gdbstub::target::ext::host_io::{
    HostIo, HostIoClose, HostIoCloseOps, HostIoErrno, HostIoError, HostIoFstat, HostIoFstatOps,
    HostIoOpen, HostIoOpenFlags, HostIoOpenMode, HostIoOpenOps, HostIoPread, HostIoPreadOps,
    HostIoResult, HostIoStat,
};

use super::server::copy_part;
use super::symbol_elf::NAME;
use crate::session::Session;

/// The number of the only file.
const FILE: u32 = 1;
const BLOCK_BYTES: u64 = 512;

impl Session {
    fn open_file(&self, fd: u32) -> HostIoResult<&[u8], Self> {
        match &self.symbol_elf {
            Some(bytes) if fd == FILE => Ok(bytes),
            _ => Err(HostIoError::Errno(HostIoErrno::EBADF)),
        }
    }
}

impl ExecFile for Session {
    fn get_exec_file(
        &self,
        _: Option<Pid>,
        offset: u64,
        length: usize,
        buf: &mut [u8],
    ) -> TargetResult<usize, Self> {
        Ok(copy_part(NAME.as_bytes(), offset, length, buf))
    }
}

impl HostIo for Session {
    fn support_open(&mut self) -> Option<HostIoOpenOps<'_, Self>> {
        Some(self)
    }

    fn support_close(&mut self) -> Option<HostIoCloseOps<'_, Self>> {
        Some(self)
    }

    fn support_pread(&mut self) -> Option<HostIoPreadOps<'_, Self>> {
        Some(self)
    }

    fn support_fstat(&mut self) -> Option<HostIoFstatOps<'_, Self>> {
        Some(self)
    }
}

impl HostIoOpen for Session {
    fn open(
        &mut self,
        name: &[u8],
        flags: HostIoOpenFlags,
        _: HostIoOpenMode,
    ) -> HostIoResult<u32, Self> {
        if name != NAME.as_bytes() {
            return Err(HostIoError::Errno(HostIoErrno::ENOENT));
        }
        match flags == HostIoOpenFlags::O_RDONLY {
            true => Ok(FILE),
            false => Err(HostIoError::Errno(HostIoErrno::EROFS)),
        }
    }
}

impl HostIoClose for Session {
    fn close(&mut self, fd: u32) -> HostIoResult<(), Self> {
        self.open_file(fd).map(|_| ())
    }
}

impl HostIoPread for Session {
    fn pread(
        &mut self,
        fd: u32,
        count: usize,
        offset: u64,
        buf: &mut [u8],
    ) -> HostIoResult<usize, Self> {
        Ok(copy_part(self.open_file(fd)?, offset, count, buf))
    }
}

impl HostIoFstat for Session {
    fn fstat(&mut self, fd: u32) -> HostIoResult<HostIoStat, Self> {
        let bytes = self.open_file(fd)?.len() as u64;
        Ok(HostIoStat {
            st_dev: 0,
            st_ino: 0,
            st_mode: HostIoOpenMode::S_IFREG | HostIoOpenMode::S_IRUSR,
            st_nlink: 1,
            st_uid: 0,
            st_gid: 0,
            st_rdev: 0,
            st_size: bytes,
            st_blksize: BLOCK_BYTES,
            st_blocks: bytes.div_ceil(BLOCK_BYTES),
            st_atime: 0,
            st_mtime: 0,
            st_ctime: 0,
        })
    }
}
