//! Sequences and optionals: lists of tensors by reference, which pass ports packed into bytes ([`Packed`]).
//!
//! Invariants:
//! 1. A sequence or optional is a `u8` vector here; what follows its own bytes in a larger one is not looked at. A sequence
//!    that an op makes is a list of tensors ([`List`]), whose bytes are made where something reads them.
//! 2. The elements of a sequence are of one element type, whatever its origin.
//!
//! Not here: SequenceMap, which has a body (`control`).

use std::borrow::Cow;
use std::sync::Arc;

use polychip_cpu_kernels::reference::{Element, List, Result, Storage, Tensor, index, shape};
use polychip_ops::operator::{ConcatFromSequence, SplitToSequence};
use polychip_ops::{DType, DTypes, Literal, Op, Packed};

use crate::call::{Call, Outputs, bad, one};
use crate::error::EvaluateError;
use crate::literal::{dtype, element, tensor_from_literal, tensor_to_literal};
use crate::row::{ANY, INDEX, Row};

const BYTES: DTypes = DTypes::of(&[DType::U8]);

pub(crate) fn row(op: Op) -> Option<Row> {
    let (takes, run): (&'static [DTypes], fn(&Call<'_>) -> Outputs) = match op {
        Op::SequenceEmpty => (&[], |_| one(gathered(Vec::new()))),
        Op::SequenceConstruct => (&[ANY], construct),
        Op::SequenceAt => (&[BYTES, INDEX], at),
        Op::SequenceInsert => (&[BYTES, ANY, INDEX], insert),
        Op::SequenceErase => (&[BYTES, INDEX], erase),
        Op::SequenceLength => (&[BYTES], |c| {
            let length = sequence(c.input(0)?)?.tensors.len() as i64;
            one(Tensor::from_i64s(Vec::new(), vec![length]))
        }),
        Op::SplitToSequence => (&[ANY, INDEX], split),
        Op::ConcatFromSequence => (&[BYTES], concat),
        Op::Optional => (&[ANY], optional),
        Op::OptionalHasElement => (&[ANY], has_element),
        Op::OptionalGetElement => (&[ANY], get_element),
        _ => return None,
    };
    Some(Row { takes, run })
}

/// The bytes of a packed value.
pub(crate) fn packed(value: &Packed) -> Result<Tensor> {
    let bytes = value.to_bytes();
    Tensor::from_bytes(Element::U8, vec![bytes.len()], &bytes)
}

/// The value in packed bytes.
fn unpacked(tensor: &Tensor) -> Result<Packed> {
    let value = (tensor.element() == Element::U8).then(|| Packed::from_bytes(&tensor.to_bytes()));
    match value.flatten() {
        Some(value) => Ok(value),
        None => bad("the bytes are no packed sequence or optional"),
    }
}

/// The elements of a sequence, by reference.
pub(crate) fn sequence(tensor: &Tensor) -> Result<Cow<'_, List>> {
    if let Some(list) = tensor.list() {
        return Ok(Cow::Borrowed(list));
    }
    let Packed::Sequence(elements) = unpacked(tensor)? else {
        return bad("a sequence is wanted, the optional holds none");
    };
    let tensors = elements
        .iter()
        .map(|literal| tensor_from_literal(literal).map(Arc::new));
    listed(tensors.collect::<Result<_>>()?).map(Cow::Owned)
}

/// A sequence of tensors, which must be of one element type.
pub(crate) fn gathered(tensors: Vec<Arc<Tensor>>) -> Result<Tensor> {
    listed(tensors).map(Tensor::from_list)
}

fn listed(tensors: Vec<Arc<Tensor>>) -> Result<List> {
    let mut byte_len = Packed::Sequence(Vec::new()).to_bytes().len();
    for tensor in &tensors {
        same_type(&tensors[0], tensor)?;
        byte_len += packed_len(tensor)?;
    }
    Ok(List {
        tensors,
        byte_len,
        pack,
    })
}

fn same_type(one: &Tensor, other: &Tensor) -> Result<()> {
    if one.element() == other.element() {
        return Ok(());
    }
    bad(format!(
        "a sequence of {} cannot hold {}",
        dtype(one.element()),
        dtype(other.element())
    ))
}

