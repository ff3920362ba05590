//! Requirements of a session, with the names of the command line.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyString, PyTuple};

use crate::error;

/// Requirements of a session: an objective and settings, named like the options of the command
/// line.
#[pyclass(frozen, module = "polychip")]
#[derive(Debug, Clone)]
pub(crate) struct Policy(pub(crate) polychip::Policy);

#[pymethods]
impl Policy {
    #[staticmethod]
    #[pyo3(signature = (**settings))]
    fn latency(settings: Option<&Bound<'_, PyDict>>) -> PyResult<Policy> {
        made(polychip::Policy::latency(), settings)
    }

    #[staticmethod]
    #[pyo3(signature = (**settings))]
    fn energy(settings: Option<&Bound<'_, PyDict>>) -> PyResult<Policy> {
        made(polychip::Policy::energy(), settings)
    }

    /// Time and energy together. The plan is predicted to take at most 1.5 times as long as the
    /// fastest one, unless `energy_price` is set.
    #[staticmethod]
    #[pyo3(signature = (**settings))]
    fn balanced(settings: Option<&Bound<'_, PyDict>>) -> PyResult<Policy> {
        made(polychip::Policy::balanced(), settings)
    }

    #[staticmethod]
    #[pyo3(signature = (**settings))]
    fn makespan(settings: Option<&Bound<'_, PyDict>>) -> PyResult<Policy> {
        made(polychip::Policy::makespan(), settings)
    }

    #[staticmethod]
    #[pyo3(signature = (**settings))]
    fn throughput(settings: Option<&Bound<'_, PyDict>>) -> PyResult<Policy> {
        made(polychip::Policy::throughput(), settings)
    }

    fn __eq__(&self, other: &Policy) -> bool {
        self.0 == other.0
    }

    fn __repr__(&self) -> String {
        format!("<polychip.Policy of least {:?}>", self.0.aim()).to_lowercase()
    }
}

impl Policy {
    /// The policy passed from Python, or the shortest run time.
    pub(crate) fn given(policy: Option<&Policy>) -> polychip::Policy {
        policy.map_or_else(polychip::Policy::latency, |policy| policy.0.clone())
    }
}

fn made(policy: polychip::Policy, settings: Option<&Bound<'_, PyDict>>) -> PyResult<Policy> {
    let made = words(settings)?
        .into_iter()
        .try_fold(policy, |policy, (name, value)| policy.with_setting(&name, &value));
    made.map(Policy).map_err(error::of)
}

/// Settings in the form of the command line, in order.
pub(crate) fn words(settings: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<(String, String)>> {
    let mut all = Vec::new();
    for (name, value) in settings.into_iter().flatten() {
        let name: String = name.extract()?;
        let word = name.replace('_', "-");
        for value in values(&name, &value)? {
            all.push((word.clone(), value));
        }
    }
    Ok(all)
}

/// A value in the form of the command line; several if the option may be repeated.
fn values(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    // what may be taken away while a session runs
    if value.is_none() {
        return Ok(vec!["no".to_owned()]);
    }
    if let Ok(flag) = value.cast::<PyBool>() {
        let word = if flag.is_true() { "yes" } else { "no" };
        return Ok(vec![word.to_owned()]);
    }
    if value.cast::<PyString>().is_ok() || value.extract::<f64>().is_ok() {
        return Ok(vec![value.str()?.to_string()]);
    }
    let listed = |value: &Bound<'_, PyAny>| -> PyResult<String> {
        let words: PyResult<Vec<String>> = value
            .try_iter()?
            .map(|word| Ok(word?.str()?.to_string()))
            .collect();
        Ok(words?.join(","))
    };
    let is_list =
        |value: &Bound<'_, PyAny>| value.cast::<PyList>().is_ok() || value.cast::<PyTuple>().is_ok();
    if is_list(value) {
        return Ok(vec![listed(value)?]);
    }
    let Ok(pairs) = value.cast::<PyDict>() else {
        return Err(PyTypeError::new_err(format!(
            "setting {name} must be a string, a number, a bool, a list or a dict, not {}",
            value.get_type().name()?
        )));
    };
    let pair = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let value = if is_list(&value) {
            listed(&value)?
        } else {
            value.str()?.to_string()
        };
        Ok(format!("{}={value}", key.str()?))
    };
    pairs.into_iter().map(pair).collect()
}
