//! Sessions of a model for what a run is given beyond its graph: an input with a default, a rank, two sizes of one name.
//!
//! Invariants:
//! 1. A run that needs nothing of it is not delayed: nothing is allocated, and no lock is taken.
//! 2. Each variant is a session of its own, made with its first run, and kept as long as the session.
//! 3. Inputs and outputs of a run belong to the session that the app holds; a variant uses their memory.
//!
//! Not here: the model for what is given (`given`).

use std::sync::{Arc, Mutex, PoisonError};

use super::specializations::Shapes;
use super::{Session, owner};
use crate::error::{Error, ErrorKind, Result};
use crate::given::Given;
use crate::model::Model;
use crate::planned::Planned;
use crate::policy::Policy;
use crate::run::{Run, RunOptions};
use crate::shared::Shared;
use crate::tensor::{Input, Output, TensorSpec};

/// The variants of a session.
#[derive(Debug)]
pub(crate) struct Variants {
    shared: Arc<Shared>,
    model: Model,
    policy: Policy,
    /// Inputs with a default; their indices follow those of the inputs.
    pub(crate) defaults: Vec<TensorSpec>,
    made: Mutex<Vec<(Given, Session)>>,
}

impl Variants {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        model: &Model,
        policy: &Policy,
        defaults: Vec<TensorSpec>,
    ) -> Variants {
        Variants {
            shared: Arc::clone(shared),
            model: model.clone(),
            policy: policy.clone(),
            defaults,
            made: Mutex::default(),
        }
    }

    /// The session for what is given, made if missing. Others that need one meanwhile wait.
    fn session(&self, given: &Given) -> Result<Session> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, session)) = made.iter().find(|(known, _)| known.is_like(given)) {
            return Ok(session.clone());
        }
        let model = self.model.for_given(given)?;
        let (shared, policy) = (Arc::clone(&self.shared), self.policy.clone());
        let session = if model.open_dims().is_empty() {
            let planned = Planned::new(&shared, &model, &policy, &|_| {})?;
            Session::new(shared, planned, policy)?
        } else {
            Session::open(shared, &model, policy)?
        };
        made.push((given.clone(), session.clone()));
        Ok(session)
    }
}

impl Shapes {
    /// The specification of an input, or of one with a default.
    pub(crate) fn input_spec(&self, index: usize) -> &TensorSpec {
        match self.inputs.get(index) {
            Some(spec) => spec,
            None => &self.defaults()[index - self.inputs.len()],
        }
    }

    pub(crate) fn defaults(&self) -> &[TensorSpec] {
        self.variants.as_ref().map_or(&[], |variants| &variants.defaults)
    }

    /// The session that runs on inputs of these shapes, where it is not this one.
    pub(crate) fn variant<'a>(
        &self,
        shapes: impl Iterator<Item = (usize, &'a [usize])> + Clone,
    ) -> Result<Option<Session>> {
        let Some(variants) = &self.variants else {
            return Ok(None);
        };
        let is_given = |index: usize| shapes.clone().any(|(given, _)| given == index);
        let absent = self
            .inputs
            .iter()
            .enumerate()
            .find(|(index, spec)| spec.any_rank && !is_given(*index) && !self.states.has_input(*index));
        if let Some((_, spec)) = absent {
            let words = format!(
                "input {:?} is missing, or has no shape yet; the model leaves its rank open",
                spec.name
            );
            return Err(Error::new(ErrorKind::BadInput, words));
        }
        let is_new =
            |(index, _): (usize, &[usize])| index >= self.inputs.len() || self.inputs[index].any_rank;
        if !shapes.clone().any(is_new) && !self.clashes(shapes.clone()) {
            return Ok(None);
        }
        let shapes = shapes.map(|(index, shape)| (&*self.input_spec(index).name, shape));
        let given = Given::of(variants.model.graph(), shapes);
        if given.is_empty() {
            return Ok(None);
        }
        if !self.states.is_empty() {
            let words = "a session with states takes the inputs of its model alone: give defaults by Model::with_inputs, \
                         ranks and sizes by Model::bind_shapes";
            return Err(Error::new(ErrorKind::BadInput, words));
        }
        variants.session(&given).map(Some)
    }
}

impl Session {
    /// Inputs that have a default: a run may be given them or not.
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

    /// The outputs of a run on inputs of these shapes, which are planned for first if necessary. All sizes
    /// are known except those that depend on values. An output is `None`, and cannot be bound, if no run
    /// writes it (a constant, an input passed through, a duplicate of another output).
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
    ) -> Result<Run> {
        let inputs: Vec<Input> = inputs
            .iter()
            .map(|input| {
                Ok(Input {
                    index: self.input_index(input.name())?,
                    session: self.0.id,
                    owner: owner(&self.0),
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
                    owner: owner(&self.0),
                    memory: Arc::clone(&output.memory),
                    spec: output.spec.clone(),
                })
            })
            .collect::<Result<_>>()?;
        let inputs: Vec<&Input> = inputs.iter().collect();
        let outputs: Vec<&Output> = outputs.iter().collect();
        self.submit_with(&inputs, &outputs, options)
    }

    /// The session that runs on inputs of these shapes, by name.
    pub(super) fn variant_for(&self, shapes: &[(usize, &[usize])]) -> Result<Option<Session>> {
        self.0.variant(shapes.iter().copied())
    }
}
