//! A model in canonical form, with its weights still in the mapped file.
//!
//! Invariants:
//! 1. Sessions of one model share its graph and weights.
//! 2. Binding a dimension makes a new model; the old one stays as it is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use polychip_graph::{Graph, onnx};
use polychip_host::ModelFolder;

use crate::error::{Error, ErrorKind, Result};

/// A model, ready to be planned. Clones share it.
#[derive(Debug, Clone)]
pub struct Model(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    graph: Graph,
    /// None where the graph was made here.
    files: Option<Arc<ModelFolder>>,
}

impl Model {
    pub(crate) fn load(path: &Path) -> Result<Model> {
        let files = Arc::new(ModelFolder::open(path).map_err(|error| Error::file(path, error))?);
        let graph = onnx::import(files.bytes(), &*files, &onnx::Options::default())
            .map_err(|error| bad_model(path, error))?;
        Ok(Model(Arc::new(Inner {
            path: path.to_owned(),
            graph,
            files: Some(files),
        })))
    }

    /// A graph made here, as a model of this name; it holds its constants itself.
    pub(crate) fn made(name: &str, graph: Graph) -> Model {
        Model(Arc::new(Inner {
            path: PathBuf::from(name),
            graph,
            files: None,
        }))
    }

    /// The file that the model was read from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The graph as imported: one opset, shapes inferred, nothing optimised.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.0.graph
    }

    /// What the file says of itself: versions, maker, metadata.
    ///
    /// # Errors
    /// The file is no ONNX model any more.
    pub fn header(&self) -> Result<onnx::Header> {
        let bytes = self.0.files.as_ref().map(|files| files.bytes());
        onnx::read_header(bytes.unwrap_or_default()).map_err(|error| self.bad(error))
    }

    /// Names of the dimensions that have no size yet.
    #[must_use]
    pub fn open_dims(&self) -> Vec<String> {
        polychip_graph::dim_names(&self.0.graph)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    /// The model with sizes for named dimensions.
    ///
    /// # Errors
    /// The model has no such dimension, or a size breaks a shape rule.
    pub fn bind<S: Into<String>>(&self, dims: impl IntoIterator<Item = (S, usize)>) -> Result<Model> {
        let dims: BTreeMap<String, usize> =
            dims.into_iter().map(|(name, size)| (name.into(), size)).collect();
        if dims.is_empty() {
            return Ok(self.clone());
        }
        let mut graph = self.0.graph.clone();
        polychip_graph::bind_dims(&mut graph, &dims)
            .map_err(|error| Error::caused(ErrorKind::BadInput, self.0.path.display(), error))?;
        Ok(Model(Arc::new(Inner {
            path: self.0.path.clone(),
            graph,
            files: self.0.files.clone(),
        })))
    }

    /// Descriptors of the model's files, for devices that map them.
    pub(crate) fn descriptors(&self, graph: &Graph) -> Vec<i64> {
        let files = self.0.files.as_ref();
        files.map_or_else(Vec::new, |files| files.descriptors(&graph.files))
    }

    /// An error about this model.
    pub(crate) fn bad(&self, error: polychip_graph::Error) -> Error {
        bad_model(&self.0.path, error)
    }
}

fn bad_model(path: &Path, error: polychip_graph::Error) -> Error {
    Error::caused(ErrorKind::BadModel, path.display(), error)
}
