use loiter_hart::{Extensions, Hart};
use loiter_machine::{Machine, MachineConfig, RAM_BASE, SymbolFile, text_page_hash};
use loiter_types::{HartId, PAGE_BYTES, PhysAddr};

use super::Symbols;
use crate::error::Error;

const MAP: &str = "\
ffffffff80000000 T _start
ffffffff80000010 T start_kernel
ffffffff80000100 B _end
";

/// A machine, and a hart in machine mode, which uses physical addresses.
fn guest() -> (Machine, Hart) {
    let machine = Machine::new(&MachineConfig::default()).unwrap();
    let hart = Hart::new(HartId(0), RAM_BASE, PhysAddr(0), Extensions::default());
    (machine, hart)
}

fn kernel() -> SymbolFile {
    SymbolFile::parse("System.map", MAP.as_bytes()).unwrap()
}

#[test]
fn a_kernel_has_names_before_and_after_it_is_mapped() {
    let (machine, hart) = guest();
    let symbols = Symbols::new(vec![kernel()]);
    let at = machine.kernel_addr().0;
    let text = |addr| symbols.text(&hart, &machine, addr);
    assert_eq!(text(0xffff_ffff_8000_0010), " <start_kernel>");
    assert_eq!(text(0xffff_ffff_8000_0014), " <start_kernel+0x4>");
    assert_eq!(text(at + 0x14), " <start_kernel+0x4>");
    assert_eq!(text(at + 0xff), " <start_kernel+0xef>");
    assert_eq!(text(at + 0x100), "", "behind the image");
    assert_eq!(text(at - 1), "");
    let place = symbols.find(&hart, &machine, at + 0x14).unwrap();
    assert_eq!(place.range, at + 0x10..at + 0x100);
}

#[test]
fn a_program_has_names_wherever_its_page_lies() {
    let (mut machine, hart) = guest();
    let page = [0x13; PAGE_BYTES as usize];
    let map = "00001000 T main\n00001010 T exit\n00002000 T end\n";
    let program = SymbolFile {
        path: "/usr/bin/prog".into(),
        text: vec![(text_page_hash(&page), 0x1000)],
        ..SymbolFile::parse("prog", map.as_bytes()).unwrap()
    };
    let symbols = Symbols::new(vec![kernel(), program.clone()]);
    let at = RAM_BASE + 0x5000;
    assert_eq!(
        symbols.text(&hart, &machine, at + 0x14),
        "",
        "not there yet"
    );
    let place = machine.ram.slice_mut(PhysAddr(at), PAGE_BYTES).unwrap();
    place.copy_from_slice(&page);
    let text = symbols.text(&hart, &machine, at + 0x14);
    assert_eq!(text, " <exit+0x4 of prog>");
    let place = symbols.find(&hart, &machine, at + 0x14).unwrap();
    assert_eq!((place.file, place.range), (1, at + 0x10..at + 0x1000));
    assert_eq!(
        symbols.text(&hart, &machine, 0x1014),
        "",
        "where it was linked"
    );
    let twice = Symbols::new(vec![program.clone(), program]);
    assert_eq!(twice.text(&hart, &machine, at), "", "one of two, who knows");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let read = Symbols::read(&["no/such.map".to_owned()]);
    let Err(Error::User(message)) = read else {
        panic!("a file that is not there");
    };
    assert!(message.starts_with("no/such.map: cannot read symbols"));
}
