//! WGSL of a convolution without matrix units: it reads straight from memory, or stages tiles in workgroup memory.
//!
//! Each thread sums `rows` pixels times `quads` fours of channels over its slice of the sum; slices are added
//! in the workgroup's memory. Threads that stand side by side read weights that lie side by side.
//!
//! Invariant: a read outside the image or the sum yields zero (of bytes the zero point), and never decides
//! what is stored elsewhere.

use std::fmt::Write as _;

use super::stage::Tile;
use super::{Conv, ConvTile, Direction, Sizes, Threads};
use crate::{
    Access, DeclaredEpilogue, Error, ImageLayout, Kernel, Limits, Result, Scalar, WgslBuilder, grid,
};

impl Conv {
    /// Whether every element of the window meets the image at every pixel of the output.
    fn is_inside(&self) -> bool {
        self.direction == Direction::Forward && self.window.begin == [0, 0] && self.window.end == [0, 0]
    }

    /// Declares `struct Pixel`, `pixel(row)`, `struct Step`, `step(group, four)` and `four(pixel, step)`.
    pub(super) fn declare_reads(&self, text: &mut WgslBuilder, sizes: &Sizes) {
        let numbers = self.numbers();
        let output = self.output();
        let (h, w, c) = (self.image.height, self.image.width, self.image.channels);
        let [kw, [sh, sw], [dh, dw], [ph, pw]] = [
            [self.window.kernel[1]; 2],
            self.window.strides,
            self.window.dilations,
            self.window.begin,
        ];
        let kw = kw[0];
        let forward = self.direction == Direction::Forward;
        let (sy, sx, ph, pw) = if forward {
            (sh, sw, -i64::from(ph), -i64::from(pw))
        } else {
            (1, 1, i64::from(ph), i64::from(pw))
        };
        let (rows, pixels) = (sizes.rows, u64::from(output.height) * u64::from(output.width));
        let first = match self.source {
            ImageLayout::ChannelsLast => u64::from(h) * u64::from(w),
            ImageLayout::ChannelsFirst => u64::from(h) * u64::from(w) * u64::from(c),
        };
        let inside = self.is_inside();
        // rows beyond the last: read the last where nothing is checked, else stand outside the image
        let (row, above) = if inside {
            (format!("min(row_, {}u)", rows - 1), String::new())
        } else {
            let outside = format!("if row_ >= {rows}u {{ p.y = -1073741824; }}");
            ("row_".to_owned(), outside)
        };
        text.declare(&format!(
            "struct Pixel {{ first: u32, y: i32, x: i32 }}
fn pixel(row_: u32) -> Pixel {{
    let row = {row};
    var p: Pixel;
    p.first = row / {pixels}u * {first}u;
    p.y = i32(row / {ow}u % {oh}u * {sy}u) + ({ph}i);
    p.x = i32(row % {ow}u * {sx}u) + ({pw}i);
    {above}
    return p;
}}",
            ow = output.width,
            oh = output.height,
        ));
        // where an element of the window is: `y` and `x` of the image, or nothing
        let check = format!("u32(y) < {h}u && u32(x) < {w}u");
        let (place, met) = match (forward, inside) {
            (true, true) => (
                "let y = p.y + dy; let x = p.x + dx;".to_owned(),
                "true".to_owned(),
            ),
            (true, false) => ("let y = p.y + dy; let x = p.x + dx;".to_owned(), check),
            (false, _) => (
                format!("let ty = p.y - dy; let tx = p.x - dx; let y = ty / {sh}i; let x = tx / {sw}i;"),
                format!("ty >= 0i && tx >= 0i && ty % {sh}i == 0i && tx % {sw}i == 0i && {check}"),
            ),
        };
        let wrap = |condition: &str, then: &str| {
            if condition == "true" {
                then.to_owned()
            } else {
                format!("if {condition} {{ {then} }}")
            }
        };
        if sizes.whole {
            let fours = sizes.inside / 4;
            let split = if self.window.taps() == 1 {
                "s.dy = 0i; s.dx = 0i; let c = k;".to_owned()
            } else {
                format!(
                    "let tap = k / {fours}u; let c = k % {fours}u;
    s.dy = i32(tap / {kw}u * {dh}u); s.dx = i32(tap % {kw}u * {dw}u);"
                )
            };
            let group = if sizes.groups == 1 {
                "0u".to_owned()
            } else {
                format!("group_ * {fours}u")
            };
            let read = if self.scalar == Scalar::U8 {
                " ^ 0x80808080u"
            } else {
                ""
            };
            let address = if self.window.is_point() && forward && inside {
                format!("u32(p.x) + p.first + u32(p.y) * {w}u")
            } else {
                format!("p.first + u32(y * {w}i + x)")
            };
            let load = format!("value = source[({address}) * {}u + s.c]{read};", c / 4);
            text.declare(&format!(
                "struct Step {{ dy: i32, dx: i32, c: u32 }}
fn step(group_: u32, k: u32) -> Step {{
    var s: Step;
    {split}
    s.c = {group} + c;
    return s;
}}
fn four(p: Pixel, s: Step) -> {four} {{
    let dy = s.dy; let dx = s.dx;
    {place}
    var value = {zero};
    {load}
    return value;
}}",
                four = numbers.four,
                zero = numbers.zero,
                load = wrap(&met, &load),
            ));
            return;
        }
        // one by one
        let at = match self.source {
            ImageLayout::ChannelsLast => format!("(p.first + u32(y * {w}i + x)) * {c}u + c"),
            ImageLayout::ChannelsFirst => {
                format!(
                    "p.first + c * {}u + u32(y * {w}i + x)",
                    u64::from(h) * u64::from(w)
                )
            }
        };
        let group = if sizes.groups == 1 {
            String::new()
        } else {
            format!("group_ * {}u + ", sizes.inside)
        };
        let (one, read, none) = match self.scalar {
            Scalar::F32 => ("f32", "source[at]".to_owned(), "0.0".to_owned()),
            Scalar::F16 => ("f16", "source[at]".to_owned(), "0.0h".to_owned()),
            Scalar::U8 => (
                "u32",
                "(source[at / 4u] >> (8u * (at % 4u)) & 255u) ^ 128u".to_owned(),
                format!("{}u", self.zero_signed() as u8),
            ),
            _ => (
                "u32",
                "source[at / 4u] >> (8u * (at % 4u)) & 255u".to_owned(),
                format!("{}u", self.zero_signed() as u8),
            ),
        };
        let join = if self.is_bytes() {
            "one(p, s.group, k) | (one(p, s.group, k + 1u) << 8u) | (one(p, s.group, k + 2u) << 16u) | \
             (one(p, s.group, k + 3u) << 24u)"
                .to_owned()
        } else {
            format!(
                "{}(one(p, s.group, k), one(p, s.group, k + 1u), one(p, s.group, k + 2u), one(p, s.group, k + 3u))",
                numbers.four
            )
        };
        let met = match (met.as_str(), sizes.depth.is_multiple_of(4)) {
            (_, true) => met,
            ("true", _) => format!("k < {}u", sizes.depth),
            _ => format!("k < {}u && {met}", sizes.depth),
        };
        text.declare(&format!(
            "struct Step {{ group: u32, k: u32 }}
fn step(group_: u32, k: u32) -> Step {{
    return Step(group_, 4u * k);
}}
fn one(p: Pixel, group_: u32, k: u32) -> {one} {{
    let tap = k / {inside}u;
    let c = {group}k % {inside}u;
    let dy = i32(tap / {kw}u * {dh}u); let dx = i32(tap % {kw}u * {dw}u);
    {place}
    var value = {none};
    {load}
    return value;
}}
fn four(p: Pixel, s: Step) -> {four} {{
    let k = s.k;
    return {join};
}}",
            inside = sizes.inside,
            load = wrap(&met, &format!("let at = {at}; value = {read};")),
            four = numbers.four,
        ));
    }

