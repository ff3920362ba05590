//! Compiling and loading: options, blobs and their sources.

use std::sync::Arc;

use polychip_abi as abi;

use crate::{Constant, Error, GraphView, Layout, Result};

/// Precision of the computation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Precision {
    /// In the precision that the model states.
    #[default]
    Exact = abi::POLYCHIP_PRECISION_EXACT,
    /// f32 may be computed in a 16-bit float type.
    Reduced = abi::POLYCHIP_PRECISION_REDUCED,
}

/// A layout that the host requests for a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortRequest {
    /// Port number: inputs first, then outputs.
    pub port: u32,
    /// Requested layout.
    pub layout: Layout,
}

/// Options of a compilation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompileOptions {
    /// Precision of the computation.
    pub precision: Precision,
    /// Threads that the part may use on a CPU; 0: the plugin chooses.
    pub threads: u32,
    /// Operating point to compile for.
    pub operating_point: Option<u32>,
    /// Layouts requested at ports; a port that is not listed is row-major.
    pub ports: Vec<PortRequest>,
    /// The blob's bytes may omit what `load` makes again from the part's constants.
    pub lean_blob: bool,
}

/// A compiled part.
pub trait Blob: Send + Sync + Sized + 'static {
    /// Its bytes, for a cache; they may be made on the first call.
    ///
    /// # Errors
    /// They cannot be made.
    fn bytes(&self) -> Result<&[u8]>;
}

/// Bytes are a blob.
impl Blob for Vec<u8> {
    fn bytes(&self) -> Result<&[u8]> {
        Ok(self)
    }
}

/// Source of an executable.
pub enum LoadedFrom<B> {
    /// A blob just compiled by this instance. `load` may keep its memory.
    Blob(B),
    /// Bytes of a cached blob, valid as long as the executable.
    Bytes(Constant),
}

/// Arguments of [`crate::Device::load`].
pub struct LoadSource<'a, B> {
    /// The blob.
    pub from: LoadedFrom<B>,
    /// The part that the blob was compiled from; the executable may point into its constants.
    pub graph: Option<GraphView<'a>>,
    /// Threads that the part may use on a CPU; 0: the plugin chooses.
    pub threads: u32,
}

impl<B: std::ops::Deref<Target = [u8]>> LoadSource<'_, B> {
    /// Returns the part and the blob's bytes, for plugins that cannot load a blob without its part.
    ///
    /// # Errors
    /// The host passed no part.
    pub fn with_part(&self) -> Result<(&GraphView<'_>, &[u8])> {
        let graph = self.graph.as_ref();
        let graph = graph
            .ok_or_else(|| Error::bad_argument("a blob is loaded beside the part it was compiled from"))?;
        let bytes = match &self.from {
            LoadedFrom::Blob(bytes) => bytes,
            LoadedFrom::Bytes(bytes) => Constant::bytes(bytes),
        };
        Ok((graph, bytes))
    }
}

impl<B: Blob> Blob for Arc<B> {
    fn bytes(&self) -> Result<&[u8]> {
        B::bytes(self)
    }
}
