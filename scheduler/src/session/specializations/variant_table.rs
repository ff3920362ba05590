//! The variants of a session by what they are given.
//!
//! Invariant: each is made with its first run, and kept as long as the session.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::given::Given;
use crate::model::Model;
use crate::policy::Policy;
use crate::session::io_specs::open_spec;
use crate::session::settings_change::SettingsChange;
use crate::shared::Shared;
use crate::tensor::TensorSpec;

/// One variant.
#[derive(Debug)]
pub(super) struct Variant<S> {
    /// Held while its shapes are made.
    pub(super) making: Mutex<()>,
    pub(super) shapes: OnceLock<Arc<S>>,
}

/// The variants of a session.
#[derive(Debug)]
pub(crate) struct Variants<S> {
    pub(super) shared: Arc<Shared>,
    pub(super) model: Model,
    pub(super) policy: Policy,
    /// Inputs with a default; their indices follow those of the inputs.
    pub(crate) defaults: Vec<TensorSpec>,
    pub(super) all: Mutex<Vec<(Given, Arc<Variant<S>>)>>,
    /// Changes of settings since, for later variants; held while a variant takes them and is entered.
    pub(super) changes: Mutex<Vec<SettingsChange>>,
}

impl<S> Variants<S> {
    pub(crate) fn new(shared: &Arc<Shared>, model: &Model, policy: &Policy) -> Variants<S> {
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
    pub(super) fn of(&self, given: &Given) -> Arc<Variant<S>> {
        let mut all = lock(&self.all);
        if let Some((_, variant)) = all.iter().find(|(known, _)| known.is_like(given)) {
            return Arc::clone(variant);
        }
        let variant = Arc::new(Variant {
            making: Mutex::default(),
            shapes: OnceLock::new(),
        });
        all.push((given.clone(), Arc::clone(&variant)));
        variant
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The inputs of a model that have a default.
pub(super) fn defaults(model: &Model) -> Vec<TensorSpec> {
    let defaults = model.graph().defaults.iter();
    // a model that was not read from a file cannot be read again
    let is_readable = model.source().is_some();
    defaults.filter(|_| is_readable).map(open_spec).collect()
}
