//! One tensor of a graph: its type, and what else is known of it.
//!
//! Invariants:
//! 1. Where `data` is given, every size is known and the byte count fits the type.
//! 2. Where `typed` is false nothing is known: `ty` is then `f32` of unknown rank and means nothing.
//!
//! Not here: who makes and reads it (`Graph::producer`, `Graph::consumers`).

use polychip_ops::{DType, MAX_RANK, PACKED_BYTES, TensorType};

use crate::{Constant, Encoding, Error};

/// What holds the elements.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Container {
    /// A tensor.
    #[default]
    Tensor,
    /// A sequence of tensors of this type.
    Sequence,
    /// A tensor of this type, or nothing.
    Optional,
    /// A sequence of tensors of this type, or nothing.
    OptionalSequence,
    /// Something else (a map, a sparse tensor) that no op of the default domain computes in.
    Other,
}

impl Container {
    /// The name in the text form.
    pub const fn name(self) -> &'static str {
        match self {
            Container::Tensor => "tensor",
            Container::Sequence => "sequence",
            Container::Optional => "optional",
            Container::OptionalSequence => "optional_sequence",
            Container::Other => "other",
        }
    }

    /// Whether it is a sequence or optional, which lies in memory packed ([`polychip_ops::Packed`]).
    pub const fn is_packed(self) -> bool {
        matches!(
            self,
            Container::Sequence | Container::Optional | Container::OptionalSequence
        )
    }

    /// Every container.
    pub const ALL: [Container; 5] = [
        Container::Tensor,
        Container::Sequence,
        Container::Optional,
        Container::OptionalSequence,
        Container::Other,
    ];
}

/// One tensor.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Name in the model; inputs and outputs are found by it.
    pub name: String,
    /// Element type and shape, of the elements of a sequence too.
    pub ty: TensorType,
    /// Whether `ty` says anything: false for outputs of custom ops that the model does not declare.
    pub typed: bool,
    /// The known sizes are upper bounds: the true ones depend on values.
    pub upper_bound: bool,
    /// A tensor, or a sequence or optional of them.
    pub container: Container,
    /// The elements, if this is a constant.
    pub data: Option<Constant>,
    /// How its integers stand for real values.
    pub encoding: Option<Encoding>,
}

impl Tensor {
    /// Whether it has no more axes than any tensor may have.
    pub(crate) fn check_rank(&self) -> Result<(), Error> {
        let axes = self.ty.shape.as_ref().map_or(0, Vec::len);
        if axes > MAX_RANK {
            let name = &self.name;
            let words = format!("tensor \"{name}\" has {axes} axes; at most {MAX_RANK} are supported");
            return Err(Error::invalid(words));
        }
        Ok(())
    }

    /// A tensor of this type.
    pub fn new(name: impl Into<String>, ty: TensorType) -> Tensor {
        Tensor {
            name: name.into(),
            ty,
            typed: true,
            upper_bound: false,
            container: Container::Tensor,
            data: None,
            encoding: None,
        }
    }

    /// A tensor of which nothing is known yet.
    pub fn untyped(name: impl Into<String>) -> Tensor {
        Tensor {
            typed: false,
            ..Tensor::new(name, TensorType::unranked(DType::F32))
        }
    }

    /// A constant.
    pub fn constant(name: impl Into<String>, ty: TensorType, data: Constant) -> Tensor {
        Tensor {
            data: Some(data),
            ..Tensor::new(name, ty)
        }
    }

    /// Whether it lies packed in memory that parts share, because its elements have no place of a known size: a sequence,
    /// an optional, or strings.
    pub fn is_packed(&self) -> bool {
        self.container.is_packed() || self.typed && self.is_tensor() && self.ty.dtype == DType::String
    }

    /// Whether it is a tensor.
    pub fn is_tensor(&self) -> bool {
        self.container == Container::Tensor
    }

    /// Bytes of its memory, upper bounds where they depend on the run; `None` where nothing is known.
    pub fn memory_bytes(&self) -> Option<usize> {
        if self.is_packed() {
            return Some(PACKED_BYTES);
        }
        if !self.typed || !self.is_tensor() {
            return None;
        }
        match self.encoding.as_ref().and_then(Encoding::block_layout) {
            Some(layout) => layout.byte_len(&self.ty.sizes()?),
            None => self.ty.dtype.byte_len(self.ty.elements()?),
        }
    }

    /// Whether its elements are known.
    pub fn is_constant(&self) -> bool {
        self.data.is_some()
    }
}
