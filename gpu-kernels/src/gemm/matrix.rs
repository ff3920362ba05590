//! Products by matrix units: f16 tiles in workgroup memory, each subgroup multiplies squares of them and sums in
//! f32; the sums pass through workgroup memory once more to meet their epilogue. While a tile is multiplied, each
//! thread's share of the next is on its way to registers.
//!
//! Invariant: tiles are staged in the order of memory, and the squares are loaded in that order.

use std::fmt::Write as _;

use super::load::{self, Zero};
use super::product::Product;
use super::tile::GemmTile;
use crate::{Error, Kernel, Limits, Result, Scalar, WgslBuilder};

/// f16 elements between rows of a staged tile: so that rows start in other banks.
const PAD: u32 = 8;

pub(super) fn kernel(gemm: &Product<'_>, tile: GemmTile, limits: &Limits) -> Result<Kernel> {
    let GemmTile::Matrix {
        m: tile_m,
        n: tile_n,
        k: depth,
        rows,
        columns,
    } = tile
    else {
        return Err(Error::new("not a tile of matrix units"));
    };
    let side = limits.features.cooperative;
    if side != 8 && side != 16 {
        return Err(Error::new(format!(
            "{}: the device has no matrix units",
            gemm.variant
        )));
    }
    let lanes = limits.subgroup[0];
    if limits.subgroup[1] != lanes || lanes == 0 {
        return Err(Error::new(format!(
            "{}: the device has no subgroups of one size",
            gemm.variant
        )));
    }
    let even = [tile_m, tile_n, depth, rows, columns]
        .iter()
        .all(|x| *x != 0 && x.is_multiple_of(side))
        && tile_m.is_multiple_of(rows)
        && tile_n.is_multiple_of(columns);
    if !even || gemm.scalar != Scalar::F16 {
        return Err(Error::new(format!(
            "{}: the tile is uneven, or the storage is not f16",
            gemm.variant
        )));
    }
    let (m, n, k) = (gemm.m, gemm.n, gemm.k);
    let mut text = WgslBuilder::new();
    text.needs(|needs| needs.cooperative = side);
    let zero = Zero {
        m: !m.is_multiple_of(tile_m),
        n: !n.is_multiple_of(tile_n),
        k: !k.is_multiple_of(depth),
    };
    let sides = load::declare_floats(gemm, &mut text, zero, "f16");
    let epilogue = gemm.epilogue.declare(&mut text, gemm.rows(), n.into())?;

    let (across, down) = (tile_n / columns, tile_m / rows);
    let threads = across * down * lanes;
    // [outer, inner] as in memory
    let a = if gemm.transposed_a {
        [depth, tile_m]
    } else {
        [tile_m, depth]
    };
    let transposed = gemm.b.transposed();
    let b = if transposed {
        [tile_n, depth]
    } else {
        [depth, tile_n]
    };
    let pitch = |tile: [u32; 2]| (tile[1] + PAD) / 4;
    text.shared("a_tile", "vec4<f16>", 8, a[0] * pitch(a));
    text.shared("b_tile", "vec4<f16>", 8, b[0] * pitch(b));
    // one square of each subgroup
    text.shared("sums", "vec4<f32>", 16, across * down * side * side / 4);

    let mut body = format!(
        "    let part = thread / {lanes}u;
    let part_row = part / {across}u * {rows}u;
    let part_column = part % {across}u * {columns}u;
    let a_origin = group.y * {tile_m}u;
    let b_origin = group.x * {tile_n}u;
    let a_base = {};
    let b_base = {};
",
        sides.a_base, sides.b_base
    );
    let (down_squares, across_squares) = (rows / side, columns / side);
    for r in 0..down_squares {
        for c in 0..across_squares {
            let _ = writeln!(body, "    var c{r}_{c} = coop_mat{side}x{side}<f32, C>();");
        }
    }
    let stage_a = |kt| stage("a", a, pitch(a), threads, !gemm.transposed_a, kt);
    let stage_b = |kt| stage("b", b, pitch(b), threads, transposed, kt);
    for (name, tile) in [("a", a), ("b", b)] {
        for turn in 0..(tile[0] * tile[1] / 4).div_ceil(threads) {
            let _ = writeln!(body, "    var {name}_{turn} = vec4<f16>();");
        }
    }
    let ((first_a, store_a), (first_b, store_b)) = (stage_a("0u"), stage_b("0u"));
    let ((next_a, _), (next_b, _)) = (stage_a("next"), stage_b("next"));
    let _ = writeln!(
        body,
        "{first_a}{first_b}    for (var kt = 0u; kt < {k}u; kt += {depth}u) {{
        workgroupBarrier();
{store_a}{store_b}        workgroupBarrier();
        let next = min(kt + {depth}u, {last}u);
{next_a}{next_b}",
        last = (k - 1) / depth * depth,
    );
    for kk in (0..depth).step_by(side as usize) {
        body += "        {\n";
        for r in 0..down_squares {
            let (call, at) = if gemm.transposed_a {
                (
                    "coopLoad",
                    format!("{}u + (part_row + {}u) / 4u", kk * pitch(a), r * side),
                )
            } else {
                (
                    "coopLoadT",
                    format!("(part_row + {}u) * {}u + {}u", r * side, pitch(a), kk / 4),
                )
            };
            let _ = writeln!(
                body,
                "            let at_a{r} = {at};
            let a{r} = {call}<coop_mat{side}x{side}<f16, A>>(&a_tile[at_a{r}], {}u);",
                pitch(a)
            );
        }
        for c in 0..across_squares {
            let (call, at) = if transposed {
                (
                    "coopLoad",
                    format!("(part_column + {}u) * {}u + {}u", c * side, pitch(b), kk / 4),
                )
            } else {
                (
                    "coopLoadT",
                    format!("{}u + (part_column + {}u) / 4u", kk * pitch(b), c * side),
                )
            };
            let _ = writeln!(
                body,
                "            let at_b{c} = {at};
            let b{c} = {call}<coop_mat{side}x{side}<f16, B>>(&b_tile[at_b{c}], {}u);",
                pitch(b)
            );
        }
        for r in 0..down_squares {
            for c in 0..across_squares {
                let _ = writeln!(
                    body,
                    "            c{r}_{c} = coopMultiplyAdd(a{r}, b{c}, c{r}_{c});"
                );
            }
        }
        body += "        }\n";
    }
    body += "    }\n";

    // square by square: those of all subgroups lie as [subgroup, side, side]
    let (square, row_fours) = (side * side / 4, side / 4);
    let fours = across * down * square;
    let store = gemm.end(&epilogue, "sums[four]", "row", "column");
    for r in 0..down_squares {
        for c in 0..across_squares {
            let _ = writeln!(
                body,
                "    workgroupBarrier();
    {{ let value = c{r}_{c}; let at = part * {square}u; let stride = {row_fours}u; \
                 coopStoreT(value, &sums[at], stride); }}
    workgroupBarrier();
    for (var four = thread; four < {fours}u; four += {threads}u) {{
        let owner = four / {square}u;
        let row = a_origin + owner / {across}u * {rows}u + {}u + four % {square}u / {row_fours}u;
        let column = b_origin + owner % {across}u * {columns}u + {}u + four % {row_fours}u * 4u;
        if row < {m}u {store}
    }}",
                r * side,
                c * side,
            );
        }
    }
    text.kernel(
        gemm.variant.as_str(),
        [threads, 1, 1],
        gemm.groups(tile_m, tile_n)?,
        gemm.work,
        &body,
        limits,
    )
}

