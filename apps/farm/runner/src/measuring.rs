//! Shared code of jobs that run a model, and the final message of an item's process.

use std::time::Duration;

use anyhow::Context as _;
use polychip::{Model, Policy, Runtime};
use polychip_farm_record::{Assignment, Outcome};
use serde::{Deserialize, Serialize};

use crate::conditions::Conditions;

/// The result that an item's process sends to its runner.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ItemResult {
    /// How it ended.
    pub(crate) outcome: Outcome,
    /// Share of the processors that others used meanwhile, in thousandths.
    pub(crate) others_millis: Option<u32>,
}

/// A board on which the item cannot be tried.
#[derive(Debug)]
pub(crate) struct NotHere(String);

impl std::fmt::Display for NotHere {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotHere {}

pub(crate) fn not_here(reason: impl Into<String>) -> anyhow::Error {
    NotHere(reason.into()).into()
}

/// Longest that one run of a model may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// What jobs that run a model share.
pub(crate) struct Measuring<'a> {
    pub(crate) assignment: &'a Assignment,
    pub(crate) runtime: Runtime,
    pub(crate) policy: Policy,
    pub(crate) conditions: Conditions,
}

impl Measuring<'_> {
    /// Reads the model, and gives its open dimensions the sizes that are asked for.
    pub(crate) fn model(&self) -> anyhow::Result<Model> {
        let path = self
            .assignment
            .model
            .as_ref()
            .context("no model was sent for the item")?;
        let model = self.runtime.load(path)?;
        let mut shapes: Vec<(String, Vec<usize>)> = Vec::new();
        for text in &self.assignment.item.settings.shapes {
            let shape =
                shape(text).with_context(|| format!("invalid shape {text:?}; write INPUT=1x3x48x192"))?;
            if model.graph().input_named(&shape.0).is_some() {
                shapes.push(shape);
            }
        }
        Ok(model.bind_shapes(shapes.iter().map(|(name, shape)| (name, shape)))?)
    }

    /// From now on others' share of the processors counts.
    pub(crate) fn begin(&mut self) {
        let _ = self.conditions.now();
    }

    /// Share of the processors that others used since the last call.
    pub(crate) fn others(&mut self) -> Option<u32> {
        self.conditions.now().load_by_others_millis
    }
}

fn shape(text: &str) -> Option<(String, Vec<usize>)> {
    let (name, sizes) = text.rsplit_once('=')?;
    let sizes: Result<Vec<usize>, _> = sizes.split('x').map(str::parse).collect();
    Some((name.to_owned(), sizes.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_an_input_and_sizes() {
        assert_eq!(shape("a=b=1x3"), Some(("a=b".into(), vec![1, 3])));
        assert_eq!(shape("a=1x"), None);
        assert_eq!(shape("a"), None);
    }
}
