//! Names of addresses.

use loiter_types::VirtAddr;
use object::LittleEndian as Endian;
use object::elf::{self, Sym64};
use object::read::StringTable;
use object::read::elf::{FileHeader as _, SectionHeader as _, SectionTable, Sym as _};

use crate::elf::{Header, damaged, whole};
use crate::load::LoadFault;

/// How many symbols before an address [`SymbolTable::find`] tries: enough for labels within a
/// function, without searching a whole table for an address that has no name.
const TRIED: usize = 64;

/// The symbols of a program: functions, objects and labels.
#[derive(Clone, Debug, Default)]
pub struct SymbolTable {
    /// By ascending address; at one address the best name last.
    by_addr: Vec<Symbol>,
    /// Positions in `by_addr`, by ascending name; of one name the best symbol first.
    by_name: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Symbol {
    addr: u64,
    /// One past the last address that it names. Labels, which have no size, reach to the end of
    /// their section.
    end: u64,
    /// Better symbols have higher ranks: functions before objects before labels, global ones
    /// before local ones.
    rank: u8,
    name: Box<str>,
}

impl SymbolTable {
    /// The symbol that `addr` belongs to, and the distance from its beginning.
    #[must_use]
    pub fn find(&self, addr: VirtAddr) -> Option<(&str, u64)> {
        let after = self.by_addr.partition_point(|symbol| symbol.addr <= addr.0);
        let candidates = self.by_addr[..after].iter().rev().take(TRIED);
        let symbol = candidates.into_iter().find(|symbol| addr.0 < symbol.end)?;
        Some((&symbol.name, addr.0 - symbol.addr))
    }

    /// The address of a symbol.
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<VirtAddr> {
        let first = self
            .by_name
            .partition_point(|&at| *self.symbol(at).name < *name);
        let symbol = self.symbol(*self.by_name.get(first)?);
        (*symbol.name == *name).then_some(VirtAddr(symbol.addr))
    }

    /// All symbols whose name begins with `prefix`, in the order of their names, each name once.
    pub fn with_prefix<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, VirtAddr)> + 'a {
        let first = self
            .by_name
            .partition_point(|&at| *self.symbol(at).name < *prefix);
        let mut last = None;
        self.by_name[first..]
            .iter()
            .map(|&at| self.symbol(at))
            .take_while(move |symbol| symbol.name.starts_with(prefix))
            .filter(move |symbol| last.replace(&*symbol.name) != Some(&*symbol.name))
            .map(|symbol| (&*symbol.name, VirtAddr(symbol.addr)))
    }

    /// Number of symbols.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_addr.len()
    }

    /// Whether the program has been stripped of symbols.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_addr.is_empty()
    }

    fn symbol(&self, at: u32) -> &Symbol {
        &self.by_addr[at as usize]
    }

    /// Reads the symbol table of a file; a stripped file has an empty one.
    pub(crate) fn read(header: &Header, bytes: &[u8]) -> Result<Self, LoadFault> {
        // Section names, which a file may lack, are of no use here.
        let sections = header.section_headers(Endian, bytes).map_err(damaged)?;
        let sections: SectionTable<Header> = SectionTable::new(sections, StringTable::default());
        for (index, section) in sections.enumerate() {
            let contents = section
                .file_range(Endian)
                .filter(|_| matches!(section.sh_type(Endian), elf::SHT_SYMTAB | elf::SHT_STRTAB));
            if let Some((offset, size)) = contents {
                whole(
                    bytes,
                    &format!("section {} (symbols)", index.0),
                    offset,
                    size,
                )?;
            }
        }
        let table = sections
            .symbols(Endian, bytes, elf::SHT_SYMTAB)
            .map_err(damaged)?;
        let symbols = table.iter().filter_map(|symbol| {
            let name = symbol.name(Endian, table.strings()).ok()?;
            Symbol::new(symbol, name, &sections)
        });
        Ok(Self::from_symbols(symbols.collect()))
    }

    fn from_symbols(mut by_addr: Vec<Symbol>) -> Self {
        by_addr.sort_by(|a, b| (a.addr, a.rank, &b.name).cmp(&(b.addr, b.rank, &a.name)));
        let mut by_name: Vec<u32> = (0..by_addr.len() as u32).collect();
        by_name.sort_by_key(|&at| {
            let symbol = &by_addr[at as usize];
            (&symbol.name, u8::MAX - symbol.rank, symbol.addr)
        });
        Self { by_addr, by_name }
    }
}

impl Symbol {
    /// `None` for what names no address of the program: files, sections, undefined symbols,
    /// compiler-made local labels and mapping symbols.
    fn new(symbol: &Sym64<Endian>, name: &[u8], sections: &SectionTable<Header>) -> Option<Self> {
        let kind = match symbol.st_type() {
            elf::STT_FUNC => 2,
            elf::STT_OBJECT => 1,
            elf::STT_NOTYPE => 0,
            _ => return None,
        };
        let hidden = name.is_empty() || name.starts_with(b".L") || name.starts_with(b"$");
        if hidden || symbol.is_undefined(Endian) {
            return None;
        }
        let addr = symbol.st_value.get(Endian);
        let end = match symbol.st_size.get(Endian) {
            0 => section_end(symbol, sections).unwrap_or(addr),
            size => addr.saturating_add(size),
        };
        let rank = 2 * kind + u8::from(!symbol.is_local());
        Some(Self {
            addr,
            end,
            rank,
            name: String::from_utf8_lossy(name).into(),
        })
    }
}

fn section_end(symbol: &Sym64<Endian>, sections: &SectionTable<Header>) -> Option<u64> {
    let index = object::SectionIndex(usize::from(symbol.st_shndx.get(Endian).0));
    let section = sections.section(index).ok()?;
    Some(
        section
            .sh_addr(Endian)
            .saturating_add(section.sh_size(Endian)),
    )
}

#[cfg(test)]
#[path = "symbols_tests.rs"]
mod tests;
