//! A session: a model, planned and compiled, ready to run.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use polychip::{Literal, Packed, RunOptions, TensorSpec};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::array::Array;
use crate::element;
use crate::error::{self, BadInputError};
use crate::input::{Input, State};
use crate::plan::{Plan, json, loaded};
use crate::policy;
use crate::pool::{OutputMemory, OutputTransfer, Pool};
use crate::report::Report;
use crate::run::{Run, Started, milliseconds};
use crate::shared::Shared;

/// Time for which `run` waits for a free slot among the runs in flight.
const TURN: Duration = Duration::from_secs(3600);

/// Name, type and shape of an input or output.
#[pyclass(frozen, get_all, module = "polychip")]
pub(crate) struct TensorInfo {
    name: String,
    dtype: &'static str,
    /// A tuple with an entry for each axis: its size, the name of an open size, or None if the size
    /// is known only after the run. None instead of the tuple if each run sets the number of axes.
    shape: Option<Py<PyTuple>>,
}

#[pymethods]
impl TensorInfo {
    fn __repr__(&self, py: Python<'_>) -> String {
        format!(
            "<polychip.TensorInfo {:?} {} {}>",
            self.name,
            self.dtype,
            self.shape
                .as_ref()
                .map_or_else(|| "(...)".to_owned(), |shape| shape.bind(py).to_string())
        )
    }
}

impl TensorInfo {
    fn new(py: Python<'_>, spec: &TensorSpec) -> PyResult<TensorInfo> {
        let mut sizes = Vec::new();
        for (axis, size) in spec.shape.iter().enumerate() {
            let open = spec.open.iter().find(|(open, _)| *open == axis);
            sizes.push(match open {
                Some((_, name)) => PyString::new(py, name).into_any(),
                None if spec.upper_bound => py.None().into_bound(py),
                None => size.into_pyobject(py)?.into_any(),
            });
        }
        Ok(TensorInfo {
            name: spec.name.clone(),
            dtype: if spec.packed {
                "packed"
            } else {
                element::name(spec.dtype)
            },
            shape: (!spec.any_rank)
                .then(|| PyTuple::new(py, sizes).map(Bound::unbind))
                .transpose()?,
        })
    }
}

/// A model, planned, compiled and loaded. Thread-safe.
#[pyclass(frozen, module = "polychip")]
pub(crate) struct Session {
    session: polychip::Session,
    pools: Arc<[Arc<Pool>]>,
    shared: Shared,
}

impl Session {
    pub(crate) fn new(session: polychip::Session, shared: Shared) -> Session {
        let pools = Pool::of(&session).into();
        Session {
            session,
            pools,
            shared,
        }
    }

    /// Submits a run of the inputs passed from Python.
    /// `never_waits`: as `try_submit`; outputs are then in the run's memory, because memory for them is made by a plan.
    fn start(
        &self,
        py: Python<'_>,
        inputs: &Bound<'_, PyDict>,
        options: RunOptions,
        never_waits: bool,
    ) -> PyResult<Started> {
        self.shared.process.check()?;
        let mut given = Vec::with_capacity(inputs.len());
        for (name, value) in inputs {
            let name = name
                .cast::<PyString>()
                .map_err(|_| no_name(&name))?
                .to_str()?
                .to_owned();
            let mut all = self.session.inputs().chain(self.session.optional_inputs());
            let index = all.position(|spec| spec.name == name);
            let index = index.ok_or_else(|| self.no_input(&name))?;
            given.push((index, self.given(&name, &value)?));
        }
        // two threads lock the inputs that both give in one order
        given.sort_by_key(|(index, _)| *index);
        let (session, pools) = (&self.session, &self.pools);
        let started = py.detach(|| {
            let mut locked: Vec<Locked<'_>> = Vec::with_capacity(given.len());
            for (_, input) in &given {
                locked.push(match input {
                    InputValue::Own(input) => Locked::Own(input),
                    InputValue::Shared(input) => Locked::Shared(input.get().lock()),
                });
            }
            let inputs: PyResult<Vec<&polychip::Input>> = locked.iter().map(Locked::input).collect();
            let mut places = Vec::with_capacity(pools.len());
            for pool in pools.iter() {
                let bound = pool.way() == OutputTransfer::Bound && !never_waits;
                places.push(if bound { Some(pool.take(session)?) } else { None });
            }
            let outputs: Vec<&polychip::Output> = places.iter().flatten().map(OutputMemory::output).collect();
            let run = if never_waits {
                session.try_submit_with(&inputs?, &outputs, options)
            } else {
                session.submit_with(&inputs?, &outputs, options)
            };
            Ok(Started {
                run: run.map_err(error::of)?,
                pools: Arc::clone(pools),
                places,
            })
        });
        drop(given);
        started
    }

