//! Pools, resampling and the other operations on images without weights.

use polychip_lowering::{Layout, Node, Outcome, Refusal, TensorIndex};
use polychip_ops::geometry::Window;
use polychip_ops::{Attr, Attributes, Op};
use polychip_sys::neuron::bindings as sys;

use super::builder::{Lower, input, int, output};
use super::product::{Place, geometry};
use crate::program::{OperandId, Quant, Type};

impl Lower<'_> {
    /// What a mean is made of: the library stores it in its operand's encoding, and where the node has another one, what was
    /// rounded to the first would be off in the second. Reals are not.
    fn averaged(&mut self, id: OperandId, to: TensorIndex) -> Outcome<OperandId> {
        let same = self.quant(id) == self.info(to)?.quant;
        if same || self.ty(id).is_float() {
            return Ok(id);
        }
        self.converted(id, Type::F32, Quant::default())
    }

    pub(super) fn pool(&mut self, node: &Node) -> Outcome<()> {
        let to = output(node)?;
        let (image, shape) = self.image(node)?;
        let window = match node.op {
            Op::GlobalAveragePool | Op::GlobalMaxPool => {
                Window::new(node.op, &Attributes::new(), &shape[2..])
            }
            _ => {
                let sizes = node.attributes.ints(Attr::KernelShape).unwrap_or(&[]);
                let sizes: Vec<usize> = sizes.iter().map(|&size| size.max(0) as usize).collect();
                Window::new(node.op, &node.attributes, &sizes)
            }
        };
        let place = Place::of(&window.map_err(geometry)?, &shape[2..])?;
        let average = matches!(node.op, Op::AveragePool | Op::GlobalAveragePool);
        if place.dilations != [1, 1] || int(node, Attr::StorageOrder, 0) != 0 {
            return Err(Refusal::attribute("dilations or a storage order of a pool"));
        }
        // the library averages over what lies inside the image
        if average && int(node, Attr::CountIncludePad, 0) != 0 && place.pads != [(0, 0); 2] {
            return Err(Refusal::attribute("count_include_pad with pads"));
        }
        let image = if average { self.averaged(image, to)? } else { image };
        let mut inputs = vec![image];
        inputs.extend(self.window(&place));
        inputs.extend([self.int(place.kernel[1]), self.int(place.kernel[0])]);
        // channels last, as where the order is left out
        inputs.push(self.unfused());
        let code = if average {
            sys::NEURON_AVERAGE_POOL_2D
        } else {
            sys::NEURON_MAX_POOL_2D
        };
        let dims = Layout::ChannelsLast.dims(self.shape(to)?);
        let out = self.like(code, image, &dims, &inputs);
        self.settle(out, to, Layout::ChannelsLast)
    }

    pub(super) fn resize(&mut self, node: &Node) -> Outcome<()> {
        let to = output(node)?;
        let (image, from) = self.image(node)?;
        let wanted = self.shape(to)?;
        if from[..2] != wanted[..2]
            || int(node, Attr::Antialias, 0) != 0
            || node.attributes.ints(Attr::Axes).is_some()
        {
            return Err(Refusal::attribute(
                "Resize of batch or channels, of some axes, or with antialias",
            ));
        }
        // the library knows sizes only
        if let (Some(scales), None) = (node.input(2), node.input(3)) {
            let scales = self.view(scales).reals()?;
            let exact = scales
                .iter()
                .zip(from.iter().zip(wanted))
                .all(|(&scale, (&from, &to))| from as f32 * scale == to as f32);
            if !exact {
                return Err(Refusal::attribute(format!(
                    "scales {scales:?} are not those of the sizes"
                )));
            }
        }
        let word = |attr, default| node.attributes.str(attr).unwrap_or(default);
        let mode = word(Attr::Mode, "nearest");
        let centres = word(Attr::CoordinateTransformationMode, "half_pixel");
        let rounding = word(Attr::NearestMode, "round_prefer_floor");
        let whole = (2..4).all(|axis| wanted[axis].is_multiple_of(from[axis]));
        let (code, corners, half) = match (mode, centres, rounding) {
            ("linear", "align_corners", _) => (sys::NEURON_RESIZE_BILINEAR, true, false),
            ("linear", "half_pixel", _) => (sys::NEURON_RESIZE_BILINEAR, false, true),
            ("linear", "asymmetric", _) => (sys::NEURON_RESIZE_BILINEAR, false, false),
            ("nearest", "asymmetric", "floor") => (sys::NEURON_RESIZE_NEAREST_NEIGHBOR, false, false),
            // both round the half up; downwards they agree where no pixel lies half-way, as in whole multiples
            ("nearest", "half_pixel", "round_prefer_ceil") => {
                (sys::NEURON_RESIZE_NEAREST_NEIGHBOR, false, true)
            }
            ("nearest", "half_pixel", "round_prefer_floor") if whole => {
                (sys::NEURON_RESIZE_NEAREST_NEIGHBOR, false, true)
            }
            _ => {
                return Err(Refusal::attribute(format!(
                    "Resize with {mode}, {centres}, {rounding}"
                )));
            }
        };
        let (height, width) = (self.int(wanted[2]), self.int(wanted[3]));
        let flags = [false, corners, half].map(|flag| self.truth(flag));
        let mut inputs = vec![image, width, height];
        inputs.extend(flags);
        let dims = Layout::ChannelsLast.dims(wanted);
        let out = self.like(code, image, &dims, &inputs);
        self.settle(out, to, Layout::ChannelsLast)
    }

    pub(super) fn depth_space(&mut self, node: &Node) -> Outcome<()> {
        let to = output(node)?;
        let (image, _) = self.image(node)?;
        if node.attributes.str(Attr::Mode).unwrap_or("DCR") != "DCR" {
            return Err(Refusal::attribute("DepthToSpace with columns before rows (CRD)"));
        }
        let code = match node.op {
            Op::DepthToSpace => sys::NEURON_DEPTH_TO_SPACE,
            _ => sys::NEURON_SPACE_TO_DEPTH,
        };
        let block = self.int(int(node, Attr::Blocksize, 1).max(1) as usize);
        let order = self.truth(false);
        let dims = Layout::ChannelsLast.dims(self.shape(to)?);
        let out = self.like(code, image, &dims, &[image, block, order]);
        self.settle(out, to, Layout::ChannelsLast)
    }

    pub(super) fn softmax(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let tensor = input(node, 0)?;
        let rank = self.shape(tensor)?.len();
        let layout = if rank < 3 { Layout::RowMajor } else { layout };
        let axis = layout.place(super::builder::axis(node, -1, rank)?, rank);
        let from = self.read(tensor, layout)?;
        let ty = self.ty(from);
        let mut inputs = vec![from, self.real(ty, 1.0)];
        if axis + 1 != rank {
            inputs.push(self.int(axis));
        }
        let quant = Quant {
            scale: if ty.is_quantised() { 1.0 / 256.0 } else { 0.0 },
            zero: if ty == Type::S8 { -128 } else { 0 },
        };
        let dims = self.dims(from);
        let out = self.tensor(ty, quant, &dims);
        self.op(sys::NEURON_SOFTMAX, &inputs, &[out]);
        self.settle(out, output(node)?, layout)
    }

    pub(super) fn reduce(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let (tensor, to) = (input(node, 0)?, output(node)?);
        let shape = self.shape(tensor)?;
        let rank = shape.len();
        let layout = if rank < 3 { Layout::RowMajor } else { layout };
        let axes = match (node.input(1), node.attributes.ints(Attr::Axes)) {
            (Some(axes), _) => self.ints(axes)?,
            (None, Some(axes)) => axes.to_vec(),
            (None, None) => Vec::new(),
        };
        if axes.is_empty() && int(node, Attr::NoopWithEmptyAxes, 0) != 0 || rank == 0 {
            return Err(Refusal::attribute("a reduction of no axes"));
        }
        let axes: Vec<usize> = match axes[..] {
            [] => (0..rank).collect(),
            _ => polychip_ops::axis::normalise_all(&axes, rank)
                .ok_or_else(|| Refusal::attribute(format!("axes {axes:?} of a tensor of {rank}")))?,
        };
        let from = self.read(tensor, layout)?;
        if !(self.ty(from).is_float() || self.ty(from).is_quantised()) {
            return Err(Refusal::dtype(format!("{} of {:?}", node.op_name, self.ty(from))));
        }
        let (code, whole) = match node.op {
            Op::ReduceMean => (sys::NEURON_MEAN, true),
            Op::ReduceMax => (sys::NEURON_REDUCE_MAX, false),
            Op::ReduceMin => (sys::NEURON_REDUCE_MIN, false),
            _ if self.ty(from).is_quantised() => return Err(Refusal::encoding("sums of integers")),
            _ => (sys::NEURON_REDUCE_SUM, false),
        };
        let from = if whole { self.averaged(from, to)? } else { from };
        let mut places: Vec<usize> = axes.iter().map(|&axis| layout.place(axis, rank)).collect();
        places.sort_unstable();
        // extents of 1 stay, and go by another shape behind: the result's order of axes is then the node's
        let mut dims = self.dims(from);
        for &place in &places {
            dims[place] = 1;
        }
        let list = self.list(&places);
        // one of these is a number, the others are truth values
        let keep = if whole { self.int(1) } else { self.truth(true) };
        let out = self.like(code, from, &dims, &[from, list, keep]);
        if int(node, Attr::Keepdims, 1) != 0 {
            return self.settle(out, to, layout);
        }
        // where two axes or fewer are left, both orders are one only if at most one of them is not the channels
        let back = self.transposed(out, &layout.to(Layout::RowMajor, rank))?;
        self.settle(back, to, Layout::RowMajor)
    }
}
