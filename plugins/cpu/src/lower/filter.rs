//! Constant weights of 8 bits, and the plan of a product with them.

use polychip_cpu_kernels::conv::{ConvParams, Window};
use polychip_cpu_kernels::quantised::ConvPlan;
use polychip_lowering::{Layout, integers};
use polychip_ops::operator::Conv;
use polychip_ops::{DType, Op};
use polychip_sdk::{Constant, Encoding, EncodingKind, Error, Result};

use super::builder::shape_error;
use super::window::window;
use crate::part::{Node, Part, Tensor, TensorIndex};
use crate::weights::Recipe;
use crate::work::Class;

/// Constant weights of a product, as far as a plan needs them.
#[derive(Clone)]
pub(super) struct Filter {
    dtype: DType,
    constant: Constant,
    encoding: Encoding,
    /// `[out, in, taps...]`, or `[in, out]` if `columns`.
    pub(super) dims: Vec<usize>,
    columns: bool,
    kept: Kept,
}

/// How weights are kept in 8 signed bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
enum Kept {
    /// As sums of so many bytes, one where they fit.
    Bytes(usize),
    /// With their zeros.
    Apart,
}

/// The most bytes that weights are sums of: 255 needs as many.
const MOST_BYTES: usize = 3;

/// Products deeper than this could leave 32 bits.
const DEEPEST: usize = 30_000;

impl Filter {
    pub(super) fn outputs(&self) -> usize {
        self.dims[usize::from(self.columns)]
    }

    /// The weights of a node, where they are 8-bit constants with a scale for each output or for all; they may have to keep
    /// their zeros.
    pub(super) fn new(part: &Part, tensor: TensorIndex, columns: bool) -> Option<Self> {
        let encoding = part.tensors[tensor].encoding.clone()?;
        Self::of(part, tensor, encoding, columns)
    }

    /// The same with weights that are sums of bytes where they do not fit one.
    pub(super) fn summed(self) -> Option<Self> {
        if self.kept != Kept::Apart {
            return Some(self);
        }
        let flat = self.dims.len() <= 4;
        let fits = |&bytes: &usize| {
            let kept = Kept::Bytes(bytes);
            self.depth().is_some_and(|depth| depth * bytes < DEEPEST)
                && Filter { kept, ..self.clone() }.values().is_ok()
        };
        let bytes = (2..=MOST_BYTES).find(fits).filter(|_| flat)?;
        Some(Filter {
            kept: Kept::Bytes(bytes),
            ..self
        })
    }

    /// As [`new`](Self::new), with an encoding that the node states.
    pub(super) fn of(part: &Part, tensor: TensorIndex, encoding: Encoding, columns: bool) -> Option<Self> {
        let t = &part.tensors[tensor];
        let dims = t.dims.clone()?;
        let axis = usize::from(columns);
        let outputs = *dims.get(axis)?;
        let fits = match encoding.kind {
            EncodingKind::PerTensor => !encoding.scales.is_empty(),
            EncodingKind::PerAxis { axis: own } => own == axis && encoding.scales.len() == outputs,
            EncodingKind::PerBlock { .. } | EncodingKind::Blocks(_) => false,
        };
        let sound = encoding.scales.iter().all(|scale| scale.is_finite());
        if !matches!(t.dtype, DType::U8 | DType::I8) || !fits || !sound || encoding.real_dtype != DType::F32 {
            return None;
        }
        let filter = Filter {
            dtype: t.dtype,
            constant: t.constant?,
            encoding,
            dims,
            columns,
            kept: Kept::Bytes(1),
        };
        // a byte of weights is looked at only where it might not fit
        let plain = t.dtype == DType::I8 && filter.encoding.zero_points.iter().all(|&zero| zero == 0);
        let apart = !plain && filter.values().is_err();
        let kept = if apart { Kept::Apart } else { Kept::Bytes(1) };
        Some(Filter { kept, ..filter })
    }

    /// A recipe that depends on the weights too.
    pub(super) fn named(&self, recipe: Recipe) -> Recipe {
        let source = Tensor {
            constant: Some(self.constant),
            encoding: Some(self.encoding.clone()),
            ..Tensor::new(self.dtype, Some(self.dims.clone()))
        };
        recipe.by((self.columns, self.kept)).of(&source)
    }

    /// What is left to take off each output's weights, where they keep their zeros.
    pub(super) fn zeros(&self) -> Option<Vec<i32>> {
        let zeros = (0..self.outputs()).map(|output| self.zero(output) - self.middle());
        (self.kept == Kept::Apart).then(|| zeros.collect())
    }

    /// The zero of an output's weights, as they are stored.
    fn zero(&self, output: usize) -> i32 {
        match self.encoding.zero_points[..] {
            [] => 0,
            [one] => one,
            ref all => all[output],
        }
    }

    /// What makes stored weights signed.
    fn middle(&self) -> i32 {
        if self.dtype == DType::U8 { 128 } else { 0 }
    }

