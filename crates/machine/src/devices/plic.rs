//! The platform-level interrupt controller: brings the interrupts of devices to harts.
//!
//! Layout and behaviour are those of the RISC-V PLIC specification 1.0.0, sizes those of QEMU's
//! `virt`. Each hart has two contexts, one for machine and one for supervisor mode. A source is a
//! level: it pends once while the level is high, and again if the level is still high when its
//! handler completes.
//!
//! ```text
//!            level high            claim                complete
//!   Quiet ---------------> Pends ----------> In service ----------> Quiet, or Pends if level high
//! ```

use loiter_isa::Width;
use loiter_types::HartId;
use serde::{Deserialize, Serialize};
use vm_fdt::FdtWriter;

use super::{Device, Surroundings};

/// Bit of `mip`: supervisor external interrupt.
const SEIP: u64 = 1 << 9;
/// Bit of `mip`: machine external interrupt.
const MEIP: u64 = 1 << 11;
/// The lines of a hart's contexts, in the order of the contexts.
const CONTEXT_LINES: [u64; 2] = [MEIP, SEIP];

/// Number of the last source; 0 is no source.
pub(crate) const LAST_SOURCE: usize = 95;
const WORDS: usize = (LAST_SOURCE + 1) / 32;
/// Priorities have three bits; 0 is never.
const PRIORITY_MASK: u32 = 7;

const PENDING_OFFSET: u64 = 0x1000;
const ENABLE_OFFSET: u64 = 0x2000;
const ENABLE_BYTES: u64 = 0x80;
const CONTEXT_OFFSET: u64 = 0x20_0000;
const CONTEXT_BYTES: u64 = 0x1000;

/// One bit for each source.
type Sources = [u32; WORDS];

/// What a register is for; `None` instead of one is reserved: it reads as zero and ignores writes.
enum Register {
    Priority(usize),
    Pending(usize),
    Enable(usize, usize),
    Threshold(usize),
    Claim(usize),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plic {
    /// By source.
    priorities: Vec<u32>,
    /// The sources whose level is high.
    levels: Sources,
    pending: Sources,
    /// Claimed and not yet completed.
    in_service: Sources,
    /// By context.
    enables: Vec<Sources>,
    thresholds: Vec<u32>,
    /// For each hart its bits of `mip`.
    #[serde(skip)]
    lines: Vec<u64>,
    /// Changes whenever `lines` does.
    #[serde(skip)]
    generation: u64,
}

impl Plic {
    pub(crate) fn new(harts: usize) -> Self {
        let contexts = harts * CONTEXT_LINES.len();
        Self {
            priorities: vec![0; LAST_SOURCE + 1],
            levels: [0; WORDS],
            pending: [0; WORDS],
            in_service: [0; WORDS],
            enables: vec![[0; WORDS]; contexts],
            thresholds: vec![0; contexts],
            lines: vec![0; harts],
            generation: 0,
        }
    }

