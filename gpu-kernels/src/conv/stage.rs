//! Staging: the tile of one K slice that a workgroup copies into its memory.
//!
//! Reads go to registers first and then to workgroup memory, so that reads of the next K slice overlap the sums of this
//! one.
//!
//! Invariant: beyond the sum the image is zero, and filters are some weights or zero.

use std::fmt::Write as _;

use super::numbers::Numbers;
use super::{Conv, Sizes};
use crate::ImageLayout;

/// Size of what is staged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tile {
    /// Pixels.
    pub(super) rows: u32,
    /// Fours of channels.
    pub(super) quads: u32,
    /// Fours of steps.
    pub(super) fours: u32,
    /// Threads that bring it.
    pub(super) threads: u32,
    /// Whether filters are brought.
    pub(super) filters: bool,
}

/// Statements.
#[derive(Debug, Default)]
pub(super) struct Stage {
    /// Before the sum.
    pub(super) before: String,
    /// Reads the K slice that starts at the four `next`.
    pub(super) reads: String,
    /// Writes what was read into the workgroup's memory.
    pub(super) writes: String,
}

impl Conv {
    /// Stages `image` and `filters`, at the places that the two functions give for a row or step and a four.
    pub(super) fn stage(
        &self,
        sizes: &Sizes,
        numbers: &Numbers,
        tile: Tile,
        image_place: impl Fn(&str, &str) -> String,
        filter_place: impl Fn(&str, &str) -> String,
    ) -> Stage {
        let mut stage = Stage::default();
        let Tile {
            rows,
            quads: tile_quads,
            fours: depth,
            threads,
            filters,
        } = tile;
        let (fours, quads, steps) = (sizes.fours, sizes.quads, numbers.steps);
        let exact = fours.is_multiple_of(depth);
        // neighbouring threads read neighbouring places of the image: steps, or pixels with channels first
        let first = self.source == ImageLayout::ChannelsFirst;
        let (row_of, step_of) = if first {
            (format!("% {rows}u"), format!("/ {rows}u"))
        } else {
            (format!("/ {depth}u"), format!("% {depth}u"))
        };
        // the pixels stay the same where the threads are a whole number of rows
        let hoisted = threads.is_multiple_of(if first { rows } else { depth });
        for i in 0..(rows * depth).div_ceil(threads) {
            let (row, step) = (format!("(e{i} {row_of})"), format!("(e{i} {step_of})"));
            let _ = writeln!(
                stage.before,
                "let e{i} = thread + {}u; var at_hand{i} = {};",
                i * threads,
                numbers.zero
            );
            let pixel = if hoisted {
                let _ = writeln!(stage.before, "let p{i} = pixel(row0 + {row});");
                format!("p{i}")
            } else {
                format!("pixel(row0 + {row})")
            };
            let mut read = format!("at_hand{i} = four({pixel}, step(group_, next + {step}));");
            if !exact {
                read = format!(
                    "if next + {step} < {fours}u {{ {read} }} else {{ at_hand{i} = {}; }}",
                    numbers.zero
                );
            }
            let mut write = format!("image[{}] = at_hand{i};", image_place(&row, &step));
            if (i + 1) * threads > rows * depth {
                let guard = |what: &str| format!("if e{i} < {}u {{ {what} }}", rows * depth);
                (read, write) = (guard(&read), guard(&write));
            }
            let _ = writeln!(stage.reads, "{read}");
            let _ = writeln!(stage.writes, "{write}");
        }
        let count = if filters { depth * steps * tile_quads } else { 0 };
        let last = fours * steps - 1;
        for i in 0..count.div_ceil(threads) {
            let (step, quad) = (
                format!("(f{i} / {tile_quads}u)"),
                format!("(f{i} % {tile_quads}u)"),
            );
            let _ = writeln!(
                stage.before,
                "let f{i} = thread + {}u; var filter{i} = {}();
let column{i} = min(quad0 + {quad}, {}u);",
                i * threads,
                numbers.weight,
                quads - 1
            );
            let row = if exact {
                format!("next * {steps}u + {step}")
            } else {
                format!("min(next * {steps}u + {step}, {last}u)")
            };
            let mut read = format!(
                "filter{i} = weights[(group_ * {}u + {row}) * {quads}u + column{i}];",
                fours * steps
            );
            // the zero of bytes is some number, so there the weights must be zero
            if self.is_bytes() && !exact {
                read += &format!(" if next + {step} >= {fours}u {{ filter{i} = vec4<u32>(); }}");
            }
            let mut write = format!("filters[{}] = filter{i};", filter_place(&step, &quad));
            if (i + 1) * threads > count {
                let guard = |what: &str| format!("if f{i} < {count}u {{ {what} }}");
                (read, write) = (guard(&read), guard(&write));
            }
            let _ = writeln!(stage.reads, "{read}");
            let _ = writeln!(stage.writes, "{write}");
        }
        stage
    }
}

impl Stage {
    /// The loop over the K slices, of `depth` fours of steps each, around the text that sums one.
    pub(super) fn around(&self, fours: u32, depth: u32, products: &str) -> String {
        let Stage {
            before,
            reads,
            writes,
        } = self;
        if fours <= depth {
            return format!(
                "{before}let k0 = 0u;\n{{ let next = 0u;\n{reads}}}\n{writes}workgroupBarrier();\n{products}"
            );
        }
        format!(
            "{before}{{ let next = 0u;\n{reads}}}
for (var k0 = 0u; k0 < {fours}u; k0 += {depth}u) {{
workgroupBarrier();
{writes}workgroupBarrier();
let next = k0 + {depth}u;
if next < {fours}u {{
{reads}}}
{products}}}
"
        )
    }
}
