//! A host with guests, as Python has it.

use loiter_sim::{DiskRequest, MachineFile, Request, VmFile};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::session::{boot_request, duration};
use crate::{UserError, to_json, to_python};

/// Checks the file of virtual machines `text`, called `path` in messages; returns every key with its value: JSON.
#[pyfunction]
pub(crate) fn describe_vm(path: &str, text: &str) -> PyResult<String> {
    let file = VmFile::read(path, text).map_err(to_python)?;
    Ok(to_json(&file.values))
}

/// A host that is put together guest by guest, then runs.
#[pyclass(unsendable, module = "loiter._native")]
pub(crate) struct Vm(loiter_sim::Vm);

#[pymethods]
impl Vm {
    /// The host of the file of virtual machines `text`, called `path` in messages. `machine` is the one that it names, if it names one:
    /// its name, the text of its file, and changes.
    #[new]
    #[pyo3(signature = (path, text, machine=None))]
    fn new(
        path: &str,
        text: &str,
        machine: Option<(String, String, Vec<String>)>,
    ) -> PyResult<Self> {
        let file = VmFile::read(path, text).map_err(to_python)?;
        let machine = machine.map(|(name, toml, sets)| MachineFile::read(&name, &toml, &sets));
        let machine = machine.transpose().map_err(to_python)?;
        let vm = loiter_sim::Vm::new(file, machine).map_err(to_python)?;
        Ok(Self(vm))
    }

    /// The next guest runs the program `elf` as the JSON `request` of a run says.
    fn add_program(&mut self, request: &str, elf: &[u8]) -> PyResult<()> {
        let request: Request = serde_json::from_str(request)
            .map_err(|error| UserError::new_err(format!("the request of a guest: {error}")))?;
        self.0.add_program(&request, elf).map_err(to_python)
    }

    /// The next guest is the system in the snapshot at `path`, on the machine of the JSON `request` of a boot.
    fn add_snapshot(&mut self, py: Python<'_>, path: &str, request: &str) -> PyResult<()> {
        let request = boot_request(request)?;
        let session = py.detach(|| loiter_sim::Session::restore(&request, path));
        let session = session.map_err(to_python)?;
        self.0.add_session(session).map_err(to_python)
    }

    /// The host is to stand still when it comes to `us` of simulated time.
    fn pause_at(&mut self, us: u64) -> PyResult<()> {
        self.0.pause_at(us).map_err(to_python)
    }

    /// Saves the host to `path`; returns the length of the file.
    fn save(&mut self, py: Python<'_>, path: &str) -> PyResult<u64> {
        py.detach(|| self.0.save(path)).map_err(to_python)
    }

    /// Makes the host, which has not run, what the snapshot at `path` is of.
    fn restore(&mut self, py: Python<'_>, path: &str) -> PyResult<()> {
        py.detach(|| self.0.restore(path)).map_err(to_python)
    }

    /// Runs for about `host_seconds`, or until a guest that is typed to has said something. Returns JSON on where it
    /// stands.
    #[pyo3(signature = (host_seconds, *, output=false))]
    fn step(&mut self, py: Python<'_>, host_seconds: f64, output: bool) -> PyResult<String> {
        let host_time = duration(host_seconds)?;
        py.detach(|| self.0.step(host_time, output))
            .map(|status| to_json(&status))
            .map_err(to_python)
    }

    /// What has been found out so far: JSON.
    fn result(&mut self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.0.result())
            .map(|result| to_json(&result))
            .map_err(to_python)
    }

    /// What guest `guest` has sent to console `port` since last asked.
    fn take_output<'py>(
        &mut self,
        py: Python<'py>,
        guest: usize,
        port: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let output = self.0.take_output(guest, port).map_err(to_python)?;
        Ok(PyBytes::new(py, &output))
    }

    /// Types on console `port` of guest `guest`.
    fn push_input(&mut self, guest: usize, port: usize, bytes: &[u8]) -> PyResult<()> {
        self.0.push_input(guest, port, bytes).map_err(to_python)
    }

    /// Puts another disk, JSON of a request's disk, in the place of disk `number` of guest `guest`.
    fn replace_disk(&mut self, guest: usize, number: usize, disk: &str) -> PyResult<()> {
        let disk: DiskRequest = serde_json::from_str(disk)
            .map_err(|error| UserError::new_err(format!("the request of a disk: {error}")))?;
        self.0.replace_disk(guest, number, &disk).map_err(to_python)
    }

    /// Ends guest `guest` from outside.
    fn kill(&mut self, guest: usize) -> PyResult<()> {
        self.0.kill(guest).map_err(to_python)
    }
}
