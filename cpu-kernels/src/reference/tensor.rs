//! The tensor the reference kernels compute on: a shape and densely stored elements.
//!
//! Invariants: row-major and contiguous; the storage holds exactly the product of the shape; clones share their elements
//! until one of them is written.
//! Not here: views and strides; kernels that rearrange data name the source of each element ([`Tensor::select`]).

mod list;

use std::sync::Arc;

use half::{bf16, f16};

use super::element::Element;
use super::error::{Result, require};
use super::minifloat;
use list::Data;
pub use list::{List, Pack};

/// The elements of a tensor, one vector per element type.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Storage {
    F32(Vec<f32>),
    F64(Vec<f64>),
    F16(Vec<f16>),
    BF16(Vec<bf16>),
    I8(Vec<i8>),
    U8(Vec<u8>),
    I16(Vec<i16>),
    U16(Vec<u16>),
    I32(Vec<i32>),
    U32(Vec<u32>),
    I64(Vec<i64>),
    U64(Vec<u64>),
    Bool(Vec<bool>),
    String(Vec<String>),
    C64(Vec<[f32; 2]>),
    C128(Vec<[f64; 2]>),
    /// 8-bit floats and sub-byte numbers, one code per byte (see [`minifloat`]).
    Code(Element, Vec<u8>),
}

/// Elements widened to the type in which kernels compute.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Wide {
    Float(Vec<f64>),
    Int(Vec<i128>),
    Bool(Vec<bool>),
    Complex(Vec<[f64; 2]>),
    Text(Vec<String>),
}

macro_rules! each_vec {
    ($storage:expr, $v:ident => $body:expr) => {
        match $storage {
            Storage::F32($v) => $body,
            Storage::F64($v) => $body,
            Storage::F16($v) => $body,
            Storage::BF16($v) => $body,
            Storage::I8($v) => $body,
            Storage::U8($v) => $body,
            Storage::I16($v) => $body,
            Storage::U16($v) => $body,
            Storage::I32($v) => $body,
            Storage::U32($v) => $body,
            Storage::I64($v) => $body,
            Storage::U64($v) => $body,
            Storage::Bool($v) => $body,
            Storage::String($v) => $body,
            Storage::C64($v) => $body,
            Storage::C128($v) => $body,
            Storage::Code(_, $v) => $body,
        }
    };
}

/// Maps a storage to a storage of the same element type.
macro_rules! map_vec {
    ($storage:expr, $v:ident => $body:expr) => {
        match $storage {
            Storage::F32($v) => Storage::F32($body),
            Storage::F64($v) => Storage::F64($body),
            Storage::F16($v) => Storage::F16($body),
            Storage::BF16($v) => Storage::BF16($body),
            Storage::I8($v) => Storage::I8($body),
            Storage::U8($v) => Storage::U8($body),
            Storage::I16($v) => Storage::I16($body),
            Storage::U16($v) => Storage::U16($body),
            Storage::I32($v) => Storage::I32($body),
            Storage::U32($v) => Storage::U32($body),
            Storage::I64($v) => Storage::I64($body),
            Storage::U64($v) => Storage::U64($body),
            Storage::Bool($v) => Storage::Bool($body),
            Storage::String($v) => Storage::String($body),
            Storage::C64($v) => Storage::C64($body),
            Storage::C128($v) => Storage::C128($body),
            Storage::Code(e, $v) => Storage::Code(*e, $body),
        }
    };
}

impl Storage {
    /// The element type.
    #[must_use]
    pub const fn element(&self) -> Element {
        match self {
            Self::F32(_) => Element::F32,
            Self::F64(_) => Element::F64,
            Self::F16(_) => Element::F16,
            Self::BF16(_) => Element::BF16,
            Self::I8(_) => Element::I8,
            Self::U8(_) => Element::U8,
            Self::I16(_) => Element::I16,
            Self::U16(_) => Element::U16,
            Self::I32(_) => Element::I32,
            Self::U32(_) => Element::U32,
            Self::I64(_) => Element::I64,
            Self::U64(_) => Element::U64,
            Self::Bool(_) => Element::Bool,
            Self::String(_) => Element::String,
            Self::C64(_) => Element::C64,
            Self::C128(_) => Element::C128,
            Self::Code(element, _) => *element,
        }
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        each_vec!(self, v => v.len())
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The number of elements of a shape, or `None` if it overflows.
#[must_use]
pub fn count(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d))
}

