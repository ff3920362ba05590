//! Products without staging: each thread reads its rows and columns from memory through the caches, and sets of
//! threads share the sums of k. For narrow outputs (vectors), and for small ones, whose tiles would be too few.

use std::fmt::Write as _;

use super::load::{self, Zero};
use super::product::{Product, Right};
use super::tile::GemmTile;
use crate::{Error, Kernel, Limits, Result, WgslBuilder};

pub(super) fn kernel(gemm: &Product<'_>, tile: GemmTile, limits: &Limits) -> Result<Kernel> {
    let GemmTile::Sliced {
        across,
        down,
        rows,
        slices,
    } = tile
    else {
        return Err(Error::new("not a sliced tile"));
    };
    if [across, down, rows, slices].contains(&0) {
        return Err(Error::new(format!("{} has no threads", gemm.variant)));
    }
    let (m, n, k) = (gemm.m, gemm.n, gemm.k);
    let mut text = WgslBuilder::new();
    // k runs in fours; rows and columns are clamped to the last ones
    let sides = load::declare(
        gemm,
        &mut text,
        Zero {
            m: false,
            n: false,
            k: !k.is_multiple_of(4),
        },
    );
    let epilogue = gemm.epilogue.declare(&mut text, gemm.rows(), n.into())?;

    let mut body = format!(
        "    let tx = thread % {across}u;
    let ty = thread / {across}u % {down}u;
    let slice = thread / {set}u;
    let column = (group.x * {across}u + tx) * 4u;
    let first_row = (group.y * {down}u + ty) * {rows}u;
    let a_base = {a_base};
    let b_base = {b_base};
    let near = min(column, {last_column}u);
",
        set = across * down,
        a_base = sides.a_base,
        b_base = sides.b_base,
        last_column = (n - 1) / 4 * 4,
    );
    for r in 0..rows {
        let _ = writeln!(
            body,
            "    var sum{r} = {}();\n    let row{r} = min(first_row + {r}u, {}u);",
            gemm.sum(),
            m - 1
        );
        if gemm.row_sums() {
            let _ = writeln!(body, "    var row_sum{r} = 0i;");
        }
        if gemm.transposed_a {
            let _ = writeln!(
                body,
                "    let four{r} = row{r} / 4u * 4u; let place{r} = row{r} % 4u;"
            );
        }
    }
    let _ = writeln!(
        body,
        "    for (var k = slice * 4u; k < {k}u; k += {}u) {{",
        slices * 4
    );
    for i in 0..4 {
        let _ = match gemm.b {
            Right::Transposed | Right::Quantised(_) => writeln!(
                body,
                "        let b_{i} = b4(b_base, min(near + {i}u, {}u), k);",
                n - 1
            ),
            _ => writeln!(body, "        let b_{i} = b4(b_base, k + {i}u, near);"),
        };
    }
    for r in 0..rows {
        let _ = if gemm.transposed_a {
            let parts: Vec<String> = (0..4)
                .map(|i| format!("a4(a_base, k + {i}u, four{r})[place{r}]"))
                .collect();
            writeln!(body, "        let a_{r} = vec4<f32>({});", parts.join(", "))
        } else {
            writeln!(body, "        let a_{r} = a4(a_base, row{r}, k);")
        };
    }
    for r in 0..rows {
        if gemm.b.transposed() {
            let _ = writeln!(
                body,
                "        sum{r} += vec4<f32>(dot(a_{r}, b_0), dot(a_{r}, b_1), dot(a_{r}, b_2), dot(a_{r}, b_3));"
            );
        } else {
            for i in 0..4 {
                let add = gemm.add(&format!("sum{r}"), &format!("a_{r}[{i}]"), &format!("b_{i}"));
                let _ = writeln!(body, "        {add}");
                if gemm.row_sums() {
                    let _ = writeln!(
                        body,
                        "        row_sum{r} += dot4I8Packed(a_{r}[{i}], 0x01010101u);"
                    );
                }
            }
        }
    }
    body += "    }\n";
    if gemm.row_sums() {
        for r in 0..rows {
            let _ = writeln!(body, "    sum{r} -= row_sum{r} * b_zero(b_base, near);");
        }
    }
    if slices == 1 {
        for r in 0..rows {
            let store = gemm.end(
                &epilogue,
                &format!("sum{r}"),
                &format!("first_row + {r}u"),
                "column",
            );
            let _ = writeln!(body, "    if first_row + {r}u < {m}u {store}");
        }
    } else {
        let outputs = across * down * rows;
        text.shared("partial", gemm.sum(), 16, outputs * slices);
        for r in 0..rows {
            let _ = writeln!(
                body,
                "    partial[slice * {outputs}u + (ty * {rows}u + {r}u) * {across}u + tx] = sum{r};"
            );
        }
        let threads = across * down * slices;
        let column = format!("((group.x * {across}u + place % {across}u) * 4u)");
        let store = gemm.end(&epilogue, "sum", "row", &column);
        let _ = writeln!(
            body,
            "    workgroupBarrier();
    for (var place = thread; place < {outputs}u; place += {threads}u) {{
        var sum = partial[place];
        for (var s = 1u; s < {slices}u; s++) {{ sum += partial[s * {outputs}u + place]; }}
        let row = group.y * {height}u + place / {across}u;
        if row < {m}u {store}
    }}",
            height = down * rows,
        );
    }
    text.kernel(
        gemm.variant.as_str(),
        [across * down * slices, 1, 1],
        gemm.groups(down * rows, across * 4)?,
        gemm.work,
        &body,
        limits,
    )
}
