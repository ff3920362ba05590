//! Measurements on which plans are based, with progress reports to Python.

use std::ops::ControlFlow;

use polychip::{MeasureReport, Model, Policy, ProfileOptions, ProfileProgress, Runtime};
use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::error;

/// Measures, without Python's lock. Reports progress to Python before each batch: False ends the
/// measurement, and exceptions and signals, such as Ctrl-C, are raised.
pub(crate) fn measured(
    py: Python<'_>,
    runtime: &Runtime,
    models: &[Model],
    policy: &Policy,
    options: &ProfileOptions,
    on_progress: Option<Py<PyAny>>,
) -> PyResult<MeasureReport> {
    let mut raised = None;
    let mut watch = |at: &ProfileProgress<'_>| {
        let goes_on = Python::attach(|py| -> PyResult<bool> {
            py.check_signals()?;
            let Some(told) = &on_progress else {
                return Ok(true);
            };
            let said = told.call1(py, (at.done, at.total, at.part, at.device))?;
            let stops = said.bind(py).cast::<PyBool>().is_ok_and(|said| !said.is_true());
            Ok(!stops)
        });
        match goes_on {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(()),
            Err(error) => {
                raised = Some(error);
                ControlFlow::Break(())
            }
        }
    };
    let report = py.detach(|| runtime.measure(models, policy, options, &mut watch));
    match raised {
        Some(error) => Err(error),
        None => report.map_err(error::of),
    }
}