/// Maximum number of elements of a result; a larger one is an error instead of an allocation
/// failure.
pub const MAX_ELEMENTS: usize = if usize::BITS > 32 { 1 << 31 } else { 1 << 28 };

/// Above this, the system is asked for the memory first.
const MANY_ELEMENTS: usize = 1 << 28;

/// Whether the system would give the memory of so many elements of 8 bytes.
fn has_room(n: usize) -> bool {
    n <= MANY_ELEMENTS || Vec::<u64>::new().try_reserve_exact(n).is_ok()
}

/// The number of elements of a shape that a kernel is about to make.
///
/// # Errors
/// If it is more than [`MAX_ELEMENTS`] or than memory has room for, or would be if no dim were 0: lists per dim stay small too.
pub fn elements(shape: &[usize]) -> Result<usize> {
    match shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d.max(1))) {
        Some(n) if n <= MAX_ELEMENTS && has_room(n) => Ok(if shape.contains(&0) { 0 } else { n }),
        Some(n) if n <= MAX_ELEMENTS => {
            super::error::refuse!("no memory for the {n} elements of shape {shape:?}")
        }
        _ => super::error::refuse!("shape {shape:?} holds more than {MAX_ELEMENTS} elements"),
    }
}

/// A dense row-major tensor.
///
/// ```
/// use polychip_cpu_kernels::reference::{Element, Tensor};
/// let t = Tensor::from_f64s(Element::F16, vec![2], &[1.0, 0.1]).unwrap();
/// assert_eq!(t.to_bytes(), [0x00, 0x3c, 0x66, 0x2e]);
/// ```
#[derive(Clone, Debug)]
pub struct Tensor {
    shape: Vec<usize>,
    data: Data,
}

impl PartialEq for Tensor {
    fn eq(&self, other: &Self) -> bool {
        self.shape == other.shape && self.data() == other.data()
    }
}

impl Tensor {
    /// A tensor of `shape` over `data`.
    ///
    /// # Errors
    /// If the storage does not hold the product of the shape, or the shape is empty but unreasonably wide.
    pub fn new(shape: Vec<usize>, data: Storage) -> Result<Self> {
        require!(
            count(&shape) == Some(data.len()),
            "shape {shape:?} needs another number of elements than {}",
            data.len()
        );
        if data.is_empty() {
            elements(&shape)?;
        }
        Ok(Self::of(shape, data))
    }

    fn of(shape: Vec<usize>, data: Storage) -> Self {
        let data = Data::Elements(Arc::new(data));
        Self { shape, data }
    }

