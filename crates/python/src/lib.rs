//! The Python module `loiter._native`: machines described, programs inspected, runs made,
//! systems booted, executions explored.
//!
//! Depends on `loiter-sim` and `loiter-explore`, reads ELF files by `loiter-machine` and instructions by `loiter-isa`. Requests and results are JSON
//! text, so that their shape is declared once, there. A run releases the interpreter's lock but for its progress calls.

mod replay;
mod replay_target;
mod session;
mod vm;

use std::path::PathBuf;

use loiter_explore::{GuestFault, Limits, Model};
use loiter_machine::ElfImage;
use loiter_sim::{Error, MachineFile, Plan, Request};
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(_native, UserError, PyException, "The user's mistake.");
create_exception!(_native, GuestError, PyException, "The guest failed.");
create_exception!(_native, InternalError, PyException, "Our fault.");
create_exception!(
    _native,
    Interrupted,
    PyException,
    "The run was told to stop."
);

fn to_python(error: Error) -> PyErr {
    match error {
        Error::User(message) => UserError::new_err(message),
        Error::Guest(message) => GuestError::new_err(message),
        Error::Internal(message) => InternalError::new_err(message),
        Error::Interrupted => Interrupted::new_err("interrupted"),
    }
}

fn to_json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("results have text keys and finite numbers")
}

/// Reads the machine file at `path`, called `shown` in messages, with what its `base` says; presets are
/// looked for in the folder `presets`.
#[pyfunction]
fn machine_text(shown: &str, path: PathBuf, presets: PathBuf) -> PyResult<String> {
    loiter_sim::machine_text(shown, &path, &presets).map_err(to_python)
}

/// Describes the machine file `toml`, called `name` in messages, with the changes `sets`; JSON.
#[pyfunction]
fn describe_machine(name: &str, toml: &str, sets: Vec<String>) -> PyResult<String> {
    let file = MachineFile::read(name, toml, &sets).map_err(to_python)?;
    Ok(to_json(&file.describe()))
}

/// Every counter of the machine file `toml`, with its unit and its meaning; JSON.
#[pyfunction]
fn describe_counters(name: &str, toml: &str, sets: Vec<String>) -> PyResult<String> {
    let file = MachineFile::read(name, toml, &sets).map_err(to_python)?;
    file.describe_counters()
        .map(|counters| to_json(&counters))
        .map_err(to_python)
}

/// Says what the program `elf`, called `path` in messages, consists of; JSON.
#[pyfunction]
fn inspect_program(path: &str, elf: &[u8]) -> PyResult<String> {
    loiter_sim::inspect(path, elf)
        .map(|inspection| to_json(&inspection))
        .map_err(to_python)
}

/// Says what the snapshot at `path` is of; JSON.
#[pyfunction]
fn show_snapshot(path: &str) -> PyResult<String> {
    loiter_sim::show_snapshot(path)
        .map(|description| to_json(&description))
        .map_err(to_python)
}

/// Says what the plan of phases in `text` comes to: `plan` in the form that equal plans share, whether
/// it is `bounded` and whether it `names_symbols`; JSON.
#[pyfunction]
fn describe_phases(text: &str) -> PyResult<String> {
    let plan = Plan::parse(text).map_err(to_python)?;
    Ok(to_json(&plan.describe()))
}

/// Explores the program `elf`, called `path` in messages, with `harts` harts under `model`, up to `states` states; returns the
/// report as JSON, and the execution that fails, if one does. `progress` is as in `run`.
#[pyfunction]
#[pyo3(signature = (path, elf, model, harts, states, progress=None))]
fn explore(
    py: Python<'_>,
    path: &str,
    elf: &[u8],
    model: &str,
    harts: usize,
    states: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Option<replay::Failing>)> {
    let models = Model::ALL.into_iter();
    let model = models
        .clone()
        .find(|it| it.name() == model)
        .ok_or_else(|| {
            let names: Vec<&str> = models.map(Model::name).collect();
            UserError::new_err(format!(
                "unknown model {model}: there are {}",
                names.join(", ")
            ))
        })?;
    let image =
        ElfImage::parse(path, elf).map_err(|error| UserError::new_err(error.to_string()))?;
    let limits = Limits {
        states,
        ..Limits::default()
    };
    let mut raised = None;
    let report = py.detach(|| {
        loiter_explore::explore_guest(&image, elf, harts, model, &limits, &mut |now| {
            call(progress.as_ref(), &to_json(now), &mut raised)
        })
    });
    if let Some(error) = raised {
        return Err(error);
    }
    report
        .map(|found| (to_json(&found.0), replay::Failing::of(found)))
        .map_err(|fault| match fault {
            GuestFault::User(message) => UserError::new_err(format!("{path}: {message}")),
            GuestFault::Interrupted => Interrupted::new_err("interrupted"),
        })
}

/// Asks `progress`, told `now`, whether to continue. What it raises ends the work.
fn call(progress: Option<&Py<PyAny>>, now: &str, raised: &mut Option<PyErr>) -> bool {
    let Some(progress) = progress else {
        return true;
    };
    Python::attach(|py| {
        let answer = py
            .check_signals()
            .and_then(|()| progress.call1(py, (now,)))
            .and_then(|answer| answer.is_truthy(py));
        answer.unwrap_or_else(|error| {
            *raised = Some(error);
            false
        })
    })
}

/// Runs the program `elf` as the JSON `request` says; returns the result as JSON. `progress` gets
/// JSON about five times a second and returns whether to continue.
#[pyfunction]
#[pyo3(signature = (request, elf, progress=None))]
fn run(py: Python<'_>, request: &str, elf: &[u8], progress: Option<Py<PyAny>>) -> PyResult<String> {
    let request: Request = serde_json::from_str(request)
        .map_err(|error| UserError::new_err(format!("the request of a run: {error}")))?;
    let mut raised = None;
    let result = py.detach(|| {
        loiter_sim::run(&request, elf, &mut |now| {
            call(progress.as_ref(), &to_json(&now), &mut raised)
        })
    });
    if let Some(error) = raised {
        return Err(error);
    }
    result.map(|result| to_json(&result)).map_err(to_python)
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("UserError", module.py().get_type::<UserError>())?;
    module.add("GuestError", module.py().get_type::<GuestError>())?;
    module.add("InternalError", module.py().get_type::<InternalError>())?;
    module.add("Interrupted", module.py().get_type::<Interrupted>())?;
    module.add_function(wrap_pyfunction!(machine_text, module)?)?;
    module.add_function(wrap_pyfunction!(describe_machine, module)?)?;
    module.add_function(wrap_pyfunction!(describe_counters, module)?)?;
    module.add_function(wrap_pyfunction!(inspect_program, module)?)?;
    module.add_function(wrap_pyfunction!(show_snapshot, module)?)?;
    module.add_function(wrap_pyfunction!(describe_phases, module)?)?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(explore, module)?)?;
    module.add_function(wrap_pyfunction!(vm::describe_vm, module)?)?;
    module.add_class::<session::Session>()?;
    module.add_class::<vm::Vm>()?;
    module.add_class::<replay::Failing>()?;
    module.add_class::<replay::Debugger>()?;
    Ok(())
}
