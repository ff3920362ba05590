//! Known differences, each with its reason and the sentence of the specification
//! (`device-tests/expectations/differ.toml`).
//!
//! Invariants:
//! 1. A class is known by op, kind, attributes and what evidence was computed for the case; a referee that sides with ONNX
//!    Runtime makes it unknown again, but for a class that says why the referee does not count.
//! 2. Every class states a reason and a sentence.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde::Deserialize;

use crate::evidence::{Evidence, Found};
use crate::verdict::What;

const FILE: &str = include_str!("../../expectations/differ.toml");

/// Who is right, says ONNX's reference evaluator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Side {
    /// It says what we say.
    Ours,
    /// It says what ONNX Runtime says, or runs what we refuse.
    Theirs,
    /// It says something else.
    Neither,
    /// It does not run the model.
    Silent,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    class: Vec<Class>,
}

/// A class of differences that is known.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Class {
    /// Op types; a part of several nodes is of the class where its last node is.
    ops: Vec<String>,
    what: Vec<What>,
    /// Attributes that the part must have, in words.
    #[serde(default)]
    attributes: BTreeMap<String, String>,
    /// Whether values are so large or small that products leave their type's range; either where it is left out.
    extreme: Option<bool>,
    /// Whether an infinity or a NaN is read; either where it is left out.
    not_finite: Option<bool>,
    /// What must have been found out about the case.
    evidence: Option<Evidence>,
    /// What our words contain.
    #[serde(default)]
    words: String,
    /// The sides that the referee may take.
    referee: Vec<Side>,
    reason: String,
    specification: String,
}

impl<'de> Deserialize<'de> for What {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<What, D::Error> {
        let name = String::deserialize(from)?;
        [
            What::Shape,
            What::Nan,
            What::Infinity,
            What::Values,
            What::Refused,
            What::Panic,
            What::Split,
        ]
        .into_iter()
        .find(|what| what.name() == name)
        .ok_or_else(|| serde::de::Error::custom(format!("no kind of difference is called {name:?}")))
    }
}

/// What is known of a difference.
pub(crate) struct Facts<'a> {
    pub(crate) ops: &'a [String],
    pub(crate) what: What,
    pub(crate) attributes: &'a BTreeMap<String, String>,
    pub(crate) extreme: bool,
    pub(crate) not_finite: bool,
    pub(crate) words: &'a str,
    pub(crate) side: Side,
    pub(crate) found: Found,
}

/// All classes that are known.
///
/// # Errors
/// The file is malformed, or a class has no reason or sentence.
pub(crate) fn classes() -> Result<Vec<Class>> {
    parse(FILE)
}

fn parse(text: &str) -> Result<Vec<Class>> {
    let file: File = toml::from_str(text)?;
    for class in &file.class {
        let stated = !class.reason.trim().is_empty() && !class.specification.trim().is_empty();
        ensure!(stated, "a class of {:?} has no reason or no sentence", class.ops);
        ensure!(
            !class.what.contains(&What::Panic) && !class.what.contains(&What::Split),
            "a panic is nothing that is known, nor are devices that do not run a graph: {:?}",
            class.ops
        );
    }
    Ok(file.class)
}

/// The reason of the first class that a difference is of.
pub(crate) fn reason(classes: &[Class], facts: &Facts<'_>) -> Option<String> {
    let class = classes.iter().find(|class| class.holds(facts))?;
    Some(class.reason.clone())
}

impl Class {
    /// Whether a difference is of this class.
    fn holds(&self, facts: &Facts<'_>) -> bool {
        // what single nodes are known for says nothing of several of them
        if facts.ops.len() > 1 && !matches!(self.evidence, Some(Evidence::Rounding | Evidence::NodeByNode)) {
            return false;
        }
        let op = facts.ops.last();
        op.is_some_and(|op| self.ops.iter().any(|known| known == op || known == "*"))
            && self.what.contains(&facts.what)
            && self.referee.contains(&facts.side)
            && self.evidence.is_none_or(|evidence| facts.found.holds(evidence))
            && self
                .not_finite
                .is_none_or(|not_finite| not_finite == facts.not_finite)
            && self.extreme.is_none_or(|extreme| extreme == facts.extreme)
            && facts.words.contains(&self.words)
            && self
                .attributes
                .iter()
                .all(|(name, value)| facts.attributes.get(name) == Some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_well_formed() {
        classes().unwrap();
    }

    #[test]
    fn a_class_says_what_it_is_of() {
        let text = "[[class]]\nops = [\"Cast\"]\nwhat = [\"values\"]\nattributes = { to = \"6\" }\nreferee = [\"neither\"]\n\
                    reason = \"a\"\nspecification = \"b\"";
        let classes = parse(text).unwrap();
        let ops = ["Cast".to_owned()];
        let attributes = BTreeMap::from([("to".to_owned(), "6".to_owned())]);
        let none = BTreeMap::new();
        let facts = |what, side, attributes| Facts {
            ops: &ops,
            what,
            attributes,
            extreme: false,
            not_finite: false,
            words: "",
            side,
            found: Found::default(),
        };
        let class = &classes[0];
        assert!(class.holds(&facts(What::Values, Side::Neither, &attributes)));
        assert!(!class.holds(&facts(What::Values, Side::Theirs, &attributes)));
        assert!(!class.holds(&facts(What::Shape, Side::Neither, &attributes)));
        assert!(!class.holds(&facts(What::Values, Side::Neither, &none)));
        assert!(parse(&text.replace("\"b\"", "\" \"")).is_err());
        assert!(parse(&text.replace("\"values\"", "\"panic\"")).is_err());
    }
}