    /// The shape.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of dimensions.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.data {
            Data::Elements(storage) => storage.len(),
            Data::List(_) => self.shape.iter().product(),
        }
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element type.
    #[must_use]
    pub fn element(&self) -> Element {
        match &self.data {
            Data::Elements(storage) => storage.element(),
            Data::List(_) => Element::U8,
        }
    }

    /// The elements.
    #[must_use]
    pub fn data(&self) -> &Storage {
        self.data.storage()
    }

    /// The elements, owned.
    #[must_use]
    pub fn into_data(self) -> Storage {
        self.data.into_storage()
    }

    /// A tensor whose elements are all zero, false or empty.
    ///
    /// # Errors
    /// If the shape holds more than [`MAX_ELEMENTS`].
    pub fn zeros(element: Element, shape: Vec<usize>) -> Result<Self> {
        let n = elements(&shape)?;
        let data = match element {
            Element::F32 => Storage::F32(vec![0.0; n]),
            Element::F64 => Storage::F64(vec![0.0; n]),
            Element::F16 => Storage::F16(vec![f16::ZERO; n]),
            Element::BF16 => Storage::BF16(vec![bf16::ZERO; n]),
            Element::I8 => Storage::I8(vec![0; n]),
            Element::U8 => Storage::U8(vec![0; n]),
            Element::I16 => Storage::I16(vec![0; n]),
            Element::U16 => Storage::U16(vec![0; n]),
            Element::I32 => Storage::I32(vec![0; n]),
            Element::U32 => Storage::U32(vec![0; n]),
            Element::I64 => Storage::I64(vec![0; n]),
            Element::U64 => Storage::U64(vec![0; n]),
            Element::Bool => Storage::Bool(vec![false; n]),
            Element::String => Storage::String(vec![String::new(); n]),
            Element::C64 => Storage::C64(vec![[0.0; 2]; n]),
            Element::C128 => Storage::C128(vec![[0.0; 2]; n]),
            small => Storage::Code(small, vec![0; n]),
        };
        Ok(Self::of(shape, data))
    }

    /// Stores `values` as `element`: floats rounded once to nearest even (overflow is infinity where
    /// there is one), integers truncated towards zero and wrapped, bool by "not zero".
    ///
    /// # Errors
    /// If the count does not fit the shape, or the element type is text.
    pub fn from_f64s(element: Element, shape: Vec<usize>, values: &[f64]) -> Result<Self> {
        let data = match element {
            Element::F64 => Storage::F64(values.to_vec()),
            Element::F32 => Storage::F32(values.iter().map(|&v| v as f32).collect()),
            Element::F16 => Storage::F16(
                values
                    .iter()
                    .map(|&v| f16::from_bits(minifloat::encode(element, v, false)))
                    .collect(),
            ),
            Element::BF16 => Storage::BF16(
                values
                    .iter()
                    .map(|&v| bf16::from_bits(minifloat::encode(element, v, false)))
                    .collect(),
            ),
            Element::Bool => Storage::Bool(values.iter().map(|&v| v != 0.0).collect()),
            Element::C64 => Storage::C64(values.iter().map(|&v| [v as f32, 0.0]).collect()),
            Element::C128 => Storage::C128(values.iter().map(|&v| [v, 0.0]).collect()),
            Element::String => super::error::refuse!("numbers cannot be stored as text here"),
            e if e.is_int() => {
                let ints: Vec<i128> = values.iter().map(|&v| v as i128).collect();
                return Self::from_i128s(e, shape, &ints);
            }
            e => Storage::Code(
                e,
                values
                    .iter()
                    .map(|&v| minifloat::encode(e, v, false) as u8)
                    .collect(),
            ),
        };
        Self::new(shape, data)
    }

    /// Stores `values` as `element`: integers wrap, floats round, bool by "not zero".
    ///
    /// # Errors
    /// If the count does not fit the shape, or the element type is text.
    pub fn from_i128s(element: Element, shape: Vec<usize>, values: &[i128]) -> Result<Self> {
        let data = match element {
            Element::I8 => Storage::I8(values.iter().map(|&v| v as i8).collect()),
            Element::U8 => Storage::U8(values.iter().map(|&v| v as u8).collect()),
            Element::I16 => Storage::I16(values.iter().map(|&v| v as i16).collect()),
            Element::U16 => Storage::U16(values.iter().map(|&v| v as u16).collect()),
            Element::I32 => Storage::I32(values.iter().map(|&v| v as i32).collect()),
            Element::U32 => Storage::U32(values.iter().map(|&v| v as u32).collect()),
            Element::I64 => Storage::I64(values.iter().map(|&v| v as i64).collect()),
            Element::U64 => Storage::U64(values.iter().map(|&v| v as u64).collect()),
            Element::Bool => Storage::Bool(values.iter().map(|&v| v != 0).collect()),
            e if e.is_int() => {
                Storage::Code(e, values.iter().map(|&v| minifloat::encode_int(e, v)).collect())
            }
            Element::F32 => Storage::F32(values.iter().map(|&v| v as f32).collect()),
            e => {
                let floats: Vec<f64> = values.iter().map(|&v| v as f64).collect();
                return Self::from_f64s(e, shape, &floats);
            }
        };
        Self::new(shape, data)
    }

    /// An `int64` tensor.
    ///
    /// # Errors
    /// If the count does not fit the shape.
    pub fn from_i64s(shape: Vec<usize>, values: Vec<i64>) -> Result<Self> {
        Self::new(shape, Storage::I64(values))
    }

    /// A `bool` tensor.
    ///
    /// # Errors
    /// If the count does not fit the shape.
    pub fn from_bools(shape: Vec<usize>, values: Vec<bool>) -> Result<Self> {
        Self::new(shape, Storage::Bool(values))
    }

    /// Stores widened elements as `element`.
    ///
    /// # Errors
    /// If the count does not fit the shape, or text meets numbers.
    pub fn from_wide(element: Element, shape: Vec<usize>, values: Wide) -> Result<Self> {
        match (values, element) {
            (Wide::Float(v), Element::F64) => Self::new(shape, Storage::F64(v)),
            (Wide::Float(v), _) => Self::from_f64s(element, shape, &v),
            (Wide::Int(v), _) => Self::from_i128s(element, shape, &v),
            (Wide::Bool(v), Element::Bool) => Self::new(shape, Storage::Bool(v)),
            (Wide::Bool(v), _) => {
                let v: Vec<i128> = v.into_iter().map(i128::from).collect();
                Self::from_i128s(element, shape, &v)
            }
            (Wide::Complex(v), Element::C64) => Self::new(
                shape,
                Storage::C64(v.into_iter().map(|[r, i]| [r as f32, i as f32]).collect()),
            ),
            (Wide::Complex(v), Element::C128) => Self::new(shape, Storage::C128(v)),
            (Wide::Text(v), Element::String) => Self::new(shape, Storage::String(v)),
            (_, e) => super::error::refuse!("values cannot be stored as {e:?}"),
        }
    }

    /// The elements, widened to the type in which kernels compute.
    #[must_use]
    pub fn wide(&self) -> Wide {
        fn ints<T: Copy + Into<i128>>(v: &[T]) -> Wide {
            Wide::Int(v.iter().map(|&x| x.into()).collect())
        }
        match self.data() {
            Storage::F32(v) => Wide::Float(v.iter().map(|&x| f64::from(x)).collect()),
            Storage::F64(v) => Wide::Float(v.clone()),
            Storage::F16(v) => Wide::Float(v.iter().map(|&x| f64::from(x)).collect()),
            Storage::BF16(v) => Wide::Float(v.iter().map(|&x| f64::from(x)).collect()),
            Storage::I8(v) => ints(v),
            Storage::U8(v) => ints(v),
            Storage::I16(v) => ints(v),
            Storage::U16(v) => ints(v),
            Storage::I32(v) => ints(v),
            Storage::U32(v) => ints(v),
            Storage::I64(v) => ints(v),
            Storage::U64(v) => ints(v),
            Storage::Bool(v) => Wide::Bool(v.clone()),
            Storage::String(v) => Wide::Text(v.clone()),
            Storage::C64(v) => Wide::Complex(v.iter().map(|&[r, i]| [f64::from(r), f64::from(i)]).collect()),
            Storage::C128(v) => Wide::Complex(v.clone()),
            Storage::Code(e, v) if e.is_int() => {
                Wide::Int(v.iter().map(|&c| minifloat::decode_int(*e, c)).collect())
            }
            Storage::Code(e, v) => {
                Wide::Float(v.iter().map(|&c| minifloat::decode(*e, u16::from(c))).collect())
            }
        }
    }

    /// The elements as reals: numbers and bools (0 or 1).
    ///
    /// # Errors
    /// If they are text or complex.
    pub fn to_f64s(&self) -> Result<Vec<f64>> {
        Ok(match self.wide() {
            Wide::Float(v) => v,
            Wide::Int(v) => v.into_iter().map(|x| x as f64).collect(),
            Wide::Bool(v) => v.into_iter().map(|x| f64::from(u8::from(x))).collect(),
            Wide::Complex(_) | Wide::Text(_) => {
                super::error::refuse!("{:?} elements are not real numbers", self.element())
            }
        })
    }

    /// The elements as integers: integers and bools (0 or 1), floats truncated.
    ///
    /// # Errors
    /// If they are text or complex.
    pub fn to_i128s(&self) -> Result<Vec<i128>> {
        Ok(match self.wide() {
            Wide::Float(v) => v.into_iter().map(|x| x as i128).collect(),
            Wide::Int(v) => v,
            Wide::Bool(v) => v.into_iter().map(i128::from).collect(),
            Wide::Complex(_) | Wide::Text(_) => {
                super::error::refuse!("{:?} elements are not integers", self.element())
            }
        })
    }

    /// The elements as `i64`.
    ///
    /// # Errors
    /// If they are not integers.
    pub fn to_i64s(&self) -> Result<Vec<i64>> {
        require!(
            self.element().is_int() || self.element() == Element::Bool,
            "integers wanted, {:?} seen",
            self.element()
        );
        if let Storage::I64(v) = self.data() {
            return Ok(v.clone());
        }
        Ok(self.to_i128s()?.into_iter().map(|v| v as i64).collect())
    }

    /// The elements as bools.
    ///
    /// # Errors
    /// If they are not bools.
    pub fn to_bools(&self) -> Result<Vec<bool>> {
        match self.data() {
            Storage::Bool(v) => Ok(v.clone()),
            _ => super::error::refuse!("bools wanted, {:?} seen", self.element()),
        }
    }

    /// The elements as text.
    ///
    /// # Errors
    /// If they are not strings.
    pub fn strings(&self) -> Result<&[String]> {
        match self.data() {
            Storage::String(v) => Ok(v),
            _ => super::error::refuse!("strings wanted, {:?} seen", self.element()),
        }
    }

    /// The same elements in another shape.
    ///
    /// # Errors
    /// If the shape holds another number of elements.
    pub fn reshaped(&self, shape: Vec<usize>) -> Result<Self> {
        require!(
            count(&shape) == Some(self.len()),
            "shape {shape:?} needs another number of elements than {}",
            self.len()
        );
        if self.is_empty() {
            elements(&shape)?;
        }
        Ok(match &self.data {
            Data::Elements(_) => Self {
                shape,
                data: self.data.clone(),
            },
            Data::List(_) => Self::of(shape, self.data().clone()),
        })
    }

    /// A tensor of `shape` whose element `i` is this one's element `from[i]`.
    ///
    /// # Errors
    /// If an index is out of range, or there are not as many as the shape needs.
    pub fn select(&self, shape: Vec<usize>, from: &[usize]) -> Result<Self> {
        let n = self.len();
        if let Some(&bad) = from.iter().find(|&&i| i >= n) {
            super::error::refuse!("element {bad} is outside a tensor of {n}");
        }
        let data = map_vec!(self.data(), v => pick(v, from));
        Self::new(shape, data)
    }

    /// A tensor of `shape` whose elements all equal the first one of this tensor.
    ///
    /// # Errors
    /// If this tensor is empty or the shape too large.
    pub fn filled(&self, shape: Vec<usize>) -> Result<Self> {
        let (n, first) = (elements(&shape)?, self.select(Vec::new(), &[0])?);
        let data = map_vec!(first.data(), v => vec![pick(v, &[0]).remove(0); n]);
        Self::new(shape, data)
    }

    /// Copies `len` elements of `from`, starting at `from_at`, over this tensor's at `at`.
    ///
    /// # Errors
    /// If the element types differ or a run is out of range.
    pub fn copy_run(&mut self, at: usize, from: &Self, from_at: usize, len: usize) -> Result<()> {
        macro_rules! copy {
            ($($variant:ident),*) => {
                match (self.data.storage_mut(), from.data()) {
                    $((Storage::$variant(to), Storage::$variant(from)) => {
                        let to = at.checked_add(len).and_then(|end| to.get_mut(at..end));
                        let from = from_at.checked_add(len).and_then(|end| from.get(from_at..end));
                        match (to, from) {
                            (Some(to), Some(from)) => to.clone_from_slice(from),
                            _ => super::error::refuse!("a run of {len} elements is out of range"),
                        }
                        Ok(())
                    })*
                    (Storage::Code(a, to), Storage::Code(b, from)) if a == b => {
                        let to = at.checked_add(len).and_then(|end| to.get_mut(at..end));
                        let from = from_at.checked_add(len).and_then(|end| from.get(from_at..end));
                        match (to, from) {
                            (Some(to), Some(from)) => to.clone_from_slice(from),
                            _ => super::error::refuse!("a run of {len} elements is out of range"),
                        }
                        Ok(())
                    }
                    (to, from) => super::error::refuse!(
                        "{:?} elements do not go into a {:?} tensor", from.element(), to.element()
                    ),
                }
            };
        }
        copy!(
            F32, F64, F16, BF16, I8, U8, I16, U16, I32, U32, I64, U64, Bool, String, C64, C128
        )
    }

    /// Appends elements to the tensor, which gets a new shape of the same total size. Its own
    /// elements are not copied if no clone shares them and its memory has room; the memory grows
    /// geometrically.
    ///
    /// # Errors
    /// If the shape holds another number of elements, or they are no numbers of whole bytes.
    pub fn append(self, shape: Vec<usize>, pieces: &[&[u8]]) -> Result<Self> {
        let mut data = self.data.into_storage();
        let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
        macro_rules! append {
            ($($variant:ident: $t:ty),*) => {
                match &mut data {
                    $(Storage::$variant(own) => {
                        own.reserve(bytes / size_of::<$t>());
                        for &piece in pieces { match bytemuck::try_cast_slice::<u8, $t>(piece) {
                            Ok(piece) if cfg!(target_endian = "little") => own.extend_from_slice(piece),
                            _ => own.extend(
                                piece
                                    .chunks_exact(size_of::<$t>())
                                    .map(|c| <$t>::from_le_bytes(c.try_into().expect("invariant: exact chunks"))),
                            ),
                        } }
                    },)*
                    Storage::Bool(own) => for piece in pieces {
                        own.extend(piece.iter().map(|&b| b != 0));
                    },
                    _ => super::error::refuse!("{:?} elements are not appended to", data.element()),
                }
            };
        }
        append!(
            F32: f32, F64: f64, F16: f16, BF16: bf16, I8: i8, U8: u8, I16: i16, U16: u16, I32: i32, U32: u32,
            I64: i64, U64: u64
        );
        Self::new(shape, data)
    }

    /// A tensor from little-endian bytes, sub-byte elements packed with the first in the lowest bits,
    /// strings one after the other as a `u32` byte count and UTF-8 text.
    ///
    /// # Errors
    /// If the number of bytes does not fit, or text is not UTF-8.
    pub fn from_bytes(element: Element, shape: Vec<usize>, bytes: &[u8]) -> Result<Self> {
        let Some(bits) = element.bits() else {
            return Self::new(shape, Storage::String(read_strings(bytes)?));
        };
        let wanted = count(&shape)
            .and_then(|n| n.checked_mul(bits))
            .map(|b| b.div_ceil(8));
        require!(
            wanted == Some(bytes.len()),
            "a {element:?} tensor of shape {shape:?} does not take {} bytes",
            bytes.len()
        );
        let n = count(&shape).unwrap_or(0);
        macro_rules! le {
            ($t:ty) => {
                bytes
                    .chunks_exact(size_of::<$t>())
                    .map(|c| <$t>::from_le_bytes(c.try_into().expect("invariant: exact chunks")))
                    .collect::<Vec<$t>>()
            };
        }
        let data = match element {
            Element::F32 => Storage::F32(le!(f32)),
            Element::F64 => Storage::F64(le!(f64)),
            Element::F16 => Storage::F16(le!(f16)),
            Element::BF16 => Storage::BF16(le!(bf16)),
            Element::I8 => Storage::I8(bytes.iter().map(|&b| b as i8).collect()),
            Element::U8 => Storage::U8(bytes.to_vec()),
            Element::I16 => Storage::I16(le!(i16)),
            Element::U16 => Storage::U16(le!(u16)),
            Element::I32 => Storage::I32(le!(i32)),
            Element::U32 => Storage::U32(le!(u32)),
            Element::I64 => Storage::I64(le!(i64)),
            Element::U64 => Storage::U64(le!(u64)),
            Element::Bool => Storage::Bool(bytes.iter().map(|&b| b != 0).collect()),
            Element::C64 => Storage::C64(le!(f32).chunks_exact(2).map(|c| [c[0], c[1]]).collect()),
            Element::C128 => Storage::C128(le!(f64).chunks_exact(2).map(|c| [c[0], c[1]]).collect()),
            small => Storage::Code(small, unpack(bits, n, bytes)),
        };
        Self::new(shape, data)
    }

    /// The elements in place, if they are stored as [`Tensor::from_bytes`] reads them: elements of
    /// whole bytes, except complex numbers.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        if cfg!(target_endian = "big") {
            return None;
        }
        match self.data() {
            Storage::F32(v) => Some(bytemuck::cast_slice(v)),
            Storage::F64(v) => Some(bytemuck::cast_slice(v)),
            Storage::F16(v) => Some(bytemuck::cast_slice(v)),
            Storage::BF16(v) => Some(bytemuck::cast_slice(v)),
            Storage::I8(v) => Some(bytemuck::cast_slice(v)),
            Storage::U8(v) => Some(v),
            Storage::I16(v) => Some(bytemuck::cast_slice(v)),
            Storage::U16(v) => Some(bytemuck::cast_slice(v)),
            Storage::I32(v) => Some(bytemuck::cast_slice(v)),
            Storage::U32(v) => Some(bytemuck::cast_slice(v)),
            Storage::I64(v) => Some(bytemuck::cast_slice(v)),
            Storage::U64(v) => Some(bytemuck::cast_slice(v)),
            Storage::Bool(v) => Some(bytemuck::cast_slice(v)),
            Storage::String(_) | Storage::C64(_) | Storage::C128(_) | Storage::Code(..) => None,
        }
    }

    /// Like [`bytes`](Self::bytes), writable; only for numbers, since every bit pattern of theirs
    /// is valid.
    #[must_use]
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        if cfg!(target_endian = "big") {
            return None;
        }
        match self.data.storage_mut() {
            Storage::F32(v) => Some(bytemuck::cast_slice_mut(v)),
            Storage::F64(v) => Some(bytemuck::cast_slice_mut(v)),
            Storage::F16(v) => Some(bytemuck::cast_slice_mut(v)),
            Storage::BF16(v) => Some(bytemuck::cast_slice_mut(v)),
            Storage::I8(v) => Some(bytemuck::cast_slice_mut(v)),
            Storage::U8(v) => Some(v),
            Storage::I16(v) => Some(bytemuck::cast_slice_mut(v)),
            Storage::U16(v) => Some(bytemuck::cast_slice_mut(v)),
            Storage::I32(v) => Some(bytemuck::cast_slice_mut(v)),
            Storage::U32(v) => Some(bytemuck::cast_slice_mut(v)),
            Storage::I64(v) => Some(bytemuck::cast_slice_mut(v)),
            Storage::U64(v) => Some(bytemuck::cast_slice_mut(v)),
            Storage::Bool(_)
            | Storage::String(_)
            | Storage::C64(_)
            | Storage::C128(_)
            | Storage::Code(..) => None,
        }
    }

    /// The elements as little-endian bytes, packed as [`Tensor::from_bytes`] reads them.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        // arrays of a known size are copied at once, which single bytes are not
        macro_rules! le {
            ($v:expr) => {
                $v.iter()
                    .map(|x| x.to_le_bytes())
                    .collect::<Vec<_>>()
                    .into_flattened()
            };
        }
        match self.data() {
            Storage::F32(v) => le!(v),
            Storage::F64(v) => le!(v),
            Storage::F16(v) => le!(v),
            Storage::BF16(v) => le!(v),
            Storage::I8(v) => le!(v),
            Storage::U8(v) => v.clone(),
            Storage::I16(v) => le!(v),
            Storage::U16(v) => le!(v),
            Storage::I32(v) => le!(v),
            Storage::U32(v) => le!(v),
            Storage::I64(v) => le!(v),
            Storage::U64(v) => le!(v),
            Storage::Bool(v) => v.iter().map(|&b| u8::from(b)).collect(),
            Storage::String(v) => v
                .iter()
                .flat_map(|s| (s.len() as u32).to_le_bytes().into_iter().chain(s.bytes()))
                .collect(),
            Storage::C64(v) => v.iter().flatten().flat_map(|x| x.to_le_bytes()).collect(),
            Storage::C128(v) => v.iter().flatten().flat_map(|x| x.to_le_bytes()).collect(),
            Storage::Code(e, v) => pack(e.bits().unwrap_or(8), v),
        }
    }
}

