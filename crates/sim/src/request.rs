//! What is asked of a run.

use serde::{Deserialize, Serialize};

/// A run: which machine, with which changes, and the program's command line.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Name or path of the machine, for messages.
    pub machine_name: String,
    /// Text of the machine file.
    pub machine_toml: String,
    /// Changes to it, `key=value`.
    #[serde(default)]
    pub set: Vec<String>,
    /// Path of the program, for messages.
    pub program: String,
    /// Command line that the program finds in the device tree.
    #[serde(default)]
    pub bootargs: String,
    /// Run in the reference engine up to the first probe "region of interest begins".
    #[serde(default)]
    pub fast_forward: bool,
    /// End the run after so many cycles.
    #[serde(default)]
    pub max_cycles: Option<u64>,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Progress {
    /// Simulated time.
    pub cycle: u64,
    /// Instructions retired by all harts.
    pub instructions: u64,
    /// Host time since the start.
    pub host_seconds: f64,
    /// Instructions a cycle since the last report.
    pub ipc: f64,
    /// `reference` or `timing`.
    pub phase: &'static str,
}
