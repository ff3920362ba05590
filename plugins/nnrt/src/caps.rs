//! Supported nodes: our own rules first, then the runtime's verdict on each operation of a node. Where the runtime
//! gives no verdicts, trial builds replace them.
//!
//! Invariant: a node is supported only if every operation of it was accepted, in each axis order that may be planned.
//!
//! Not here: how nodes become operations (`lower`). The runtime may still refuse a whole part, which is then planned again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use polychip_lowering::operands;
use polychip_lowering::{Outcome, Part, Refusal};
use polychip_sdk::{Error, ErrorKind, Reason, Support};

use crate::api::Api;
use crate::lower;
use crate::program::Program;

/// The runtime's verdicts so far: accepted, or the reason.
#[derive(Default)]
pub(crate) struct SupportCache(Mutex<BTreeMap<[u8; 32], Option<String>>>);

impl SupportCache {
    /// Whether the chip runs each node of a graph of so many nodes.
    pub(crate) fn support(&self, api: &Api, part: &Part, nodes: usize, reduced: bool) -> Vec<Support> {
        let infos = operands::infos(part, &lower::Chip);
        let lowered: Vec<Outcome<Vec<Program>>> = part
            .nodes
            .iter()
            .map(|node| {
                let mut programs = lower::alone(part, &infos, node)?;
                programs.iter_mut().for_each(|program| program.reduced = reduced);
                Ok(programs)
            })
            .collect();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.ask(api, lowered.iter().flatten().flatten(), &mut known, reduced);
        let mut answers = vec![Support::Yes; nodes];
        for (node, programs) in part.nodes.iter().zip(lowered) {
            let refusal = programs.and_then(|programs| {
                for program in &programs {
                    for operation in &program.operations {
                        if let Some(Some(words)) = known.get(&program.key(operation)) {
                            let what = format!("operation {}: {words}", operation.code);
                            return Err(Refusal::new(Reason::Vendor, what));
                        }
                    }
                }
                Ok(())
            });
            // a node that was decomposed has several answers
            let place = &mut answers[node.index as usize];
            if let (Err(refusal), Support::Yes) = (refusal, &*place) {
                *place = refusal.support();
            }
        }
        answers
    }

    /// Asks what is new: all in one model, or each alone where the runtime takes not even the question.
    fn ask<'a>(
        &self,
        api: &Api,
        programs: impl Iterator<Item = &'a Program>,
        known: &mut BTreeMap<[u8; 32], Option<String>>,
        reduced: bool,
    ) {
        let fresh = || Program {
            reduced,
            ..Program::default()
        };
        let (mut all, mut keys, mut asked) = (fresh(), Vec::new(), BTreeSet::new());
        for program in programs {
            for operation in &program.operations {
                let key = program.key(operation);
                if !known.contains_key(&key) && asked.insert(key) {
                    all.ask(program, operation);
                    keys.push(key);
                }
            }
        }
        if keys.is_empty() {
            return;
        }
        let said = |yes: bool| (!yes).then(|| "the runtime says no".to_owned());
        match api.ask(&all) {
            Ok(Some(answers)) => return known.extend(keys.into_iter().zip(answers.into_iter().map(said))),
            Ok(None) if api.compile(&all).is_ok() => {
                return known.extend(keys.into_iter().map(|key| (key, None)));
            }
            Ok(None) | Err(_) => {}
        }
        for (operation, key) in all.operations.iter().zip(keys) {
            let mut alone = fresh();
            alone.ask(&all, operation);
            let answer = match api.ask(&alone) {
                Ok(Some(answers)) => said(answers == [true]),
                Ok(None) => match api.compile(&alone) {
                    Ok(_) => None,
                    Err(error) if is_verdict(&error) => Some(format!("a trial build fails: {error}")),
                    // unknown: a busy chip or too little memory says nothing about the operation
                    Err(_) => continue,
                },
                Err(error) => Some(error.to_string()),
            };
            known.insert(key, answer);
        }
    }
}

/// Whether a failed build would fail again.
fn is_verdict(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Persistent)
}
