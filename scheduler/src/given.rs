//! What a run is given beyond the inputs that a model declares, and the model read again for it.
//!
//! A model file leaves three things to the caller: whether an input with a default is given, the rank of an input of
//! undeclared shape, and the sizes of dimensions, whose names are hints alone. The graph is imported for one choice of the
//! three; another choice imports it again.
//!
//! Invariant: outputs that were added, and sizes that were bound, stay.

use std::collections::{BTreeMap, BTreeSet};

use polychip_graph::Graph;
use polychip_ops::{DType, Dim};

use crate::error::{Error, ErrorKind, Result};
use crate::model::Model;

/// What is given, in so far as the model's graph does not take it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Given {
    /// Inputs with a default.
    pub(crate) defaults: BTreeSet<String>,
    /// Ranks of inputs of undeclared shape.
    pub(crate) ranks: BTreeMap<String, usize>,
    /// The first dimension name with two sizes, as text.
    pub(crate) clash: Option<String>,
}

impl Given {
    /// What inputs of these shapes need.
    pub(crate) fn of<'a>(graph: &Graph, shapes: impl IntoIterator<Item = (&'a str, &'a [usize])>) -> Given {
        let mut given = Given::default();
        let mut sizes: BTreeMap<String, (usize, &str)> = BTreeMap::new();
        for (name, shape) in shapes {
            let default = graph.defaults.iter().find(|tensor| tensor.name == name);
            if default.is_some() {
                given.defaults.insert(name.to_owned());
            }
            let input = default.or_else(|| graph.input_named(name).map(|id| graph.tensor(id)));
            let Some(tensor) = input.filter(|tensor| tensor.typed && tensor.is_tensor()) else {
                continue;
            };
            let Some(dims) = &tensor.ty.shape else {
                given.ranks.insert(name.to_owned(), shape.len());
                continue;
            };
            // a session has strings packed, in another shape
            let dims = dims.iter().filter(|_| tensor.ty.dtype != DType::String);
            for (dim, &size) in dims.zip(shape) {
                let Dim::Symbol(symbol) = dim else { continue };
                let (before, by) = *sizes.entry(symbol.to_string()).or_insert((size, name));
                if before != size && given.clash.is_none() {
                    given.clash = Some(format!(
                        "dimension {symbol:?} is {before} in input {by:?} and {size} in input {name:?}"
                    ));
                }
            }
        }
        given
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.defaults.is_empty() && self.ranks.is_empty() && self.clash.is_none()
    }

    /// Whether both need the same graph.
    pub(crate) fn is_like(&self, other: &Given) -> bool {
        self.defaults == other.defaults
            && self.ranks == other.ranks
            && self.clash.is_some() == other.clash.is_some()
    }
}

impl Model {
    /// The model with the open dimensions set from these input shapes; other inputs keep their
    /// shapes. If two inputs give one dimension name two sizes, the shapes decide, and a warning is
    /// printed. An input with a default becomes a required input.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), polychip::Error> {
    /// # let runtime = polychip::Runtime::builder().build()?;
    /// let model = runtime.load("recogniser.onnx")?.bind_shapes([("x", &[1, 3, 48, 192])])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The model has no such input, a shape does not fit it, or a size breaks a shape rule.
    pub fn bind_shapes<N: AsRef<str>, S: AsRef<[usize]>>(
        &self,
        shapes: impl IntoIterator<Item = (N, S)>,
    ) -> Result<Model> {
        let shapes: Vec<(N, S)> = shapes.into_iter().collect();
        let shapes = || shapes.iter().map(|(name, shape)| (name.as_ref(), shape.as_ref()));
        let model = self.for_given(&Given::of(self.graph(), shapes()))?;
        let sizes = polychip_graph::sizes_of(model.graph(), shapes())
            .map_err(|error| Error::caused(ErrorKind::BadInput, self.path().display(), error))?;
        model.bind(sizes)
    }

