//! Windows that slide over an image: kernels, strides, dilations, pads and what size comes out.
//!
//! The one place for the rules of convolutions and pools; shape functions, the CPU plugin and the
//! reference evaluator all ask here. Typed operators carry a [`WindowSpec`], which a kernel's size makes a [`Window`].
//!
//! Invariants:
//! 1. Kernel, strides and dilations are at least 1 and have one entry per spatial axis.
//! 2. A [`Placement`] has at least one window per axis, unless the input axis itself is empty, or a pool's window is
//!    larger than it by less than two steps: then the pool is empty.
//!
//! Not here: channels, groups and weights (`infer::convolution`).

use crate::operator::AutoPad;
use crate::{Attr, Dim, ErrorKind, InferError, Op};

/// How the image is padded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Padding {
    /// These numbers of elements before and after each spatial axis.
    Explicit {
        /// Before each axis.
        begin: Vec<usize>,
        /// After each axis.
        end: Vec<usize>,
    },
    /// As much as gives `ceil(input / stride)` windows; an odd element goes after.
    SameUpper,
    /// As much as gives `ceil(input / stride)` windows; an odd element goes before.
    SameLower,
}

/// The window of a convolution or pool as its attributes state it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WindowSpec {
    pub(crate) op: Op,
    /// Elements per spatial axis; empty where the shape of the weights tells (`kernel_shape`).
    pub kernel_shape: Vec<i64>,
    /// Steps per spatial axis, in elements; empty for 1.
    pub strides: Vec<i64>,
    /// Distance of neighbouring kernel elements per spatial axis, in elements; empty for 1.
    pub dilations: Vec<i64>,
    /// Elements before each spatial axis, then after each; empty for none.
    pub pads: Vec<i64>,
    /// Whether `pads` counts, or what replaces it.
    pub auto_pad: AutoPad,
    /// Whether a last window that only begins inside the image counts (`ceil_mode`).
    pub ceil: bool,
}

impl WindowSpec {
    /// A window of stride 1 without padding.
    fn plain(op: Op) -> WindowSpec {
        WindowSpec {
            op,
            kernel_shape: Vec::new(),
            strides: Vec::new(),
            dilations: Vec::new(),
            pads: Vec::new(),
            auto_pad: AutoPad::NotSet,
            ceil: false,
        }
    }

    /// The window with a kernel of these sizes.
    ///
    /// # Errors
    /// Where a list has the wrong length, or a value is out of range.
    pub fn over(&self, kernel: &[usize]) -> Result<Window, InferError> {
        Window::of(self, kernel)
    }

    /// The window with the kernel that `kernel_shape` names, as pools have.
    ///
    /// # Errors
    /// As [`WindowSpec::over`].
    pub fn stated(&self) -> Result<Window, InferError> {
        let axes = self.kernel_shape.len();
        let kernel = sizes(self.op, Attr::KernelShape, &self.kernel_shape, axes, 1)?;
        self.over(&kernel)
    }
}

/// The window of a transposed convolution as its attributes state it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransposedSpec {
    /// Kernel, strides, dilations and pads.
    pub window: WindowSpec,
    /// Elements added after each spatial axis of the output; empty for none.
    pub output_padding: Vec<i64>,
    /// Output size per spatial axis. If given, pads follow from it; if empty, the window's pads apply.
    pub output_shape: Vec<i64>,
}

impl TransposedSpec {
    /// The window with a kernel of these sizes.
    ///
    /// # Errors
    /// As [`WindowSpec::over`].
    pub fn over(&self, kernel: &[usize]) -> Result<TransposedWindow, InferError> {
        TransposedWindow::of(self, kernel)
    }
}

/// A sliding window over the spatial axes of an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Window {
    op: Op,
    /// Elements per axis.
    pub kernel: Vec<usize>,
    /// Steps per axis.
    pub strides: Vec<usize>,
    /// Distance of neighbouring kernel elements per axis.
    pub dilations: Vec<usize>,
    /// How the image is padded.
    pub padding: Padding,
    /// Whether a last window that only begins inside the image counts (`ceil_mode`).
    pub ceil: bool,
}

/// Where the windows of an image of known size lie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Padding before each axis.
    pub begin: Vec<usize>,
    /// Padding after each axis, as resolved; with `ceil` the last window may reach further.
    pub end: Vec<usize>,
    /// Sizes of the output per spatial axis.
    pub output: Vec<usize>,
}

