//! Weights in quantised blocks as plain floats, for products of so many rows that each tile of the output would unpack
//! them again.

use half::f16;
use serde::{Deserialize, Serialize};

use super::lanes::{self, WEIGHTS};
use crate::{
    Access, Error, Generate, Kernel, Limits, Quants, Result, Sample, Scalar, Type, Values, WgslBuilder,
    element,
};

/// Unpacks `[n, k]` weights. Bindings: blocks, output `[n, k]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ExpandBlocks {
    /// Rows.
    pub n: u32,
    /// Weights of a row, whole blocks.
    pub k: u32,
    /// Blocks of the weights.
    pub quants: Quants,
    /// Type of the output: `f32` or `f16`.
    pub output: Scalar,
}

impl Generate for ExpandBlocks {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        let ExpandBlocks { n, k, quants, output } = *self;
        let count = element::count("weights", &[n.into(), k.into()])?;
        let whole = count > 0 && u64::from(k).is_multiple_of(quants.elements());
        if !whole || !matches!(output, Scalar::F32 | Scalar::F16) {
            return Err(Error::new(format!("weights: {self:?}")));
        }
        let mut text = WgslBuilder::new();
        lanes::declare(quants, &mut text, "b", n, k);
        lanes::declare_functions(&mut text);
        text.binding("out", Access::Write, output, 4, count);
        let parts = count / u64::from(WEIGHTS);
        let (size, groups, index) = element::flat(parts, limits);
        let per_row = k / WEIGHTS;
        let mut body = format!(
            "    let index = {index};
    if index >= {parts}u {{ return; }}
    let row0 = index / {per_row}u;
    let item = index % {per_row}u;
    let block = item / {per}u;
    let part = item % {per}u;
    let near = row0 * {fours}u + {};\n",
            lanes::first_four(quants),
            per = quants.elements() as u32 / WEIGHTS,
            fours = k / 4,
        );
        body += &lanes::weights(quants, "b", "row0", k);
        let kind = match output {
            Scalar::F16 => "vec4<f16>".to_owned(),
            _ => Type::F32.text(4),
        };
        for (j, offset) in lanes::fours(quants).iter().enumerate() {
            body += &format!("            out[near + {offset}u] = {kind}(w{j});\n");
        }
        body += "        }\n";
        let variant = format!("expand-{}-{}", quants.name(), output.name());
        text.kernel(variant, [size, 1, 1], groups, count, &body, limits)
    }

    fn sample(&self) -> Sample {
        let (blocks, values) = self.quants.sample(2, self.n as usize * self.k as usize);
        let after = match self.output {
            Scalar::F16 => Values::F16(values.into_iter().map(f16::from_f32).collect()),
            _ => Values::F32(values),
        };
        Sample {
            before: vec![Values::U8(blocks), Values::zeros(self.output, after.len())],
            after: vec![None, Some(after)],
            tolerance: match self.output {
                Scalar::F16 => 1.0 / 1024.0,
                _ => 1e-6,
            },
        }
    }
}
