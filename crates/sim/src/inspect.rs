//! What a program consists of, without running it.

use loiter_machine::ElfImage;
use serde::Serialize;

use crate::config::hex;
use crate::error::Error;

/// What a program consists of.
#[derive(Clone, Debug, Serialize)]
pub struct Inspection {
    /// Address of the first instruction.
    pub entry: u64,
    /// Names of its tasks.
    pub tasks: Vec<String>,
    /// Number of its symbols.
    pub symbols: usize,
    /// SHA-256 of the file.
    pub hash: String,
    /// Its loadable segments.
    pub segments: Vec<SegmentRow>,
}

/// A loadable segment.
#[derive(Clone, Debug, Serialize)]
pub struct SegmentRow {
    /// Physical address.
    pub addr: u64,
    /// Bytes in memory.
    pub bytes: u64,
    /// Whether it holds code.
    pub executable: bool,
}

/// Reads what a program consists of; a task is a function whose symbol begins with `loiter_task_`.
///
/// # Errors
/// When it is no RISC-V executable.
pub fn inspect(path: &str, elf: &[u8]) -> Result<Inspection, Error> {
    const PREFIX: &str = "loiter_task_";
    let elf = ElfImage::parse(path, elf)?;
    let mut tasks: Vec<String> = elf
        .symbols
        .with_prefix(PREFIX)
        .map(|(name, _)| name[PREFIX.len()..].to_owned())
        .collect();
    tasks.sort();
    Ok(Inspection {
        entry: elf.entry.0,
        tasks,
        symbols: elf.symbols.len(),
        hash: hex(&elf.hash),
        segments: elf
            .segments
            .iter()
            .map(|segment| SegmentRow {
                addr: segment.addr.0,
                bytes: segment.mem_bytes,
                executable: segment.executable,
            })
            .collect(),
    })
}
