//! A system that is run step by step, as Python has it.

use std::time::Duration;

use loiter_sim::{BootRequest, DiskRequest, Limits, Plan, Skipping};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::{UserError, to_json, to_python};

/// A booted system between two steps.
#[pyclass(unsendable, module = "loiter._native")]
pub(crate) struct Session(loiter_sim::Session);

pub(crate) fn boot_request(text: &str) -> PyResult<BootRequest> {
    serde_json::from_str(text)
        .map_err(|error| UserError::new_err(format!("the request of a boot: {error}")))
}

pub(crate) fn duration(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|error| PyValueError::new_err(error.to_string()))
}

#[pymethods]
impl Session {
    /// A system at reset, about to boot as the JSON `request` says.
    #[staticmethod]
    fn boot(py: Python<'_>, request: &str) -> PyResult<Self> {
        let request = boot_request(request)?;
        py.detach(|| loiter_sim::Session::boot(&request))
            .map(Self)
            .map_err(to_python)
    }

    /// The system in the snapshot at `path`, on the machine of the JSON `request`.
    #[staticmethod]
    fn restore(py: Python<'_>, path: &str, request: &str) -> PyResult<Self> {
        let request = boot_request(request)?;
        py.detach(|| loiter_sim::Session::restore(&request, path))
            .map(Self)
            .map_err(to_python)
    }

    /// Saves the system as it stands to `path`; returns the length of the file.
    fn save(&self, py: Python<'_>, path: &str, description: &str) -> PyResult<u64> {
        py.detach(|| self.0.save(path, description))
            .map_err(to_python)
    }