    /// Products of the fours `a{i}` with the weights `b{j}_{k}`, added to `sum{i}_{j}`.
    fn products(&self, t: Threads, round: u32) -> String {
        let mut text = String::new();
        let steps = self.numbers().steps;
        for i in 0..t.rows {
            for j in 0..t.quads {
                for k in 0..steps {
                    let (a, b) = (format!("a{i}_{round}"), format!("b{j}_{k}_{round}"));
                    let sum = format!("sum{i}_{j}");
                    let line = match self.scalar {
                        Scalar::F32 => format!("{sum} = fma(vec4<f32>({a}[{k}]), {b}, {sum});\n"),
                        Scalar::F16 => {
                            format!("{sum} = fma(vec4<f32>(f32({a}[{k}])), vec4<f32>({b}), {sum});\n")
                        }
                        _ => format!(
                            "{sum} += vec4<i32>(dot4I8Packed({a}, {b}.x), dot4I8Packed({a}, {b}.y), \
                             dot4I8Packed({a}, {b}.z), dot4I8Packed({a}, {b}.w));\n"
                        ),
                    };
                    text += &line;
                }
            }
        }
        text
    }

    /// Declares `finish(sum, group, row, quad)`, which ends and stores what exists of a four of columns.
    pub(super) fn declare_finish(
        &self,
        text: &mut WgslBuilder,
        sizes: &Sizes,
        epilogue: &DeclaredEpilogue<'_>,
    ) {
        let Sizes {
            rows,
            groups,
            fours,
            quads,
            ..
        } = *sizes;
        let sum = if self.is_bytes() {
            let ends = groups * fours * quads;
            format!("vec4<f32>(sum + bitcast<vec4<i32>>(weights[{ends}u + group_ * {quads}u + quad]))")
        } else {
            "sum".to_owned()
        };
        let column = format!("(group_ * {}u + 4u * quad)", sizes.outside);
        text.declare(&format!(
            "fn finish(sum: {}, group_: u32, row: u32, quad: u32) {{
    if row < {rows}u && quad < {quads}u {{
        {}
    }}
}}",
            self.numbers().sum,
            epilogue.four(&sum, "row", &column)
        ));
    }

    /// Products of the launch.
    pub(super) fn work(&self, sizes: &Sizes) -> u64 {
        sizes.rows * u64::from(sizes.depth) * u64::from(sizes.outside) * u64::from(sizes.groups)
    }

    pub(super) fn scalar_kernel(&self, limits: &Limits) -> Result<Kernel> {
        let sizes = self.sizes()?;
        let (t, ahead, depth) = match self.tile {
            ConvTile::Direct { threads, ahead } => (threads, ahead, 0),
            ConvTile::Staged { threads, depth } => (threads, 1, depth),
            ConvTile::Matrix { .. } => return Err(Error::new("a tile of matrix units")),
        };
        let all = [t.rows, t.quads, t.down, t.across, t.slices];
        if all.contains(&0) || ahead == 0 || t.rows * t.quads > 32 || all.iter().any(|&n| n > 1024) {
            return Err(Error::new(format!("a convolution's tile of {t:?}")));
        }
        if depth > 0 && !depth.is_multiple_of(t.slices) {
            return Err(Error::new(format!("{depth} steps among {} slices", t.slices)));
        }
        let numbers = self.numbers();
        let mut text = WgslBuilder::new();
        let (declared, elements) = match (self.is_bytes(), sizes.whole) {
            (false, true) => (4, self.image.elements()),
            _ => (1, self.image.elements()),
        };
        text.binding("source", Access::Read, self.scalar, declared, elements);
        let vectors = u64::from(sizes.groups)
            * u64::from(sizes.quads)
            * (u64::from(sizes.fours * numbers.steps) + u64::from(self.is_bytes()));
        let packed = if self.is_bytes() { Scalar::U32 } else { self.scalar };
        text.binding("weights", Access::Constant, packed, 4, vectors * 4);
        let epilogue = self
            .epilogue
            .declare(&mut text, sizes.rows, self.channels_out.into())?;
        self.declare_reads(&mut text, &sizes);
        let Sizes {
            rows, groups, quads, ..
        } = sizes;
        let (threads, part) = (t.down * t.across * t.slices, t.down * t.across);
        let (tile_rows, tile_quads) = (t.rows * t.down, t.quads * t.across);
        let (row_tiles, column_tiles) = (rows.div_ceil(tile_rows.into()), quads.div_ceil(tile_quads));
        let tiles = row_tiles * u64::from(column_tiles) * u64::from(groups);
        let (launch, number) = grid::row(tiles, limits)?;
        self.declare_finish(&mut text, &sizes, &epilogue);
        let mut body = format!(
            "let number = {number};
if number >= {tiles}u {{ return; }}
let group_ = number / {per_group}u;
let row0 = number / {column_tiles}u % {row_tiles}u * {tile_rows}u;
let quad0 = number % {column_tiles}u * {tile_quads}u;
let across = thread % {}u;
let down = thread / {}u % {}u;
let slice = thread / {part}u;
",
            t.across,
            t.across,
            t.down,
            per_group = row_tiles * u64::from(column_tiles),
        );
        for i in 0..t.rows {
            for j in 0..t.quads {
                let _ = writeln!(body, "var sum{i}_{j} = {}();", numbers.sum);
            }
        }
        if depth == 0 {
            self.direct(&mut body, &sizes, t, ahead);
        } else {
            self.staged(&mut body, &mut text, &sizes, t, depth);
        }
        if t.slices == 1 {
            for i in 0..t.rows {
                for j in 0..t.quads {
                    let _ = writeln!(
                        body,
                        "finish(sum{i}_{j}, group_, row0 + down + {}u, quad0 + across + {}u);",
                        i * t.down,
                        j * t.across
                    );
                }
            }
        } else {
            let places = tile_rows * tile_quads;
            text.shared("sums", numbers.sum, 16, places * t.slices);
            for i in 0..t.rows {
                for j in 0..t.quads {
                    let _ = writeln!(
                        body,
                        "sums[slice * {places}u + (down + {}u) * {tile_quads}u + across + {}u] = sum{i}_{j};",
                        i * t.down,
                        j * t.across
                    );
                }
            }
            let _ = write!(
                body,
                "workgroupBarrier();
for (var place = thread; place < {places}u; place += {threads}u) {{
    var sum = sums[place];
    for (var s = 1u; s < {slices}u; s++) {{ sum += sums[s * {places}u + place]; }}
    finish(sum, group_, row0 + place / {tile_quads}u, quad0 + place % {tile_quads}u);
}}",
                slices = t.slices
            );
        }
        let variant = format!(
            "conv-{}{}-{}{}-{}x{}-{}x{}x{}{}",
            self.scalar.name(),
            match (sizes.whole, self.source) {
                (true, _) => "",
                (false, ImageLayout::ChannelsLast) => "-single",
                (false, ImageLayout::ChannelsFirst) => "-nchw",
            },
            if depth == 0 { "direct" } else { "staged" },
            depth.max(ahead),
            tile_rows,
            tile_quads * 4,
            t.rows,
            t.quads * 4,
            t.slices,
            self.epilogue.name()
        );
        let work = self.work(&sizes);
        text.kernel(variant, [threads, 1, 1], launch, work, &body, limits)
    }

    /// The sum with reads straight from memory.
    fn direct(&self, body: &mut String, sizes: &Sizes, t: Threads, ahead: u32) {
        let steps = self.numbers().steps;
        let (fours, quads) = (sizes.fours, sizes.quads);
        for i in 0..t.rows {
            let _ = writeln!(body, "let p{i} = pixel(row0 + down + {}u);", i * t.down);
        }
        for j in 0..t.quads {
            let _ = writeln!(
                body,
                "let w{j} = group_ * {}u + min(quad0 + across + {}u, {}u);",
                fours * steps * quads,
                j * t.across,
                quads - 1
            );
        }
        let round = |body: &mut String, count: u32| {
            for r in 0..count {
                let _ = writeln!(
                    body,
                    "let k_{r} = k + {}u; let s_{r} = step(group_, k_{r});",
                    r * t.slices
                );
                for i in 0..t.rows {
                    let _ = writeln!(body, "let a{i}_{r} = four(p{i}, s_{r});");
                }
                for j in 0..t.quads {
                    for k in 0..steps {
                        let _ = writeln!(
                            body,
                            "let b{j}_{k}_{r} = weights[w{j} + (k_{r} * {steps}u + {k}u) * {quads}u];"
                        );
                    }
                }
            }
            for r in 0..count {
                body.push_str(&self.products(t, r));
            }
        };
        let _ = writeln!(body, "var k = slice;");
        let together = ahead * t.slices;
        if ahead > 1 && fours >= together {
            let _ = writeln!(
                body,
                "for (; k + {}u < {fours}u; k += {together}u) {{",
                (ahead - 1) * t.slices
            );
            round(body, ahead);
            body.push_str("}\n");
        }
        if ahead == 1 || !fours.is_multiple_of(together) {
            let _ = writeln!(body, "for (; k < {fours}u; k += {}u) {{", t.slices);
            round(body, 1);
            body.push_str("}\n");
        }
    }

    /// The sum with reads through the workgroup's memory.
    fn staged(&self, body: &mut String, text: &mut WgslBuilder, sizes: &Sizes, t: Threads, depth: u32) {
        let numbers = self.numbers();
        let steps = numbers.steps;
        let tile = Tile {
            rows: t.rows * t.down,
            quads: t.quads * t.across,
            fours: depth,
            threads: t.down * t.across * t.slices,
            filters: true,
        };
        // one place more per step keeps neighbouring steps in different banks
        let pitch = tile.rows + 1;
        let tile_quads = tile.quads;
        text.shared("image", numbers.four, numbers.four_bytes, depth * pitch);
        let filters = depth * steps * tile_quads;
        text.shared("filters", numbers.weight, numbers.weight_bytes, filters);
        let mut products = format!("for (var k = slice; k < {depth}u; k += {}u) {{\n", t.slices);
        for i in 0..t.rows {
            let _ = writeln!(
                products,
                "let a{i}_0 = image[k * {pitch}u + down + {}u];",
                i * t.down
            );
        }
        for j in 0..t.quads {
            for k in 0..steps {
                let _ = writeln!(
                    products,
                    "let b{j}_{k}_0 = filters[(k * {steps}u + {k}u) * {tile_quads}u + across + {}u];",
                    j * t.across
                );
            }
        }
        products.push_str(&self.products(t, 0));
        products.push_str("}\n");
        let stage = self.stage(
            sizes,
            &numbers,
            tile,
            |row, step| format!("{step} * {pitch}u + {row}"),
            |step, quad| format!("{step} * {tile_quads}u + {quad}"),
        );
        body.push_str(&stage.around(sizes.fours, depth, &products));
    }
}
