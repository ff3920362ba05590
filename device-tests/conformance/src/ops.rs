//! The `ops` group: every op of the vocabulary, over element types and shape classes, from `ops.txt`.
//!
//! Invariants:
//! 1. Every case can be built and computed by the reference (tested): a case that fails is the plugin's.
//! 2. An op without a case has its reason in [`without`].

mod build;
mod line;

use std::sync::{Arc, LazyLock};

use polychip_ops::Op;

use crate::bench::Bench;
use crate::case::Case;
use crate::problem::supported;
use crate::tolerance::Tolerances;
use crate::verdict::{Judgement, Stop};

pub use build::Spec;

/// The table's text.
const TABLE: &str = include_str!("../ops.txt");

/// Every case of the table.
#[must_use]
pub fn specs() -> &'static [Arc<Spec>] {
    static SPECS: LazyLock<Vec<Arc<Spec>>> =
        LazyLock::new(|| line::read(TABLE).expect("invariant: the table is tested to be readable"));
    &SPECS
}

/// The cases of another table in the same form.
///
/// # Errors
/// The first line that is not understood, by its number.
pub fn read(table: &str) -> Result<Vec<Arc<Spec>>, String> {
    line::read(table)
}

/// The cases of the group.
pub fn cases(cases: &mut Vec<Case>) {
    for spec in specs() {
        let spec = Arc::clone(spec);
        let name = spec.name.clone();
        let basic = spec.is_basic();
        let case = Case::new("ops", &name, move |bench| judge(bench, &spec));
        cases.push(if basic { case.basic() } else { case });
    }
}

fn judge(bench: &Bench, spec: &Spec) -> Judgement {
    let problem = spec
        .build()
        .map_err(|words| Stop::Failed(format!("a mistake of the suite: {words}")))?;
    supported(&bench.device, &problem.flat)?;
    problem.solve(
        &bench.device,
        bench.reduced,
        &Tolerances::of(&spec.family, bench.reduced),
    )
}

/// Op and shapes of a case of this group, by its whole name.
#[must_use]
pub fn asked(case: &str) -> Option<String> {
    let name = case.strip_prefix("ops/")?;
    specs()
        .iter()
        .find(|spec| spec.name == name)
        .map(|spec| spec.asked())
}

/// Why an op has no case.
#[must_use]
pub fn without(op: Op) -> Option<&'static str> {
    Some(match op {
        Op::Bernoulli
        | Op::Multinomial
        | Op::RandomNormal
        | Op::RandomNormalLike
        | Op::RandomUniform
        | Op::RandomUniformLike => "random values are of a session's run: its tests compare devices",
        Op::If | Op::Loop | Op::Scan => "tested in support/control-flow",
        Op::SequenceMap
        | Op::SequenceAt
        | Op::SequenceConstruct
        | Op::SequenceEmpty
        | Op::SequenceErase
        | Op::SequenceInsert
        | Op::SequenceLength
        | Op::SplitToSequence
        | Op::ConcatFromSequence
        | Op::Optional
        | Op::OptionalGetElement
        | Op::OptionalHasElement => "sequences and optional values do not cross the contract",
        Op::StringConcat
        | Op::StringNormalizer
        | Op::StringSplit
        | Op::RegexFullMatch
        | Op::LabelEncoder
        | Op::TfIdfVectorizer => "ports cannot carry text",
        Op::TreeEnsemble | Op::TreeEnsembleRegressor => {
            "trees are covered by ONNX's own cases and by trained models"
        }
        Op::ImageDecoder => "image files are decoded before the graph",
        Op::Constant => "folded before a graph reaches a plugin",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_op_has_a_case_or_a_reason() {
        let covered: BTreeSet<Op> = specs().iter().map(|spec| spec.op).collect();
        for &op in Op::ALL {
            assert!(
                covered.contains(&op) != without(op).is_some(),
                "{op}: {} case, reason {:?}",
                if covered.contains(&op) { "a" } else { "no" },
                without(op)
            );
        }
    }

    #[test]
    fn every_case_is_built_and_computed() {
        let mut wrong = Vec::new();
        let mut names = BTreeSet::new();
        for spec in specs() {
            assert!(names.insert(&spec.name), "{} stands twice", spec.name);
            if let Err(words) = spec.build() {
                wrong.push(format!("{}: {words}", spec.name));
            }
        }
        assert!(
            wrong.is_empty(),
            "{} of {}\n{}",
            wrong.len(),
            specs().len(),
            wrong.join("\n")
        );
        assert!(specs().len() > 1500, "{}", specs().len());
    }

    #[test]
    fn every_case_says_its_op_and_the_shapes_that_its_graph_has() {
        assert_eq!(
            asked("ops/Add/binary-row/f32").as_deref(),
            Some("Add of f32[3, 7], f32[7]")
        );
        assert_eq!(asked("support/carrier"), None);
        for spec in specs().iter().step_by(7) {
            let words = spec.asked();
            assert!(words.starts_with(&format!("{} of ", spec.op)), "{words}");
            // the words list as many non-constant inputs as the graph has
            let problem = spec.build().unwrap();
            let said = words.matches('[').count() - words.matches("] constant").count();
            assert_eq!(said, problem.inputs.len(), "{}: {words}", spec.name);
        }
    }

    #[test]
    fn outputs_are_not_all_alike() {
        // an answer of all zeros would pass such a case
        let flat = specs()
            .iter()
            // a scalar that nothing equals, nothing to sum up, a constant of zeros
            .filter(|spec| !spec.name.contains("-scalar/") && !spec.name.contains("empty-inner"))
            .filter(|spec| spec.name != "ConstantOfShape/plain/f32")
            .filter(|spec| {
                spec.build().is_ok_and(|problem| {
                    let floats = problem.expected[0].as_f64s().unwrap_or_default();
                    floats.len() > 4 && floats.iter().all(|value| *value == 0.0)
                })
            })
            .map(|spec| spec.name.as_str())
            .collect::<Vec<_>>();
        assert!(flat.is_empty(), "{flat:?}");
    }
}