impl Window {
    /// The window of this size that lies on the whole image, without padding: that of global pools.
    ///
    /// # Errors
    /// Where the image is empty.
    pub fn whole(op: Op, image: &[usize]) -> Result<Window, InferError> {
        WindowSpec::plain(op).over(image)
    }

    /// The window of these attributes whose kernel has these sizes.
    fn of(spec: &WindowSpec, kernel: &[usize]) -> Result<Window, InferError> {
        let (op, axes) = (spec.op, kernel.len());
        if let Some(axis) = kernel.iter().position(|&size| size == 0) {
            let message = format!("the kernel has size 0 on spatial axis {axis}");
            return Err(InferError::new(op, ErrorKind::Shape, message));
        }
        let strides = positive(op, Attr::Strides, &spec.strides, axes)?;
        let dilations = positive(op, Attr::Dilations, &spec.dilations, axes)?;
        let zero = || Padding::Explicit {
            begin: vec![0; axes],
            end: vec![0; axes],
        };
        let padding = match spec.auto_pad {
            AutoPad::NotSet if spec.pads.is_empty() => zero(),
            AutoPad::NotSet => {
                let pads = sizes(op, Attr::Pads, &spec.pads, 2 * axes, 0)?;
                let (begin, end) = pads.split_at(axes);
                Padding::Explicit {
                    begin: begin.to_vec(),
                    end: end.to_vec(),
                }
            }
            AutoPad::Valid => zero(),
            AutoPad::SameUpper => Padding::SameUpper,
            AutoPad::SameLower => Padding::SameLower,
        };
        Ok(Window {
            op,
            kernel: kernel.to_vec(),
            strides,
            dilations,
            padding,
            ceil: spec.ceil,
        })
    }

    /// Number of spatial axes.
    pub fn axes(&self) -> usize {
        self.kernel.len()
    }

    /// Elements that the kernel spans on an axis, dilation included; `None` on overflow.
    pub fn extent(&self, axis: usize) -> Option<usize> {
        (self.kernel[axis] - 1)
            .checked_mul(self.dilations[axis])?
            .checked_add(1)
    }

    /// Padding before and after an axis of this size, and the number of windows on it.
    fn place(&self, axis: usize, size: usize) -> Result<(usize, usize, usize), InferError> {
        let extent = self.extent(axis).ok_or_else(|| self.overflow(axis))?;
        let stride = self.strides[axis];
        let (begin, end) = match &self.padding {
            Padding::Explicit { begin, end } => (begin[axis], end[axis]),
            Padding::SameUpper | Padding::SameLower => {
                let output = size.div_ceil(stride);
                let reach = output
                    .saturating_sub(1)
                    .checked_mul(stride)
                    .and_then(|last| last.checked_add(extent))
                    .ok_or_else(|| self.overflow(axis))?;
                let total = if size == 0 { 0 } else { reach.saturating_sub(size) };
                let (less, more) = (total / 2, total - total / 2);
                let upper = self.padding == Padding::SameUpper;
                let (begin, end) = if upper { (less, more) } else { (more, less) };
                return Ok((begin, end, output));
            }
        };
        let padded = size
            .checked_add(begin)
            .and_then(|sum| sum.checked_add(end))
            .ok_or_else(|| self.overflow(axis))?;
        let output = match padded.checked_sub(extent) {
            Some(room) if self.ceil => {
                let windows = room.div_ceil(stride) + 1;
                // A window that would begin in the padding after the image does not count.
                if (windows - 1).saturating_mul(stride) >= size + begin {
                    windows - 1
                } else {
                    windows
                }
            }
            Some(room) => room / stride + 1,
            None if self.ceil && extent - padded < stride && padded > end => 1,
            None => 0,
        };
        // the formula of a pool gives zero where its window does not fit; a convolution has no result then
        let pools = matches!(self.op, Op::AveragePool | Op::LpPool | Op::MaxPool)
            && extent.saturating_sub(padded) < stride.saturating_mul(2);
        if output == 0 && !pools && !(size == 0 && begin == 0 && end == 0) {
            let message =
                format!("the window spans {extent} on spatial axis {axis}, the padded input only {padded}");
            return Err(InferError::new(self.op, ErrorKind::Shape, message));
        }
        Ok((begin, end, output))
    }

