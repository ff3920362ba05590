//! One node as a shape function sees it: its row, its inputs, and the words for its errors.
//!
//! Invariants:
//! 1. A `Call` exists only for a node whose arity, attributes and element types fit its row.
//! 2. Reading an input that is missing or of unknown rank gives `None`, never a guess.
//!
//! Not here: the rules of any op.

use crate::infer::fact::{InferInput, Inferred};
use crate::{
    Attr, Attributes, DType, Dim, Element, ErrorKind, InferError, Literal, MAX_RANK, Op, OpSpec, Port,
    PortKind, TensorType, Value, axis, broadcast,
};

pub(super) type Result<T> = std::result::Result<T, InferError>;

/// The most elements of a value that shape arithmetic carries.
pub(super) const MAX_VALUE: usize = 4096;

/// Ends the shape function with an error of this kind.
macro_rules! bail {
    ($call:expr, $kind:ident, $($message:tt)*) => {
        return Err($call.error(crate::ErrorKind::$kind, format!($($message)*)))
    };
}
pub(super) use bail;

/// Ends the shape function with an error about the shape of one input.
macro_rules! bad_input {
    ($call:expr, $input:expr, $($message:tt)*) => {
        return Err($call.bad_input($input, &format!($($message)*)))
    };
}
pub(super) use bad_input;

/// An output as a shape function gives it.
#[derive(Clone, Debug)]
pub(super) struct Out {
    /// Where the row does not tell it.
    pub(super) dtype: Option<DType>,
    pub(super) shape: Option<Vec<Dim>>,
    pub(super) value: Option<Value>,
    pub(super) upper_bound: bool,
}

impl Out {
    pub(super) fn new(shape: Option<Vec<Dim>>) -> Out {
        Out {
            dtype: None,
            shape,
            value: None,
            upper_bound: false,
        }
    }

    pub(super) fn dims(shape: Vec<Dim>) -> Out {
        Out::new(Some(shape))
    }

    pub(super) fn scalar() -> Out {
        Out::dims(Vec::new())
    }

    pub(super) fn unranked() -> Out {
        Out::new(None)
    }

    pub(super) fn typed(self, dtype: Option<DType>) -> Out {
        Out {
            dtype: dtype.or(self.dtype),
            ..self
        }
    }

    pub(super) fn valued(self, value: Option<Value>) -> Out {
        Out { value, ..self }
    }

    pub(super) fn bounded(self) -> Out {
        Out {
            upper_bound: true,
            ..self
        }
    }
}

/// One node whose arity, attributes and element types fit its row.
pub(super) struct Call<'a> {
    pub(super) op: Op,
    pub(super) spec: &'static OpSpec,
    pub(super) attributes: &'a Attributes,
    pub(super) inputs: &'a [Option<InferInput<'a>>],
    pub(super) outputs: usize,
    bound: Vec<(&'static str, DType)>,
}

