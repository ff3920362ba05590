//! Variants of a session for what a run is given beyond its graph: an input with a default, a rank, two sizes of one name.
//!
//! Invariants:
//! 1. A run that needs nothing of it is not delayed: nothing is allocated, and no lock is taken.
//! 2. Each variant is made with its first run, and kept as long as the session.
//!
//! Not here: the model for what is given (`given`), sessions over these shapes (`session::variants`).

use std::sync::Arc;

use super::Shapes;
use super::variant_table::{Variants, lock};
use crate::error::{Error, ErrorKind, Result};
use crate::given::Given;
use crate::model::Model;
use crate::policy::Policy;
use crate::session::in_flight_limit::InFlightLimit;
use crate::session::settings_change::SettingsChange;
use crate::shared::Shared;
use crate::tensor::{Owner as _, TensorSpec};

/// Makes the shapes of a session.
pub(crate) type Make = fn(Arc<InFlightLimit>, Arc<Shared>, &Model, Policy) -> Result<Arc<Shapes>>;

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
        let Some((variants, given)) = self.given(shapes)? else {
            return Ok(None);
        };
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

    /// As [`Shapes::variant`], if it is made; the inner `None` is one that is not.
    pub(crate) fn made_variant<'a>(
        &self,
        shapes: impl Iterator<Item = (usize, &'a [usize])> + Clone,
    ) -> Result<Option<Option<Arc<Shapes>>>> {
        let given = self.given(shapes)?;
        Ok(given.map(|(variants, given)| variants.of(&given).shapes.get().cloned()))
    }

    /// What a run on inputs of these shapes is given beyond the session's graph, if anything.
    fn given<'a>(
        &self,
        shapes: impl Iterator<Item = (usize, &'a [usize])> + Clone,
    ) -> Result<Option<(&Variants<Shapes>, Given)>> {
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
        Ok(Some((variants, given)))
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