    /// Converts one input of a run.
    fn given(&self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<InputValue> {
        if let Ok(input) = value.cast::<Input>() {
            let own = input.get().lock().input.name().to_owned();
            if own != name {
                return Err(BadInputError::new_err(format!(
                    "input {name:?} received the memory of input {own:?}"
                )));
            }
            return Ok(InputValue::Shared(input.clone().unbind()));
        }
        let spec = self.session.input_spec(name).map_err(error::of)?;
        if spec.packed {
            let mut input = self.session.input(name).map_err(error::of)?;
            input.write_packed(&packed(name, value)?).map_err(error::of)?;
            return Ok(InputValue::Own(input));
        }
        let array = Array::of(value)?;
        if !element::fits(array.dtype, spec.dtype) {
            return Err(BadInputError::new_err(format!(
                "input {name:?} holds {}, not {}; convert the array first (for example .astype({:?}))",
                element::name(spec.dtype),
                element::name(array.dtype),
                element::name(spec.dtype)
            )));
        }
        let shape = array.shape.clone();
        let input = self.session.input_from(name, &shape, &array.into_memory());
        Ok(InputValue::Own(input.map_err(error::of)?))
    }

    fn no_input(&self, name: &str) -> PyErr {
        let all = self.session.inputs().chain(self.session.optional_inputs());
        let names: Vec<&str> = all.map(|spec| spec.name.as_str()).collect();
        BadInputError::new_err(format!(
            "the model has no input {name:?}; it has {}",
            names.join(", ")
        ))
    }
}

fn no_name(name: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!(
        "inputs are passed by name, as {{\"x\": array}}; {name:?} is not a string"
    ))
}

/// A value that Python passes for an input.
enum InputValue {
    Own(polychip::Input),
    Shared(Py<Input>),
}

/// The same, for the call that submits it.
enum Locked<'a> {
    Own(&'a polychip::Input),
    Shared(std::sync::MutexGuard<'a, State>),
}

impl Locked<'_> {
    fn input(&self) -> PyResult<&polychip::Input> {
        match self {
            Locked::Own(input) => Ok(input),
            Locked::Shared(state) => state.closed(),
        }
    }
}

/// Strings, nested in lists as their shape, a list of arrays, an array, or None.
fn packed(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Packed> {
    if value.is_none() {
        return Ok(Packed::Nothing);
    }
    // of an array without elements, the lists do not say the shape
    let (mut empty, array) = (None, value);
    let value = match value.getattr_opt("tolist")? {
        // NumPy's arrays of strings
        Some(to_list) if value.cast::<PyList>().is_err() => {
            let shape: Vec<usize> = value.getattr("shape")?.extract()?;
            empty = shape.contains(&0).then_some(shape);
            to_list.call0()?
        }
        _ => value.clone(),
    };
    let mut strings: Vec<String> = Vec::new();
    let shape = match empty {
        Some(shape) => Some(shape),
        None => shape_of_strings(&value, &mut strings)?,
    };
    if let Some(shape) = shape {
        let flat = Literal::from_strings(&strings);
        let words = format!("input {name:?}: a string is too long");
        let mut literal = flat.ok_or_else(|| BadInputError::new_err(words))?;
        literal.shape = shape;
        return Ok(Packed::Tensor(literal));
    }
    let literal = |array: &Bound<'_, PyAny>| {
        let array = Array::of(array)?;
        Literal::new(array.dtype, array.shape.clone(), array.bytes().to_vec())
            .ok_or_else(|| BadInputError::new_err(format!("input {name:?}: an array does not fit its shape")))
    };
    if array.cast::<PyList>().is_err() && array.hasattr("tolist")? {
        return literal(array).map(Packed::Tensor);
    }
    let arrays = value.cast::<PyList>().map_err(|_| {
        PyTypeError::new_err(format!(
            "input {name:?} must be strings (nested lists, as their shape), a list of arrays, an array, or None"
        ))
    })?;
    let all: PyResult<Vec<Literal>> = arrays.iter().map(|array| literal(&array)).collect();
    Ok(Packed::Sequence(all?))
}

