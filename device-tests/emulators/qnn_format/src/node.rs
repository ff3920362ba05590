//! Nodes and graphs.
//!
//! Invariant: inputs and outputs of a node are tensor ids of its graph; 0 is an absent optional one.

use crate::{Dtype, Tensor};

/// A single value of a parameter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scalar {
    /// The code of its type.
    pub dtype: u32,
    /// Its bits, low bytes first.
    pub bits: u64,
}

impl Scalar {
    /// The value as a float.
    #[must_use]
    pub fn float(self) -> Option<f64> {
        match Dtype::from_code(self.dtype)? {
            Dtype::Float32 => Some(f64::from(f32::from_bits(self.bits as u32))),
            Dtype::Float64 => Some(f64::from_bits(self.bits)),
            _ => self.int().map(|value| value as f64),
        }
    }

    /// The value as an integer; none for a float.
    #[must_use]
    pub fn int(self) -> Option<i64> {
        match Dtype::from_code(self.dtype)? {
            Dtype::Int8 | Dtype::Sfixed8 => Some((self.bits as i8).into()),
            Dtype::Int16 | Dtype::Sfixed16 => Some((self.bits as i16).into()),
            Dtype::Int32 | Dtype::Sfixed32 => Some((self.bits as i32).into()),
            Dtype::Int64 => Some(self.bits as i64),
            Dtype::Uint8 | Dtype::Ufixed8 | Dtype::Bool8 => Some((self.bits as u8).into()),
            Dtype::Uint16 | Dtype::Ufixed16 => Some((self.bits as u16).into()),
            Dtype::Uint32 | Dtype::Ufixed32 => Some((self.bits as u32).into()),
            Dtype::Uint64 => i64::try_from(self.bits).ok(),
            _ => None,
        }
    }
}

/// A parameter of a node.
#[derive(Clone, PartialEq, Debug)]
pub enum Param {
    /// A single value.
    Scalar(Scalar),
    /// A static tensor, with its values if the client set them.
    Tensor(Tensor),
}

/// One node.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// The client's name.
    pub name: String,
    /// The op package.
    pub package: String,
    /// The op type.
    pub op: String,
    /// Parameters by name, in the client's order.
    pub params: Vec<(String, Param)>,
    /// Ids of the inputs.
    pub inputs: Vec<u32>,
    /// Ids of the outputs.
    pub outputs: Vec<u32>,
}

/// One graph.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Graph {
    /// The client's name.
    pub name: String,
    /// Tensors in the order of their ids.
    pub tensors: Vec<Tensor>,
    /// Nodes in the order in which they were added.
    pub nodes: Vec<Node>,
    /// Floats are computed in 16 bits, even on a SoC that has 32.
    pub half: bool,
}

impl Graph {
    /// The tensor of this id.
    #[must_use]
    pub fn tensor(&self, id: u32) -> Option<&Tensor> {
        self.tensors
            .binary_search_by_key(&id, |tensor| tensor.id)
            .ok()
            .map(|index| &self.tensors[index])
    }

    /// The tensors that the app gives at each execute.
    pub fn inputs(&self) -> impl Iterator<Item = &Tensor> {
        self.tensors.iter().filter(|tensor| tensor.kind.is_input())
    }

    /// The tensors that the app takes at each execute.
    pub fn outputs(&self) -> impl Iterator<Item = &Tensor> {
        self.tensors.iter().filter(|tensor| tensor.kind.is_output())
    }
}
