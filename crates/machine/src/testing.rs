//! What several tests need: a small machine, and ELF files that are valid until changed.

use loiter_types::PhysAddr;

use crate::{ElfImage, LoadFault, Machine, MachineConfig, RAM_BASE};

pub(crate) const RAM_BYTES: u64 = 1 << 20;

pub(crate) fn config() -> MachineConfig {
    MachineConfig {
        ram_bytes: RAM_BYTES,
        harts: 3,
        timebase_hz: 10_000_000,
        isa: "rv64imafdc_zicsr_zba".into(),
        bootargs: "task.add=0 reps=5".into(),
        ..MachineConfig::default()
    }
}

pub(crate) fn machine() -> Machine {
    Machine::new(&config()).unwrap()
}

/// An address in RAM.
pub(crate) fn ram(offset: u64) -> PhysAddr {
    PhysAddr(RAM_BASE + offset)
}

/// Offsets of fields of the ELF header.
pub(crate) mod field {
    pub(crate) const CLASS: usize = 4;
    pub(crate) const DATA: usize = 5;
    pub(crate) const TYPE: usize = 16;
    pub(crate) const MACHINE: usize = 18;
    pub(crate) const ENTRY: usize = 24;
    pub(crate) const PHOFF: usize = 32;
    pub(crate) const SHOFF: usize = 40;
    pub(crate) const PHENTSIZE: usize = 54;
    pub(crate) const PHNUM: usize = 56;
    pub(crate) const SHENTSIZE: usize = 58;
    pub(crate) const SHNUM: usize = 60;
}

pub(crate) const HEADER_BYTES: usize = 64;
pub(crate) const PROGRAM_HEADER_BYTES: usize = 56;
const SECTION_HEADER_BYTES: usize = 64;

pub(crate) const LABEL: u8 = 0;
pub(crate) const OBJECT: u8 = 1;
pub(crate) const FUNCTION: u8 = 2;
pub(crate) const FILE: u8 = 4;
pub(crate) const GLOBAL: u8 = 1 << 4;

pub(crate) struct TestSegment {
    pub(crate) vaddr: u64,
    pub(crate) paddr: u64,
    pub(crate) data: Vec<u8>,
    pub(crate) mem_bytes: u64,
}

pub(crate) struct TestSymbol {
    pub(crate) name: &'static str,
    pub(crate) addr: u64,
    pub(crate) size: u64,
    pub(crate) info: u8,
    /// 1 is the only section with contents; 0 means undefined, 0xfff1 absolute.
    pub(crate) section: u16,
}

/// A symbol of the section with contents.
pub(crate) fn symbol(name: &'static str, addr: u64, size: u64, info: u8) -> TestSymbol {
    TestSymbol {
        name,
        addr,
        size,
        info,
        section: 1,
    }
}

/// An ELF file: header, program headers, segments, symbols, names, section headers.
pub(crate) struct TestElf {
    pub(crate) entry: u64,
    pub(crate) segments: Vec<TestSegment>,
    pub(crate) symbols: Vec<TestSymbol>,
    /// Length of the section that the symbols are in; it begins at `RAM_BASE`.
    pub(crate) section_bytes: u64,
}

impl Default for TestElf {
    fn default() -> Self {
        Self {
            entry: RAM_BASE + 4,
            segments: vec![TestSegment {
                vaddr: RAM_BASE,
                paddr: RAM_BASE,
                data: (1..=100).collect(),
                mem_bytes: 4096,
            }],
            symbols: vec![
                symbol("_start", RAM_BASE + 4, 0, LABEL | GLOBAL),
                symbol("loiter_task_add", RAM_BASE + 0x20, 0x10, FUNCTION | GLOBAL),
            ],
            section_bytes: 4096,
        }
    }
}