/// The shape of nested lists of strings, which are collected in order; `None` for other objects.
fn shape_of_strings(value: &Bound<'_, PyAny>, strings: &mut Vec<String>) -> PyResult<Option<Vec<usize>>> {
    if let Ok(string) = value.cast::<PyString>() {
        strings.push(string.to_str()?.to_owned());
        return Ok(Some(Vec::new()));
    }
    // elements of NumPy's arrays of the type S
    if let Ok(bytes) = value.cast::<PyBytes>() {
        let text = std::str::from_utf8(bytes.as_bytes());
        let text = text.map_err(|_| BadInputError::new_err("a string of bytes is not UTF-8"))?;
        strings.push(text.to_owned());
        return Ok(Some(Vec::new()));
    }
    let Ok(list) = value.cast::<PyList>() else {
        return Ok(None);
    };
    let mut inner: Option<Vec<usize>> = None;
    for item in list {
        let Some(shape) = shape_of_strings(&item, strings)? else {
            return Ok(None);
        };
        if inner.get_or_insert_with(|| shape.clone()) != &shape {
            return Err(BadInputError::new_err(
                "lists of strings of different lengths have no shape",
            ));
        }
    }
    let Some(inner) = inner else {
        return Ok(None);
    };
    Ok(Some([vec![list.len()], inner].concat()))
}

fn options(deadline_ms: Option<f64>, patience: Option<Duration>) -> PyResult<RunOptions> {
    let mut options = RunOptions::new();
    if let Some(deadline) = milliseconds("deadline_ms", deadline_ms)? {
        options = options.deadline(deadline);
    }
    if let Some(patience) = patience {
        options = options.queue_timeout(patience);
    }
    Ok(options)
}

#[pymethods]
impl Session {
    /// Names, types and shapes of the inputs.
    #[getter]
    fn inputs(&self, py: Python<'_>) -> PyResult<Vec<TensorInfo>> {
        self.session
            .inputs()
            .map(|spec| TensorInfo::new(py, spec))
            .collect()
    }

    /// Inputs that have a default. A run may leave them out.
    #[getter]
    fn optional_inputs(&self, py: Python<'_>) -> PyResult<Vec<TensorInfo>> {
        self.session
            .optional_inputs()
            .map(|spec| TensorInfo::new(py, spec))
            .collect()
    }

    /// Names, types and shapes of the outputs.
    #[getter]
    fn outputs(&self, py: Python<'_>) -> PyResult<Vec<TensorInfo>> {
        self.session
            .outputs()
            .map(|spec| TensorInfo::new(py, spec))
            .collect()
    }

    /// Memory for an input, to be filled in place.
    #[pyo3(signature = (name, shape = None))]
    fn input(&self, py: Python<'_>, name: &str, shape: Option<Vec<usize>>) -> PyResult<Input> {
        self.shared.process.check()?;
        let made = py.detach(|| {
            let mut input = self.session.input(name)?;
            if let Some(shape) = shape {
                input.resize(&shape)?;
            }
            Ok(input)
        });
        made.map(Input::new).map_err(error::of)
    }