/// Statements that load a thread's share of a tile `[outer, inner]`, and those that store it. `outputs_out` says
/// whether the outer axis is that of the output, else it is k.
fn stage(
    name: &str,
    [outer, inner]: [u32; 2],
    pitch: u32,
    threads: u32,
    outputs_out: bool,
    kt: &str,
) -> (String, String) {
    let (mut loads, mut stores) = (String::new(), String::new());
    let fours = inner / 4;
    let count = outer * fours;
    for turn in 0..count.div_ceil(threads) {
        let at = format!("(thread + {}u)", turn * threads);
        let guard = if (turn + 1) * threads <= count {
            String::new()
        } else {
            format!("if {at} < {count}u ")
        };
        let (first, second) = if outputs_out {
            (format!("{name}_origin"), kt.to_owned())
        } else {
            (kt.to_owned(), format!("{name}_origin"))
        };
        let _ = writeln!(
            loads,
            "        {guard}{{ {name}_{turn} = {name}4({name}_base, {first} + {at} / {fours}u, {second} + {at} % {fours}u * 4u); }}"
        );
        let _ = writeln!(
            stores,
            "        {guard}{{ {name}_tile[{at} / {fours}u * {pitch}u + {at} % {fours}u] = {name}_{turn}; }}"
        );
    }
    (loads, stores)
}
