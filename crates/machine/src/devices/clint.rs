//! The core-local interruptor: software interrupts and the timer. The comparators of the harts' own
//! supervisor timers (Sstc) stand here too, so that time is compared in one place.
//!
//! The caller gives time in ticks; what the guest reads as `mtime` is that plus an offset, which a
//! guest's store to `mtime` changes. Interrupt lines are kept up to date, never polled: `deadline`
//! is the tick at which the next timer fires, so a tick before it costs one comparison.

use loiter_isa::Width;
use loiter_types::HartId;
use serde::{Deserialize, Serialize};
use vm_fdt::FdtWriter;

use super::{Device, Surroundings};

/// Bit of `mip`: machine software interrupt.
const MSIP: u64 = 1 << 3;
/// Bit of `mip`: supervisor timer interrupt.
const STIP: u64 = 1 << 5;
/// Bit of `mip`: timer interrupt of a guest.
const VSTIP: u64 = 1 << 6;
/// Bit of `mip`: machine timer interrupt.
const MTIP: u64 = 1 << 7;

const MTIMECMP_OFFSET: u64 = 0x4000;
const MTIME_OFFSET: u64 = 0xbff8;

/// Number of harts that the register layout has room for.
pub(crate) const MAX_HARTS: usize = 4095;

/// A register, and for the 64-bit ones which half an access means.
enum Register {
    Msip(usize),
    MtimeCmp(usize),
    Mtime,
    /// Within the window, but of no hart of this machine: reads as zero, ignores writes, as in
    /// QEMU and Spike.
    Reserved,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Clint {
    msip: Vec<bool>,
    /// `u64::MAX`, the value at reset, is "never".
    mtimecmp: Vec<u64>,
    /// Likewise, of the harts' own registers.
    stimecmp: Vec<u64>,
    /// The same of the guests of harts: `vstimecmp`, and what their time is ahead, `htimedelta`.
    #[serde(default)]
    vstimecmp: Vec<(u64, u64)>,
    /// Time as the caller counts it.
    ticks: u64,
    /// `mtime` minus `ticks`.
    offset: u64,
    /// The first tick at which a timer that has not fired does; `u64::MAX` when none will.
    #[serde(skip)]
    deadline: u64,
    /// For each hart its bits of `mip`.
    #[serde(skip)]
    lines: Vec<u64>,
    /// Changes whenever `lines` does.
    #[serde(skip)]
    generation: u64,
}

impl Clint {
    pub(crate) fn new(harts: usize) -> Self {
        Self {
            msip: vec![false; harts],
            mtimecmp: vec![u64::MAX; harts],
            stimecmp: vec![u64::MAX; harts],
            vstimecmp: vec![(u64::MAX, 0); harts],
            ticks: 0,
            offset: 0,
            deadline: u64::MAX,
            lines: vec![0; harts],
            generation: 0,
        }
    }