    /// Runs and waits for the outputs.
    #[pyo3(signature = (inputs, *, deadline_ms = None, timeout_ms = None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyDict>,
        deadline_ms: Option<f64>,
        timeout_ms: Option<f64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let timeout = milliseconds("timeout_ms", timeout_ms)?;
        let patience = timeout.unwrap_or(TURN);
        let started = self.start(py, inputs, options(deadline_ms, Some(patience))?, false)?;
        started.finish(py, timeout)
    }

    /// Returns a coroutine that calls `run` in another thread.
    #[pyo3(signature = (inputs, *, deadline_ms = None, timeout_ms = None))]
    fn run_async<'py>(
        slf: Bound<'py, Self>,
        inputs: Bound<'py, PyDict>,
        deadline_ms: Option<f64>,
        timeout_ms: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let words = PyDict::new(py);
        words.set_item("deadline_ms", deadline_ms)?;
        words.set_item("timeout_ms", timeout_ms)?;
        let to_thread = py.import("asyncio")?.getattr("to_thread")?;
        to_thread.call((slf.getattr("run")?, inputs), Some(&words))
    }

    /// Starts a run and does not wait for its end. The call plans and compiles first if the inputs
    /// have new sizes, which may take seconds. If as many runs are in flight as the policy allows,
    /// it waits at most `queue_timeout_ms`, by default not at all.
    #[pyo3(signature = (inputs, *, deadline_ms = None, queue_timeout_ms = None))]
    fn submit(
        &self,
        py: Python<'_>,
        inputs: &Bound<'_, PyDict>,
        deadline_ms: Option<f64>,
        queue_timeout_ms: Option<f64>,
    ) -> PyResult<Run> {
        let patience = milliseconds("queue_timeout_ms", queue_timeout_ms)?;
        Ok(Run::new(self.start(
            py,
            inputs,
            options(deadline_ms, patience)?,
            false,
        )?))
    }

    /// Like `submit`, but never waits and never plans: raises WouldBlockError if as many runs are in
    /// flight as the policy allows, or if the plan for these sizes is not ready. A missing plan is then
    /// made on a thread of the session; submit again later.
    #[pyo3(signature = (inputs, *, deadline_ms = None))]
    fn try_submit(
        &self,
        py: Python<'_>,
        inputs: &Bound<'_, PyDict>,
        deadline_ms: Option<f64>,
    ) -> PyResult<Run> {
        let started = self.start(py, inputs, options(deadline_ms, None)?, true)?;
        Ok(Run::new(started))
    }

    /// Plans and compiles for inputs of these shapes, so that the first run with them need not.
    /// Blocks.
    fn prepare(&self, py: Python<'_>, shapes: HashMap<String, Vec<usize>>) -> PyResult<()> {
        self.shared.process.check()?;
        py.detach(|| self.session.prepare(shapes)).map_err(error::of)
    }

    /// Feeds `output` of each run to `input` of the next one.
    fn bind_state(&self, py: Python<'_>, input: &str, output: &str) -> PyResult<()> {
        py.detach(|| self.session.bind_state(input, output))
            .map_err(error::of)?;
        for pool in self.pools.iter().filter(|pool| pool.spec.name == output) {
            pool.becomes_state();
        }
        Ok(())
    }

    /// Sets all states to zero.
    fn reset_state(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.session.reset_state()).map_err(error::of)
    }

    /// Shape and bytes of the state of an input.
    fn state(&self, py: Python<'_>, input: &str) -> PyResult<(Py<PyTuple>, Py<PyBytes>)> {
        let (shape, bytes) = py.detach(|| self.session.state(input)).map_err(error::of)?;
        Ok((
            PyTuple::new(py, shape)?.unbind(),
            PyBytes::new(py, &bytes).unbind(),
        ))
    }

    /// Sets the state of an input to a result of `state`, of this session or another.
    fn set_state(&self, py: Python<'_>, input: &str, shape: Vec<usize>, data: &[u8]) -> PyResult<()> {
        py.detach(|| self.session.set_state(input, &shape, data))
            .map_err(error::of)
    }

    /// Changes settings while the session runs, such as `learn="watch"`; None removes a limit.
    #[pyo3(signature = (**settings))]
    fn set(&self, py: Python<'_>, settings: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let words = policy::words(settings)?;
        py.detach(|| {
            words
                .iter()
                .try_for_each(|(name, value)| self.session.set(name, value))
        })
        .map_err(error::of)
    }

    /// Whether the next frame should run; the governor may skip frames to keep a limit. Each call
    /// counts one frame.
    fn takes_frame(&self) -> bool {
        self.session.takes_frame()
    }

    /// Reads the sensors, lets the governor decide now, and returns the readings; None if the
    /// session is not governed.
    fn govern<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match py.detach(|| self.session.govern()) {
            None => Ok(None),
            Some(sample) => loaded(py, &json(serde_json::to_string(&sample))?).map(Some),
        }
    }

    /// The governor's observations and decisions as JSON, one per line; None if the session is not
    /// governed.
    fn decisions(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| Some(self.session.decisions()?.to_json_lines()))
    }

    /// The plan that the next run executes; None before the first run of a model with open sizes.
    fn plan(&self) -> Option<Plan> {
        self.session
            .planned()
            .map(|planned| Plan(planned.as_ref().clone()))
    }

    /// Stops new runs; runs in flight continue to their end.
    fn close(&self) {
        self.session.close();
    }

    /// Writes the measurements to the profile database.
    fn record(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.session.record()).map_err(error::of)
    }

    /// The device of each part, with its predicted and measured cost.
    fn report(&self, py: Python<'_>) -> Report {
        py.detach(|| Report::new(self.session.report(), self.session.planned()))
    }

    /// The plan's page, for notebooks.
    fn _repr_html_(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.report(py)._repr_html_(py)
    }

    fn __repr__(&self) -> String {
        let names: Vec<&str> = self.session.inputs().map(|spec| spec.name.as_str()).collect();
        format!("<polychip.Session of {}>", names.join(", "))
    }
}
