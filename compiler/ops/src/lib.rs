//! The vocabulary of Polychip: ops, attributes, element types, and shape functions over plain shapes.
//!
//! Invariants:
//! 1. There is one op table; arities, defaults and dtype rules are read from it alone.
//! 2. Nothing here knows a graph or a device; shape functions serve at import and at run time.
//! 3. Bad input is an [`InferError`], never a panic and never a wrong shape.
//!
//! Not here: graphs and bodies (`graph`), numbers of tensors (`cpu-kernels`).
//! Start reading at [`infer()`], [`OpSpec`] and [`Operator`], an op with its attributes decoded.
//!
//! ```
//! use polychip_ops::{Attr, Attributes, DType, InferInput, Op, TensorType, infer};
//!
//! let image = TensorType::known(DType::F32, &[1, 3, 224, 224]);
//! let weights = TensorType::known(DType::F32, &[32, 3, 3, 3]);
//! let inputs = [&image, &weights].map(|ty| Some(InferInput { ty, value: None }));
//! let attributes = Attributes::new()
//!     .with_ints(Attr::Strides, &[2, 2])
//!     .with_ints(Attr::Pads, &[1, 1, 1, 1]);
//! let outputs = infer(Op::Conv, &attributes, &inputs, 1)?;
//! assert_eq!(outputs[0].ty.to_string(), "f32[1, 32, 112, 112]");
//!
//! let error = infer(Op::Conv, &attributes, &inputs[..1], 1).unwrap_err();
//! assert_eq!(error.to_string(), "Conv: has 1 inputs, takes 2 to 3");
//! # Ok::<(), polychip_ops::InferError>(())
//! ```

#![forbid(unsafe_code)]

mod attr;
mod attributes;
pub mod axis;
pub mod block;
pub mod broadcast;
mod class;
mod dim;
mod dtype;
mod error;
pub mod geometry;
pub mod infer;
mod literal;
mod op;
pub mod operator;
mod packed;
mod spec;
mod table;
mod value;

pub use attr::Attr;
pub use attributes::{AttrKey, AttrValue, Attributes};
pub use block::BlockLayout;
pub use class::OpClass;
pub use dim::{Dim, MAX_RANK, TensorType};
pub use dtype::{DType, DTypes};
pub use error::{ErrorKind, InferError};
pub use infer::{InferInput, Inferred, infer};
pub use literal::Literal;
pub use op::Op;
pub use operator::Operator;
pub use packed::{PACKED_BYTES, Packed, UNBOUNDED_BYTES};
pub use spec::{AttrDefault, AttrKind, AttrSpec, Forms, OpSpec, Port, PortKind, TypeVar, Types};
pub use table::OpGroup;
pub use value::{Element, Value};
