//! Transposes: in tiles through the memory of a workgroup where the last axis changes, so that both reads and
//! writes are of neighbours.

use super::strided::Strided;
use super::{Transpose, map};
use crate::{Access, Error, Generate, Kernel, Limits, Result, Sample, Scalar, WgslBuilder, element};

/// Side of a tile, and rows of it that a workgroup moves at once.
const SIDE: u64 = 32;
const ROWS: u64 = 8;

impl Transpose {
    /// `[images, channels, places]` to `[images, places, channels]`.
    #[must_use]
    pub fn to_channels_last(scalar: Scalar, images: u64, channels: u64, places: u64) -> Transpose {
        Transpose {
            scalar,
            shape: vec![images, channels, places],
            order: vec![0, 2, 1],
        }
    }

    /// `[images, places, channels]` to `[images, channels, places]`.
    #[must_use]
    pub fn to_channels_first(scalar: Scalar, images: u64, channels: u64, places: u64) -> Transpose {
        Transpose {
            scalar,
            shape: vec![images, places, channels],
            order: vec![0, 2, 1],
        }
    }

    /// `DepthToSpace` of `[n, c, h, w]`; `crd` selects the mode in which the channel index comes
    /// before the block indices.
    ///
    /// # Errors
    /// The number of channels is not a multiple of the block's area.
    pub fn depth_to_space(scalar: Scalar, shape: [u64; 4], block: u64, crd: bool) -> Result<Transpose> {
        let [n, c, h, w] = shape;
        let depth = block
            .checked_mul(block)
            .filter(|&area| area > 0 && c.is_multiple_of(area));
        let depth = c / depth.ok_or_else(|| {
            Error::new(format!(
                "depth to space: {c} channels are no multiple of block {block} squared"
            ))
        })?;
        Ok(if crd {
            Transpose {
                scalar,
                shape: vec![n, depth, block, block, h, w],
                order: vec![0, 1, 4, 2, 5, 3],
            }
        } else {
            Transpose {
                scalar,
                shape: vec![n, block, block, depth, h, w],
                order: vec![0, 3, 4, 1, 5, 2],
            }
        })
    }

    /// `SpaceToDepth` of `[n, c, h, w]`.
    ///
    /// # Errors
    /// Height or width is not a multiple of the block.
    pub fn space_to_depth(scalar: Scalar, shape: [u64; 4], block: u64) -> Result<Transpose> {
        let [n, c, h, w] = shape;
        if block == 0 || !h.is_multiple_of(block) || !w.is_multiple_of(block) {
            return Err(Error::new(format!(
                "space to depth: {h} x {w} are no multiples of block {block}"
            )));
        }
        Ok(Transpose {
            scalar,
            shape: vec![n, c, h / block, block, w / block, block],
            order: vec![0, 3, 5, 1, 2, 4],
        })
    }

    fn strided(&self) -> Result<Strided> {
        let mut seen = vec![false; self.shape.len()];
        for &axis in &self.order {
            match seen.get_mut(axis) {
                Some(seen) if !*seen => *seen = true,
                _ => return Err(Error::new(format!("transpose: {:?} is no order", self.order))),
            }
        }
        if self.order.len() != self.shape.len() {
            return Err(Error::new(format!("transpose: {:?} is no order", self.order)));
        }
        let strides = element::strides(&self.shape);
        Ok(Strided {
            scalar: self.scalar,
            shape: self.order.iter().map(|&axis| self.shape[axis]).collect(),
            strides: self.order.iter().map(|&axis| strides[axis] as i64).collect(),
            offset: 0,
            input: element::count("transpose", &self.shape)?,
        })
    }
}

impl Generate for Transpose {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        let strided = self.strided()?;
        let merged = strided.merged();
        let last = merged.shape.len() - 1;
        // the axis along which the input lies dense
        let dense = merged.strides.iter().position(|stride| *stride == 1);
        let unit = self.scalar.bytes();
        match dense {
            Some(dense)
                if dense != last
                    && (unit >= 4 || (self.scalar == Scalar::F16 && limits.features.f16))
                    && merged.shape[dense].min(merged.shape[last]) >= 8 =>
            {
                tiled(&merged, dense, limits)
            }
            _ => strided.kernel("transpose", limits),
        }
    }

    fn sample(&self) -> Sample {
        self.strided()
            .map_or_else(|_| Sample::empty(), |strided| strided.sample())
    }
}

/// Tiles over the input's last axis (`dense` of the output) and the output's last.
fn tiled(merged: &Strided, dense: usize, limits: &Limits) -> Result<Kernel> {
    let unit = merged.scalar.bytes();
    let last = merged.shape.len() - 1;
    let (across, down) = (merged.shape[dense], merged.shape[last]);
    let total = element::count("transpose", &merged.shape)?;
    let mut text = WgslBuilder::new();
    let kind = if unit == 2 {
        text.binding("in0", Access::Read, Scalar::F16, 1, total);
        text.binding("out", Access::Write, Scalar::F16, 1, total);
        "f16"
    } else {
        map::bind(&mut text, "in0", Access::Read, unit, total);
        map::bind(&mut text, "out", Access::Write, unit, total);
        map::register(unit)
    };
    // one more to a row: a column lies in as many banks as a row
    text.shared("tile", kind, unit as u32, (SIDE * (SIDE + 1)) as u32);
    let batch: Vec<usize> = (0..last).filter(|axis| *axis != dense).collect();
    let batch_shape: Vec<u64> = batch.iter().map(|&axis| merged.shape[axis]).collect();
    let strides = element::strides(&merged.shape);
    let (tiles_across, tiles_down) = (across.div_ceil(SIDE), down.div_ceil(SIDE));
    let tiles = tiles_across * tiles_down;
    let (groups, number) = element::spread(tiles * batch_shape.iter().product::<u64>(), limits);
    let place = |strides: &dyn Fn(usize) -> u64| {
        let mut terms = vec!["0u".to_owned()];
        for (number, &axis) in batch.iter().enumerate() {
            terms.push(format!("b{number} * {}u", strides(axis)));
        }
        terms.join(" + ")
    };
    let body = format!(
        "    let number = {number};
    let batch = number / {tiles}u;
    let rest = number % {tiles}u;
{places}    let down0 = (rest / {tiles_across}u) * {SIDE}u;
    let across0 = (rest % {tiles_across}u) * {SIDE}u;
    let source = {source};
    let goal = {goal};
    for (var r = local.y; r < {SIDE}u; r += {ROWS}u) {{
        if down0 + r < {down}u && across0 + local.x < {across}u {{
            tile[r * {row}u + local.x] = in0[source + (down0 + r) * {step_in}u + across0 + local.x];
        }}
    }}
    workgroupBarrier();
    for (var r = local.y; r < {SIDE}u; r += {ROWS}u) {{
        if across0 + r < {across}u && down0 + local.x < {down}u {{
            out[goal + (across0 + r) * {step_out}u + down0 + local.x] = tile[local.x * {row}u + r];
        }}
    }}",
        places = element::places("batch", &batch_shape, "b"),
        source = place(&|axis| merged.strides[axis] as u64),
        goal = place(&|axis| strides[axis]),
        row = SIDE + 1,
        step_in = merged.strides[last],
        step_out = strides[dense],
    );
    let variant = format!("transpose-b{unit}-{SIDE}x{SIDE}");
    text.kernel(
        variant,
        [SIDE as u32, ROWS as u32, 1],
        groups,
        total,
        &body,
        limits,
    )
}
