//! Variants of a session for what a run is given beyond its graph: an input with a default, a rank, two sizes of one name.
//!
//! Invariants:
//! 1. A run that needs nothing of it is not delayed: nothing is allocated, and no lock is taken.
//! 2. Each variant is made with its first run, and kept as long as the session.
//!
//! Not here: the model for what is given (`given`), sessions over these shapes (`session::variants`).

use std::sync::{Arc, Mutex, PoisonError};

use super::Shapes;
use crate::error::{Error, ErrorKind, Result};
use crate::given::Given;
use crate::model::Model;
use crate::policy::Policy;
use crate::session::io_specs::open_spec;
use crate::shared::Shared;
use crate::tensor::TensorSpec;

/// Makes the shapes of a session.
pub(crate) type Make = fn(Arc<Shared>, &Model, Policy) -> Result<Arc<Shapes>>;

/// The variants of a session.
#[derive(Debug)]
pub(crate) struct Variants {
    shared: Arc<Shared>,
    model: Model,
    policy: Policy,
    /// Inputs with a default; their indices follow those of the inputs.
    pub(crate) defaults: Vec<TensorSpec>,
    made: Mutex<Vec<(Given, Arc<Shapes>)>>,
}

impl Variants {
    pub(crate) fn new(shared: &Arc<Shared>, model: &Model, policy: &Policy) -> Variants {
        Variants {
            shared: Arc::clone(shared),
            model: model.clone(),
            policy: policy.clone(),
            defaults: defaults(model),
            made: Mutex::default(),
        }
    }

    /// The shapes for what is given, made if missing. Others that need them meanwhile wait.
    fn shapes(&self, given: &Given, make: Make) -> Result<Arc<Shapes>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, shapes)) = made.iter().find(|(known, _)| known.is_like(given)) {
            return Ok(Arc::clone(shapes));
        }
        let model = self.model.for_given(given)?;
        let shapes = make(Arc::clone(&self.shared), &model, self.policy.clone())?;
        made.push((given.clone(), Arc::clone(&shapes)));
        Ok(shapes)
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

    /// The shapes of the session that runs on inputs of these shapes, where it is not this one; `make` makes them.
    pub(crate) fn variant<'a>(
        &self,
        shapes: impl Iterator<Item = (usize, &'a [usize])> + Clone,
        make: Make,
    ) -> Result<Option<Arc<Shapes>>> {
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
        variants.shapes(&given, make).map(Some)
    }
}

/// The inputs of a model that have a default.
fn defaults(model: &Model) -> Vec<TensorSpec> {
    let defaults = model.graph().defaults.iter();
    // a model that was not read from a file cannot be read again
    let is_readable = model.source().is_some();
    defaults.filter(|_| is_readable).map(open_spec).collect()
}