    /// Takes over what a snapshot holds.
    pub(crate) fn restore(&mut self, saved: &Self) -> Result<(), String> {
        let contexts = self.thresholds.len();
        let lengths = [saved.enables.len(), saved.thresholds.len()];
        if lengths != [contexts; 2] || saved.priorities.len() != self.priorities.len() {
            return Err(format!(
                "interrupts of {lengths:?} contexts, where there are {contexts}"
            ));
        }
        *self = Self {
            lines: std::mem::take(&mut self.lines),
            generation: self.generation,
            ..saved.clone()
        };
        self.update();
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn lines(&self, hart: HartId) -> u64 {
        self.lines[hart.index()]
    }

    #[inline(always)]
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Sets the level that the device behind `source` drives.
    pub(crate) fn set_level(&mut self, source: u32, high: bool) {
        let source = source as usize;
        debug_assert!((1..=LAST_SOURCE).contains(&source));
        if has(&self.levels, source) == high {
            return;
        }
        set(&mut self.levels, source, high);
        if high && !has(&self.in_service, source) {
            set(&mut self.pending, source, true);
            self.update();
        }
    }

    /// The pending source that `context` would claim: of the highest priority, then of the lowest
    /// number. Of priority 0, and 0 itself, when there is none.
    fn best(&self, context: usize) -> (usize, u32) {
        let (mut best, mut priority) = (0, 0);
        for word in 0..WORDS {
            let mut bits = self.pending[word] & self.enables[context][word];
            while bits != 0 {
                let source = word * 32 + bits.trailing_zeros() as usize;
                if self.priorities[source] > priority {
                    (best, priority) = (source, self.priorities[source]);
                }
                bits &= bits - 1;
            }
        }
        (best, priority)
    }

    fn claim(&mut self, context: usize) -> usize {
        let (source, _) = self.best(context);
        if source != 0 {
            set(&mut self.pending, source, false);
            set(&mut self.in_service, source, true);
            self.update();
        }
        source
    }

    /// A context may complete what it has enabled; anything else is ignored.
    fn complete(&mut self, context: usize, source: u32) {
        let source = source as usize;
        if source <= LAST_SOURCE
            && has(&self.enables[context], source)
            && has(&self.in_service, source)
        {
            set(&mut self.in_service, source, false);
            if has(&self.levels, source) {
                set(&mut self.pending, source, true);
            }
            self.update();
        }
    }

    /// Works out the lines from the registers.
    fn update(&mut self) {
        for hart in 0..self.lines.len() {
            let mut lines = 0;
            for (mode, line) in CONTEXT_LINES.iter().enumerate() {
                let context = hart * CONTEXT_LINES.len() + mode;
                if self.best(context).1 > self.thresholds[context] {
                    lines |= line;
                }
            }
            if lines != self.lines[hart] {
                self.lines[hart] = lines;
                self.generation += 1;
            }
        }
    }

    fn register(&self, offset: u64) -> Option<Register> {
        let contexts = self.thresholds.len();
        let context = |index: u64| {
            let index = usize::try_from(index).ok()?;
            (index < contexts).then_some(index)
        };
        match offset {
            0..PENDING_OFFSET => {
                let source = (offset / 4) as usize;
                (1..=LAST_SOURCE)
                    .contains(&source)
                    .then_some(Register::Priority(source))
            }
            PENDING_OFFSET..ENABLE_OFFSET => {
                let word = ((offset - PENDING_OFFSET) / 4) as usize;
                (word < WORDS).then_some(Register::Pending(word))
            }
            ENABLE_OFFSET..CONTEXT_OFFSET => {
                let context = context((offset - ENABLE_OFFSET) / ENABLE_BYTES)?;
                let word = (offset % ENABLE_BYTES / 4) as usize;
                (word < WORDS).then_some(Register::Enable(context, word))
            }
            _ => {
                let context = context((offset - CONTEXT_OFFSET) / CONTEXT_BYTES)?;
                match offset % CONTEXT_BYTES {
                    0 => Some(Register::Threshold(context)),
                    4 => Some(Register::Claim(context)),
                    _ => None,
                }
            }
        }
    }
}

fn has(sources: &Sources, source: usize) -> bool {
    sources[source / 32] >> (source % 32) & 1 != 0
}

fn set(sources: &mut Sources, source: usize, value: bool) {
    let bit = 1 << (source % 32);
    if value {
        sources[source / 32] |= bit;
    } else {
        sources[source / 32] &= !bit;
    }
}

impl Device for Plic {
    fn load(&mut self, offset: u64, width: Width) -> Option<u64> {
        if width != Width::W {
            return None;
        }
        let value = match self.register(offset) {
            Some(Register::Priority(source)) => self.priorities[source],
            Some(Register::Pending(word)) => self.pending[word],
            Some(Register::Enable(context, word)) => self.enables[context][word],
            Some(Register::Threshold(context)) => self.thresholds[context],
            Some(Register::Claim(context)) => self.claim(context) as u32,
            None => 0,
        };
        Some(u64::from(value))
    }

    fn store(&mut self, offset: u64, width: Width, value: u64) -> Option<()> {
        if width != Width::W {
            return None;
        }
        let value = value as u32;
        match self.register(offset) {
            Some(Register::Priority(source)) => self.priorities[source] = value & PRIORITY_MASK,
            // Source 0 does not exist.
            Some(Register::Enable(context, 0)) => self.enables[context][0] = value & !1,
            Some(Register::Enable(context, word)) => self.enables[context][word] = value,
            Some(Register::Threshold(context)) => self.thresholds[context] = value & PRIORITY_MASK,
            Some(Register::Claim(context)) => {
                self.complete(context, value);
                return Some(());
            }
            Some(Register::Pending(_)) | None => return Some(()),
        }
        self.update();
        Some(())
    }

    fn describe(&self, tree: &mut FdtWriter, around: &Surroundings) -> Result<(), vm_fdt::Error> {
        let node = tree.begin_node(&around.node("plic"))?;
        let compatible = ["sifive,plic-1.0.0", "riscv,plic0"].map(String::from);
        tree.property_string_list("compatible", compatible.to_vec())?;
        tree.property_array_u64("reg", &around.reg())?;
        tree.property_u32("#address-cells", 0)?;
        tree.property_u32("#interrupt-cells", 1)?;
        tree.property_null("interrupt-controller")?;
        tree.property_u32("riscv,ndev", LAST_SOURCE as u32)?;
        let wires: Vec<u32> = around
            .hart_interrupts
            .iter()
            .flat_map(|&hart| CONTEXT_LINES.map(|line| [hart, line.trailing_zeros()]))
            .flatten()
            .collect();
        tree.property_array_u32("interrupts-extended", &wires)?;
        tree.property_phandle(around.plic)?;
        tree.end_node(node)
    }
}

#[cfg(test)]
#[path = "plic_tests.rs"]
mod tests;