impl<'a> Call<'a> {
    /// Checks a node against its row.
    pub(super) fn new(
        op: Op,
        attributes: &'a Attributes,
        inputs: &'a [Option<InferInput<'a>>],
        outputs: usize,
    ) -> Result<Call<'a>> {
        let spec = op.spec();
        let mut call = Call {
            op,
            spec,
            attributes,
            inputs,
            outputs,
            bound: Vec::new(),
        };
        call.check_arity("inputs", inputs.len(), spec.input_arity())?;
        call.check_arity("outputs", outputs, spec.output_arity())?;
        spec.check(attributes)?;
        for (index, input) in inputs.iter().enumerate() {
            let Some(port) = spec.input(index) else { continue };
            match input {
                Some(input) => call.check_dtype(index, port, input.ty.dtype)?,
                None if port.is_optional() => {}
                None => {
                    let message = format!("input {index} ({}) is missing", port.name);
                    return Err(call.error(ErrorKind::Arity, message).at_input(index));
                }
            }
        }
        Ok(call)
    }

    fn check_arity(&self, what: &str, count: usize, (least, most): (usize, Option<usize>)) -> Result<()> {
        if count >= least && most.is_none_or(|most| count <= most) {
            return Ok(());
        }
        let range = match most {
            Some(most) if most == least => format!("{least}"),
            Some(most) => format!("{least} to {most}"),
            None => format!("{least} or more"),
        };
        bail!(self, Arity, "has {count} {what}, takes {range}")
    }

    fn check_dtype(&mut self, index: usize, port: &'static Port, dtype: DType) -> Result<()> {
        let allowed = self.spec.allowed(port);
        let name = port.name;
        let error = |kind, message: String| Err(InferError::new(self.op, kind, message).at_input(index));
        if !allowed.forms.tensor {
            let message = format!("input {index} ({name}) is a {dtype} tensor, not a sequence");
            return error(ErrorKind::NotTensor, message);
        }
        if !allowed.dtypes.contains(dtype) {
            let message = format!("input {index} ({name}) is {dtype}, not one of {}", allowed.dtypes);
            return error(ErrorKind::DType, message);
        }
        if matches!(port.kind, PortKind::Variadic { mixed: true, .. }) {
            return Ok(());
        }
        match self.bound.iter().find(|(var, _)| *var == port.ty) {
            Some((var, first)) if *first != dtype => {
                let message =
                    format!("input {index} ({name}) is {dtype}, other inputs of type {var} are {first}");
                error(ErrorKind::DType, message)
            }
            Some(_) => Ok(()),
            None => {
                self.bound.push((port.ty, dtype));
                Ok(())
            }
        }
    }

    /// Gives outputs the types of the row and keeps those that the node has.
    pub(super) fn finish(&self, outs: Vec<Out>) -> Result<Vec<Inferred>> {
        let mut inferred = Vec::with_capacity(self.outputs);
        for (index, out) in outs.into_iter().take(self.outputs).enumerate() {
            let Some(port) = self.spec.output(index) else {
                break;
            };
            let allowed = self.spec.allowed(port).dtypes;
            let bound = self
                .bound
                .iter()
                .find(|(var, _)| *var == port.ty)
                .map(|(_, dtype)| *dtype);
            let only = || {
                let mut dtypes = allowed.iter();
                dtypes.next().filter(|_| dtypes.next().is_none())
            };
            let Some(dtype) = out.dtype.or(bound).or_else(only) else {
                bail!(
                    self,
                    DType,
                    "nothing tells the type of output {index} ({})",
                    port.name
                );
            };
            if !allowed.contains(dtype) {
                let name = port.name;
                bail!(
                    self,
                    DType,
                    "output {index} ({name}) is {dtype}, not one of {allowed}"
                );
            }
            inferred.push(Inferred {
                ty: TensorType {
                    dtype,
                    shape: out.shape,
                },
                value: out.value,
                upper_bound: out.upper_bound,
            });
        }
        if inferred.len() < self.outputs {
            bail!(
                self,
                Arity,
                "has {} outputs, gives {}",
                self.outputs,
                inferred.len()
            );
        }
        Ok(inferred)
    }

    pub(super) fn error(&self, kind: ErrorKind, message: impl Into<String>) -> InferError {
        InferError::new(self.op, kind, message)
    }

    /// An error that names an input and its type.
    pub(super) fn bad_input(&self, index: usize, message: &str) -> InferError {
        let name = self.spec.input(index).map_or("?", |port| port.name);
        let message = match self.inputs.get(index).copied().flatten() {
            Some(input) => format!("input {index} ({name}) is {}, {message}", input.ty),
            None => format!("input {index} ({name}) {message}"),
        };
        InferError::new(self.op, ErrorKind::Shape, message).at_input(index)
    }

    pub(super) fn overflow(&self) -> InferError {
        self.error(ErrorKind::Overflow, "a size is too large for this machine")
    }

    fn input(&self, index: usize) -> Option<InferInput<'a>> {
        self.inputs.get(index).copied().flatten()
    }

    /// Whether the node has this input.
    pub(super) fn has(&self, index: usize) -> bool {
        self.input(index).is_some()
    }

    /// The dimensions of an input, if it is there and its rank known.
    pub(super) fn dims(&self, index: usize) -> Option<&'a [Dim]> {
        self.input(index)?.ty.shape.as_deref()
    }

    /// The element type of an input.
    pub(super) fn dtype(&self, index: usize) -> Option<DType> {
        Some(self.input(index)?.ty.dtype)
    }

    /// What is known of the values of an input.
    pub(super) fn value(&self, index: usize) -> Option<&'a Value> {
        self.input(index)?.value
    }

    /// The integers of an input of rank 0 or 1, as far as they are known.
    pub(super) fn elements(&self, index: usize) -> Option<Vec<Element>> {
        let dims = self.dims(index)?;
        let count = match dims {
            [] => 1,
            [Dim::Known(count)] => *count,
            _ => return None,
        };
        if count > MAX_VALUE {
            return None;
        }
        self.value(index)?
            .elements()
            .filter(|elements| elements.len() == count)
    }

    /// The integers of an input, if every one is known.
    pub(super) fn ints(&self, index: usize) -> Option<Vec<i64>> {
        self.value(index)?.as_i64s()
    }

    /// The only integer of an input; an error where it certainly has another count.
    pub(super) fn scalar(&self, index: usize) -> Result<Option<i64>> {
        self.check_scalar(index)?;
        Ok(self.value(index).and_then(Value::scalar))
    }

    /// An error unless an input has, or may have, exactly one element.
    pub(super) fn check_scalar(&self, index: usize) -> Result<()> {
        let Some(dims) = self.dims(index) else {
            return Ok(());
        };
        if dims.iter().any(|dim| dim.known().is_some_and(|size| size != 1)) {
            bad_input!(self, index, "not a single value");
        }
        Ok(())
    }

    /// The length of an input that must have rank 1.
    pub(super) fn length(&self, index: usize) -> Result<Option<usize>> {
        self.rank_is(index, 1)?;
        Ok(self.dims(index).and_then(|dims| dims[0].known()))
    }

    /// The length of an input of rank 1 that has one value per axis, so no more than a rank can be.
    pub(super) fn list_length(&self, index: usize) -> Result<Option<usize>> {
        let length = self.length(index)?;
        if length.is_some_and(|length| length > MAX_RANK) {
            bad_input!(
                self,
                index,
                "longer than the {MAX_RANK} axes that a tensor may have"
            );
        }
        Ok(length)
    }

    /// An error where the rank of an input is known and another.
    pub(super) fn rank_is(&self, index: usize, rank: usize) -> Result<()> {
        match self.dims(index) {
            Some(dims) if dims.len() != rank => bad_input!(self, index, "not of rank {rank}"),
            _ => Ok(()),
        }
    }

    /// An error where the rank of an input is known and less.
    pub(super) fn rank_at_least(&self, index: usize, rank: usize) -> Result<()> {
        match self.dims(index) {
            Some(dims) if dims.len() < rank => {
                bad_input!(self, index, "not of rank {rank} or more")
            }
            _ => Ok(()),
        }
    }

    /// An attribute or its default; 0 where there is neither.
    pub(super) fn int(&self, attr: Attr) -> i64 {
        self.spec.int(self.attributes, attr).unwrap_or(0)
    }

    /// A true-or-false attribute or its default.
    pub(super) fn flag(&self, attr: Attr) -> bool {
        self.int(attr) != 0
    }

    /// A text attribute or its default; empty where there is neither.
    pub(super) fn str(&self, attr: Attr) -> &'a str {
        self.spec.str(self.attributes, attr).unwrap_or("")
    }

    /// A text attribute that must be one of these words.
    pub(super) fn word(&self, attr: Attr, words: &[&str]) -> Result<&'a str> {
        let word = self.str(attr);
        if words.contains(&word) {
            return Ok(word);
        }
        bail!(
            self,
            Attribute,
            "{attr} is '{word}', not one of {}",
            words.join(", ")
        )
    }

    /// The element type that an attribute names; `None` where it is missing or 0.
    pub(super) fn dtype_attr(&self, attr: Attr) -> Result<Option<DType>> {
        let Some(code) = self.spec.int(self.attributes, attr).filter(|code| *code != 0) else {
            return Ok(None);
        };
        match u32::try_from(code).ok().and_then(DType::from_code) {
            Some(dtype) => Ok(Some(dtype)),
            None => bail!(self, Attribute, "{attr} is {code}, which is no element type"),
        }
    }

    /// An axis counted from the front.
    pub(super) fn axis(&self, axis: i64, rank: usize) -> Result<usize> {
        match axis::normalise(axis, rank) {
            Some(axis) => Ok(axis),
            None => bail!(self, Attribute, "axis {axis} is outside rank {rank}"),
        }
    }

    /// Axes counted from the front, each at most once.
    pub(super) fn axes(&self, axes: &[i64], rank: usize) -> Result<Vec<usize>> {
        match axis::normalise_all(axes, rank) {
            Some(axes) => Ok(axes),
            None => {
                bail!(
                    self,
                    Attribute,
                    "axes {axes:?} are outside rank {rank} or come twice"
                )
            }
        }
    }

    /// Two dimensions that must be equal.
    pub(super) fn merge(&self, a: &Dim, b: &Dim, what: &str) -> Result<Dim> {
        if a.differs(b) {
            bail!(self, Shape, "{what} is {a} here and {b} there");
        }
        Ok(a.or_known(b))
    }

    /// A dimension of an input that must equal another; `None` where the rank is unknown.
    pub(super) fn expect_dim(&self, index: usize, axis: usize, want: &Dim) -> Result<()> {
        match self.dims(index) {
            Some(dims) if dims[axis].differs(want) => {
                bad_input!(self, index, "axis {axis} must be {want}")
            }
            _ => Ok(()),
        }
    }

    /// An error where a shape certainly differs from that of an input.
    pub(super) fn expect_dims(&self, index: usize, want: &[Dim]) -> Result<()> {
        self.rank_is(index, want.len())?;
        for (axis, dim) in want.iter().enumerate() {
            self.expect_dim(index, axis, dim)?;
        }
        Ok(())
    }

    /// The shape that inputs broadcast to; `None` where a rank is unknown.
    pub(super) fn broadcast(&self, shapes: &[Option<&[Dim]>]) -> Result<Option<Vec<Dim>>> {
        let Some(ranked) = shapes.iter().copied().collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        match broadcast::dims(&ranked) {
            Ok(dims) => Ok(Some(dims)),
            Err(mismatch) => {
                let (axis, left, right) = (mismatch.axis, mismatch.left, mismatch.right);
                let shapes: Vec<String> = ranked.iter().map(|dims| show(dims)).collect();
                bail!(
                    self,
                    Shape,
                    "shapes {} do not broadcast: axis {axis} is {left} and {right}",
                    shapes.join(" and ")
                )
            }
        }
    }

    /// An error where an input certainly does not broadcast to a shape that stays as it is.
    pub(super) fn broadcasts_into(&self, index: usize, into: &[Dim]) -> Result<()> {
        let Some(dims) = self.dims(index) else {
            return Ok(());
        };
        let fits = dims.len() <= into.len()
            && dims
                .iter()
                .rev()
                .zip(into.iter().rev())
                .all(|(dim, into)| *dim == Dim::Known(1) || !dim.differs(into));
        if !fits {
            bad_input!(self, index, "does not broadcast to {}", show(into));
        }
        Ok(())
    }

    /// A product of sizes.
    pub(super) fn times(&self, a: &Dim, b: &Dim) -> Result<Dim> {
        Ok(match (a, b) {
            (Dim::Known(0), _) | (_, Dim::Known(0)) => Dim::Known(0),
            (Dim::Known(1), other) | (other, Dim::Known(1)) => other.clone(),
            (Dim::Known(a), Dim::Known(b)) => Dim::Known(a.checked_mul(*b).ok_or_else(|| self.overflow())?),
            _ => Dim::Unknown,
        })
    }

    /// A sum of sizes.
    pub(super) fn plus(&self, a: &Dim, b: &Dim) -> Result<Dim> {
        Ok(match (a, b) {
            (Dim::Known(0), other) | (other, Dim::Known(0)) => other.clone(),
            (Dim::Known(a), Dim::Known(b)) => Dim::Known(a.checked_add(*b).ok_or_else(|| self.overflow())?),
            _ => Dim::Unknown,
        })
    }

    /// The number of elements of these dimensions.
    pub(super) fn product(&self, dims: &[Dim]) -> Result<Dim> {
        if dims.contains(&Dim::Known(0)) {
            return Ok(Dim::Known(0));
        }
        dims.iter()
            .try_fold(Dim::Known(1), |product, dim| self.times(&product, dim))
    }

    /// A size divided by another that must divide it.
    pub(super) fn divide(&self, whole: &Dim, by: &Dim, what: &str) -> Result<Dim> {
        match (whole, by) {
            (whole, Dim::Known(1)) => Ok(whole.clone()),
            (Dim::Known(whole), Dim::Known(by)) => match whole.checked_rem(*by) {
                Some(0) => Ok(Dim::Known(whole / by)),
                _ => bail!(self, Shape, "{what} of {whole} is not divisible by {by}"),
            },
            _ => Ok(Dim::Unknown),
        }
    }

    /// A size from a value; negative ones are an error.
    pub(super) fn size(&self, element: &Element, what: &str) -> Result<Dim> {
        match (element.dim(), element) {
            (Some(dim), _) => Ok(dim),
            (None, element) => {
                let value = element.int().unwrap_or(-1);
                bail!(self, Value, "{what} is {value}, which is no size")
            }
        }
    }

    /// A size attribute or value that must be at least `least`.
    pub(super) fn size_from(&self, value: i64, least: usize, what: &str) -> Result<usize> {
        match usize::try_from(value) {
            Ok(size) if size >= least => Ok(size),
            _ => bail!(self, Attribute, "{what} is {value}, less than {least}"),
        }
    }
}

/// A shape as text.
pub(super) fn show(dims: &[Dim]) -> String {
    let dims: Vec<String> = dims.iter().map(Dim::to_string).collect();
    format!("[{}]", dims.join(", "))
}

/// The value of an integer tensor of rank 0 or 1, if anything of it is known.
pub(super) fn make_value(dtype: DType, rank: usize, elements: Vec<Element>) -> Option<Value> {
    if elements.len() > MAX_VALUE || rank > 1 || (rank == 0 && elements.len() != 1) {
        return None;
    }
    let ints: Option<Vec<i64>> = elements.iter().map(Element::int).collect();
    match ints {
        Some(ints) => {
            let shape = if rank == 0 { vec![] } else { vec![ints.len()] };
            Literal::from_ints(dtype, shape, &ints).map(Value::Literal)
        }
        None if elements.iter().all(|element| *element == Element::Unknown) => None,
        None => Some(Value::Dims(elements, dtype)),
    }
}

/// Dimensions of which nothing but their number is known.
pub(super) fn unknown(rank: usize) -> Vec<Dim> {
    vec![Dim::Unknown; rank]
}
