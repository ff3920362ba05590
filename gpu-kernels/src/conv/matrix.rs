//! The text of a convolution on matrix units: f16 products summed in f32 squares.
//!
//! A subgroup computes some square tiles of the output. Slices of the sum have their own subgroups;
//! they are added in workgroup memory, tile by tile, where the epilogue is applied.
//!
//! Invariant: the squares are loaded from the workgroup's memory only, at places that lie in it.

use std::fmt::Write as _;

use super::stage::Tile;
use super::{Conv, ConvTile};
use crate::{Access, Error, ImageLayout, Kernel, Limits, Result, Scalar, WgslBuilder, grid};

/// Fours of f16 between rows of what is staged, so that rows start in other banks.
const PAD: u32 = 2;

impl Conv {
    pub(super) fn matrix_kernel(&self, limits: &Limits) -> Result<Kernel> {
        let sizes = self.sizes()?;
        let ConvTile::Matrix {
            rows,
            columns,
            down,
            across,
            slices,
            depth,
            filters,
        } = self.tile
        else {
            return Err(Error::new("not a tile of matrix units"));
        };
        let side = limits.features.cooperative;
        if side != 8 && side != 16 {
            return Err(Error::new("conv-f16-matrix: the device has no matrix units"));
        }
        let lanes = limits.subgroup[0];
        if lanes == 0 || limits.subgroup[1] != lanes {
            return Err(Error::new(
                "conv-f16-matrix: the device has no subgroups of one size",
            ));
        }
        let all = [rows, columns, down, across, slices, depth];
        if all.iter().any(|&n| n == 0 || n > 64) || rows * columns > 16 || self.scalar != Scalar::F16 {
            return Err(Error::new(format!(
                "conv-f16-matrix: a tile of {all:?}, or no f16"
            )));
        }
        let numbers = self.numbers();
        let mut text = WgslBuilder::new();
        text.needs(|needs| {
            needs.cooperative = side;
            needs.f16 = true;
        });
        let width = if sizes.whole { 4 } else { 1 };
        text.binding("source", Access::Read, self.scalar, width, self.image.elements());
        let vectors = u64::from(sizes.groups) * u64::from(sizes.quads) * u64::from(sizes.fours * 4);
        text.binding("weights", Access::Constant, self.scalar, 4, vectors * 4);
        let epilogue = self
            .epilogue
            .declare(&mut text, sizes.rows, self.channels_out.into())?;
        self.declare_reads(&mut text, &sizes);
        self.declare_finish(&mut text, &sizes, &epilogue);

        let subgroups = down * across * slices;
        let threads = subgroups * lanes;
        let (part_rows, part_columns) = (rows * side, columns * side);
        let tile = Tile {
            rows: part_rows * down,
            quads: part_columns * across / 4,
            fours: depth * slices * side / 4,
            threads,
            filters,
        };
        let whole = sizes.fours.is_multiple_of(tile.fours) && sizes.quads.is_multiple_of(tile.quads);
        if !filters && !whole {
            return Err(Error::new(format!(
                "conv-f16-matrix: {} steps and {} channels are no whole tiles of {} and {}",
                sizes.fours * 4,
                sizes.quads * 4,
                tile.fours * 4,
                tile.quads * 4
            )));
        }
        let (image_pitch, filter_pitch) = (tile.fours + PAD, tile.quads + PAD);
        text.shared("image", "vec4<f16>", 8, tile.rows * image_pitch);
        if filters {
            text.shared("filters", "vec4<f16>", 8, tile.fours * 4 * filter_pitch);
        }
        // one square of each subgroup at a time
        let part = side * side;
        text.shared("sums", "f32", 4, subgroups * part);

        let row_tiles = sizes.rows.div_ceil(tile.rows.into());
        let column_tiles = sizes.quads.div_ceil(tile.quads);
        let tiles = row_tiles * u64::from(column_tiles) * u64::from(sizes.groups);
        let (launch, number) = grid::row(tiles, limits)?;
        let mut body = format!(
            "let number = {number};
if number >= {tiles}u {{ return; }}
let group_ = number / {per_group}u;
let row0 = number / {column_tiles}u % {row_tiles}u * {}u;
let quad0 = number % {column_tiles}u * {}u;
let part = thread / {lanes}u;
let across = part % {across}u * {part_columns}u;
let down = part / {across}u % {down}u * {part_rows}u;
let slice = part / {}u * {}u;
",
            tile.rows,
            tile.quads,
            down * across,
            depth * side,
            per_group = row_tiles * u64::from(column_tiles),
        );
        for r in 0..rows {
            for c in 0..columns {
                let _ = writeln!(body, "var c{r}_{c} = coop_mat{side}x{side}<f32, C>();");
            }
        }
        let mut products = String::new();
        for k in 0..depth {
            products.push_str("{\n");
            for r in 0..rows {
                let _ = writeln!(
                    products,
                    "let at_a{r} = (down + {}u) * {image_pitch}u + (slice + {}u) / 4u;
let a{r} = coopLoadT<coop_mat{side}x{side}<f16, A>>(&image[at_a{r}], {image_pitch}u);",
                    r * side,
                    k * side
                );
            }
            for c in 0..columns {
                let (row, column) = (
                    format!("(slice + {}u)", k * side),
                    format!("(across + {}u) / 4u", c * side),
                );
                let (at, name, pitch) = if filters {
                    (
                        format!("{row} * {filter_pitch}u + {column}"),
                        "filters",
                        filter_pitch,
                    )
                } else {
                    let (fours, quads) = (sizes.fours, sizes.quads);
                    let all = format!(
                        "(group_ * {}u + 4u * k0 + {row}) * {quads}u + quad0 + {column}",
                        4 * fours
                    );
                    (all, "weights", quads)
                };
                let _ = writeln!(
                    products,
                    "let at_b{c} = {at};
let b{c} = coopLoadT<coop_mat{side}x{side}<f16, B>>(&{name}[at_b{c}], {pitch}u);"
                );
            }
            for r in 0..rows {
                for c in 0..columns {
                    let _ = writeln!(products, "c{r}_{c} = coopMultiplyAdd(a{r}, b{c}, c{r}_{c});");
                }
            }
            products.push_str("}\n");
        }
        let stage = self.stage(
            &sizes,
            &numbers,
            tile,
            |row, step| format!("{row} * {image_pitch}u + {step}"),
            |step, quad| format!("{step} * {filter_pitch}u + {quad}"),
        );
        body += &stage.around(sizes.fours, tile.fours, &products);
        // square by square: those of all subgroups lie as [slice, down, across, side, side]
        let fours = down * across * part / 4;
        for (r, c) in (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c))) {
            let _ = writeln!(
                body,
                "workgroupBarrier();
{{ let value = c{r}_{c}; let at = part * {part}u; let stride = {side}u; coopStoreT(value, &sums[at], stride); }}
workgroupBarrier();
for (var four = thread; four < {fours}u; four += {threads}u) {{
    var sum = vec4<f32>();
    for (var s = 0u; s < {slices}u; s++) {{
        let at = 4u * (s * {fours}u + four);
        sum += vec4<f32>(sums[at], sums[at + 1u], sums[at + 2u], sums[at + 3u]);
    }}
    let owner = four / {part_fours}u;
    let row = row0 + owner / {across}u * {part_rows}u + {}u + four % {part_fours}u / {row_fours}u;
    let quad = quad0 + owner % {across}u * {}u + {}u + four % {row_fours}u;
    finish(sum, group_, row, quad);
}}",
                r * side,
                part_columns / 4,
                c * side / 4,
                part_fours = part / 4,
                row_fours = side / 4,
            );
        }
        let variant = format!(
            "conv-f16{}-matrix{}{}-{}x{}-{rows}x{columns}x{slices}{}",
            match (sizes.whole, self.source) {
                (true, _) => "",
                (false, ImageLayout::ChannelsLast) => "-single",
                (false, ImageLayout::ChannelsFirst) => "-nchw",
            },
            depth * side,
            if filters { "" } else { "b" },
            tile.rows,
            tile.quads * 4,
            self.epilogue.name(),
        );
        text.kernel(variant, [threads, 1, 1], launch, self.work(&sizes), &body, limits)
    }
}