    /// Pads and output sizes for an image of these spatial sizes.
    ///
    /// # Errors
    /// Where the number of axes differs, or a window does not fit its padded axis.
    pub fn resolve(&self, spatial: &[usize]) -> Result<Placement, InferError> {
        self.same_axes(spatial.len())?;
        let mut placement = Placement {
            begin: vec![],
            end: vec![],
            output: vec![],
        };
        for (axis, &size) in spatial.iter().enumerate() {
            let (begin, end, output) = self.place(axis, size)?;
            placement.begin.push(begin);
            placement.end.push(end);
            placement.output.push(output);
        }
        Ok(placement)
    }

    /// Output sizes for spatial dimensions that need not be known.
    ///
    /// # Errors
    /// As [`Window::resolve`].
    pub fn output_dims(&self, spatial: &[Dim]) -> Result<Vec<Dim>, InferError> {
        self.same_axes(spatial.len())?;
        let mut output = Vec::with_capacity(spatial.len());
        for (axis, dim) in spatial.iter().enumerate() {
            output.push(match dim {
                Dim::Known(size) => Dim::Known(self.place(axis, *size)?.2),
                dim if self.keeps(axis) => dim.clone(),
                _ => Dim::Unknown,
            });
        }
        Ok(output)
    }

    /// Whether an axis keeps its size whatever it is.
    fn keeps(&self, axis: usize) -> bool {
        self.strides[axis] == 1
            && match &self.padding {
                Padding::SameUpper | Padding::SameLower => true,
                Padding::Explicit { begin, end } => self
                    .extent(axis)
                    .is_some_and(|extent| extent - 1 == begin[axis] + end[axis]),
            }
    }

    fn same_axes(&self, axes: usize) -> Result<(), InferError> {
        if axes == self.axes() {
            return Ok(());
        }
        let message = format!(
            "the kernel has {} spatial axes, the input has {axes}",
            self.axes()
        );
        Err(InferError::new(self.op, ErrorKind::Shape, message))
    }

    fn overflow(&self, axis: usize) -> InferError {
        let message = format!("the window on spatial axis {axis} is too large for this machine");
        InferError::new(self.op, ErrorKind::Overflow, message)
    }
}

/// The inverse of a window: each input element is spread over the output (`ConvTranspose`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransposedWindow {
    /// Kernel, strides, dilations and pads.
    pub window: Window,
    /// Elements added after each axis of the output.
    pub output_padding: Vec<usize>,
    /// Sizes of the output that the node demands; pads follow from them.
    pub output_shape: Option<Vec<usize>>,
}

impl TransposedWindow {
    /// The transposed window of these attributes whose kernel has these sizes.
    fn of(spec: &TransposedSpec, kernel: &[usize]) -> Result<TransposedWindow, InferError> {
        let window = spec.window.over(kernel)?;
        let (op, axes) = (window.op, window.axes());
        let output_padding = match &spec.output_padding[..] {
            [] => vec![0; axes],
            list => sizes(op, Attr::OutputPadding, list, axes, 0)?,
        };
        let output_shape = match &spec.output_shape[..] {
            [] => None,
            // Some exporters write the whole shape: batch and channels say nothing new.
            whole if whole.len() == axes + 2 => Some(sizes(op, Attr::OutputShape, &whole[2..], axes, 0)?),
            list => Some(sizes(op, Attr::OutputShape, list, axes, 0)?),
        };
        Ok(TransposedWindow {
            window,
            output_padding,
            output_shape,
        })
    }

    /// Pads and output sizes for an image of these spatial sizes.
    ///
    /// # Errors
    /// Where the number of axes differs, or the pads take away more than there is.
    pub fn resolve(&self, spatial: &[usize]) -> Result<Placement, InferError> {
        self.window.same_axes(spatial.len())?;
        let mut placement = Placement {
            begin: vec![],
            end: vec![],
            output: vec![],
        };
        for (axis, &size) in spatial.iter().enumerate() {
            let (begin, end, output) = self.place(axis, size)?;
            placement.begin.push(begin);
            placement.end.push(end);
            placement.output.push(output);
        }
        Ok(placement)
    }

    /// Output sizes for spatial dimensions that need not be known.
    ///
    /// # Errors
    /// As [`TransposedWindow::resolve`].
    pub fn output_dims(&self, spatial: &[Dim]) -> Result<Vec<Dim>, InferError> {
        self.window.same_axes(spatial.len())?;
        let mut output = Vec::with_capacity(spatial.len());
        for (axis, dim) in spatial.iter().enumerate() {
            output.push(match (dim, &self.output_shape) {
                (_, Some(shape)) => Dim::Known(shape[axis]),
                (Dim::Known(size), None) => Dim::Known(self.place(axis, *size)?.2),
                (dim, None) if self.keeps(axis) => dim.clone(),
                _ => Dim::Unknown,
            });
        }
        Ok(output)
    }

