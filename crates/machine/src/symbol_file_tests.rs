use loiter_types::{PAGE_BYTES, VirtAddr};

use super::{SymbolFile, text_page_hash};
use crate::RAM_BASE;
use crate::load::LoadFault;
use crate::testing::{FUNCTION, GLOBAL, TestElf, TestSegment, field, symbol};

const MAP: &str = "\
ffffffff80000000 T _start
ffffffff80000010 t inner
ffffffff80000010 T outer
ffffffff80000014 t .L1
ffffffff80000020 D data
0000000000000007 a ABSOLUTE
ffffffff80000030 B _end
";

fn parse(bytes: &[u8]) -> Result<SymbolFile, LoadFault> {
    SymbolFile::parse("file", bytes).map_err(|error| error.fault)
}

fn find(file: &SymbolFile, addr: u64) -> Option<(&str, u64)> {
    file.symbols.find(VirtAddr(addr))
}

#[test]
fn a_symbol_of_a_map_reaches_to_the_next() {
    let file = parse(MAP.as_bytes()).unwrap();
    let base = 0xffff_ffff_8000_0000;
    assert_eq!(file.symbols.len(), 5);
    assert_eq!(find(&file, base - 1), None);
    assert_eq!(find(&file, base + 0xf), Some(("_start", 0xf)));
    assert_eq!(find(&file, base + 0x1f), Some(("outer", 0xf)));
    assert_eq!(find(&file, base + 0x20), Some(("data", 0)));
    assert_eq!(find(&file, base + 0x2f), Some(("data", 0xf)));
    assert_eq!(find(&file, base + 0x30), None, "the end names nothing");
    assert_eq!(file.symbols.by_name("inner"), Some(VirtAddr(base + 0x10)));
    let inner = file.symbols.extent(VirtAddr(base + 0x11));
    assert_eq!(inner, Some(base + 0x10..base + 0x20));
    assert!(file.text.is_empty());
}

#[test]
fn what_is_no_file_of_symbols_is_said() {
    let fault = |bytes: &[u8]| parse(bytes).unwrap_err().to_string();
    assert!(fault(b"\x1f\x8b\x08").contains("gzip"));
    assert!(fault(b"").contains("empty"));
    assert!(fault(b"ffffffff80000000 T _start\nnonsense\n").contains("line 2"));
    assert!(fault(b"ffffffff80000000 T\n").contains("line 1"));
    let stripped = TestElf {
        symbols: Vec::new(),
        ..TestElf::default()
    };
    assert_eq!(parse(&stripped.bytes()).unwrap_err(), LoadFault::Stripped);
    let mut of_another_processor = TestElf::default().bytes();
    of_another_processor[field::MACHINE] = 62;
    assert!(fault(&of_another_processor).contains("x86-64"));
}

#[test]
fn a_program_is_known_by_its_pages_wherever_it_lies() {
    let fixed = parse(&TestElf::default().bytes()).unwrap();
    assert!(fixed.text.is_empty(), "linked at RAM");
    assert_eq!(find(&fixed, RAM_BASE + 0x21), Some(("loiter_task_add", 1)));
    let elf = TestElf {
        entry: 0x1_0004,
        segments: vec![TestSegment {
            vaddr: 0x1_0000,
            paddr: 0x1_0000,
            data: vec![0x13; 5000],
            mem_bytes: 5000,
        }],
        symbols: vec![symbol("main", 0x1_0004, 8, FUNCTION | GLOBAL)],
        ..TestElf::default()
    };
    let mut bytes = elf.bytes();
    // A shared object: position-independent programs are of that type.
    bytes[field::TYPE] = 3;
    let file = parse(&bytes).unwrap();
    assert_eq!(file.text.len(), 2);
    let page = &bytes[..PAGE_BYTES as usize];
    // The segment begins after the headers, and so does its first page.
    let offset = (crate::testing::HEADER_BYTES + crate::testing::PROGRAM_HEADER_BYTES) as u64;
    assert_eq!(file.text[0], (text_page_hash(page), 0x1_0000 - offset));
    assert_eq!(file.text[1].1, 0x1_1000 - offset);
}