    /// The sizes of this model for the names of another one's dimensions; `None` where a name has two.
    fn bound_sizes(&self, other: &Model) -> Option<BTreeMap<String, usize>> {
        let (before, graph) = (self.graph(), other.graph());
        let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
        for id in &before.inputs {
            let old = before.tensor(*id);
            let Some(new) = graph.input_named(&old.name) else {
                continue;
            };
            let dims = graph.tensor(new).ty.shape.iter().flatten();
            for (dim, bound) in dims.zip(old.ty.shape.iter().flatten()) {
                if let (Dim::Symbol(name), Dim::Known(size)) = (dim, bound)
                    && *sizes.entry(name.to_string()).or_insert(*size) != *size
                {
                    return None;
                }
            }
        }
        Some(sizes)
    }

    /// Inputs that have a default, which a run may be given or not.
    pub(crate) fn has_defaults(&self) -> bool {
        !self.graph().defaults.is_empty()
    }

    /// Whether an input's rank is the one of what is given.
    pub(crate) fn has_open_rank(&self) -> bool {
        let graph = self.graph();
        let is_open =
            |tensor: &polychip_graph::Tensor| tensor.typed && tensor.is_tensor() && tensor.ty.shape.is_none();
        graph.inputs.iter().any(|id| is_open(graph.tensor(*id)))
    }

    /// The model with these inputs, which have a default, as required inputs of every run.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), polychip::Error> {
    /// # let runtime = polychip::Runtime::builder().build()?;
    /// let model = runtime.load("net.onnx")?.with_inputs(["scale"])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The model has no such input, or was not read from a file.
    pub fn with_inputs<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> Result<Model> {
        let mut given = Given::default();
        for name in names {
            let name = name.as_ref();
            if self.graph().input_named(name).is_some() {
                continue;
            }
            if !self.graph().defaults.iter().any(|tensor| tensor.name == name) {
                let words = format!("{}: no input {name:?} with a default", self.path().display());
                return Err(Error::new(ErrorKind::BadInput, words));
            }
            given.defaults.insert(name.to_owned());
        }
        self.for_given(&given)
    }

    /// The model for what is given; itself where nothing is.
    pub(crate) fn for_given(&self, given: &Given) -> Result<Model> {
        if given.is_empty() {
            return Ok(self.clone());
        }
        let mut model = self.with_given(given)?;
        if let Some(clash) = &given.clash {
            tracing::warn!(
                "{}: {clash}; names of dimensions are only hints, so the given shapes decide",
                self.path().display()
            );
            let mut graph = model.graph().clone();
            polychip_graph::unlink_dims(&mut graph)
                .map_err(|error| Error::caused(ErrorKind::BadInput, self.path().display(), error))?;
            model = model.changed(graph);
        }
        Ok(model)
    }

    /// The model read again with inputs that have a default, and with ranks.
    fn with_given(&self, given: &Given) -> Result<Model> {
        if given.defaults.is_empty() && given.ranks.is_empty() {
            return Ok(self.clone());
        }
        let Some(mut options) = self.source() else {
            let path = self.path().display();
            let words = match given.ranks.keys().next() {
                Some(name) => format!("{path}: input {name:?} has no known rank"),
                None => format!("{path}: its inputs with a default are constants"),
            };
            return Err(Error::new(ErrorKind::BadInput, words));
        };
        options.given.extend(given.defaults.iter().cloned());
        options
            .ranks
            .extend(given.ranks.iter().map(|(name, rank)| (name.clone(), *rank)));
        let mut model = self.reread(options)?;
        if self.bound_sizes(&model).is_none() {
            // a name had two sizes, so each axis has its own
            let mut graph = model.graph().clone();
            polychip_graph::unlink_dims(&mut graph)
                .map_err(|error| Error::caused(ErrorKind::BadInput, self.path().display(), error))?;
            model = model.changed(graph);
        }
        let sizes = self.bound_sizes(&model).unwrap_or_default();
        let (before, graph) = (self.graph(), model.graph());
        let known: BTreeSet<&str> = graph.outputs.iter().map(|id| &*graph.tensor(*id).name).collect();
        let added = before.outputs.iter().map(|id| &*before.tensor(*id).name);
        let added: Vec<&str> = added.filter(|name| !known.contains(name)).collect();
        let model = if added.is_empty() {
            model
        } else {
            model.with_outputs(added)?
        };
        model.bind(sizes)
    }
}
