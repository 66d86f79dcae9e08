//! Loading what a boot needs: firmware, kernel, initial file system, device tree.
//!
//! ```text
//!   RAM_BASE        + 2 MiB or more                                                end of RAM
//!   | firmware ...  | kernel ...          | initial file system | info | device tree | room |
//! ```
//!
//! The firmware is OpenSBI's. Every hart starts at its entry point with its number in a0, the device
//! tree in a1, and in a2 what OpenSBI's fw_dynamic wants to know, as QEMU passes it; fw_jump does not
//! look at it and finds the kernel in the same place.

use std::ops::Range;

use loiter_isa::{Op, decode};
use loiter_types::PhysAddr;

use crate::device_tree;
use crate::elf::{ElfImage, known_file, looks_like};
use crate::kernel::{self, Kernel};
use crate::load::{LoadError, LoadFault};
use crate::machine::Machine;
use crate::map::{PAGE_BYTES, RAM_BASE};

/// A kernel lies on a multiple of this, of a page in the larger of its page tables.
const KERNEL_ALIGN_BYTES: u64 = 2 << 20;
/// What the firmware takes at run time, more than its file. OpenSBI 1.6 prints 514 KB for 16 harts, 736
/// KB for 32 and 1240 KB for 64. Every hart has a queue with room for a request to flush its TLB of
/// every other (`fw_platform_calculate_heap_size`), of 56 bytes with masks of 256 harts.
const FIRMWARE_BYTES: u64 = 512 << 10;
const FIRMWARE_BYTES_PER_HART: u64 = 16 << 10;
const FIRMWARE_BYTES_PER_PAIR_OF_HARTS: u64 = 56;
/// Firmware adds to the device tree in place: reserved memory, and some words for each hart. Assumed
/// to be enough.
const TREE_ROOM_BYTES: u64 = 64 << 10;
/// So many instructions at the beginning of firmware must be ones.
const FIRMWARE_INSTRUCTIONS: usize = 16;

/// `struct fw_dynamic_info` of OpenSBI, include/sbi/fw_dynamic.h.
const INFO_MAGIC: u64 = 0x4942_534f;
const INFO_VERSION: u64 = 2;
const INFO_SUPERVISOR_MODE: u64 = 1;
const INFO_NO_OPTIONS: u64 = 0;
const INFO_BOOT_HART: u64 = 0;

/// A file of a boot.
#[derive(Clone, Debug)]
pub struct BootFile {
    /// As the user named it.
    pub path: String,
    /// Its contents.
    pub bytes: Vec<u8>,
}

/// What is booted.
#[derive(Clone, Debug)]
pub struct BootFiles {
    /// OpenSBI: `fw_dynamic` or `fw_jump`, as a raw image or as ELF.
    pub firmware: BootFile,
    /// Linux: an `Image`, plain or compressed with gzip.
    pub kernel: BootFile,
    /// The initial file system.
    pub initrd: Option<BootFile>,
}

/// With what every hart starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BootAddresses {
    /// The first instruction.
    pub entry: PhysAddr,
    /// The device tree, for a1.
    pub device_tree: PhysAddr,
    /// What the firmware is to start next, for a2.
    pub dynamic_info: PhysAddr,
}

/// Where in RAM the parts go that lie at its end.
struct Layout {
    initrd: Option<Range<u64>>,
    dynamic_info: u64,
    device_tree: u64,
}

impl Machine {
    /// Places firmware, kernel, initial file system and device tree in RAM, which is as it was at
    /// reset.
    ///
    /// # Errors
    /// When a file is not what it should be, or RAM is too small.
    pub fn load_boot(&mut self, files: &BootFiles) -> Result<BootAddresses, LoadError> {
        let in_file = |file: &BootFile, fault| LoadError {
            path: file.path.clone(),
            fault,
        };
        let kernel_addr = self.kernel_addr().0;
        let kernel = kernel::read(&files.kernel.bytes, self.ram.bytes())
            .map_err(|fault| in_file(&files.kernel, fault))?;
        let firmware = Firmware::read(&files.firmware, kernel_addr)
            .map_err(|fault| in_file(&files.firmware, fault))?;
        let layout = self.layout(files, &kernel)?;

        for (addr, bytes) in firmware.parts() {
            self.place(addr, bytes);
        }
        self.place(kernel_addr, &kernel.bytes);
        if let (Some(file), Some(place)) = (&files.initrd, &layout.initrd) {
            self.place(place.start, &file.bytes);
        }
        let info = [
            INFO_MAGIC,
            INFO_VERSION,
            kernel_addr,
            INFO_SUPERVISOR_MODE,
            INFO_NO_OPTIONS,
            INFO_BOOT_HART,
        ];
        self.place(layout.dynamic_info, &info.map(u64::to_le_bytes).concat());
        let tree = self.tree_with(layout.initrd);
        self.place(layout.device_tree, &tree);
        self.first_mut().device_tree = tree;
        Ok(BootAddresses {
            entry: PhysAddr(firmware.entry()),
            device_tree: PhysAddr(layout.device_tree),
            dynamic_info: PhysAddr(layout.dynamic_info),
        })
    }

    /// Where [`Machine::load_boot`] places the kernel: at 2 MiB, where fw_jump expects it, unless many
    /// harts make the firmware larger.
    #[must_use]
    pub fn kernel_addr(&self) -> PhysAddr {
        let harts = self.config().harts as u64;
        let each = FIRMWARE_BYTES_PER_HART + FIRMWARE_BYTES_PER_PAIR_OF_HARTS * harts;
        let firmware = FIRMWARE_BYTES + each * harts;
        PhysAddr(RAM_BASE + firmware.next_multiple_of(KERNEL_ALIGN_BYTES))
    }