fn read_strings(mut bytes: &[u8]) -> Result<Vec<String>> {
    let mut strings = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<4>() {
        let len = u32::from_le_bytes(*head) as usize;
        let Some((text, rest)) = rest.split_at_checked(len) else {
            super::error::refuse!("a string of {len} bytes is cut off");
        };
        match std::str::from_utf8(text) {
            Ok(text) => strings.push(text.to_owned()),
            Err(_) => super::error::refuse!("a string is not UTF-8"),
        }
        bytes = rest;
    }
    require!(bytes.is_empty(), "{} bytes follow the last string", bytes.len());
    Ok(strings)
}

fn pick<T: Clone>(v: &[T], from: &[usize]) -> Vec<T> {
    from.iter().map(|&i| v[i].clone()).collect()
}

fn unpack(bits: usize, n: usize, bytes: &[u8]) -> Vec<u8> {
    (0..n)
        .map(|i| {
            (0..bits).fold(0u8, |code, b| {
                let at = i * bits + b;
                code | ((bytes[at / 8] >> (at % 8)) & 1) << b
            })
        })
        .collect()
}

fn pack(bits: usize, codes: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0u8; (codes.len() * bits).div_ceil(8)];
    for (i, &code) in codes.iter().enumerate() {
        for b in 0..bits {
            let at = i * bits + b;
            bytes[at / 8] |= ((code >> b) & 1) << (at % 8);
        }
    }
    bytes
}

#[cfg(test)]
mod tests;
