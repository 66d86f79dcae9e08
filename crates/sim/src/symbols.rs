//! Names of a guest's addresses.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use loiter_hart::Hart;
use loiter_machine::{ElfImage, Machine, SymbolFile, SymbolTable, text_page_hash};
use loiter_types::{PAGE_BYTES, PhysAddr, VirtAddr};

use crate::error::Error;

/// The symbols by which Linux marks the beginning and the end of its image.
const KERNEL_BEGIN: &str = "_start";
const KERNEL_END: &str = "_end";

/// The symbols of everything that runs on a system.
#[derive(Default)]
pub(crate) struct Symbols {
    files: Vec<SymbolFile>,
    /// Pages of code that may lie anywhere, by hash: number of the file and address in it.
    text: HashMap<u64, (usize, u64)>,
    /// The addresses of a Linux kernel, which runs without translation first.
    kernel: Option<Range<u64>>,
}

/// What an address belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Located<'a> {
    /// Number of the file.
    pub(crate) file: usize,
    /// The symbol.
    pub(crate) name: &'a str,
    /// Addresses of the symbol, as the guest sees them.
    pub(crate) range: Range<u64>,
}

impl Symbols {
    /// Those of a bare-metal program.
    pub(crate) fn of_program(elf: &ElfImage) -> Self {
        Self::new(vec![SymbolFile {
            path: elf.path.clone(),
            symbols: elf.symbols.clone(),
            text: Vec::new(),
        }])
    }

    /// Those of the files at `paths`.
    ///
    /// # Errors
    /// A file that cannot be read or holds no symbols of a RISC-V program.
    pub(crate) fn read(paths: &[String]) -> Result<Self, Error> {
        let file = |path: &String| -> Result<SymbolFile, Error> {
            let bytes = std::fs::read(path)
                .map_err(|error| Error::User(format!("{path}: cannot read symbols: {error}")))?;
            Ok(SymbolFile::parse(path, &bytes)?)
        };
        let files: Result<_, _> = paths.iter().map(file).collect();
        Ok(Self::new(files?))
    }

    pub(crate) fn new(files: Vec<SymbolFile>) -> Self {
        let mut text = HashMap::new();
        for (n, file) in files.iter().enumerate() {
            for &(hash, addr) in &file.text {
                // Of equal pages (padding, say) none is known.
                text.entry(hash)
                    .and_modify(|known| *known = (usize::MAX, 0))
                    .or_insert((n, addr));
            }
        }
        let kernel = files.iter().find_map(|file| {
            let begin = file.symbols.by_name(KERNEL_BEGIN)?.0;
            Some(begin..file.symbols.by_name(KERNEL_END)?.0)
        });
        Self {
            files,
            text,
            kernel,
        }
    }

    /// The files.
    pub(crate) fn files(&self) -> impl Iterator<Item = &SymbolFile> {
        self.files.iter()
    }