    /// A hash of all that the guest can find out.
    fn state_hash(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.state_hash()).to_string()
    }

    /// Puts another disk, JSON of a request's disk, in the place of disk `number`.
    fn replace_disk(&mut self, number: usize, disk: &str) -> PyResult<()> {
        let disk: DiskRequest = serde_json::from_str(disk)
            .map_err(|error| UserError::new_err(format!("the request of a disk: {error}")))?;
        self.0.replace_disk(number, &disk).map_err(to_python)
    }

    /// Serves a debugger at `address`, `[HOST:]PORT`, and executes nothing before it has come; answers
    /// where that is.
    fn listen_gdb(&mut self, address: &str) -> PyResult<String> {
        self.0.listen_gdb(address).map_err(to_python)
    }

    /// Runs for about `host_seconds`, or until one of the limits: a cycle, a number of instructions,
    /// output on a console, sleep of all harts. Returns JSON on where it stands.
    #[pyo3(signature = (host_seconds, *, cycle=None, instructions=None, output=false, sleep=false))]
    fn step(
        &mut self,
        py: Python<'_>,
        host_seconds: f64,
        cycle: Option<u64>,
        instructions: Option<u64>,
        output: bool,
        sleep: bool,
    ) -> PyResult<String> {
        let host_time = duration(host_seconds)?;
        let limits = Limits {
            cycle,
            instructions,
            output,
            sleep,
        };
        py.detach(|| self.0.step(host_time, &limits))
            .map(|status| to_json(&status))
            .map_err(to_python)
    }

    /// Continues in phases, as the plan in `text` says.
    fn begin_phases(&mut self, text: &str) -> PyResult<()> {
        let plan = Plan::parse(text).map_err(to_python)?;
        self.0.begin_plan(plan).map_err(to_python)
    }

    /// The phases so far: JSON.
    fn phases(&self) -> String {
        to_json(&self.0.phases())
    }

    /// What the plan has waited for in vain, once the run is over.
    fn missed_phase(&self) -> Option<String> {
        self.0.missed_phase()
    }

    /// Checks what timing cores do against the reference engine from now on.
    fn begin_check(&mut self) -> PyResult<()> {
        self.0.begin_check().map_err(to_python)
    }

    /// Goes through every cycle of cores that repeat themselves from now on.
    fn skip_nothing(&mut self) {
        self.0.skip(Skipping::Nothing);
    }

    /// Instructions of timing cores that have been checked.
    #[getter]
    fn checked_instructions(&self) -> u64 {
        self.0.checked_instructions()
    }

    /// Writes a trace of retired instructions, as JSON asks for it, from now on.
    fn begin_trace(&mut self, request: &str) -> PyResult<()> {
        let request = serde_json::from_str(request)
            .map_err(|error| UserError::new_err(format!("the request of a trace: {error}")))?;
        self.0.begin_trace(&request).map_err(to_python)
    }

    /// Writes a log of the cores' pipelines, as JSON asks for it, from now on.
    fn begin_pipeline(&mut self, request: &str) -> PyResult<()> {
        let request = serde_json::from_str(request)
            .map_err(|error| UserError::new_err(format!("the request of a log: {error}")))?;
        self.0.begin_pipeline(&request).map_err(to_python)
    }

    /// Writes what every context does from now on to `path`.
    fn begin_timeline(&mut self, path: &str) -> PyResult<()> {
        self.0.begin_timeline(path).map_err(to_python)
    }

    /// Ends the trace, the pipeline log and the timeline, if there are such; returns what went wrong with
    /// them.
    fn end_logs(&mut self) -> Vec<String> {
        self.0.end_logs()
    }

    /// Puts `data` where a symbol of the program or the kernel lies.
    fn write_symbol(&mut self, name: &str, data: &[u8]) -> PyResult<()> {
        self.0.write_symbol(name, data).map_err(to_python)
    }

    /// Counts instructions by function and call from now on.
    #[pyo3(signature = (start=None))]
    fn begin_profile(&mut self, start: Option<&str>) -> PyResult<()> {
        self.0.begin_profile(start).map_err(to_python)
    }

    /// Counts what the locks of the guest's kernel cost from now on.
    fn begin_lock_stats(&mut self) -> PyResult<()> {
        self.0.begin_lock_stats().map_err(to_python)
    }

    /// Writes the profile so far to `path`; `command` says what was run.
    fn write_profile(&mut self, py: Python<'_>, path: &str, command: &str) -> PyResult<()> {
        py.detach(|| self.0.write_profile(path, command))
            .map_err(to_python)
    }

    /// What has been found out so far: JSON, with the tables that a run has.
    fn statistics(&mut self, py: Python<'_>) -> String {
        py.detach(|| to_json(&self.0.statistics()))
    }

    /// Whether cores have been timed, now or before.
    #[getter]
    fn was_timed(&self) -> bool {
        self.0.was_timed()
    }

    /// Lets simulated time pass in which all harts sleep.
    fn doze(&mut self, seconds: f64) -> PyResult<()> {
        duration(seconds)?;
        self.0.doze(seconds);
        Ok(())
    }

    /// What the guest has sent to console `port` since last asked.
    fn take_output<'py>(&mut self, py: Python<'py>, port: usize) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.take_output(port))
    }

    /// Types on console `port`.
    fn push_input(&mut self, port: usize, bytes: &[u8]) {
        self.0.push_input(port, bytes);
    }

    /// Whether the guest waits for input on the serial console.
    #[getter]
    fn serial_is_read(&self) -> bool {
        self.0.serial_is_read()
    }

    /// Simulated time since power-on, in cycles of the cores' clock.
    #[getter]
    fn cycle(&self) -> u64 {
        self.0.cycle()
    }

    /// Simulated time since power-on.
    #[getter]
    fn seconds(&self) -> f64 {
        self.0.seconds_since_power_on()
    }

    /// Instructions retired by all harts.
    #[getter]
    fn instructions(&self) -> u64 {
        self.0.instructions()
    }

    /// Instructions retired by each hart; hart n sits in context n.
    #[getter]
    fn instructions_by_hart(&self) -> Vec<u64> {
        self.0.instructions_by_hart()
    }

    /// Whether the cores are timed.
    #[getter]
    fn timed(&self) -> bool {
        self.0.is_timed()
    }

    /// What the user should know of disks that fail and of drivers that break the rules.
    fn take_messages(&mut self) -> Vec<String> {
        self.0.take_messages()
    }

    /// Where every hart stands, one line each.
    fn where_harts_stand(&self) -> Vec<String> {
        self.0.where_harts_stand()
    }
}