    fn keeps(&self, axis: usize) -> bool {
        self.window.strides[axis] == 1
            && match &self.window.padding {
                Padding::SameUpper | Padding::SameLower => true,
                Padding::Explicit { begin, end } => {
                    let grown = self
                        .window
                        .extent(axis)
                        .map(|e| e - 1 + self.output_padding[axis]);
                    grown == Some(begin[axis] + end[axis])
                }
            }
    }

    fn place(&self, axis: usize, size: usize) -> Result<(usize, usize, usize), InferError> {
        let window = &self.window;
        let overflow = || window.overflow(axis);
        let stride = window.strides[axis];
        // What all spread elements cover together, before any padding is cut off.
        let whole = size
            .saturating_sub(1)
            .checked_mul(stride)
            .and_then(|last| last.checked_add(window.extent(axis)?))
            .and_then(|sum| sum.checked_add(self.output_padding[axis]))
            .ok_or_else(overflow)?;
        let whole = if size == 0 { 0 } else { whole };
        let wanted = match (&self.output_shape, &window.padding) {
            (Some(shape), _) => Some(shape[axis]),
            (None, Padding::SameUpper | Padding::SameLower) => {
                Some(size.checked_mul(stride).ok_or_else(overflow)?)
            }
            (None, Padding::Explicit { .. }) => None,
        };
        if let Some(output) = wanted {
            let total = whole.saturating_sub(output);
            let (less, more) = (total / 2, total - total / 2);
            return Ok(match window.padding {
                Padding::SameUpper => (less, more, output),
                _ => (more, less, output),
            });
        }
        let Padding::Explicit { begin, end } = &window.padding else {
            unreachable!("the other paddings demand an output size");
        };
        let pads = begin[axis].checked_add(end[axis]).ok_or_else(overflow)?;
        match whole.checked_sub(pads) {
            Some(output) => Ok((begin[axis], end[axis], output)),
            None => {
                let message = format!("pads of {pads} on spatial axis {axis} exceed the output of {whole}");
                Err(InferError::new(window.op, ErrorKind::Shape, message))
            }
        }
    }
}

/// A list attribute of sizes from 1 on, all 1 where it is empty.
fn positive(op: Op, attr: Attr, list: &[i64], axes: usize) -> Result<Vec<usize>, InferError> {
    match list {
        [] => Ok(vec![1; axes]),
        list => sizes(op, attr, list, axes, 1),
    }
}

