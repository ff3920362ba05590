//! Replicas of the model: each is a valid plan by itself, on its own hardware.
//!
//! Invariants: replicas are judged by the same rules as a plan without replicas. Deliberately not
//! here: the sum of their rates (`schedule`).

use super::evidence::Evidence;
use super::schedule::hardware;
use super::violation::{Violation, ViolationKind};
use crate::objective::Goal;
use crate::plan::Plan;
use std::collections::BTreeMap;

fn wrong(words: String) -> Violation {
    Violation::new(ViolationKind::Replica, words)
}

/// Each copy is judged by the rules given, and stands on hardware of its own.
pub(super) fn each(
    e: &Evidence<'_>,
    judge: impl Fn(&Evidence<'_>) -> Result<(), Violation>,
) -> Result<(), Violation> {
    let plan = e.plan;
    if plan.replicas.is_empty() {
        return Ok(());
    }
    if plan.objective.goal != Goal::Throughput {
        return Err(wrong("a plan of single runs has copies of the model".to_owned()));
    }
    if plan.objective.max_predicted_power.is_some() {
        return Err(wrong(
            "a plan with a limit of power has copies: each is judged alone".to_owned(),
        ));
    }
    if !e.graph.states.is_empty() {
        return Err(wrong("a model that keeps a state has copies".to_owned()));
    }
    let mut owner: BTreeMap<usize, usize> = BTreeMap::new();
    let mut own = |index: usize, copy: &Plan| {
        for part in &copy.parts {
            let on = hardware(e, part.device.index());
            let other = *owner.entry(on).or_insert(index);
            if other != index {
                return Err(wrong(format!(
                    "replicas {other} and {index} share the hardware of {}",
                    e.targets[on].name
                )));
            }
        }
        Ok(())
    };
    own(0, plan)?;
    for (index, copy) in plan.replicas.iter().enumerate() {
        let index = index + 1;
        let same = (copy.objective, copy.input_home, copy.output_home)
            == (plan.objective, plan.input_home, plan.output_home);
        if !same {
            return Err(wrong(format!(
                "replica {index} has another objective or other homes"
            )));
        }
        if !copy.replicas.is_empty() {
            return Err(wrong(format!("replica {index} has replicas")));
        }
        let copy = Evidence {
            request: e.request,
            plan: copy,
        };
        judge(&copy).map_err(|found| Violation::new(found.kind(), format!("replica {index}: {found}")))?;
        own(index, copy.plan)?;
    }
    Ok(())
}
