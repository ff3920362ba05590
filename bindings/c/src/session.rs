//! Sessions, and starting a run on tensors.
//!
//! Invariant: tensors are passed by index, in the model's order. A run on tensors that the session
//! has seen looks up no name.

use polychip::{Run, RunOptions, Session, TensorSpec};
use smallvec::SmallVec;

use crate::failure::{Failure, Result};
use crate::handle::{Kind, Object, Table};
use crate::port::{Port, PortBinding};
use crate::status::POLYCHIP_ERROR_BAD_INPUT;
use crate::tensor::Tensor;
use crate::text::c_text;

/// Tensors of a run that are listed on the stack.
const FEW: usize = 8;

/// A session.
pub(crate) struct SessionObject {
    pub(crate) session: Session,
    pub(crate) inputs: Vec<Port>,
    pub(crate) outputs: Vec<Port>,
}

impl SessionObject {
    pub(crate) fn new(session: Session) -> SessionObject {
        let port = |spec: &TensorSpec, is_optional: bool| Port {
            spec: spec.clone(),
            name: c_text(&spec.name),
            is_optional,
        };
        let inputs = session.inputs().map(|spec| port(spec, false));
        let optional = session.optional_inputs().map(|spec| port(spec, true));
        SessionObject {
            inputs: inputs.chain(optional).collect(),
            outputs: session.outputs().map(|spec| port(spec, false)).collect(),
            session,
        }
    }

    /// Number of inputs without a default; they come first.
    pub(crate) fn required(&self) -> usize {
        self.inputs.iter().filter(|port| !port.is_optional).count()
    }

    /// The index of the input or output with this name.
    pub(crate) fn index_of(ports: &[Port], what: &str, name: &str) -> Result<usize> {
        let found = ports.iter().position(|port| port.spec.name == name);
        found.ok_or_else(|| {
            let known: Vec<&str> = ports.iter().map(|port| port.spec.name.as_str()).collect();
            let words = format!(
                "the model has no {what} {name:?}; its {what}s are: {}",
                known.join(", ")
            );
            Failure::new(POLYCHIP_ERROR_BAD_INPUT, words)
        })
    }

    /// The input or output at an index.
    pub(crate) fn port<'a>(ports: &'a [Port], what: &str, index: usize) -> Result<&'a Port> {
        ports.get(index).ok_or_else(|| {
            let words = format!("there is no {what} {index}: the model has {}", ports.len());
            Failure::argument(words)
        })
    }

    fn at<'a>(&'a self, handle: u64, ports: &'a [Port], index: usize) -> PortBinding<'a> {
        PortBinding {
            handle,
            session: &self.session,
            port: &ports[index],
            index,
            is_there: SessionObject::is_there,
        }
    }

    /// The state of an input, as a tensor of its own.
    pub(crate) fn state(&self, input: &str) -> Result<Tensor> {
        let index = SessionObject::index_of(&self.inputs, "input", input)?;
        let (shape, bytes) = self.session.state(input)?;
        Tensor::holding(self.inputs[index].spec.dtype, shape, &bytes)
    }

    /// Sets the state of an input to what a tensor holds.
    pub(crate) fn set_state(&self, input: &str, tensor: &Tensor) -> Result<()> {
        let index = SessionObject::index_of(&self.inputs, "input", input)?;
        tensor.check("input", &self.inputs[index])?;
        Ok(self
            .session
            .set_state(input, &tensor.form.shape, &tensor.bytes()?)?)
    }

    /// Starts a run on these tensors, a handle per input and output in the model's order; 0 where none is given.
    /// `never_waits`: as [`Session::try_submit_with`].
    pub(crate) fn submit(
        &self,
        handle: u64,
        inputs: &[u64],
        outputs: &[u64],
        options: RunOptions,
        never_waits: bool,
    ) -> Result<Run> {
        // those with a default may be left out
        let wanted = self.required().max(inputs.len().min(self.inputs.len()));
        count("input", inputs.len(), wanted)?;
        // none is allowed for short: the run has memory for all of them
        if !outputs.is_empty() {
            count("output", outputs.len(), self.outputs.len())?;
        }
        let mut given: SmallVec<[_; FEW]> = SmallVec::new();
        for (index, tensor) in inputs.iter().enumerate().filter(|(_, tensor)| **tensor != 0) {
            given.push(Tensor::of(*tensor)?.input(&self.at(handle, &self.inputs, index))?);
        }
        let mut taken: SmallVec<[_; 2]> = SmallVec::new();
        for (index, tensor) in outputs.iter().enumerate().filter(|(_, tensor)| **tensor != 0) {
            taken.push(Tensor::of(*tensor)?.output(&self.at(handle, &self.outputs, index))?);
        }
        let read: SmallVec<[_; FEW]> = given.iter().map(|input| &**input).collect();
        let written: SmallVec<[_; FEW]> = taken.iter().map(|output| &**output).collect();
        let run = if never_waits {
            self.session.try_submit_with(&read, &written, options)
        } else {
            self.session.submit_with(&read, &written, options)
        };
        Ok(run?)
    }
}

fn count(what: &str, given: usize, wanted: usize) -> Result<()> {
    if given == wanted {
        return Ok(());
    }
    Err(Failure::argument(format!(
        "{given} {what}s were given, the model has {wanted}: give one handle per {what} in the model's order, 0 for none"
    )))
}

impl Object for SessionObject {
    fn table() -> &'static Table<SessionObject> {
        static TABLE: Table<SessionObject> = Table::new(Kind::Session);
        &TABLE
    }
}

#[cfg(test)]
mod tests;
