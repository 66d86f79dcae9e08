//! SiFive's test finisher, as in QEMU: a store to it ends the run.

use loiter_isa::Width;
use serde::{Deserialize, Serialize};
use vm_fdt::FdtWriter;

use super::{Device, Surroundings};
use crate::machine::Ending;

const FAIL: u16 = 0x3333;
const PASS: u16 = 0x5555;
const RESET: u16 = 0x7777;

/// Low half of the register: what to do; high half: the exit code of a failure.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Finisher {
    /// What the first valid store said.
    pub(crate) ending: Option<Ending>,
}

impl Device for Finisher {
    fn load(&mut self, _offset: u64, width: Width) -> Option<u64> {
        matches!(width, Width::H | Width::W).then_some(0)
    }

    fn store(&mut self, offset: u64, width: Width, value: u64) -> Option<()> {
        let value = match width {
            Width::H => value & 0xffff,
            Width::W => value & 0xffff_ffff,
            _ => return None,
        };
        if offset == 0 && self.ending.is_none() {
            self.ending = match value as u16 {
                PASS => Some(Ending::PowerOff),
                // A failure that gives no code is a failure all the same.
                FAIL => Some(Ending::Failure(((value >> 16) as u32).max(1))),
                RESET => Some(Ending::Reset),
                _ => None,
            };
        }
        Some(())
    }

    fn describe(&self, tree: &mut FdtWriter, around: &Surroundings) -> Result<(), vm_fdt::Error> {
        let node = tree.begin_node(&around.node("test"))?;
        let compatible = ["sifive,test1", "sifive,test0", "syscon"].map(String::from);
        tree.property_string_list("compatible", compatible.to_vec())?;
        tree.property_array_u64("reg", &around.reg())?;
        tree.property_phandle(around.finisher)?;
        tree.end_node(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POWER_OFF: Option<Ending> = Some(Ending::PowerOff);

    fn after(offset: u64, width: Width, value: u64) -> (Option<()>, Option<Ending>) {
        let mut finisher = Finisher::default();
        let stored = finisher.store(offset, width, value);
        (stored, finisher.ending)
    }

    #[test]
    fn endings() {
        assert_eq!(after(0, Width::W, 0x5555), (Some(()), POWER_OFF));
        assert_eq!(after(0, Width::H, 0x5555), (Some(()), POWER_OFF));
        assert_eq!(after(0, Width::W, 0x7777), (Some(()), Some(Ending::Reset)));
        for (value, code) in [
            ((42 << 16) | 0x3333, 42),
            (0xffff_3333, 0xffff),
            (0x3333, 1),
        ] {
            let failure = Some(Ending::Failure(code));
            assert_eq!(after(0, Width::W, value), (Some(()), failure));
        }
    }

    #[test]
    fn what_does_not_end_the_run() {
        assert_eq!(after(0, Width::W, 0), (Some(()), None));
        assert_eq!(after(0, Width::W, 0x5554), (Some(()), None));
        assert_eq!(after(4, Width::W, 0x5555), (Some(()), None));
        assert_eq!(after(0, Width::B, 0x55), (None, None));
        assert_eq!(after(0, Width::D, 0x5555), (None, None));
    }

    #[test]
    fn the_first_stays() {
        let mut finisher = Finisher::default();
        finisher.store(0, Width::W, (3 << 16) | 0x3333).unwrap();
        finisher.store(0, Width::W, 0x5555).unwrap();
        assert_eq!(finisher.ending, Some(Ending::Failure(3)));
    }
}
