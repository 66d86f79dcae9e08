//! What is booted: firmware, kernel, initial file system, in RAM of many sizes.

use std::io::Write;

use bolero::{TypeGenerator, check, produce};
use fdt::Fdt;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::changes::{Change, changed};
use super::{Reached, TIME};
use crate::testing::{TestElf, config, kernel};
use crate::{BootFile, BootFiles, Machine, MachineConfig, RAM_BASE};

/// `addi x0, x0, 0`
const NOP: [u8; 4] = [0x13, 0, 0, 0];
const PAGE_BYTES: u64 = 4096;

/// A boot, and what is changed of it.
#[derive(Debug, TypeGenerator)]
struct Boot {
    elf_firmware: bool,
    packing: Packing,
    changed: Part,
    #[generator(bolero::generator::produce_with::<Vec<Change>>().len(0..6_usize))]
    changes: Vec<Change>,
    /// Length of the initial file system; none at 0.
    initrd_bytes: u16,
    /// Pages of RAM beyond the first 2 MiB.
    pages: u8,
}

#[derive(Debug, TypeGenerator)]
enum Packing {
    Plain,
    Gzip,
}

#[derive(Debug, PartialEq, TypeGenerator)]
enum Part {
    Firmware,
    Kernel,
    /// The kernel after it was compressed.
    Packed,
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut file = GzEncoder::new(Vec::new(), Compression::fast());
    file.write_all(bytes).unwrap();
    file.finish().unwrap()
}

impl Boot {
    fn files(&self) -> BootFiles {
        let firmware = if self.elf_firmware {
            TestElf::default().bytes()
        } else {
            NOP.repeat(64)
        };
        let change = |part: Part, bytes: Vec<u8>| {
            if part == self.changed {
                changed(&bytes, &self.changes)
            } else {
                bytes
            }
        };
        let kernel = change(Part::Kernel, kernel());
        let kernel = match self.packing {
            Packing::Plain => kernel,
            Packing::Gzip => gzip(&kernel),
        };
        let file = |path: &str, bytes| BootFile {
            path: path.into(),
            bytes,
        };
        BootFiles {
            firmware: file("fw.bin", change(Part::Firmware, firmware)),
            kernel: file("Image", change(Part::Packed, kernel)),
            initrd: match self.initrd_bytes {
                0 => None,
                bytes => Some(file("initrd", vec![0x55; bytes.into()])),
            },
        }
    }
}

#[test]
fn boot() {
    let reached = Reached::default();
    while reached.wants_more() {
        check!()
            .with_test_time(TIME)
            .with_generator(produce::<Boot>())
            .for_each(|boot| {
                reached.input();
                let files = boot.files();
                let mut machine = Machine::new(&MachineConfig {
                    ram_bytes: (2 << 20) + PAGE_BYTES * (1 + u64::from(boot.pages)),
                    ..config()
                })
                .unwrap();
                let addresses = match machine.load_boot(&files) {
                    Ok(addresses) => addresses,
                    Err(error) => {
                        let known = ["fw.bin: ", "Image: ", "initrd: "];
                        let message = error.to_string();
                        return assert!(
                            known.iter().any(|path| message.starts_with(path)),
                            "{message}"
                        );
                    }
                };
                reached.stage(0);
                assert!(machine.is_ram(addresses.entry, 2), "{addresses:?}");
                assert!(machine.is_ram(addresses.dynamic_info, 48));
                assert!(addresses.dynamic_info.0 > RAM_BASE + (2 << 20));
                let tree = machine.device_tree();
                let placed = machine.ram.slice(addresses.device_tree, tree.len() as u64);
                assert!(placed == Some(tree));
                assert!(Fdt::new(tree).is_ok());
            });
    }
    reached.assert(&[30]);
}
