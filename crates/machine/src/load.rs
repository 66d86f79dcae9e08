//! Placing a program and the device tree in RAM, and what may be wrong with a program.

use loiter_isa::Width;
use loiter_types::PhysAddr;

use crate::elf::ElfImage;
use crate::htif::Htif;
use crate::machine::Machine;
use crate::map::{PAGE_BYTES, RAM_BASE};
use crate::partition::Partition;

/// A program that cannot be run, and the file it came from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {fault}")]
pub struct LoadError {
    /// The file, as the user named it.
    pub path: String,
    /// What is wrong with it.
    pub fault: LoadFault,
}

/// What is wrong with a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadFault {
    /// The magic number is missing.
    #[error("not an ELF file ({found}); give a linked RISC-V program")]
    NotElf {
        /// What it looks like instead.
        found: String,
    },
    /// 32-bit or of no known class.
    #[error("{found} ELF file, but the machine is 64-bit; compile with -march=rv64gc -mabi=lp64d")]
    Class {
        /// What it is.
        found: String,
    },
    /// Big-endian or of no known byte order.
    #[error("{found} ELF file, but the machine is little-endian")]
    ByteOrder {
        /// What it is.
        found: String,
    },
    /// Another architecture.
    #[error(
        "program for {found}, but the machine is RISC-V; compile it with a RISC-V cross compiler"
    )]
    Architecture {
        /// Name of the architecture found.
        found: String,
    },
    /// An object file, a shared object or a core dump.
    #[error("{found}, not an executable; {advice}")]
    NotExecutable {
        /// What it is.
        found: String,
        /// What to do.
        advice: &'static str,
    },
    /// The file ends early.
    #[error(
        "truncated: {part} ends at byte {needed}, but the file has only {found} bytes; build or copy it again"
    )]
    Truncated {
        /// The header, table or segment that is cut off.
        part: String,
        /// Where it ends.
        needed: u64,
        /// Length of the file.
        found: u64,
    },
    /// A header that contradicts itself.
    #[error("damaged: {0}")]
    Damaged(String),
    /// Nothing to load.
    #[error("no segment to load; link it as an executable")]
    Empty,
    /// The entry point is not part of the program.
    #[error(
        "the entry point {entry:#x} lies in no loaded segment; check ENTRY() in the linker script and that the start-up code is linked"
    )]
    Entry {
        /// `e_entry`.
        entry: u64,
    },
    /// A segment that does not fit into RAM.
    #[error(
        "segment {index} ({start:#x} to {end:#x}) lies outside RAM ({RAM_BASE:#x} to {ram_end:#x}); {advice}"
    )]
    OutsideRam {
        /// Number of the segment among the program headers.
        index: usize,
        /// Its first address.
        start: u64,
        /// One past its last address.
        end: u128,
        /// One past the last address of RAM.
        ram_end: u64,
        /// What to do.
        advice: String,
    },
    /// A segment where the device tree goes.
    #[error(
        "segment {index} ({start:#x} to {end:#x}) overlaps the device tree at {tree:#x}, the top of RAM; {advice}"
    )]
    OverDeviceTree {
        /// Number of the segment among the program headers.
        index: usize,
        /// Its first address.
        start: u64,
        /// One past its last address.
        end: u64,
        /// Where the device tree begins.
        tree: u64,
        /// What to do.
        advice: String,
    },
    /// Something else where the kernel should be.
    #[error("not a Linux kernel for RISC-V ({found}); give {}", KERNEL_ADVICE)]
    NotKernel {
        /// What it looks like instead.
        found: String,
    },
    /// A kernel of another architecture.
    #[error(
        "Linux kernel for {found}, but the machine is RISC-V; give {}",
        KERNEL_ADVICE
    )]
    KernelArchitecture {
        /// Name of the architecture found.
        found: String,
    },
    /// A compressed file that does not unpack.
    #[error("cannot be unpacked: {0}; copy it again")]
    Compressed(String),
    /// Something else where the firmware should be.
    #[error("not firmware for RISC-V ({found}); give fw_dynamic.bin of the package opensbi")]
    NotFirmware {
        /// What it looks like instead.
        found: String,
    },
    /// Firmware that does not lie at the beginning of RAM, before the kernel.
    #[error(
        "firmware from {start:#x} to {end:#x}, but it must lie between {RAM_BASE:#x} and the kernel at {kernel:#x}; give fw_dynamic.bin of the package opensbi"
    )]
    FirmwarePlace {
        /// Its first address.
        start: u64,
        /// One past its last address.
        end: u64,
        /// Where the kernel is loaded.
        kernel: u64,
    },
    /// Something else where symbols should be.
    #[error(
        "neither an ELF file nor a System.map ({found}); give a program, a vmlinux, or the System.map of the kernel"
    )]
    NotSymbols {
        /// What it looks like instead.
        found: String,
    },
    /// A file without symbols.
    #[error("has no symbols; give the file as it was before it was stripped")]
    Stripped,
    /// A line of a System.map that is none.
    #[error(
        "line {line} is none of a System.map: `{found}`; expected an address, a letter and a name"
    )]
    MapLine {
        /// Its number.
        line: usize,
        /// How it begins.
        found: String,
    },
    /// No room in RAM.
    #[error(
        "{what} needs {needed} bytes of RAM, but only {room} bytes are left for it; {advice}",
        advice = more_ram(*.ram_mib)
    )]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size in memory.
        needed: u64,
        /// What is left.
        room: u64,
        /// RAM that is enough, in MiB.
        ram_mib: u64,
    },
    /// HTIF words that are not in RAM.
    #[error(
        "the symbol `{name}` is at {addr}, which is not in RAM or not a multiple of 8; put the section .tohost into RAM, aligned"
    )]
    HtifWord {
        /// `tohost` or `fromhost`.
        name: &'static str,
        /// Its address.
        addr: PhysAddr,
    },
}

