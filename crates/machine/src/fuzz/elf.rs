//! ELF files: parsed, loaded, their symbols looked up.

use bolero::{check, produce};
use loiter_types::VirtAddr;

use super::changes::{Change, changed};
use super::{Reached, TIME};
use crate::testing::{FUNCTION, TestElf, TestSegment, machine, symbol};
use crate::{ElfImage, RAM_BASE};

/// Two segments, the second with a hole behind it, and the words of HTIF.
fn seed() -> Vec<u8> {
    let mut elf = TestElf::default();
    elf.segments.push(TestSegment {
        vaddr: RAM_BASE + 0x4000,
        paddr: RAM_BASE + 0x2000,
        data: vec![0xab; 40],
        mem_bytes: 0x180,
    });
    for (name, addr) in [("tohost", 0x100), ("fromhost", 0x140)] {
        elf.symbols.push(symbol(name, RAM_BASE + addr, 8, FUNCTION));
    }
    elf.bytes()
}

#[test]
fn elf() {
    let seed = seed();
    let reached = Reached::default();
    while reached.wants_more() {
        check!()
            .with_test_time(TIME)
            .with_generator(produce::<Vec<Change>>().with().len(0..6_usize))
            .for_each(|changes| {
                reached.input();
                let bytes = changed(&seed, changes);
                let image = match ElfImage::parse("prog.elf", &bytes) {
                    Ok(image) => image,
                    Err(error) => return assert!(error.to_string().starts_with("prog.elf: ")),
                };
                reached.stage(0);
                let mut machine = machine();
                if let Err(error) = machine.load_elf(&image) {
                    return assert!(error.to_string().starts_with("prog.elf: "));
                }
                reached.stage(1);
                assert!(machine.is_ram(image.entry, 2));
                for segment in &image.segments {
                    let loaded = machine.ram.slice(segment.addr, segment.file_bytes());
                    assert!(loaded.is_some(), "{segment:?}");
                }
                for addr in [0, image.entry.0, RAM_BASE + 0x20, u64::MAX] {
                    if let Some((name, offset)) = image.symbols.find(VirtAddr(addr)) {
                        assert!(!name.is_empty() && offset <= addr);
                    }
                }
                machine.place_device_tree();
            });
    }
    reached.assert(&[30, 25]);
}
