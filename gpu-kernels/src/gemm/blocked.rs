//! Products through workgroup memory: a's tile is stored as `[k, m]`, b's as `[k, n]`, both in
//! vectors of four, and a thread multiplies chunks of four rows with chunks of four columns. Chunks
//! of one thread lie apart, so that neighbouring threads read neighbouring vectors.
//!
//! There are two tiles of each operand: while one is multiplied, the next is loaded. (An NVIDIA
//! H200 multiplies f32 at 43 TFLOP/s this way, and at 39 with one tile.)

use std::fmt::Write as _;

use super::load::{self, Zero};
use super::product::Product;
use super::tile::GemmTile;
use crate::{Error, Kernel, Limits, Result, WgslBuilder};

/// Vectors between rows of a staged tile that is written across: so that its writers meet other banks.
const PAD: u32 = 1;

/// How one side travels from memory to its staged tile.
struct Stage {
    /// `a` or `b`.
    name: &'static str,
    /// Rows or columns of the tile.
    length: u32,
    depth: u32,
    threads: u32,
    element: &'static str,
    /// Whether k runs in memory, so that the tile is written across.
    across: bool,
}

impl Stage {
    fn pitch(&self) -> u32 {
        self.length / 4 + if self.across { PAD } else { 0 }
    }

    fn count(&self) -> u32 {
        self.length * self.depth / 4
    }

    /// Declarations of what a thread holds on the way.
    fn held(&self) -> String {
        (0..self.count().div_ceil(self.threads))
            .map(|turn| format!("    var {}_{turn} = vec4<{}>();\n", self.name, self.element))
            .collect()
    }

    /// Vectors of one of the two tiles.
    fn size(&self) -> u32 {
        self.pitch() * self.depth
    }

    /// Statements that load what this thread stages at depth `kt`, and those that store it as tile `which`.
    fn text(&self, which: u32, kt: &str) -> (String, String) {
        let base = which * self.size();
        let Stage { name, depth, .. } = self;
        let (mut loads, mut stores) = (String::new(), String::new());
        for turn in 0..self.count().div_ceil(self.threads) {
            let first = turn * self.threads;
            let at = format!("(thread + {first}u)");
            let (outer, inner, store) = if self.across {
                let fours = depth / 4;
                let mut store = String::new();
                for i in 0..4 {
                    let _ = write!(
                        store,
                        "{name}_tile[{base}u + ({at} % {fours}u * 4u + {i}u) * {pitch}u + {at} / {fours}u / 4u]\
                         [{at} / {fours}u % 4u] = {name}_{turn}[{i}]; ",
                        pitch = self.pitch(),
                    );
                }
                (
                    format!("{name}_origin + {at} / {fours}u"),
                    format!("{kt} + {at} % {fours}u * 4u"),
                    store,
                )
            } else {
                let fours = self.length / 4;
                (
                    format!("{kt} + {at} / {fours}u"),
                    format!("{name}_origin + {at} % {fours}u * 4u"),
                    format!("{name}_tile[{base}u + {at}] = {name}_{turn};"),
                )
            };
            let whole = first + self.threads <= self.count();
            let guard = if whole {
                String::new()
            } else {
                format!("if {at} < {}u ", self.count())
            };
            let _ = writeln!(
                loads,
                "        {guard}{{ {name}_{turn} = {name}4({name}_base, {outer}, {inner}); }}"
            );
            let _ = writeln!(stores, "        {guard}{{ {store} }}");
        }
        (loads, stores)
    }
}