const KERNEL_ADVICE: &str = "the file `Image` of a riscv64 kernel (Debian: /boot/vmlinux-*)";

fn more_ram(mib: impl std::fmt::Display) -> String {
    format!(
        "use a machine with more RAM (--set system.ram_mib={mib}, for Linux also --memory {mib})"
    )
}

impl Machine {
    /// Copies a program into RAM and heeds its `tohost`. What the program does not initialise is
    /// zero as long as RAM is as it was at reset.
    ///
    /// # Errors
    /// When a segment does not lie in RAM, or lies where the device tree goes.
    pub fn load_elf(&mut self, image: &ElfImage) -> Result<(), LoadError> {
        let named = |fault| LoadError {
            path: image.path.clone(),
            fault,
        };
        for segment in &image.segments {
            self.check_segment(segment.index, segment.addr.0, segment.mem_bytes)
                .map_err(named)?;
        }
        let htif = self.htif_of(image).map_err(named)?;
        for segment in &image.segments {
            let place = self.ram.slice_mut(segment.addr, segment.file_bytes());
            place
                .expect("checked above")
                .copy_from_slice(image.data(segment));
        }
        if let Some(htif) = htif {
            self.watches.pin(htif.tohost);
            self.first_mut().htif = Some(htif);
        }
        Ok(())
    }

    /// Writes the device tree to the top of RAM and says where it begins.
    pub fn place_device_tree(&mut self) -> PhysAddr {
        let addr = self.device_tree_addr();
        let tree = &self.platforms[0].device_tree;
        let place = self
            .ram
            .slice_mut(addr, tree.len() as u64)
            .expect("Machine::new has checked the size");
        place.copy_from_slice(tree);
        addr
    }

    /// The device tree in the flattened format.
    #[must_use]
    pub fn device_tree(&self) -> &[u8] {
        &self.first().device_tree
    }

    fn device_tree_addr(&self) -> PhysAddr {
        let pages = (self.device_tree().len() as u64).next_multiple_of(PAGE_BYTES);
        PhysAddr(self.ram.end().0 - pages)
    }

    fn check_segment(&self, index: usize, start: u64, bytes: u64) -> Result<(), LoadFault> {
        let ram_end = self.ram.end().0;
        let end = u128::from(start) + u128::from(bytes);
        let tree = self.device_tree_addr().0;
        let enough = || {
            let mib: u128 =
                (end - u128::from(RAM_BASE) + u128::from(ram_end - tree)).div_ceil(1 << 20);
            format!("{} or make it smaller", more_ram(mib))
        };
        if start < RAM_BASE || end > u128::from(crate::map::PHYS_ADDR_END) {
            let advice = if start < RAM_BASE && end > u128::from(RAM_BASE) {
                "the linker has put file headers in front of the program; link with -Wl,-n".into()
            } else {
                format!(
                    "link the program at {RAM_BASE:#x} (with -mcmodel=medany), or if it is one for Linux, run it \
                     with `loiter exec -- ./PROGRAM`"
                )
            };
            return Err(LoadFault::OutsideRam {
                index,
                start,
                end,
                ram_end,
                advice,
            });
        }
        if end > u128::from(ram_end) {
            return Err(LoadFault::OutsideRam {
                index,
                start,
                end,
                ram_end,
                advice: enough(),
            });
        }
        if end > u128::from(tree) {
            let end = start + bytes;
            return Err(LoadFault::OverDeviceTree {
                index,
                start,
                end,
                tree,
                advice: enough(),
            });
        }
        Ok(())
    }

    fn htif_of(&self, image: &ElfImage) -> Result<Option<Htif>, LoadFault> {
        for (name, word) in [("tohost", image.tohost), ("fromhost", image.fromhost)] {
            if let Some(addr) = word
                && !(self.is_ram(addr, Width::D.bytes()) && addr.0.is_multiple_of(8))
            {
                return Err(LoadFault::HtifWord { name, addr });
            }
        }
        Ok(image.tohost.map(|tohost| Htif {
            tohost,
            fromhost: image.fromhost,
            partition: Partition::WHOLE,
        }))
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