/// The bytes that a sequence takes for this element.
fn packed_len(tensor: &Tensor) -> Result<usize> {
    let bytes = match tensor.data() {
        Storage::String(texts) => {
            let mut bytes = 0usize;
            for text in texts {
                if u32::try_from(text.len()).is_err() {
                    return bad("the tensor does not fit a literal");
                }
                bytes += 4 + text.len();
            }
            bytes
        }
        _ => (tensor.len() * tensor.element().bits().unwrap_or(8)).div_ceil(8),
    };
    Ok(16 + 8 * tensor.rank() + bytes.next_multiple_of(8))
}

fn pack(tensors: &[Arc<Tensor>]) -> Vec<u8> {
    let elements = tensors.iter().map(|tensor| tensor_to_literal(tensor));
    let elements: Result<Vec<Literal>> = elements.collect();
    Packed::Sequence(elements.expect("invariant: `packed_len` saw that elements fit literals")).to_bytes()
}

/// Where `position` points in a list in which the places `0..count` are allowed.
fn place(position: i64, length: usize, count: usize) -> Result<usize> {
    let from_start = if position < 0 {
        position.checked_add(length as i64)
    } else {
        Some(position)
    };
    let found = from_start.and_then(|at| usize::try_from(at).ok());
    match found.filter(|&at| at < count) {
        Some(at) => Ok(at),
        None => bad(format!("position {position} in a sequence of {length}")),
    }
}

fn construct(c: &Call<'_>) -> Outputs {
    let elements = c.list(0)?.into_iter();
    one(gathered(
        elements.map(|tensor| Arc::new(tensor.clone())).collect(),
    ))
}

fn at(c: &Call<'_>) -> Outputs {
    let sequence = sequence(c.input(0)?)?;
    let length = sequence.tensors.len();
    let at = place(c.scalar(1)?, length, length)?;
    one(Ok(Tensor::clone(&sequence.tensors[at])))
}

fn insert(c: &Call<'_>) -> Outputs {
    one(inserted(sequence(c.input(0)?)?.into_owned(), c))
}

fn inserted(mut sequence: List, c: &Call<'_>) -> Result<Tensor> {
    let length = sequence.tensors.len();
    let at = match c.optional(2) {
        Some(_) => place(c.scalar(2)?, length, length + 1)?,
        None => length,
    };
    let tensor = c.input(1)?;
    if let Some(first) = sequence.tensors.first() {
        same_type(first, tensor)?;
    }
    sequence.byte_len += packed_len(tensor)?;
    sequence.tensors.insert(at, Arc::new(tensor.clone()));
    Ok(Tensor::from_list(sequence))
}

fn erase(c: &Call<'_>) -> Outputs {
    one(erased(sequence(c.input(0)?)?.into_owned(), c))
}

fn erased(mut sequence: List, c: &Call<'_>) -> Result<Tensor> {
    let position = match c.optional(1) {
        Some(_) => c.scalar(1)?,
        None => -1,
    };
    let length = sequence.tensors.len();
    let at = place(position, length, length)?;
    let tensor = sequence.tensors.remove(at);
    sequence.byte_len -= packed_len(&tensor)?;
    Ok(Tensor::from_list(sequence))
}

/// Computes a SequenceInsert or SequenceErase on a sequence that nothing else reads: no element is copied, and none
/// counted. `inputs` holds the others after the first, which is not looked at.
///
/// # Errors
/// If the node's inputs do not fit its op.
pub fn edit_sequence(
    op: Op,
    sequence: Tensor,
    inputs: &[Option<&Tensor>],
) -> std::result::Result<Tensor, EvaluateError> {
    let call = Call {
        op,
        attributes: &polychip_ops::Attributes::new(),
        inputs,
        packed: &[],
        outputs: 1,
    };
    let edit = match op {
        Op::SequenceInsert => inserted,
        _ => erased,
    };
    let list = if sequence.list().is_some() {
        Ok(sequence.into_list().expect("invariant: seen the line before"))
    } else {
        self::sequence(&sequence).map(Cow::into_owned)
    };
    list.and_then(|list| edit(list, &call))
        .map_err(|why| EvaluateError::bad_input(op, why))
}