    /// Finds a place for everything, or says what has none.
    fn layout(&self, files: &BootFiles, kernel: &Kernel) -> Result<Layout, LoadError> {
        let ram_end = self.ram.end().0;
        let initrd_bytes = files.initrd.as_ref().map(|file| file.bytes.len() as u64);
        // Its length does not depend on where the initial file system lies.
        let tree_bytes = self.tree_with(initrd_bytes.map(|_| 0..0)).len() as u64;
        let above = (tree_bytes + TREE_ROOM_BYTES).next_multiple_of(PAGE_BYTES) + PAGE_BYTES;
        let below = self.kernel_addr().0 - RAM_BASE;
        let room = (ram_end - RAM_BASE).saturating_sub(below + above);

        let ram_mib = |needed: u64| {
            let all = u128::from(below) + u128::from(needed) + u128::from(above);
            u64::try_from(all.div_ceil(1 << 20)).unwrap_or(u64::MAX)
        };
        let kernel_bytes = kernel.mem_bytes.saturating_add(PAGE_BYTES - 1) & !(PAGE_BYTES - 1);
        if kernel_bytes > room {
            return Err(LoadError {
                path: files.kernel.path.clone(),
                fault: LoadFault::TooLarge {
                    what: "the kernel",
                    needed: kernel.mem_bytes,
                    room,
                    ram_mib: ram_mib(kernel_bytes),
                },
            });
        }
        let dynamic_info = ram_end - above;
        let device_tree = dynamic_info + PAGE_BYTES;
        let mut initrd = None;
        if let (Some(file), Some(bytes)) = (&files.initrd, initrd_bytes) {
            let pages = bytes.next_multiple_of(PAGE_BYTES);
            let room = room - kernel_bytes;
            if pages > room {
                return Err(LoadError {
                    path: file.path.clone(),
                    fault: LoadFault::TooLarge {
                        what: "the initial file system",
                        needed: bytes,
                        room,
                        ram_mib: ram_mib(kernel_bytes + pages),
                    },
                });
            }
            let start = dynamic_info - pages;
            initrd = Some(start..start + bytes);
        }
        Ok(Layout {
            initrd,
            dynamic_info,
            device_tree,
        })
    }

    fn tree_with(&self, initrd: Option<Range<u64>>) -> Vec<u8> {
        device_tree::write(self.config(), &self.first().devices, initrd)
            .expect("Machine::new has written this tree already")
    }

    fn place(&mut self, addr: u64, bytes: &[u8]) {
        self.ram
            .slice_mut(PhysAddr(addr), bytes.len() as u64)
            .expect("the layout is within RAM")
            .copy_from_slice(bytes);
    }
}

/// A firmware file, checked.
enum Firmware<'a> {
    Elf(Box<ElfImage>),
    Raw(&'a [u8]),
}

impl<'a> Firmware<'a> {
    fn read(file: &'a BootFile, kernel: u64) -> Result<Self, LoadFault> {
        let bytes = file.bytes.as_slice();
        let firmware = if bytes.starts_with(&object::elf::ELFMAG) {
            match ElfImage::parse(&file.path, bytes).map_err(|error| error.fault) {
                Ok(image) => Self::Elf(Box::new(image)),
                // OpenSBI 1.6 as ELF is position-independent; the raw image beside it is the same.
                Err(LoadFault::NotExecutable { found, .. }) => {
                    let found = format!("it is {found} as ELF");
                    return Err(LoadFault::NotFirmware { found });
                }
                Err(fault) => return Err(fault),
            }
        } else {
            check_raw(bytes)?;
            Self::Raw(bytes)
        };
        for (start, end) in firmware.extents() {
            if start < RAM_BASE || end > kernel {
                return Err(LoadFault::FirmwarePlace { start, end, kernel });
            }
        }
        Ok(firmware)
    }

    fn entry(&self) -> u64 {
        match self {
            Self::Elf(image) => image.entry.0,
            Self::Raw(_) => RAM_BASE,
        }
    }

    /// What goes where.
    fn parts(&self) -> Vec<(u64, &[u8])> {
        match self {
            Self::Elf(image) => {
                let segments = image.segments.iter();
                segments
                    .map(|segment| (segment.addr.0, image.data(segment)))
                    .collect()
            }
            Self::Raw(bytes) => vec![(RAM_BASE, bytes)],
        }
    }

    /// First address of each part, and one past its last.
    fn extents(&self) -> Vec<(u64, u64)> {
        match self {
            Self::Elf(image) => {
                let segments = image.segments.iter();
                segments
                    .map(|segment| {
                        let start = segment.addr.0;
                        (start, start.saturating_add(segment.mem_bytes))
                    })
                    .collect()
            }
            Self::Raw(bytes) => vec![(RAM_BASE, RAM_BASE + bytes.len() as u64)],
        }
    }
}

/// A raw image has no header, but it begins with instructions.
fn check_raw(bytes: &[u8]) -> Result<(), LoadFault> {
    let found = if kernel::is_kernel(bytes) {
        "it is a Linux kernel".into()
    } else if known_file(bytes).is_some() || !begins_with_instructions(bytes) {
        looks_like(bytes)
    } else {
        return Ok(());
    };
    Err(LoadFault::NotFirmware { found })
}

fn begins_with_instructions(bytes: &[u8]) -> bool {
    let mut offset = 0;
    (0..FIRMWARE_INSTRUCTIONS).all(|_| {
        let Some(&bits) = bytes.get(offset..).and_then(<[u8]>::first_chunk) else {
            return false;
        };
        let inst = decode(u32::from_le_bytes(bits));
        offset += usize::from(inst.len);
        inst.op != Op::Illegal
    })
}

#[cfg(test)]
#[path = "boot_tests.rs"]
mod tests;
