//! Runs that are given more than the session's graph takes: they go to a session of their own.
//!
//! Invariant: inputs and outputs of a run belong to the session that the app holds; a variant uses their memory.
//!
//! Not here: which variants there are (`specializations::variants`).

use std::sync::Arc;

use super::ahead::Waits;
use super::in_flight_limit::InFlightLimit;
use super::specializations::Shapes;
use super::{Session, next_id};
use crate::error::Result;
use crate::model::Model;
use crate::planned::Planned;
use crate::policy::Policy;
use crate::run::{Run, RunOptions};
use crate::shared::Shared;
use crate::tensor::{Input, Output, TensorSpec};

/// The shapes of a new session, whose runs count with those of the one that the app holds.
fn made(
    run_limit: Arc<InFlightLimit>,
    shared: Arc<Shared>,
    model: &Model,
    policy: Policy,
) -> Result<Arc<Shapes>> {
    if model.open_dims().is_empty() {
        let planned = Planned::new(&shared, model, &policy, &|_| {})?;
        return Ok(Session::within(run_limit, shared, planned, policy)?.0);
    }
    Shapes::open(next_id(), run_limit, shared, model, policy).map(Arc::new)
}

impl Session {
    /// Inputs that have a default. A run may leave them out.
    pub fn optional_inputs(&self) -> impl ExactSizeIterator<Item = &TensorSpec> {
        self.0.defaults().iter()
    }

    /// The specification of an input, or of one that has a default.
    ///
    /// # Errors
    /// The model has no such input.
    pub fn input_spec(&self, name: &str) -> Result<&TensorSpec> {
        Ok(self.0.input_spec(self.input_index(name)?))
    }

    /// Plans, compiles and loads for inputs of these shapes, or for their bucket, ahead of the first run.
    /// Does nothing without open sizes. For strings, give the shape of the strings, not of the packed bytes.
    ///
    /// # Errors
    /// The model has no such input, a shape does not fit it, an open size is missing, or as for
    /// [`Runtime::session`](crate::Runtime::session).
    pub fn prepare<N: AsRef<str>, S: AsRef<[usize]>>(
        &self,
        shapes: impl IntoIterator<Item = (N, S)>,
    ) -> Result<()> {
        let shapes: Vec<(N, S)> = shapes.into_iter().collect();
        let mut indices = Vec::with_capacity(shapes.len());
        for (name, shape) in &shapes {
            indices.push((self.input_index(name.as_ref())?, shape.as_ref()));
        }
        match self.variant_for(&indices)? {
            Some(variant) => variant.prepare(shapes),
            None => self.0.prepare(&indices).map(drop),
        }
    }

    /// The outputs of a run on inputs of these shapes. The call first plans for these shapes if
    /// necessary. All sizes are known except those that depend on values. An output is `None`, and
    /// cannot be bound, if no run writes it (a constant, an input passed through, a duplicate of
    /// another output).
    ///
    /// # Errors
    /// As for [`Session::prepare`].
    pub fn outputs_for<N: AsRef<str>, S: AsRef<[usize]>>(
        &self,
        shapes: impl IntoIterator<Item = (N, S)>,
    ) -> Result<Vec<Option<TensorSpec>>> {
        let shapes: Vec<(N, S)> = shapes.into_iter().collect();
        let mut indices = Vec::with_capacity(shapes.len());
        for (name, shape) in &shapes {
            indices.push((self.input_index(name.as_ref())?, shape.as_ref()));
        }
        match self.variant_for(&indices)? {
            Some(variant) => variant.outputs_for(shapes),
            None => self.0.outputs_for(&indices),
        }
    }

    /// Submits a run with the inputs and outputs of another session of the model.
    pub(super) fn submit_for(
        &self,
        inputs: &[&Input],
        outputs: &[&Output],
        options: RunOptions,
        waits: Waits,
        reap: &dyn Fn(),
    ) -> Result<Run> {
        let inputs: Vec<Input> = inputs
            .iter()
            .map(|input| {
                Ok(Input {
                    index: self.input_index(input.name())?,
                    session: self.0.id,
                    owner: input.owner.clone(),
                    memory: Arc::clone(&input.memory),
                    spec: input.spec.clone(),
                    sized: input.sized,
                })
            })
            .collect::<Result<_>>()?;
        let outputs: Vec<Output> = outputs
            .iter()
            .map(|output| {
                Ok(Output {
                    index: self.output_index(output.name())?,
                    session: self.0.id,
                    owner: output.owner.clone(),
                    memory: Arc::clone(&output.memory),
                    spec: output.spec.clone(),
                })
            })
            .collect::<Result<_>>()?;
        let inputs: Vec<&Input> = inputs.iter().collect();
        let outputs: Vec<&Output> = outputs.iter().collect();
        self.submit_and(&inputs, &outputs, options, waits, reap)
    }

    /// The session that runs on inputs of these shapes, by name.
    pub(super) fn variant_for(&self, shapes: &[(usize, &[usize])]) -> Result<Option<Session>> {
        self.variant(shapes.iter().copied())
    }

    /// As [`Session::variant`], if it is made; the inner `None` is one that is not.
    pub(super) fn made_variant<'a>(
        &self,
        shapes: impl Iterator<Item = (usize, &'a [usize])> + Clone,
    ) -> Result<Option<Option<Session>>> {
        Ok(self.0.made_variant(shapes)?.map(|made| made.map(Session)))
    }

    /// The session that runs on inputs of these shapes, where it is not this one.
    pub(super) fn variant<'a>(
        &self,
        shapes: impl Iterator<Item = (usize, &'a [usize])> + Clone,
    ) -> Result<Option<Session>> {
        Ok(self.0.variant(shapes, made)?.map(Session))
    }
}
