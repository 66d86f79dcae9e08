//! Where instructions come from, by the debug information of an ELF file.

use addr2line::gimli;
use object::{Object as _, ObjectSection as _};

type Reader<'a> = gimli::EndianSlice<'a, gimli::LittleEndian>;

/// The source lines of a program.
pub struct Lines<'a> {
    context: Option<addr2line::Context<Reader<'a>>>,
}

impl<'a> Lines<'a> {
    /// Reads those of an ELF file; without debug information, or with compressed one, there are none.
    #[must_use]
    pub fn read(elf: &'a [u8]) -> Self {
        Self {
            context: context(elf),
        }
    }

    /// `file:line` of the instruction at `pc`. Of inlined code it is the line that was inlined.
    #[must_use]
    pub fn find(&self, pc: u64) -> Option<String> {
        let location = self.context.as_ref()?.find_location(pc).ok()??;
        Some(format!("{}:{}", location.file?, location.line?))
    }
}

fn context(elf: &[u8]) -> Option<addr2line::Context<Reader<'_>>> {
    let file = object::File::parse(elf).ok()?;
    let section = |id: gimli::SectionId| {
        let found = file.section_by_name(id.name());
        let data = found.and_then(|section| section.data().ok());
        Ok::<_, gimli::Error>(Reader::new(data.unwrap_or(&[]), gimli::LittleEndian))
    };
    let dwarf = gimli::Dwarf::load(section).ok()?;
    addr2line::Context::from_dwarf(dwarf).ok()
}