impl TestElf {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut contents = Vec::new();
        let mut program_headers = Vec::new();
        let first = HEADER_BYTES + PROGRAM_HEADER_BYTES * self.segments.len();
        for segment in &self.segments {
            let offset = (first + contents.len()) as u64;
            let file_bytes = segment.data.len() as u64;
            contents.extend(&segment.data);
            program_headers.extend([1_u32, 7].map(u32::to_le_bytes).concat());
            let words = [
                offset,
                segment.vaddr,
                segment.paddr,
                file_bytes,
                segment.mem_bytes,
                4096,
            ];
            program_headers.extend(words.map(u64::to_le_bytes).concat());
        }
        let (mut names, mut table) = (vec![0], vec![0; 24]);
        for symbol in &self.symbols {
            table.extend((names.len() as u32).to_le_bytes());
            table.extend([symbol.info, 0]);
            table.extend(symbol.section.to_le_bytes());
            table.extend([symbol.addr, symbol.size].map(u64::to_le_bytes).concat());
            names.extend(symbol.name.bytes().chain([0]));
        }
        let symbols_at = (first + contents.len()) as u64;
        let names_at = symbols_at + table.len() as u64;
        let sections_at = names_at + names.len() as u64;
        let sections = [
            section(0, 0, 0, 0, 0),
            section(1, RAM_BASE, first as u64, self.section_bytes, 0),
            section(2, 0, symbols_at, table.len() as u64, 3),
            section(3, 0, names_at, names.len() as u64, 0),
        ];
        let header = self.header(sections_at, sections.len() as u16);
        [
            header,
            program_headers,
            contents,
            table,
            names,
            sections.concat(),
        ]
        .concat()
    }

    fn header(&self, sections_at: u64, sections: u16) -> Vec<u8> {
        let mut header = b"\x7fELF\x02\x01\x01".to_vec();
        header.resize(field::TYPE, 0);
        header.extend([2_u16, 243].map(u16::to_le_bytes).concat());
        header.extend(1_u32.to_le_bytes());
        header.extend(
            [self.entry, HEADER_BYTES as u64, sections_at]
                .map(u64::to_le_bytes)
                .concat(),
        );
        header.extend(5_u32.to_le_bytes());
        let sizes = [
            HEADER_BYTES as u16,
            PROGRAM_HEADER_BYTES as u16,
            self.segments.len() as u16,
            SECTION_HEADER_BYTES as u16,
            sections,
            0,
        ];
        header.extend(sizes.map(u16::to_le_bytes).concat());
        assert_eq!(header.len(), HEADER_BYTES);
        header
    }

    pub(crate) fn parse(&self) -> Result<ElfImage, LoadFault> {
        parse(&self.bytes())
    }

    pub(crate) fn image(&self) -> ElfImage {
        self.parse().unwrap()
    }
}

fn section(kind: u32, addr: u64, offset: u64, size: u64, link: u32) -> Vec<u8> {
    let mut header = [0, kind].map(u32::to_le_bytes).concat();
    header.extend([0, addr, offset, size].map(u64::to_le_bytes).concat());
    header.extend([link, 1].map(u32::to_le_bytes).concat());
    header.extend([8, 24].map(u64::to_le_bytes).concat());
    header
}

pub(crate) fn parse(bytes: &[u8]) -> Result<ElfImage, LoadFault> {
    ElfImage::parse("test.elf", bytes).map_err(|error| error.fault)
}

pub(crate) const KERNEL_BYTES: usize = 3072;
pub(crate) const KERNEL_MEM_BYTES: u64 = 9000;

/// A kernel image with an EFI header and two sections, the last of which ends the file.
pub(crate) fn kernel() -> Vec<u8> {
    let mut file = b"MZ".to_vec();
    file.resize(16, 0);
    file.extend([KERNEL_MEM_BYTES, 0].map(u64::to_le_bytes).concat());
    file.resize(56, 0);
    file.extend(b"RSC\x05");
    file.extend(64_u32.to_le_bytes());
    file.extend(b"PE\0\0");
    let (machine, sections, optional_bytes) = (0x5064_u16, 2_u16, 112_u16);
    file.extend([machine, sections].map(u16::to_le_bytes).concat());
    file.extend([0; 12]);
    file.extend([optional_bytes, 0x206].map(u16::to_le_bytes).concat());
    let optional = file.len();
    file.extend(0x20b_u16.to_le_bytes());
    file.resize(optional + usize::from(optional_bytes), 0);
    for (name, offset, bytes) in [
        (b".text\0\0\0", 1024_u32, 1024_u32),
        (b".data\0\0\0", 2048, 1024),
    ] {
        file.extend(name);
        file.extend(
            [bytes, offset, bytes, offset]
                .map(u32::to_le_bytes)
                .concat(),
        );
        file.extend([0; 16]);
    }
    file.resize(KERNEL_BYTES, 0);
    file
}

/// A small generator of numbers (xorshift64), the same on every host.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
