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
/// Kinds of symbols, better ones higher.
const LABEL: u8 = 0;
const OBJECT: u8 = 1;
const FUNCTION: u8 = 2;
/// Letters of a line that a message shows.
const SHOWN_CHARS: usize = 40;

/// The symbols of a program: functions, objects and labels.
#[derive(Clone, Debug, Default)]
pub struct SymbolTable {
    /// By ascending address; at one address the best name last.
    by_addr: Vec<Symbol>,
    /// Positions in `by_addr`, by ascending name; of one name the best symbol first.
    by_name: Vec<u32>,
}

/// A symbol and the addresses that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedRange<'a> {
    /// Its name.
    pub name: &'a str,
    /// From its address to the end of what it names.
    pub range: std::ops::Range<u64>,
    /// Whether it is code.
    pub is_function: bool,
}

#[derive(Clone, Debug)]
struct Symbol {
    addr: u64,
    /// One past the last address that it names. Labels, which have no size, reach to the end of
    /// their section.
    end: u64,
    /// Better symbols have higher ranks: functions before objects before labels, global ones
    /// before local ones. A map calls the bounds of a section functions too; of equal ones what is
    /// no such bound is better, then what has fewer underscores before its name, as in Linux
    /// (`compare_symbols` of scripts/kallsyms.c).
    rank: u8,
    name: Box<str>,
}

impl SymbolTable {
    /// The symbol that `addr` belongs to, and the distance from its beginning.
    #[must_use]
    pub fn find(&self, addr: VirtAddr) -> Option<(&str, u64)> {
        let symbol = self.covering(addr)?;
        Some((&symbol.name, addr.0 - symbol.addr))
    }

    fn covering(&self, addr: VirtAddr) -> Option<&Symbol> {
        let after = self.by_addr.partition_point(|symbol| symbol.addr <= addr.0);
        let mut candidates = self.by_addr[..after].iter().rev().take(TRIED);
        candidates.find(|symbol| addr.0 < symbol.end)
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

    /// All symbols by ascending address.
    pub fn iter(&self) -> impl Iterator<Item = NamedRange<'_>> {
        self.by_addr.iter().map(|symbol| NamedRange {
            name: &symbol.name,
            range: symbol.addr..symbol.end.max(symbol.addr),
            is_function: symbol.rank / 2 == FUNCTION,
        })
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

    /// The addresses of the symbol that `addr` belongs to.
    #[must_use]
    pub fn extent(&self, addr: VirtAddr) -> Option<std::ops::Range<u64>> {
        let symbol = self.covering(addr)?;
        Some(symbol.addr..symbol.end)
    }

    /// Reads a `System.map` as `nm` writes it: address, letter of the kind, name. A symbol reaches to
    /// the next one.
    pub(crate) fn read_map(text: &str) -> Result<Self, LoadFault> {
        let mut symbols = Vec::new();
        for (n, line) in text.lines().enumerate() {
            let mut words = line.split_ascii_whitespace();
            let Some(addr) = words.next() else { continue };
            let symbol = (|| {
                let addr = u64::from_str_radix(addr, 16).ok()?;
                let kind: char = words.next()?.parse().ok()?;
                Some((addr, kind, words.next()?))
            })();
            let (addr, kind, name) = symbol.ok_or_else(|| LoadFault::MapLine {
                line: n + 1,
                found: line.chars().take(SHOWN_CHARS).collect(),
            })?;
            symbols.extend(Symbol::of_map(addr, kind, name));
        }
        symbols.sort_by_key(|symbol| symbol.addr);
        let mut next = None;
        for symbol in symbols.iter_mut().rev() {
            symbol.end = match next {
                Some((addr, end)) if addr == symbol.addr => end,
                Some((addr, _)) => addr,
                None => symbol.addr,
            };
            next = Some((symbol.addr, symbol.end));
        }
        Ok(Self::from_symbols(symbols))
    }

    /// Reads the symbol table of a file; a stripped file has an empty one.
    pub(crate) fn read(header: &Header, bytes: &[u8]) -> Result<Self, LoadFault> {
        Self::read_section(header, bytes, elf::SHT_SYMTAB)
    }

    /// Reads the symbols that a file offers to others, which stay when it is stripped.
    pub(crate) fn read_dynamic(header: &Header, bytes: &[u8]) -> Result<Self, LoadFault> {
        Self::read_section(header, bytes, elf::SHT_DYNSYM)
    }

    fn read_section(
        header: &Header,
        bytes: &[u8],
        kind: elf::SectionType,
    ) -> Result<Self, LoadFault> {
        // Section names, which a file may lack, are of no use here.
        let sections = header.section_headers(Endian, bytes).map_err(damaged)?;
        let sections: SectionTable<Header> = SectionTable::new(sections, StringTable::default());
        for (index, section) in sections.enumerate() {
            let contents = section
                .file_range(Endian)
                .filter(|_| [kind, elf::SHT_STRTAB].contains(&section.sh_type(Endian)));
            if let Some((offset, size)) = contents {
                whole(
                    bytes,
                    &format!("section {} (symbols)", index.0),
                    offset,
                    size,
                )?;
            }
        }
        let table = sections.symbols(Endian, bytes, kind).map_err(damaged)?;
        let symbols = table.iter().filter_map(|symbol| {
            let name = symbol.name(Endian, table.strings()).ok()?;
            Symbol::new(symbol, name, &sections)
        });
        Ok(Self::from_symbols(symbols.collect()))
    }

    fn from_symbols(mut by_addr: Vec<Symbol>) -> Self {
        by_addr.sort_by(|a, b| {
            let (of_a, of_b) = (a.strangeness(), b.strangeness());
            (a.addr, a.rank, of_b, &b.name).cmp(&(b.addr, b.rank, of_a, &a.name))
        });
        let mut by_name: Vec<u32> = (0..by_addr.len() as u32).collect();
        by_name.sort_by_key(|&at| {
            let symbol = &by_addr[at as usize];
            (&symbol.name, u8::MAX - symbol.rank, symbol.addr)
        });
        Self { by_addr, by_name }
    }
}

impl Symbol {
    /// Whether a linker script seems to have made it, and how many underscores are before its name.
    fn strangeness(&self) -> (bool, usize) {
        let bare = self.name.trim_start_matches('_');
        let begins = ["start_", "stop_", "end_"]
            .iter()
            .any(|it| bare.starts_with(it));
        let ends = bare.ends_with("_start") || bare.ends_with("_end");
        (
            self.name.starts_with("__") && (begins || ends),
            self.name.len() - bare.len(),
        )
    }

    /// A line of a map, whose end is to be found; `None` for what names no address of the program.
    fn of_map(addr: u64, kind: char, name: &str) -> Option<Self> {
        let rank = match kind.to_ascii_lowercase() {
            't' | 'w' => FUNCTION,
            'a' | 'n' | 'u' => return None,
            _ => OBJECT,
        };
        let hidden = name.starts_with(".L") || name.starts_with('$');
        (!hidden).then(|| Self {
            addr,
            end: addr,
            rank: 2 * rank + u8::from(kind.is_ascii_uppercase()),
            name: name.into(),
        })
    }

    /// `None` for what names no address of the program: files, sections, undefined symbols,
    /// compiler-made local labels and mapping symbols.
    fn new(symbol: &Sym64<Endian>, name: &[u8], sections: &SectionTable<Header>) -> Option<Self> {
        let kind = match symbol.st_type() {
            elf::STT_FUNC => FUNCTION,
            elf::STT_OBJECT => OBJECT,
            elf::STT_NOTYPE => LABEL,
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
