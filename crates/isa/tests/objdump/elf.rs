//! The least ELF file that makes objdump disassemble with chosen extensions: a text section and the
//! attributes section that names them. For a raw binary objdump would take plain rv64gc.

const HEADER: u64 = 64;

/// One section header.
struct Section {
    name: u32,
    kind: u32,
    flags: u64,
    address: u64,
    offset: u64,
    size: u64,
}

impl Section {
    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(self.name.to_le_bytes());
        out.extend(self.kind.to_le_bytes());
        for field in [self.flags, self.address, self.offset, self.size] {
            out.extend(field.to_le_bytes());
        }
        out.extend([0; 8]);
        for field in [1u64, 0] {
            out.extend(field.to_le_bytes());
        }
        out
    }
}

/// The `riscv` attributes, of which only Tag_RISCV_arch (5) is there.
fn attributes(arch: &str) -> Vec<u8> {
    let mut tags = vec![5];
    tags.extend(arch.bytes());
    tags.push(0);
    // Sub-subsection for the whole file: tag 1, length of all of it.
    let mut file = vec![1];
    file.extend((tags.len() as u32 + 5).to_le_bytes());
    file.extend(tags);
    let vendor = b"riscv\0";
    let mut out = vec![b'A'];
    out.extend((4 + vendor.len() as u32 + file.len() as u32).to_le_bytes());
    out.extend(vendor);
    out.extend(file);
    out
}

/// A relocatable file with `text` at `address`.
pub(crate) fn file(arch: &str, address: u64, text: &[u8]) -> Vec<u8> {
    let names = b"\0.text\0.riscv.attributes\0.shstrtab\0";
    let attributes = attributes(arch);
    let text_at = HEADER;
    let attributes_at = text_at + text.len() as u64;
    let names_at = attributes_at + attributes.len() as u64;
    let headers_at = names_at + names.len() as u64;
    let section = |name, kind, flags, address, offset, size: usize| Section {
        name,
        kind,
        flags,
        address,
        offset,
        size: size as u64,
    };
    const PROGBITS: u32 = 1;
    const STRTAB: u32 = 3;
    const RISCV_ATTRIBUTES: u32 = 0x7000_0003;
    const ALLOC_EXEC: u64 = 6;
    let sections = [
        section(0, 0, 0, 0, 0, 0),
        section(1, PROGBITS, ALLOC_EXEC, address, text_at, text.len()),
        section(7, RISCV_ATTRIBUTES, 0, 0, attributes_at, attributes.len()),
        section(25, STRTAB, 0, 0, names_at, names.len()),
    ];

    let mut out = vec![0x7f, b'E', b'L', b'F', 2, 1, 1];
    out.resize(16, 0);
    // Executable, RISC-V, version 1.
    out.extend(2u16.to_le_bytes());
    out.extend(243u16.to_le_bytes());
    out.extend(1u32.to_le_bytes());
    for field in [address, 0, headers_at] {
        out.extend(field.to_le_bytes());
    }
    // Flags: compressed code, double-precision ABI.
    out.extend(5u32.to_le_bytes());
    for half in [HEADER as u16, 0, 0, 64, sections.len() as u16, 3] {
        out.extend(half.to_le_bytes());
    }
    out.extend(text);
    out.extend(attributes);
    out.extend(names);
    out.extend(sections.iter().flat_map(Section::bytes));
    out
}
