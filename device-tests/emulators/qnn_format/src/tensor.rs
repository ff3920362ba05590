//! One tensor of a graph.
//!
//! Invariant: `data` of a static tensor holds exactly its elements ([`Tensor::byte_len`]); that of others is empty.

use std::sync::Arc;

use crate::{Dtype, Encoding};

/// Role of a tensor in its graph, by its code in the C API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Kind {
    /// An input of the graph.
    AppWrite = 0,
    /// An output of the graph.
    AppRead = 1,
    /// Both.
    AppReadWrite = 2,
    /// Between nodes.
    Native = 3,
    /// Constant.
    Static = 4,
    /// Absent.
    Null = 5,
}

impl Kind {
    /// The kind of this code.
    #[must_use]
    pub fn from_code(code: u32) -> Option<Kind> {
        [
            Kind::AppWrite,
            Kind::AppRead,
            Kind::AppReadWrite,
            Kind::Native,
            Kind::Static,
            Kind::Null,
        ]
        .into_iter()
        .find(|kind| *kind as u32 == code)
    }

    /// Whether the app gives its values at each execute.
    #[must_use]
    pub fn is_input(self) -> bool {
        matches!(self, Kind::AppWrite | Kind::AppReadWrite)
    }

    /// Whether the app takes its values at each execute.
    #[must_use]
    pub fn is_output(self) -> bool {
        matches!(self, Kind::AppRead | Kind::AppReadWrite)
    }
}

/// One tensor.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    /// Given by `createGraphTensor`; 0 before.
    pub id: u32,
    /// The client's name.
    pub name: String,
    /// Its role in the graph.
    pub kind: Kind,
    /// The memory layout's code; only kept.
    pub format: u32,
    /// The code of its element type; one that [`Dtype`] does not know is kept too.
    pub dtype: u32,
    /// Its encoding.
    pub encoding: Encoding,
    /// Its sizes, outermost first.
    pub dims: Vec<u32>,
    /// The values of a static tensor.
    pub data: Arc<[u8]>,
}

impl Tensor {
    /// The element type, if it is known.
    #[must_use]
    pub fn known_dtype(&self) -> Option<Dtype> {
        Dtype::from_code(self.dtype)
    }

    /// Number of elements.
    #[must_use]
    pub fn elements(&self) -> Option<usize> {
        self.dims.iter().try_fold(1usize, |product, &dim| {
            product.checked_mul(usize::try_from(dim).ok()?)
        })
    }

    /// Bytes of all elements.
    #[must_use]
    pub fn byte_len(&self) -> Option<usize> {
        self.known_dtype()?.bytes(self.elements()?)
    }

    /// The sizes as `usize`.
    #[must_use]
    pub fn shape(&self) -> Vec<usize> {
        self.dims.iter().map(|&dim| dim as usize).collect()
    }
}