/// A list of a given length whose values are at least `least`.
pub(crate) fn sizes(
    op: Op,
    attr: Attr,
    list: &[i64],
    count: usize,
    least: usize,
) -> Result<Vec<usize>, InferError> {
    let wrong = |message| Err(InferError::new(op, ErrorKind::Attribute, message));
    if list.len() != count {
        return wrong(format!("{attr} has {} values, not {count}", list.len()));
    }
    let mut sizes = Vec::with_capacity(count);
    for &value in list {
        match usize::try_from(value) {
            Ok(size) if size >= least => sizes.push(size),
            _ => return wrong(format!("{attr} holds {value}, less than {least}")),
        }
    }
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Attributes;

    fn made(op: Op, attributes: &Attributes, kernel: &[usize]) -> Result<Window, InferError> {
        crate::operator::window(op, attributes)?.over(kernel)
    }

    fn window(kernel: &[usize], attributes: &Attributes) -> Window {
        made(Op::MaxPool, attributes, kernel).unwrap()
    }

    #[test]
    fn plain_windows_round_down() {
        let a = Attributes::new()
            .with_ints(Attr::Strides, &[2, 2])
            .with_ints(Attr::Pads, &[1; 4]);
        let placed = window(&[3, 3], &a).resolve(&[224, 7]).unwrap();
        assert_eq!(placed.output, [112, 4]);
        let a = a.with_ints(Attr::Dilations, &[2, 3]);
        assert_eq!(window(&[3, 3], &a).resolve(&[10, 10]).unwrap().output, [4, 3]);
    }

    #[test]
    fn same_pads_split_the_odd_element() {
        let a = Attributes::new().with_str(Attr::AutoPad, "SAME_UPPER");
        let placed = window(&[2], &a).resolve(&[5]).unwrap();
        assert_eq!((placed.begin[0], placed.end[0], placed.output[0]), (0, 1, 5));
        let a = a
            .with_str(Attr::AutoPad, "SAME_LOWER")
            .with_ints(Attr::Strides, &[3]);
        let placed = window(&[4], &a).resolve(&[7]).unwrap();
        assert_eq!((placed.begin[0], placed.end[0], placed.output[0]), (2, 1, 3));
        // A kernel shorter than its stride needs no padding at all.
        let placed = window(&[1], &a).resolve(&[7]).unwrap();
        assert_eq!((placed.begin[0], placed.end[0], placed.output[0]), (0, 0, 3));
    }

    #[test]
    fn ceil_mode_drops_windows_that_begin_in_the_padding() {
        let a = Attributes::new()
            .with_int(Attr::CeilMode, 1)
            .with_ints(Attr::Strides, &[2]);
        assert_eq!(window(&[3], &a).resolve(&[4]).unwrap().output, [2]);
        assert_eq!(window(&[3], &a).resolve(&[2]).unwrap().output, [1]);
        let b = a.with_ints(Attr::Strides, &[2]).with_ints(Attr::Pads, &[0, 1]);
        assert_eq!(window(&[1], &b).resolve(&[2]).unwrap().output, [1]);
    }

    #[test]
    fn windows_that_do_not_fit_are_errors() {
        let none = Attributes::new();
        assert_eq!(window(&[3], &none).resolve(&[2]).unwrap().output, [0]);
        let error = window(&[3], &none).resolve(&[1]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "MaxPool: the window spans 3 on spatial axis 0, the padded input only 1"
        );
        assert!(made(Op::Conv, &none, &[3]).unwrap().resolve(&[2]).is_err());
        assert!(window(&[3], &none).resolve(&[4, 4]).is_err());
        assert!(made(Op::Conv, &none, &[0]).is_err());
        let bad = none.clone().with_ints(Attr::Strides, &[0]);
        assert!(made(Op::Conv, &bad, &[1]).is_err());
        let bad = none.clone().with_ints(Attr::Pads, &[0]);
        assert!(made(Op::Conv, &bad, &[1]).is_err());
        let bad = none.with_str(Attr::AutoPad, "SAME");
        assert!(made(Op::Conv, &bad, &[1]).is_err());
    }

    #[test]
    fn symbols_survive_where_the_size_is_kept() {
        let a = Attributes::new().with_ints(Attr::Pads, &[1, 1]);
        let n = [Dim::symbol("n")];
        assert_eq!(window(&[3], &a).output_dims(&n), Ok(n.to_vec()));
        assert_eq!(window(&[5], &a).output_dims(&n), Ok(vec![Dim::Unknown]));
        let same = Attributes::new().with_str(Attr::AutoPad, "SAME_UPPER");
        assert_eq!(window(&[4], &same).output_dims(&n), Ok(n.to_vec()));
    }

    #[test]
    fn transposed_windows_follow_the_three_rules() {
        let t = |a: &Attributes| {
            crate::operator::transposed_window(Op::ConvTranspose, a)
                .unwrap()
                .over(&[3])
                .unwrap()
        };
        let a = Attributes::new()
            .with_ints(Attr::Strides, &[2])
            .with_ints(Attr::Pads, &[1, 1]);
        assert_eq!(t(&a).resolve(&[5]).unwrap().output, [9]);
        let padded = a.clone().with_ints(Attr::OutputPadding, &[1]);
        assert_eq!(t(&padded).resolve(&[5]).unwrap().output, [10]);
        let shaped = Attributes::new()
            .with_ints(Attr::Strides, &[2])
            .with_ints(Attr::OutputShape, &[8]);
        let placed = t(&shaped).resolve(&[5]).unwrap();
        assert_eq!((placed.begin[0], placed.end[0], placed.output[0]), (2, 1, 8));
        let upper = shaped.with_str(Attr::AutoPad, "SAME_UPPER");
        let placed = t(&upper).resolve(&[5]).unwrap();
        assert_eq!((placed.begin[0], placed.end[0], placed.output[0]), (1, 2, 8));
        let same = Attributes::new()
            .with_ints(Attr::Strides, &[2])
            .with_str(Attr::AutoPad, "SAME_LOWER");
        assert_eq!(t(&same).resolve(&[5]).unwrap().output, [10]);
        let much = Attributes::new().with_ints(Attr::Pads, &[9, 9]);
        assert!(t(&much).resolve(&[5]).is_err());
    }
}
