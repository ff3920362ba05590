//! Between the ops' vocabulary ([`DType`], [`Literal`]) and the reference kernels' ([`Element`], [`Tensor`]).
//!
//! Invariant: both number element types as ONNX does, so that each maps to exactly one.

use polychip_cpu_kernels::reference::{Element, Error, Result, Tensor};
use polychip_ops::{DType, Literal};

/// The reference kernels' name of an element type.
///
/// # Panics
/// Never: both lists hold the same codes (a test says so).
#[must_use]
pub fn element(dtype: DType) -> Element {
    Element::from_code(dtype.code()).expect("invariant: the two lists of element types agree")
}

/// The ops' name of an element type.
///
/// # Panics
/// Never: both lists hold the same codes (a test says so).
#[must_use]
pub fn dtype(element: Element) -> DType {
    DType::from_code(element.code()).expect("invariant: the two lists of element types agree")
}

/// The tensor that a literal describes.
///
/// # Errors
/// If its bytes do not fit its type and shape.
pub fn tensor_from_literal(literal: &Literal) -> Result<Tensor> {
    Tensor::from_bytes(element(literal.dtype), literal.shape.clone(), &literal.bytes)
}

/// The literal that holds a tensor.
///
/// # Errors
/// If the tensor's bytes do not make a literal: a string longer than 4 GiB.
pub fn tensor_to_literal(tensor: &Tensor) -> Result<Literal> {
    Literal::new(
        dtype(tensor.element()),
        tensor.shape().to_vec(),
        tensor.to_bytes(),
    )
    .ok_or_else(|| Error::new("the tensor does not fit a literal"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_types_agree() {
        for e in Element::ALL {
            assert_eq!(element(dtype(e)), e);
            assert_eq!(dtype(e).bits(), e.bits());
        }
        for d in DType::ALL {
            assert_eq!(dtype(element(d)), d);
        }
    }

    #[test]
    fn literals_round_trip() {
        let text = Literal::from_strings(&["a", "", "été"]).unwrap();
        let tensor = tensor_from_literal(&text).unwrap();
        assert_eq!(tensor.strings().unwrap(), ["a", "", "été"]);
        assert_eq!(tensor_to_literal(&tensor).unwrap(), text);
        let ints = Literal::i64s(&[1, -2]);
        assert_eq!(
            tensor_to_literal(&tensor_from_literal(&ints).unwrap()).unwrap(),
            ints
        );
    }
}