fn split(c: &Call<'_>) -> Outputs {
    let input = c.input(0)?;
    let node: SplitToSequence = c.typed()?;
    let axis = index::axis(node.axis, input.rank())?;
    let whole = input.shape()[axis];
    let sizes = match c.optional(1) {
        None => vec![1; whole],
        Some(sizes) if sizes.rank() == 0 => {
            let Some(size) = usize::try_from(c.scalar(1)?).ok().filter(|&size| size > 0) else {
                return bad("a split into pieces of no size");
            };
            let mut sizes = vec![size; whole / size];
            sizes.extend(Some(whole % size).filter(|&rest| rest > 0));
            sizes
        }
        Some(_) => crate::call::sizes(&c.ints(1)?)?,
    };
    if sizes.iter().try_fold(0usize, |sum, &size| sum.checked_add(size)) != Some(whole) {
        return bad(format!("pieces of {sizes:?} do not make {whole}"));
    }
    let squeeze = c.optional(1).is_none() && !node.keepdims;
    let mut start = 0;
    let mut elements = Vec::new();
    for size in sizes {
        let mut piece = shape::part(input, axis, start, size)?;
        if squeeze {
            let mut dims = input.shape().to_vec();
            dims.remove(axis);
            piece = piece.reshaped(dims)?;
        }
        elements.push(Arc::new(piece));
        start += size;
    }
    one(gathered(elements))
}

fn concat(c: &Call<'_>) -> Outputs {
    let sequence = sequence(c.input(0)?)?;
    let tensors = &sequence.tensors;
    let Some(rank) = tensors.first().map(|tensor| tensor.rank()) else {
        return bad("a sequence of no tensors has no concatenation");
    };
    let node: ConcatFromSequence = c.typed()?;
    if node.new_axis {
        let axis = index::axis(node.axis, rank + 1)?;
        let mut longer = Vec::with_capacity(tensors.len());
        for tensor in tensors {
            let mut dims = tensor.shape().to_vec();
            dims.insert(axis.min(dims.len()), 1);
            longer.push(tensor.reshaped(dims)?);
        }
        return one(shape::concat(&longer.iter().collect::<Vec<_>>(), axis));
    }
    let axis = index::axis(node.axis, rank)?;
    one(shape::concat(
        &tensors.iter().map(Arc::as_ref).collect::<Vec<_>>(),
        axis,
    ))
}

fn optional(c: &Call<'_>) -> Outputs {
    match c.optional(0) {
        None => one(packed(&Packed::Nothing)),
        // an optional sequence is packed as the sequence itself
        Some(value) if c.is_packed(0) => one(Ok(value.clone())),
        Some(tensor) => one(packed(&Packed::Tensor(tensor_to_literal(tensor)?))),
    }
}

fn has_element(c: &Call<'_>) -> Outputs {
    let has = match c.optional(0) {
        None => false,
        Some(value) => !c.is_packed(0) || value.list().is_some() || unpacked(value)? != Packed::Nothing,
    };
    one(Tensor::from_bools(Vec::new(), vec![has]))
}

fn get_element(c: &Call<'_>) -> Outputs {
    let value = c.input(0)?;
    if !c.is_packed(0) || value.list().is_some() {
        return one(Ok(value.clone()));
    }
    match unpacked(value)? {
        Packed::Nothing => bad("the optional holds nothing"),
        Packed::Tensor(tensor) => one(tensor_from_literal(&tensor)),
        Packed::Sequence(_) => one(Ok(value.clone())),
    }
}

/// A tensor of strings as a port carries it.
///
/// # Errors
/// If a string is longer than 4 GiB.
pub fn pack_tensor(tensor: &Tensor) -> Result<Vec<u8>> {
    Ok(Packed::Tensor(tensor_to_literal(tensor)?).to_bytes())
}