    /// Products in a sum, where those fit 32 bits.
    pub(super) fn depth(&self) -> Option<usize> {
        let depth = if self.columns {
            self.dims[0]
        } else {
            self.dims[1..].iter().product()
        };
        (depth < DEEPEST).then_some(depth)
    }

    pub(super) fn scale(&self, output: usize) -> f32 {
        let scales = &self.encoding.scales;
        scales[if scales.len() == 1 { 0 } else { output }]
    }

    /// How many bytes each weight is a sum of.
    pub(super) fn bytes(&self) -> usize {
        match self.kept {
            Kept::Bytes(bytes) => bytes,
            Kept::Apart => 1,
        }
    }

    /// The weights less their zeros, or less the middle of their range where they keep those, `[out, in, bytes, taps...]`.
    pub(super) fn values(&self) -> Result<Vec<i8>> {
        let count: usize = self.dims.iter().product();
        let stored = integers(self.dtype, count, self.constant.bytes())?;
        let outputs = self.outputs();
        let depth = count.checked_div(outputs).unwrap_or(0);
        let taps: usize = if self.columns {
            1
        } else {
            self.dims[2..].iter().product()
        };
        let bytes = self.bytes();
        let mut values = Vec::with_capacity(count * bytes);
        for output in 0..outputs {
            let zero = match self.kept {
                Kept::Apart => self.middle(),
                Kept::Bytes(_) => self.zero(output),
            };
            for first in (0..depth).step_by(taps.max(1)) {
                // as equal shares as there are
                for byte in 0..bytes as i32 {
                    for i in first..first + taps {
                        let at = if self.columns {
                            i * outputs + output
                        } else {
                            output * depth + i
                        };
                        let value = stored[at].wrapping_sub(zero);
                        let share = value.wrapping_add(byte).div_euclid(bytes as i32);
                        values.push(i8::try_from(share).map_err(|_| {
                            Error::unsupported(format!(
                                "a weight of {value} less its zero does not fit {bytes} bytes with signs"
                            ))
                        })?);
                    }
                }
            }
        }
        Ok(values)
    }
}

impl Filter {
    /// A window that reads each pixel once for each byte that the weights are sums of.
    fn repeated(&self, window: Window) -> Window {
        match self.bytes() {
            1 => window,
            bytes => Window {
                kernel: [bytes, window.kernel[1], window.kernel[2]],
                dilations: [0, window.dilations[1], window.dilations[2]],
                ..window
            },
        }
    }
}

/// The convolution that a product of `dims` with a filter to `y` is, and the form of its operands.
pub(super) fn extent(
    node: &Node,
    filter: &Filter,
    dims: &[usize],
    y: &[usize],
) -> Result<(ConvParams, Layout)> {
    if !filter.columns && matches!(node.op, Op::Conv | Op::ConvInteger | Op::QLinearConv) {
        let conv: Conv = node.typed().map_err(shape_error)?;
        let groups = conv.groups.get();
        let shape = conv.window.over(&filter.dims[2..]).map_err(shape_error)?;
        let placement = shape.resolve(&dims[2..]).map_err(shape_error)?;
        if placement.output[..] != y[2..]
            || y[1] != filter.dims[0]
            || dims[1] != filter.dims[1].saturating_mul(groups)
        {
            return Err(Error::bad_argument(format!(
                "a convolution of {dims:?} with {:?} in {groups} groups does not give {y:?}",
                filter.dims
            )));
        }
        let window = filter.repeated(window(&shape, &dims[2..], &placement)?);
        let params = ConvParams::dense(dims[0], dims[1], filter.dims[0], groups, window);
        return Ok((params, Layout::ChannelsLast));
    }
    let rows: usize = dims[..dims.len() - 1].iter().product();
    let window = filter.repeated(Window::new_2d(
        [1, rows],
        [1, rows],
        [1, 1],
        [1, 1],
        [1, 1],
        [0, 0],
    ));
    let depth = dims[dims.len() - 1];
    Ok((
        ConvParams::dense(1, depth, filter.outputs(), 1, window),
        Layout::RowMajor,
    ))
}

/// Multiply-adds of tiles of registers in the time of one by vectors, as measured on 64 rows of 512 (Sapphire Rapids).
const BY_TILES: usize = 3;

/// Multiply-adds by vectors in the time that a byte of a row takes to be copied for tiles, as measured on a residual network
/// and a U-Net of 128 pixels (Sapphire Rapids).
const BY_GATHERED: usize = 40;

/// The class of a plan's multiply-adds, and how many by vectors take as long.
pub(super) fn products(plan: &ConvPlan) -> (Class, usize) {
    let products = plan.multiply_adds();
    if plan.is_depthwise() {
        (Class::DepthwiseCodes, products)
    } else if plan.uses_tiles() {
        let gathered = plan.gathered_bytes().saturating_mul(BY_GATHERED);
        (
            Class::ProductCodes,
            (products / BY_TILES).saturating_add(gathered),
        )
    } else {
        (Class::ProductCodes, products)
    }
}