    /// What `addr` belongs to, as `hart` uses addresses now.
    pub(crate) fn find(&self, hart: &Hart, machine: &Machine, addr: u64) -> Option<Located<'_>> {
        let linked = |addr| self.linked_at(addr, |file| file.text.is_empty());
        if let Some(located) = linked(addr) {
            return Some(located);
        }
        if let Some(kernel) = &self.kernel {
            let delta = self.above_memory(machine, kernel.start);
            let mapped = addr.wrapping_add(delta);
            if kernel.contains(&mapped) {
                return linked(mapped).map(|located| located.moved(delta));
            }
        }
        let (file, in_file) = self.in_file(hart, machine, addr)?;
        let located = symbol_at(file, &self.files[file].symbols, in_file)?;
        Some(located.moved(in_file.wrapping_sub(addr)))
    }

    /// The file whose page of code lies at `addr`, wherever its pages may lie, and the address in it.
    fn in_file(&self, hart: &Hart, machine: &Machine, addr: u64) -> Option<(usize, u64)> {
        if self.text.is_empty() {
            return None;
        }
        let page = hart.peek(machine, VirtAddr(addr & !(PAGE_BYTES - 1)))?;
        let bytes = machine.ram.slice(PhysAddr(page.0), PAGE_BYTES)?;
        let &(file, start) = self.text.get(&text_page_hash(bytes))?;
        (file < self.files.len()).then_some((file, start.wrapping_add(addr % PAGE_BYTES)))
    }

    fn linked_at(&self, addr: u64, which: impl Fn(&SymbolFile) -> bool) -> Option<Located<'_>> {
        let mut files = self.files.iter().enumerate();
        files.find_map(|(n, file)| which(file).then(|| symbol_at(n, &file.symbols, addr))?)
    }

    /// ` <symbol+offset>` for messages, with the file if the guest has several; or nothing.
    pub(crate) fn text(&self, hart: &Hart, machine: &Machine, addr: u64) -> String {
        let Some(located) = self.find(hart, machine, addr) else {
            return String::new();
        };
        let offset = match addr - located.range.start {
            0 => String::new(),
            offset => format!("+{offset:#x}"),
        };
        let of = match self.files[located.file].text.is_empty() {
            true => String::new(),
            false => format!(" of {}", self.file_name(located.file)),
        };
        format!(" <{}{offset}{of}>", located.name)
    }

    /// `symbol+offset` of an address in a file whose addresses do not move.
    pub(crate) fn linked_text(&self, addr: u64) -> Option<String> {
        let located = self.linked_at(addr, |file| file.text.is_empty())?;
        Some(match addr - located.range.start {
            0 => located.name.to_owned(),
            offset => format!("{}+{offset:#x}", located.name),
        })
    }

    /// By how much the address `addr`, for which a file was linked whose addresses do not move, is above that in
    /// memory.
    pub(crate) fn above_memory(&self, machine: &Machine, addr: u64) -> u64 {
        match &self.kernel {
            Some(kernel) if kernel.contains(&addr) => {
                kernel.start.wrapping_sub(machine.kernel_addr().0)
            }
            _ => 0,
        }
    }

    /// The address of a symbol that does not move.
    pub(crate) fn address(&self, name: &str) -> Option<u64> {
        let mut fixed = self.files.iter().filter(|file| file.text.is_empty());
        let addr = fixed.find_map(|file| file.symbols.by_name(name))?;
        Some(addr.0)
    }

    /// The address, within its file, of a symbol that may lie anywhere.
    pub(crate) fn moving_address(&self, name: &str) -> Option<u64> {
        let mut moving = self.files.iter().filter(|file| !file.text.is_empty());
        let addr = moving.find_map(|file| file.symbols.by_name(name))?;
        Some(addr.0)
    }

    /// Whether symbol `name`, which may lie anywhere, lies at `addr`, as `hart` uses addresses now.
    pub(crate) fn is_at(&self, hart: &Hart, machine: &Machine, addr: u64, name: &str) -> bool {
        self.in_file(hart, machine, addr)
            .is_some_and(|(file, in_file)| {
                let symbols = &self.files[file].symbols;
                symbols.by_name(name) == Some(VirtAddr(in_file))
            })
    }

    /// Name of a file without its folder.
    pub(crate) fn file_name(&self, file: usize) -> String {
        let path = Path::new(&self.files[file].path);
        let name = path.file_name().unwrap_or(path.as_os_str());
        name.to_string_lossy().into_owned()
    }
}

fn symbol_at(file: usize, symbols: &SymbolTable, addr: u64) -> Option<Located<'_>> {
    let (name, _) = symbols.find(VirtAddr(addr))?;
    let range = symbols.extent(VirtAddr(addr))?;
    Some(Located { file, name, range })
}

impl Located<'_> {
    /// For an address that is `delta` above the guest's.
    fn moved(self, delta: u64) -> Self {
        let Range { start, end } = self.range;
        Self {
            range: start.wrapping_sub(delta)..end.wrapping_sub(delta),
            ..self
        }
    }
}

#[cfg(test)]
#[path = "symbols_tests.rs"]
mod tests;