pub(super) fn kernel(gemm: &Product<'_>, tile: GemmTile, limits: &Limits) -> Result<Kernel> {
    let GemmTile::Blocked {
        m: tile_m,
        n: tile_n,
        k: depth,
        rows,
        columns,
    } = tile
    else {
        return Err(Error::new("not a blocked tile"));
    };
    let even = [tile_m, tile_n, depth, rows, columns]
        .iter()
        .all(|x| *x != 0 && x.is_multiple_of(4))
        && tile_m.is_multiple_of(rows)
        && tile_n.is_multiple_of(columns);
    if !even {
        return Err(Error::new(format!("{}: the tile is uneven", gemm.variant)));
    }
    let (m, n, k) = (gemm.m, gemm.n, gemm.k);
    let mut text = WgslBuilder::new();
    let sides = load::declare(
        gemm,
        &mut text,
        Zero {
            m: !m.is_multiple_of(tile_m),
            n: !n.is_multiple_of(tile_n),
            // steps go in pairs, and the last may be beyond k
            k: !k.is_multiple_of(2 * depth),
        },
    );
    let epilogue = gemm.epilogue.declare(&mut text, gemm.rows(), n.into())?;
    let (across, down) = (tile_n / columns, tile_m / rows);
    let threads = across * down;
    let a = Stage {
        name: "a",
        length: tile_m,
        depth,
        threads,
        element: gemm.element(),
        across: !gemm.transposed_a,
    };
    let b = Stage {
        name: "b",
        length: tile_n,
        depth,
        threads,
        element: gemm.element(),
        across: gemm.b.transposed(),
    };
    let vector = format!("vec4<{}>", gemm.element());
    text.shared("a_tile", &vector, 16, 2 * a.size());
    text.shared("b_tile", &vector, 16, 2 * b.size());

    let mut body = format!(
        "    let tx = thread % {across}u;
    let ty = thread / {across}u;
    let a_origin = group.y * {tile_m}u;
    let b_origin = group.x * {tile_n}u;
    let a_base = {};
    let b_base = {};
",
        sides.a_base, sides.b_base
    );
    for r in 0..rows {
        for c in 0..columns / 4 {
            let _ = writeln!(body, "    var sum{r}_{c} = {}();", gemm.sum());
        }
        if gemm.row_sums() {
            let _ = writeln!(body, "    var row_sum{r} = 0i;");
        }
    }
    let multiply = |which: u32| {
        let mut body = String::new();
        for kk in 0..depth {
            body += "        {\n";
            for r in 0..rows / 4 {
                let at = which * a.size() + kk * a.pitch() + r * down;
                let _ = writeln!(body, "            let a{r} = a_tile[{at}u + ty];");
            }
            for c in 0..columns / 4 {
                let at = which * b.size() + kk * b.pitch() + c * across;
                let _ = writeln!(body, "            let b{c} = b_tile[{at}u + tx];");
            }
            for r in 0..rows {
                let a = format!("a{}[{}]", r / 4, r % 4);
                for c in 0..columns / 4 {
                    let add = gemm.add(&format!("sum{r}_{c}"), &a, &format!("b{c}"));
                    let _ = writeln!(body, "            {add}");
                }
                if gemm.row_sums() {
                    let _ = writeln!(body, "            row_sum{r} += dot4I8Packed({a}, 0x01010101u);");
                }
            }
            body += "        }\n";
        }
        body
    };
    let stage = |which: u32, kt: &str| {
        let ((load_a, store_a), (load_b, store_b)) = (a.text(which, kt), b.text(which, kt));
        (load_a + &load_b, store_a + &store_b)
    };
    let (first, store_first) = stage(0, "0u");
    let (second, store_second) = stage(1, "kt");
    let (third, store_third) = stage(0, "next");
    let _ = writeln!(
        body,
        "{}{}{first}{store_first}        workgroupBarrier();
    for (var kt = {depth}u; kt < {end}u; kt += {}u) {{
{second}{}{store_second}        workgroupBarrier();
        let next = kt + {depth}u;
        let more = next < {k}u;
        if more {{
{third}        }}
{}        if more {{
{store_third}        }}
        workgroupBarrier();
    }}",
        a.held(),
        b.held(),
        2 * depth,
        multiply(0),
        multiply(1),
        end = k.div_ceil(2 * depth) * 2 * depth,
    );
    for r in 0..rows {
        let _ = writeln!(
            body,
            "    {{ let row = a_origin + {}u + ty * 4u; if row < {m}u {{",
            r / 4 * down * 4 + r % 4
        );
        for c in 0..columns / 4 {
            let column = format!("(b_origin + {}u + tx * 4u)", c * across * 4);
            let mut sum = format!("sum{r}_{c}");
            if gemm.row_sums() {
                sum = format!("({sum} - row_sum{r} * b_zero(b_base, {column}))");
            }
            body += &gemm.end(&epilogue, &sum, "row", &column);
            body.push('\n');
        }
        body += "    } }\n";
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
