//! A run in flight.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use polychip::Outputs;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{self, TimedOutError};
use crate::outputs;
use crate::pool::{OutputMemory, Pool};

/// Between two looks for signals, as Ctrl-C.
const LOOK: Duration = Duration::from_millis(100);

/// A submitted run, with the memory that it writes.
pub(crate) struct Started {
    pub(crate) run: polychip::Run,
    pub(crate) pools: Arc<[Arc<Pool>]>,
    pub(crate) places: Vec<Option<OutputMemory>>,
}

impl Started {
    /// Waits for the outputs; `None` if the time limit passed before the run ended. A signal
    /// cancels the run.
    fn poll(&mut self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<Option<Outputs>> {
        let start = Instant::now();
        loop {
            let left = timeout.map_or(LOOK, |timeout| timeout.saturating_sub(start.elapsed()).min(LOOK));
            let run = &mut self.run;
            if let Some(outputs) = py.detach(|| run.poll(left)).map_err(error::of)? {
                return Ok(Some(outputs));
            }
            if let Err(signal) = py.check_signals() {
                self.run.cancel();
                return Err(signal);
            }
            if timeout.is_some_and(|timeout| start.elapsed() >= timeout) {
                return Ok(None);
            }
        }
    }

    /// Outputs of the run.
    fn named<'py>(self, py: Python<'py>, outputs: Outputs) -> PyResult<Bound<'py, PyDict>> {
        let named = outputs::named(py, &outputs, &self.pools, self.places);
        py.detach(|| drop(outputs));
        named
    }

    /// Waits to the end.
    pub(crate) fn finish<'py>(
        mut self,
        py: Python<'py>,
        timeout: Option<Duration>,
    ) -> PyResult<Bound<'py, PyDict>> {
        match self.poll(py, timeout)? {
            Some(outputs) => self.named(py, outputs),
            None => Err(over(timeout)),
        }
    }
}

fn over(timeout: Option<Duration>) -> PyErr {
    let milliseconds = timeout.unwrap_or_default().as_millis();
    TimedOutError::new_err(format!("the run has not ended after {milliseconds} ms"))
}

/// Parses a time in milliseconds from Python.
pub(crate) fn milliseconds(name: &str, value: Option<f64>) -> PyResult<Option<Duration>> {
    let Some(value) = value else {
        return Ok(None);
    };
    let time = Duration::try_from_secs_f64(value / 1e3);
    let words = format!("{name} is {value}; expected a time in milliseconds");
    time.map(Some).map_err(|_| error::BadInputError::new_err(words))
}

/// A submitted run. It continues even if no thread waits for it.
#[pyclass(frozen, module = "polychip")]
pub(crate) struct Run(Mutex<Option<Started>>);

impl Run {
    pub(crate) fn new(started: Started) -> Run {
        Run(Mutex::new(Some(started)))
    }

    fn take(&self) -> PyResult<Started> {
        let started = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        started.ok_or_else(|| {
            error::BadInputError::new_err(
                "the run already delivered its outputs or an error, or another thread waits for it",
            )
        })
    }
}

#[pymethods]
impl Run {
    /// Waits for the outputs, at most `timeout_ms`.
    #[pyo3(signature = (timeout_ms = None))]
    fn wait<'py>(&self, py: Python<'py>, timeout_ms: Option<f64>) -> PyResult<Bound<'py, PyDict>> {
        let timeout = milliseconds("timeout_ms", timeout_ms)?;
        let mut started = self.take()?;
        match started.poll(py, timeout)? {
            Some(outputs) => started.named(py, outputs),
            None => {
                *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(started);
                Err(over(timeout))
            }
        }
    }

    /// Asks the run to end early.
    fn cancel(&self) {
        if let Some(started) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            started.run.cancel();
        }
    }

    /// `await run`: waits in another thread.
    fn __await__<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let wait = slf.getattr("wait")?;
        let task = py.import("asyncio")?.call_method1("to_thread", (wait,))?;
        task.call_method0("__await__")
    }
}
