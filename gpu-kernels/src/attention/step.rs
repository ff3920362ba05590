//! A few queries over a KV cache, as in decoding: a workgroup computes one query of one head, and
//! each of its threads reads one key directly from memory, since no other query of the head reads
//! that key.

use super::new_rows;
use super::past::{self, Past};
use super::problem::{Attention, Source};
use crate::reduction::{Combine, Reduction};
use crate::{Kernel, Limits, Result, Scalar, Type, WgslBuilder, element};

/// Most queries that are computed so.
pub(super) const MOST: u64 = 4;

/// Threads of a workgroup, and keys of a tile.
const THREADS: u64 = 256;

/// Whether a workgroup has a thread for each column of a value.
pub(super) fn fits(of: &Attention) -> bool {
    of.value_depth <= THREADS
}

pub(super) fn kernel(of: &Attention, memory: Past, limits: &Limits) -> Result<Kernel> {
    let Attention {
        batch,
        heads,
        kv_heads,
        queries,
        keys,
        scalar,
        ..
    } = *of;
    let four = of.depth.is_multiple_of(4) && of.value_depth.is_multiple_of(4);
    let w = if four { 4u64 } else { 1 };
    let (depth, columns) = (of.depth / w, of.value_depth / w);
    // teams of threads that share the keys of a tile, one thread a column
    let teams = THREADS / columns.max(1);
    let kind = Type::F32.text(w as u32);
    let mut text = WgslBuilder::new();
    of.declare(&mut text, w);
    text.shared("qs", &kind, 4 * w as u32, depth as u32);
    text.shared("ps", "f32", 4, THREADS as u32);
    text.shared("mixed", &kind, 4 * w as u32, THREADS as u32);
    past::declare_end(&mut text);
    let new_rows = of.new_rows;
    if new_rows.is_some() {
        new_rows::declare(of, &mut text);
    }
    let (groups, number) = element::spread(queries * batch * heads, limits);
    let place = |inside: bool, heads: u64, head: &str, length: u64, position: &str, depth: u64| {
        if inside {
            format!("((b * {length}u + {position}) * {heads}u + {head}) * {depth}u")
        } else {
            format!("((b * {heads}u + {head}) * {length}u + {position}) * {depth}u")
        }
    };
    let query0 = place(of.heads_inside, heads, "h", queries, "row", depth);
    let (stage, query) = match new_rows {
        None => (String::new(), format!("{kind}(query[{query0} + c])")),
        Some(rows) => {
            let key0 = place(of.heads_inside, kv_heads, "g", keys, "j", depth);
            let stage = new_rows::stage(of, rows, THREADS, w, &query0, &key0);
            (stage + "    workgroupBarrier();\n", vector("c * W", w))
        }
    };
    let mut body = format!(
        "    let number = {number};
    let row = number % {queries}u;
    let b = number / {}u;
    let h = (number / {queries}u) % {heads}u;
    let g = h / {}u;
{stage}    for (var c = thread; c < {depth}u; c += {THREADS}u) {{
        qs[c] = {query} * f32({:?});
    }}
    let none = px_bits1(4286578688u);
    var top = -3.4028234e38;
    var sum = 0.0;
    var o = {kind}(0.0);
    let team = thread / {columns}u;
    let column = thread % {columns}u;\n",
        queries * heads,
        heads / kv_heads,
        of.scale,
    );
    // passes a barrier, behind which `qs` is there
    body.push_str(&past::end(memory));
    let sources = [
        Source {
            names: ["past_key", "past_value"],
            heads_inside: false,
            length: memory.capacity,
            end: "past_end".to_owned(),
            bound: "past_end".to_owned(),
            column: 0,
            causal: None,
        },
        Source {
            names: ["key", "value"],
            heads_inside: of.heads_inside,
            length: keys,
            end: format!("{keys}u"),
            bound: format!("{keys}u"),
            column: memory.capacity,
            causal: None,
        },
    ];
    let reduction = Reduction {
        threads: THREADS as u32,
        lanes: THREADS as u32,
        limits,
    };
    reduction.declare(&mut text, 1);
    let dot = if w == 4 { "dot(qs[c], k)" } else { "qs[c] * k" };
    for (index, from) in sources.iter().enumerate() {
        let [key, value] = from.names;
        let staged = new_rows.filter(|_| index == 1);
        let key = match staged {
            None => format!("{kind}({key}[first + c])"),
            Some(_) => vector(&format!("{}u + at * {}u + c * W", of.depth, of.depth), w),
        };
        let at = |depth| place(from.heads_inside, kv_heads, "g", from.length, "at", depth);
        body.push_str(&format!(
            "    {{ let end = {};
    for (var k0 = 0u; k0 < end; k0 += {THREADS}u) {{
        var score = none;
        if k0 + thread < end {{
            let at = k0 + thread;
            let first = {};
            score = 0.0;
            for (var c = 0u; c < {depth}u; c++) {{
                let k = {key};
                score += {dot};
            }}
    {}        }}
        var most = score;\n",
            from.end,
            at(depth),
            of.masked("score", "row", &format!("{}u + at", from.column)),
        ));
        body.push_str(&reduction.all("most", Combine::Max));
        let at = at(columns);
        let value = match staged {
            Some(rows) if rows.rounded && w == 4 => {
                format!("vec4<f32>(vec4<f16>({kind}({value}[{at} + column])))")
            }
            Some(rows) if rows.rounded => new_rows::rounded(&format!("{value}[{at} + column]")),
            _ => format!("{kind}({value}[{at} + column])"),
        };
        body.push_str(&format!(
            "        let peak = max(top, most);
        let fade = exp(top - peak);
        top = peak;
        let share = exp(score - peak);
        sum = sum * fade + share;
        ps[thread] = share;
        workgroupBarrier();
        o *= fade;
        let count = min({THREADS}u, end - k0);
        if team < {teams}u {{
            for (var k = team; k < count; k += {teams}u) {{
                let at = k0 + k;
                o += ps[k] * {value};
            }}
        }}
        workgroupBarrier();
    }} }}\n"
        ));
    }
    // passes a barrier, behind which `mixed` is there
    body.push_str("    mixed[thread] = o;\n");
    body.push_str(&reduction.all("sum", Combine::Sum));
    let result = match (scalar, w) {
        (Scalar::F16, 1) => "f16(all * factor)",
        (Scalar::F16, _) => "vec4<f16>(all * factor)",
        _ => "all * factor",
    };
    body.push_str(&format!(
        "    let factor = select(1.0 / sum, 0.0, sum == 0.0);
    if thread >= {columns}u {{ return; }}
    var all = mixed[thread];
    for (var s = 1u; s < {teams}u; s++) {{ all += mixed[s * {columns}u + thread]; }}
    out[{} + thread] = {result};\n",
        place(of.heads_inside, heads, "h", queries, "row", columns)
    ));
    let variant = format!("attention{}-step-x{w}", of.ways());
    text.kernel(variant, [THREADS as u32, 1, 1], groups, of.work(), &body, limits)
}

/// Text of a vector of `staged`, from a place in which `W` is the width.
fn vector(place: &str, width: u64) -> String {
    let place = place.replace('W', &format!("{width}u"));
    if width == 1 {
        return format!("staged[{place}]");
    }
    let four: Vec<String> = (0..4).map(|i| format!("staged[{place} + {i}u]")).collect();
    format!("vec4<f32>({})", four.join(", "))
}