    /// Takes over what a snapshot holds.
    pub(crate) fn restore(&mut self, saved: &Self) -> Result<(), String> {
        let harts = self.msip.len();
        let lengths = [saved.msip.len(), saved.mtimecmp.len(), saved.stimecmp.len()];
        let guests = saved.vstimecmp.len();
        if lengths != [harts; 3] || guests != 0 && guests != harts {
            return Err(format!(
                "timers of {lengths:?} harts, where there are {harts}"
            ));
        }
        *self = Self {
            lines: std::mem::take(&mut self.lines),
            generation: self.generation,
            ..saved.clone()
        };
        // Snapshots of before harts could have guests hold none.
        self.vstimecmp.resize(harts, (u64::MAX, 0));
        self.update();
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn set_ticks(&mut self, ticks: u64) {
        self.ticks = ticks;
        if ticks >= self.deadline {
            self.update();
        }
    }

    /// The caller's time begins anew, at 0; `mtime` goes on where it stands.
    pub(crate) fn begin_time(&mut self) {
        self.offset = self.mtime();
        self.ticks = 0;
        self.update();
    }

    #[inline(always)]
    pub(crate) fn ticks(&self) -> u64 {
        self.ticks
    }

    #[inline(always)]
    pub(crate) fn mtime(&self) -> u64 {
        self.ticks.wrapping_add(self.offset)
    }

    #[inline(always)]
    pub(crate) fn lines(&self, hart: HartId) -> u64 {
        self.lines[hart.index()]
    }

    #[inline(always)]
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn deadline(&self) -> Option<u64> {
        (self.deadline != u64::MAX).then_some(self.deadline)
    }

    pub(crate) fn stimecmp(&self, hart: HartId) -> u64 {
        self.stimecmp[hart.index()]
    }

    pub(crate) fn set_stimecmp(&mut self, hart: HartId, value: u64) {
        self.stimecmp[hart.index()] = value;
        self.update();
    }

    pub(crate) fn set_vstimecmp(&mut self, hart: HartId, value: u64, ahead: u64) {
        self.vstimecmp[hart.index()] = (value, ahead);
        self.update();
    }

    /// Works out lines and deadline from the registers.
    #[cold]
    fn update(&mut self) {
        let now = self.mtime();
        self.deadline = u64::MAX;
        for hart in 0..self.msip.len() {
            let mut lines = if self.msip[hart] { MSIP } else { 0 };
            let (guest_compare, ahead) = self.vstimecmp[hart];
            for (now, compare, line) in [
                (now, self.mtimecmp[hart], MTIP),
                (now, self.stimecmp[hart], STIP),
                (now.wrapping_add(ahead), guest_compare, VSTIP),
            ] {
                if now >= compare {
                    lines |= line;
                } else if compare != u64::MAX {
                    self.deadline = self.deadline.min(self.ticks.saturating_add(compare - now));
                }
            }
            if lines != self.lines[hart] {
                self.lines[hart] = lines;
                self.generation += 1;
            }
        }
    }

    fn register(&self, offset: u64) -> Register {
        let harts = self.msip.len();
        let (register, index): (fn(usize) -> Register, u64) = match offset {
            0..MTIMECMP_OFFSET => (Register::Msip, offset / 4),
            MTIMECMP_OFFSET..MTIME_OFFSET => (Register::MtimeCmp, (offset - MTIMECMP_OFFSET) / 8),
            _ if offset - MTIME_OFFSET < 8 => return Register::Mtime,
            _ => return Register::Reserved,
        };
        match usize::try_from(index) {
            Ok(index) if index < harts => register(index),
            _ => Register::Reserved,
        }
    }
}

/// The part of a 64-bit register that a naturally aligned access reads.
fn part(value: u64, offset: u64, width: Width) -> Option<u64> {
    match width {
        Width::D => Some(value),
        Width::W => Some(value >> (8 * (offset & 4)) & 0xffff_ffff),
        _ => None,
    }
}

/// The register `old` after a naturally aligned access has written part of it.
fn merged(old: u64, offset: u64, width: Width, value: u64) -> Option<u64> {
    match width {
        Width::D => Some(value),
        Width::W => {
            let shift = 8 * (offset & 4);
            Some(old & !(0xffff_ffff << shift) | (value & 0xffff_ffff) << shift)
        }
        _ => None,
    }
}

impl Device for Clint {
    fn load(&mut self, offset: u64, width: Width) -> Option<u64> {
        match self.register(offset) {
            Register::Msip(hart) => (width == Width::W).then(|| u64::from(self.msip[hart])),
            Register::MtimeCmp(hart) => part(self.mtimecmp[hart], offset, width),
            Register::Mtime => part(self.mtime(), offset, width),
            Register::Reserved => part(0, offset, width),
        }
    }

    fn store(&mut self, offset: u64, width: Width, value: u64) -> Option<()> {
        match self.register(offset) {
            Register::Msip(hart) if width == Width::W => self.msip[hart] = value & 1 != 0,
            Register::Msip(_) => return None,
            Register::MtimeCmp(hart) => {
                self.mtimecmp[hart] = merged(self.mtimecmp[hart], offset, width, value)?;
            }
            Register::Mtime => {
                let mtime = merged(self.mtime(), offset, width, value)?;
                self.offset = mtime.wrapping_sub(self.ticks);
            }
            Register::Reserved => return merged(0, offset, width, value).map(drop),
        }
        self.update();
        Some(())
    }

    fn describe(&self, tree: &mut FdtWriter, around: &Surroundings) -> Result<(), vm_fdt::Error> {
        let node = tree.begin_node(&around.node("clint"))?;
        let compatible = ["sifive,clint0", "riscv,clint0"].map(String::from);
        tree.property_string_list("compatible", compatible.to_vec())?;
        tree.property_array_u64("reg", &around.reg())?;
        let wires: Vec<u32> = around
            .hart_interrupts
            .iter()
            .flat_map(|&hart| [hart, MSIP.trailing_zeros(), hart, MTIP.trailing_zeros()])
            .collect();
        tree.property_array_u32("interrupts-extended", &wires)?;
        tree.end_node(node)
    }
}

#[cfg(test)]
#[path = "clint_tests.rs"]
mod tests;
