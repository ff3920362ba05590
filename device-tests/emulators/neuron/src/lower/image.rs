//! Pools, resampling, and blocks of pixels.

use polychip_ops::{Attr, Attributes, Literal, Op};
use polychip_sys::neuron::bindings as sys;

use super::product::four;
use super::{Lower, Outcome, ints};

impl Lower<'_> {
    pub(super) fn pool(&mut self, code: u32) -> Outcome<()> {
        self.reals(0)?;
        self.alike(0)?;
        let [n, h, w, c] = four(&self.shape(0)?)?;
        let explicit = self.inputs.len() >= 10;
        let (mut window, at) = self.window(1, explicit, [1, 1])?;
        window.kernel = [self.size(at + 1)?, self.size(at)?];
        if self.truth(at + 3)? {
            return Err("images with channels first".to_owned());
        }
        let (pads, [oh, ow]) = window.place([h, w])?;
        self.fits(&[n, oh, ow, c])?;
        let image = self.value(0)?;
        let image = self.builder.channels_first(image, 4);
        let (kernel, sizes) = ints(Attr::KernelShape, window.kernel.to_vec());
        let op = match code {
            sys::NEURON_AVERAGE_POOL_2D => Op::AveragePool,
            _ => Op::MaxPool,
        };
        let result = self.step(op, window.attributes(pads).with(kernel, sizes), &[image]);
        let result = self.activated(result, at + 2)?;
        let result = self.builder.channels_last(result, 4);
        self.give(result, 0)
    }

    pub(super) fn resize(&mut self, code: u32) -> Outcome<()> {
        self.reals(0)?;
        self.alike(0)?;
        let [n, _, _, c] = four(&self.shape(0)?)?;
        let (width, height) = (self.size(1)?, self.size(2)?);
        let (first, corners, half) = (self.truth(3)?, self.truth(4)?, self.truth(5)?);
        if first || corners && half {
            return Err("channels first, or aligned corners with half pixels".to_owned());
        }
        self.fits(&[n, height, width, c])?;
        let mode = if code == sys::NEURON_RESIZE_BILINEAR {
            "linear"
        } else {
            "nearest"
        };
        let centres = match (corners, half) {
            (true, _) => "align_corners",
            (_, true) => "half_pixel",
            _ => "asymmetric",
        };
        let rounding = if centres == "asymmetric" {
            "floor"
        } else {
            "round_prefer_ceil"
        };
        let attributes = Attributes::new()
            .with_str(Attr::Mode, mode)
            .with_str(Attr::CoordinateTransformationMode, centres)
            .with_str(Attr::NearestMode, rounding);
        let image = self.value(0)?;
        let image = self.builder.channels_first(image, 4);
        let sizes = self.known(&[n, c, height, width].map(|extent| extent as i64))?;
        let out = self.builder.between();
        self.builder.step_to(
            Op::Resize,
            attributes,
            &[Some(image), None, None, Some(sizes)],
            &[out],
        );
        let result = self.builder.channels_last(out, 4);
        self.give(result, 0)
    }

    pub(super) fn depth_space(&mut self, code: u32) -> Outcome<()> {
        self.alike(0)?;
        let [n, h, w, c] = four(&self.shape(0)?)?;
        let block = self.size(1)?;
        if block == 0 || self.truth(2)? {
            return Err("blocks of nothing, or channels first".to_owned());
        }
        let (op, wanted) = match code {
            sys::NEURON_DEPTH_TO_SPACE if c.is_multiple_of(block * block) => {
                (Op::DepthToSpace, [n, h * block, w * block, c / block / block])
            }
            sys::NEURON_SPACE_TO_DEPTH if h.is_multiple_of(block) && w.is_multiple_of(block) => {
                (Op::SpaceToDepth, [n, h / block, w / block, c * block * block])
            }
            _ => return Err(format!("blocks of {block} of {:?}", [n, h, w, c])),
        };
        self.fits(&wanted)?;
        let image = self.value(0)?;
        let image = self.builder.channels_first(image, 4);
        let attributes = Attributes::new().with_int(Attr::Blocksize, block as i64);
        let result = self.step(op, attributes, &[image]);
        let result = self.builder.channels_last(result, 4);
        self.give(result, 0)
    }

    pub(super) fn reduce(&mut self, code: u32) -> Outcome<()> {
        self.reals(0)?;
        let shape = self.shape(0)?;
        let axes: Vec<i64> = self.list(1)?;
        let axes =
            polychip_ops::axis::normalise_all(&axes, shape.len()).ok_or_else(|| format!("axes {axes:?}"))?;
        let (op, keep) = match code {
            sys::NEURON_MEAN => (Op::ReduceMean, self.int(2)? != 0),
            sys::NEURON_REDUCE_MAX => (Op::ReduceMax, self.truth(2)?),
            sys::NEURON_REDUCE_MIN => (Op::ReduceMin, self.truth(2)?),
            _ => (Op::ReduceSum, self.truth(2)?),
        };
        match op {
            Op::ReduceSum if super::is_quantised(self.out()) => return Err("sums of integers".to_owned()),
            _ => self.alike(0)?,
        }
        let mut wanted: Vec<usize> = Vec::new();
        for (axis, &extent) in shape.iter().enumerate() {
            match (axes.contains(&axis), keep) {
                (false, _) => wanted.push(extent),
                (true, true) => wanted.push(1),
                (true, false) => {}
            }
        }
        self.fits(if wanted.is_empty() { &[1] } else { &wanted })?;
        let list: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
        let (from, list) = (self.value(0)?, self.builder.literal(&Literal::i64s(&list))?);
        let attributes = Attributes::new().with_int(Attr::Keepdims, i64::from(keep));
        let result = self.step(op, attributes, &[from, list]);
        self.give(result, 0)
    }
}
