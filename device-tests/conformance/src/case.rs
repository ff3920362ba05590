//! A case: one question to a plugin, its name and tags.
//!
//! Invariant: names are unique, `group/...`, and the same for every plugin. Not here: its outcome (`verdict`).

use std::fmt;
use std::sync::Arc;

use crate::bench::Bench;
use crate::verdict::Judgement;

/// What a case runs.
pub type Run = Arc<dyn Fn(&Bench) -> Judgement + Send + Sync>;

/// One question to a plugin.
#[derive(Clone)]
pub struct Case {
    /// Unique name.
    pub name: String,
    /// What it needs and belongs to; the first one is its group.
    pub tags: Vec<&'static str>,
    /// Runs in a process of its own: bad calls may crash, or leave memory broken.
    pub alone: bool,
    /// The question.
    pub run: Run,
}

impl Case {
    /// A case of a group.
    pub fn new(
        group: &'static str,
        name: &str,
        run: impl Fn(&Bench) -> Judgement + Send + Sync + 'static,
    ) -> Case {
        Case {
            name: format!("{group}/{name}"),
            tags: vec![group],
            alone: false,
            run: Arc::new(run),
        }
    }

    /// The same case with a tag more.
    #[must_use]
    pub fn tag(mut self, tag: &'static str) -> Case {
        self.tags.push(tag);
        self
    }

    /// The same case, which every plugin must pass however small it is.
    #[must_use]
    pub fn basic(self) -> Case {
        self.tag("basic")
    }

    /// The same case in a process of its own.
    #[must_use]
    pub fn alone(mut self) -> Case {
        self.alone = true;
        self
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case")
            .field("name", &self.name)
            .field("tags", &self.tags)
            .finish_non_exhaustive()
    }
}
