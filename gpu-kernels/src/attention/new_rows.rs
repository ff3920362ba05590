//! Queries, new keys and new values that the kernel itself rotates and rounds before it uses them, so that no launch of
//! its own stands between the products and attention.
//!
//! Not here: the scores (`step`).

use half::f16;

use super::problem::{Attention, NewRows, RotaryTables};
use crate::{Number, Scalar, Values, WgslBuilder, element};

/// Declares what [`stage`] needs.
pub(super) fn declare(of: &Attention, text: &mut WgslBuilder) {
    text.shared("staged", "f32", 4, (of.depth * (1 + of.keys)) as u32);
}

/// Text of a value rounded to f16.
pub(super) fn rounded(value: &str) -> String {
    format!("f32(f16({value}))")
}

/// Statements that put the query, then all new keys into `staged`, rotated and rounded; a barrier must follow. They see
/// `b`, `row`, and the first elements of the query `query0` and of key `j` `key0(j)`, both in vectors of `width`.
pub(super) fn stage(
    of: &Attention,
    rows: NewRows,
    threads: u64,
    width: u64,
    query0: &str,
    key0: &str,
) -> String {
    let (depth, keys) = (of.depth, of.keys);
    let element = |name: &str, first: &str, feature: &str| {
        if width == 4 {
            format!("f32({name}[{first} + {feature} / 4u][{feature} % 4u])")
        } else {
            format!("f32({name}[{first} + {feature}])")
        }
    };
    let mut body = format!(
        "    for (var i = thread; i < {}u; i += {threads}u) {{
        let j = max(i / {depth}u, 1u) - 1u;
        let is_key = i >= {depth}u;
        let feature = i % {depth}u;
        let query0 = {query0};
        let key0 = {key0};
        var turned = 0.0;
        if is_key {{ turned = {}; }} else {{ turned = {}; }}\n",
        depth * (1 + keys),
        element("key", "key0", "feature"),
        element("query", "query0", "feature"),
    );
    if let Some(tables) = rows.rotary {
        let half = tables.rotated / 2;
        let words = if tables.positions == Scalar::I64 { ".x" } else { "" };
        let pair = if tables.interleaved {
            "            let other = feature ^ 1u;
            let pair = feature / 2u;
            let second = (feature & 1u) == 1u;\n"
                .to_owned()
        } else {
            format!(
                "            let second = feature >= {half}u;
            let other = select(feature + {half}u, feature - {half}u, second);
            let pair = select(feature, feature - {half}u, second);\n"
            )
        };
        let angle = |name: &str| element::load(name, of.scalar, &format!("position * {half}u + pair"));
        body += &format!(
            "        if feature < {}u {{
            let at = b * {}u + select(row, j, is_key);
            let position = min(positions[at]{words}, {}u);
{pair}            var across = 0.0;
            if is_key {{ across = {}; }} else {{ across = {}; }}
            turned = turned * {} + select(-across, across, second) * {};
        }}\n",
            tables.rotated,
            of.queries,
            tables.cached - 1,
            element("key", "key0", "other"),
            element("query", "query0", "other"),
            angle("cosines"),
            angle("sines"),
        );
    }
    if rows.rounded {
        body += &format!("        if is_key {{ turned = {}; }}\n", rounded("turned"));
    }
    body + "        staged[i] = turned;\n    }\n"
}

/// The scalar truth of rotated and rounded rows.
pub(super) struct NewRowsSample {
    rows: NewRows,
    scalar: Scalar,
    queries: usize,
    /// Cosines, sines and positions, if rows are rotated.
    pub(super) operands: Vec<Values>,
}

impl NewRowsSample {
    pub(super) fn new(of: &Attention, rows: NewRows) -> NewRowsSample {
        let operands = rows.rotary.map_or(Vec::new(), |tables| {
            let count = (tables.cached * (tables.rotated / 2)) as usize;
            let positions: Vec<Number> = Values::floats(9, (of.batch * of.queries) as usize)
                .into_iter()
                .map(|x| Number::I64(((f64::from(x) + 1.0) * 0.5 * tables.cached as f64) as i64))
                .collect();
            vec![
                Values::some(of.scalar, 7, count),
                Values::some(of.scalar, 8, count),
                Values::of_numbers(tables.positions, &positions),
            ]
        });
        NewRowsSample {
            rows,
            scalar: of.scalar,
            queries: of.queries as usize,
            operands,
        }
    }

    /// The value of the query (tensor 0), key (1) or value (2) at a place, of which `raw` gives what is stored.
    pub(super) fn value(
        &self,
        tensor: usize,
        [b, h, s, d]: [usize; 4],
        raw: &dyn Fn(usize, [usize; 4]) -> f64,
    ) -> f64 {
        let mut value = raw(tensor, [b, h, s, d]);
        if let Some(tables) = self
            .rows
            .rotary
            .filter(|tables| tensor < 2 && d < tables.rotated as usize)
        {
            let (other, pair, second) = pair(tables, d);
            let position = self.operands[2].number(tables.positions, b * self.queries + s);
            let at = position.to_f64() as usize * (tables.rotated as usize / 2) + pair;
            let [cosine, sine] = [0, 1].map(|table| self.operands[table].number(self.scalar, at).to_f64());
            let across = raw(tensor, [b, h, s, other]) * sine;
            value = value * cosine + if second { across } else { -across };
        }
        if self.rows.rounded && tensor > 0 {
            value = f64::from(f16::from_f64(value).to_f32());
        }
        value
    }
}

/// The other feature of a pair, the pair's number, and whether a feature is the second of its pair.
fn pair(tables: RotaryTables, feature: usize) -> (usize, usize, bool) {
    let half = tables.rotated as usize / 2;
    if tables.interleaved {
        (feature ^ 1, feature / 2, feature % 2 == 1)
    } else if feature < half {
        (feature + half, feature, false)
    } else {
        (feature - half, feature - half, true)
    }
}
