//! The cases: lines of `ops.txt` in the form of the conformance suite's table, once per size, and graphs with bodies.
//!
//! Invariant: same table, same models and same inputs, on every host.

use polychip_conformance::ops;
use polychip_conformance::problem::Numbers;
use polychip_conformance::value::literal;
use polychip_graph::{Graph, text};
use polychip_ops::Literal;
use serde::Serialize;

/// The table's text.
const TABLE: &str = include_str!("../ops.txt");

/// Graphs that the table cannot say, in the text form, by their names.
const GRAPHS: &[(&str, &str)] = &[
    ("If/branch/f32", include_str!("../graphs/if.txt")),
    ("Loop/sum/f32", include_str!("../graphs/loop.txt")),
    ("Scan/sum/f32", include_str!("../graphs/scan.txt")),
];

/// How large the tensors of a case are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Size {
    /// About a tenth of the usual work.
    Small,
    /// What the layers of common models have.
    Usual,
    /// About ten times the usual work.
    Large,
}

/// A model of one op with inputs.
pub(crate) struct Case {
    /// `Op/line/type`, with the size behind it unless that is the usual one.
    pub(crate) name: String,
    pub(crate) size: Size,
    pub(crate) made: Result<(Graph, Vec<Literal>), String>,
}

/// The cases of these sizes whose names contain one of `only`, where there is any.
///
/// # Errors
/// The first line of the table that is not understood.
pub(crate) fn all(sizes: &[Size], only: &[String]) -> Result<Vec<Case>, String> {
    let wanted = |name: &str| only.is_empty() || only.iter().any(|part| name.contains(part.as_str()));
    let mut cases = Vec::new();
    for &size in sizes {
        for spec in ops::read(&sized(size)?)? {
            let name = match size {
                Size::Small => format!("{} small", spec.name),
                Size::Usual => spec.name.clone(),
                Size::Large => format!("{} large", spec.name),
            };
            if wanted(&name) {
                cases.push(Case {
                    made: spec.graph(),
                    name,
                    size,
                });
            }
        }
        if size == Size::Usual {
            for &(name, text) in GRAPHS.iter().filter(|(name, _)| wanted(name)) {
                cases.push(Case {
                    made: parsed(name, text),
                    name: name.to_owned(),
                    size,
                });
            }
        }
    }
    Ok(cases)
}

/// The table with the sizes put in: `%` stands for the number of this size that the line names behind its `@`, `$` for
/// the one behind the colon.
fn sized(size: Size) -> Result<String, String> {
    let mut table = String::new();
    for line in TABLE.lines() {
        let Some((case, sizes)) = line.split_once('@') else {
            table.push_str(line);
            table.push('\n');
            continue;
        };
        let index = match size {
            Size::Small => 0,
            Size::Usual => 1,
            Size::Large => 2,
        };
        let own = sizes
            .split_whitespace()
            .nth(index)
            .ok_or_else(|| format!("{line}: three sizes stand behind the @"))?;
        let (first, second) = own.split_once(':').unwrap_or((own, own));
        table.push_str(&case.replace('%', first).replace('$', second));
        table.push('\n');
    }
    Ok(table)
}

/// A graph of the text form with inputs: floats between -1 and 1, other numbers all one.
fn parsed(name: &str, form: &str) -> Result<(Graph, Vec<Literal>), String> {
    let graph = text::parse(form).map_err(|error| error.to_string())?;
    let mut numbers = Numbers::of(name);
    let inputs = graph
        .inputs
        .iter()
        .map(|&id| {
            let tensor = graph.tensor(id);
            let dtype = tensor.ty.dtype;
            let shape = tensor
                .ty
                .sizes()
                .ok_or_else(|| format!("input {} has no type", tensor.name))?;
            let float = dtype.is_float();
            let values: Vec<f64> = (0..shape.iter().product::<usize>())
                .map(|_| if float { numbers.between(-1.0, 1.0) } else { 1.0 })
                .collect();
            literal(dtype, &shape, &values)
        })
        .collect::<Result<_, String>>()?;
    Ok((graph, inputs))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_case_of_every_size_is_a_graph_of_its_own_name() {
        let cases = all(&[Size::Small, Size::Usual, Size::Large], &[]).unwrap();
        let mut names = BTreeSet::new();
        for case in &cases {
            assert!(names.insert(&case.name), "{} stands twice", case.name);
            assert!(case.made.is_ok(), "{}: {:?}", case.name, case.made.as_ref().err());
        }
        let usual = cases.iter().filter(|case| case.size == Size::Usual).count();
        assert!(usual >= 140, "{usual}");
    }
}
