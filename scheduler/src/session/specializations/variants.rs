//! Variants of a session for what a run is given beyond its graph: an input with a default, a rank, two sizes of one name.
//!
//! Invariants:
//! 1. A run that needs nothing of it is not delayed: nothing is allocated, and no lock is taken.
//! 2. Each variant is made with its first run, and kept as long as the session.
//!
//! Not here: the model for what is given (`given`), sessions over these shapes (`session::variants`).

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::Shapes;
use crate::error::{Error, ErrorKind, Result};
use crate::given::Given;
use crate::model::Model;
use crate::policy::Policy;
use crate::session::in_flight_limit::InFlightLimit;
use crate::session::io_specs::open_spec;
use crate::session::settings_change::SettingsChange;
use crate::shared::Shared;
use crate::tensor::{Owner as _, TensorSpec};

/// Makes the shapes of a session.
pub(crate) type Make = fn(Arc<InFlightLimit>, Arc<Shared>, &Model, Policy) -> Result<Arc<Shapes>>;

/// One variant.
#[derive(Debug, Default)]
struct Variant {
    /// Held while its shapes are made.
    making: Mutex<()>,
    shapes: OnceLock<Arc<Shapes>>,
}

/// The variants of a session.
#[derive(Debug)]
pub(crate) struct Variants {
    shared: Arc<Shared>,
    model: Model,
    policy: Policy,
    /// Inputs with a default; their indices follow those of the inputs.
    pub(crate) defaults: Vec<TensorSpec>,
    all: Mutex<Vec<(Given, Arc<Variant>)>>,
    /// Changes of settings since, for later variants; held while a variant takes them and is entered.
    changes: Mutex<Vec<SettingsChange>>,
}

impl Variants {
    pub(crate) fn new(shared: &Arc<Shared>, model: &Model, policy: &Policy) -> Variants {
        Variants {
            shared: Arc::clone(shared),
            model: model.clone(),
            policy: policy.clone(),
            defaults: defaults(model),
            all: Mutex::default(),
            changes: Mutex::default(),
        }
    }

    /// The variant for what is given. Only runs that are given the same wait while it is made.
    fn of(&self, given: &Given) -> Arc<Variant> {
        let mut all = lock(&self.all);
        if let Some((_, variant)) = all.iter().find(|(known, _)| known.is_like(given)) {
            return Arc::clone(variant);
        }
        let variant = Arc::<Variant>::default();
        all.push((given.clone(), Arc::clone(&variant)));
        variant
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
            let words = "a session with states takes the inputs of its model alone: in Rust, \
                         Model::with_inputs and Model::bind_shapes make such a model";
            return Err(Error::new(ErrorKind::BadInput, words));
        }
        let variant = variants.of(&given);
        if let Some(shapes) = variant.shapes.get() {
            return Ok(Some(Arc::clone(shapes)));
        }
        let _making = lock(&variant.making);
        if let Some(shapes) = variant.shapes.get() {
            return Ok(Some(Arc::clone(shapes)));
        }
        let model = variants.model.for_given(&given)?;
        let (shared, policy) = (Arc::clone(&variants.shared), variants.policy.clone());
        let shapes = make(Arc::clone(&self.run_limit), shared, &model, policy)?;
        let changes = lock(&variants.changes);
        for change in &*changes {
            shapes.keep(*change);
            for inner in shapes.all() {
                // settings were checked when they were made
                let _ = inner.take(*change);
            }
        }
        // before the changes are unlocked: each later one finds it
        let entered = variant.shapes.get_or_init(|| shapes);
        Ok(Some(Arc::clone(entered)))
    }

    pub(crate) fn reap_variants(&self) {
        let made = self.made_variants();
        made.iter().for_each(|variant| variant.reap_ended());
    }

    /// The variants that are made; without those that are being made.
    pub(super) fn made_variants(&self) -> Vec<Arc<Shapes>> {
        let Some(variants) = &self.variants else {
            return Vec::new();
        };
        let all = lock(&variants.all);
        let shapes = all.iter().filter_map(|(_, variant)| variant.shapes.get());
        shapes.cloned().collect()
    }

    /// Changes a setting of all variants, and of those that are made later.
    pub(crate) fn change_variants(&self, change: SettingsChange) -> std::result::Result<(), &'static str> {
        let Some(variants) = &self.variants else {
            return Ok(());
        };
        // first, so that a variant that is made meanwhile has it too
        change.record_in(&mut lock(&variants.changes));
        for shapes in self.made_variants() {
            shapes.keep(change);
            shapes.all().iter().try_for_each(|inner| inner.take(change))?;
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The inputs of a model that have a default.
fn defaults(model: &Model) -> Vec<TensorSpec> {
    let defaults = model.graph().defaults.iter();
    // a model that was not read from a file cannot be read again
    let is_readable = model.source().is_some();
    defaults.filter(|_| is_readable).map(open_spec).collect()
}