/// The tensor of this element type that a port carries packed.
///
/// # Errors
/// If the bytes are no packed tensor of this type.
pub fn unpack_tensor(dtype: DType, bytes: &[u8]) -> Result<Tensor> {
    match Packed::from_bytes(bytes) {
        Some(Packed::Tensor(tensor)) if tensor.dtype == dtype => tensor_from_literal(&tensor),
        _ => bad(format!("the bytes are no packed tensor of {:?}", element(dtype))),
    }
}

#[cfg(test)]
mod tests {
    use polychip_ops::Attributes;

    use super::*;
    use crate::{EvaluateError, evaluate, evaluate_packed};

    type Done = std::result::Result<(), EvaluateError>;

    fn ints(values: &[i64]) -> Tensor {
        Tensor::from_i64s(vec![values.len()], values.to_vec()).unwrap()
    }

    fn position(value: i64) -> Tensor {
        Tensor::from_i64s(Vec::new(), vec![value]).unwrap()
    }

    fn run(op: Op, inputs: &[&Tensor]) -> std::result::Result<Tensor, EvaluateError> {
        let inputs: Vec<_> = inputs.iter().copied().map(Some).collect();
        Ok(evaluate(op, &Attributes::new(), &inputs, 1)?.remove(0))
    }

    #[test]
    fn elements_go_in_and_out() -> Done {
        let (a, b, c) = (ints(&[1]), ints(&[2, 3]), ints(&[]));
        let pair = run(Op::SequenceConstruct, &[&a, &b])?;
        let three = run(Op::SequenceInsert, &[&pair, &c, &position(-1)])?;
        assert_eq!(run(Op::SequenceLength, &[&three])?, position(3));
        assert_eq!(run(Op::SequenceAt, &[&three, &position(1)])?, c);
        assert_eq!(run(Op::SequenceAt, &[&three, &position(-1)])?, b);
        let two = run(Op::SequenceErase, &[&three, &position(0)])?;
        assert_eq!(run(Op::SequenceAt, &[&two, &position(0)])?, c);
        assert_eq!(
            run(Op::SequenceErase, &[&two])?,
            run(Op::SequenceConstruct, &[&c])?
        );
        let end = run(Op::SequenceInsert, &[&pair, &c, &position(2)])?;
        assert_eq!(run(Op::SequenceAt, &[&end, &position(2)])?, c);
        for wrong in [3, -4, i64::MIN] {
            assert!(run(Op::SequenceAt, &[&three, &position(wrong)]).is_err());
        }
        assert!(run(Op::SequenceInsert, &[&pair, &c, &position(3)]).is_err());
        // one element type per sequence
        let bools = Tensor::from_bools(vec![1], vec![true]).unwrap();
        assert!(run(Op::SequenceInsert, &[&pair, &bools]).is_err());
        assert!(
            run(
                Op::SequenceLength,
                &[&Tensor::from_bytes(Element::U8, vec![3], &[1; 3]).unwrap()]
            )
            .is_err()
        );
        Ok(())
    }

    #[test]
    fn optionals_are_told_from_tensors_by_the_caller() -> Done {
        let byte = Tensor::from_bytes(Element::U8, vec![1], &[7]).unwrap();
        let ask = |op: Op, value: Option<&Tensor>, packed: bool| {
            evaluate_packed(op, &Attributes::new(), &[value], &[packed], 1).map(|mut found| found.remove(0))
        };
        let truth = |value: bool| Tensor::from_bools(Vec::new(), vec![value]).unwrap();
        let full = ask(Op::Optional, Some(&byte), false)?;
        let empty = ask(Op::Optional, None, false)?;
        assert_eq!(ask(Op::OptionalHasElement, Some(&full), true)?, truth(true));
        assert_eq!(ask(Op::OptionalHasElement, Some(&empty), true)?, truth(false));
        assert_eq!(ask(Op::OptionalHasElement, None, false)?, truth(false));
        assert_eq!(ask(Op::OptionalHasElement, Some(&byte), false)?, truth(true));
        assert_eq!(ask(Op::OptionalGetElement, Some(&full), true)?, byte);
        assert_eq!(ask(Op::OptionalGetElement, Some(&byte), false)?, byte);
        assert!(ask(Op::OptionalGetElement, Some(&empty), true).is_err());
        Ok(())
    }
}
