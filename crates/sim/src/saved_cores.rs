//! Timing cores in snapshots, of a system or of a host: with all that is in flight, so for the same machine only.

use loiter_hart::{Hart, HostCall};
use loiter_machine::snapshot::{Header, Snapshot, SnapshotFault, SnapshotWriter};
use loiter_types::Cycle;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::timing_phase::Timing;

/// The section.
const CORES: &str = "cores";

/// Timing cores, and what their harts have beside what they have without.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedCores<T> {
    timing: T,
    harts: Vec<Heard>,
}

/// What has come to a hart in its context, or from it, and has not been dealt with.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Heard {
    /// The interrupt lines as its core has seen them last.
    lines: u64,
    called: Option<HostCall>,
    paused: Option<(Cycle, Cycle)>,
}

/// Writes the section.
///
/// # Errors
/// Those of the writer.
pub(crate) fn write(
    writer: &mut SnapshotWriter,
    timing: &Timing,
    harts: &[Hart],
) -> Result<(), SnapshotFault> {
    let heard = |hart: &Hart| Heard {
        lines: hart.csr.lines(),
        called: hart.called,
        paused: hart.paused,
    };
    let harts = harts.iter().map(heard).collect();
    writer.state(CORES, &SavedCores { timing, harts })
}

/// The timing cores of a snapshot, if it has such. `machine`: name and hash of ours, which `named` says in words.
///
/// # Errors
/// Others than ours.
pub(crate) fn read(
    snapshot: &Snapshot,
    machine: Option<(&str, &str)>,
    named: &str,
) -> Result<Option<SavedCores<Timing>>, Error> {
    if !snapshot.has(CORES) {
        return Ok(None);
    }
    let Header {
        machine: theirs,
        machine_hash,
        ..
    } = snapshot.header();
    if machine.is_none_or(|(_, hash)| hash != machine_hash) {
        let ours = match machine {
            Some((name, _)) if name == theirs => "other parameters of it",
            Some((name, _)) => name,
            None => "none",
        };
        let differs =
            format!("it has work in flight in timing cores of {theirs}, and {named} is {ours}");
        return Err(snapshot.other_machine(differs).into());
    }
    Ok(Some(snapshot.state(CORES)?))
}

impl SavedCores<Timing> {
    /// Makes cores that have not run what these are.
    ///
    /// # Errors
    /// Cores of another machine.
    pub(crate) fn restore(self, timing: &mut Timing, harts: &mut [Hart]) -> Result<(), String> {
        timing.restore(self.timing)?;
        if self.harts.len() != harts.len() {
            let (theirs, ours) = (self.harts.len(), harts.len());
            return Err(format!("its cores have {theirs} harts of {ours}"));
        }
        for (hart, heard) in harts.iter_mut().zip(self.harts) {
            hart.csr.set_lines(heard.lines);
            (hart.called, hart.paused) = (heard.called, heard.paused);
        }
        Ok(())
    }
}
