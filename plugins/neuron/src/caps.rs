//! Supported nodes: our own rules first, then the library's verdict on each operation of a node.
//!
//! Invariants:
//! 1. A node is supported only if every operation of it was accepted, in each axis order that may be planned.
//! 2. All operations that are new are asked in one model; an answer is kept per library, settings and operation.
//!
//! Not here: how nodes become operations (`lower`). The library may still refuse a whole part, which is then planned again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use polychip_lowering::operands;
use polychip_lowering::{Outcome, Part, Refusal};
use polychip_sdk::{HostServices, LogLevel, Reason, Support};

use crate::lower;
use crate::program::{Operation, Program};
use crate::shared::Shared;

type Key = [u8; 32];

/// Verdicts of one library with its settings.
pub(crate) struct SupportCache {
    shared: Arc<Shared>,
    host: HostServices,
    /// Key in the host's store.
    name: String,
    relaxed: bool,
    known: Mutex<BTreeMap<Key, bool>>,
}

impl SupportCache {
    /// Verdicts stored by the host.
    pub(crate) fn new(shared: Arc<Shared>, host: HostServices, made_by: &str, relaxed: bool) -> SupportCache {
        let name = format!("answers 1 {made_by}");
        let stored = host.store_read(&name).ok().flatten().unwrap_or_default();
        let record = |record: &[u8]| {
            let (key, yes) = record.split_first_chunk::<32>()?;
            Some((*key, yes == [1]))
        };
        // a torn record is queried again
        let known = stored.chunks(33).filter_map(record).collect();
        SupportCache {
            shared,
            host,
            name,
            relaxed,
            known: Mutex::new(known),
        }
    }

    /// Whether the chip runs each node of a graph of so many nodes.
    pub(crate) fn support(&self, part: &Part, nodes: usize) -> Vec<Support> {
        let infos = operands::infos(part, &lower::Chip);
        let bare: Vec<Outcome<Vec<Program>>> = part
            .nodes
            .iter()
            .map(|node| lower::alone(part, &infos, node, false))
            .collect();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut question = Program {
            relaxed: self.relaxed,
            ..Program::default()
        };
        let mut asked: BTreeSet<Key> = BTreeSet::new();
        let mut keys = Vec::new();
        for (node, bare) in part.nodes.iter().zip(&bare) {
            let Ok(bare) = bare else { continue };
            let new = |program: &Program, operation: &Operation| {
                let key = program.key(operation);
                (!known.contains_key(&key)).then_some(key)
            };
            let is_new = |program: &Program| {
                program
                    .operations
                    .iter()
                    .any(|operation| new(program, operation).is_some())
            };
            if !bare.iter().any(is_new) {
                continue;
            }
            // with their data: the library looks at constants
            for program in lower::alone(part, &infos, node, true).unwrap_or_default() {
                for operation in &program.operations {
                    if let Some(key) = new(&program, operation).filter(|key| asked.insert(*key)) {
                        question.ask(&program, operation);
                        keys.push(key);
                    }
                }
            }
        }
        let mut words = String::new();
        if !keys.is_empty() {
            match self.shared.api.ask(&question) {
                Ok(answers) => {
                    known.extend(keys.into_iter().zip(answers));
                    self.keep(&known);
                }
                // of all of them together: one by one, so that each has its own answer
                Err(error) => {
                    words = error.to_string();
                    self.host
                        .log(LogLevel::Debug, &format!("asked one by one: {words}"));
                    self.one_by_one(&question, &keys, &mut known);
                }
            }
        }
        let mut answers = vec![Support::Yes; nodes];
        for (node, bare) in part.nodes.iter().zip(bare) {
            let refusal = match bare {
                Err(refusal) => Some(refusal),
                Ok(programs) => programs.iter().find_map(|program| {
                    let refused = |operation: &&Operation| known.get(&program.key(operation)) != Some(&true);
                    let operation = program.operations.iter().find(refused)?;
                    let what = format!("operation {} {words}", operation.code);
                    Some(Refusal::new(Reason::Vendor, what.trim_end()))
                }),
            };
            let place = &mut answers[node.index as usize];
            if let (Some(refusal), Support::Yes) = (refusal, &*place) {
                *place = refusal.support();
            }
        }
        answers
    }

    /// Asks each operation in a model of its own: the question as a whole was refused.
    fn one_by_one(&self, question: &Program, keys: &[Key], known: &mut BTreeMap<Key, bool>) {
        for (operation, key) in question.operations.iter().zip(keys) {
            let mut alone = Program {
                relaxed: self.relaxed,
                ..Program::default()
            };
            alone.ask(question, operation);
            let yes = self.shared.api.ask(&alone).is_ok_and(|answers| answers == [true]);
            known.insert(*key, yes);
        }
    }

    fn keep(&self, known: &BTreeMap<Key, bool>) {
        let bytes: Vec<u8> = known
            .iter()
            .flat_map(|(key, &yes)| key.iter().copied().chain([u8::from(yes)]))
            .collect();
        if let Err(error) = self.host.store_write(&self.name, &bytes) {
            let text = format!("answers of the Neuron library are not kept: {error}");
            self.host.log(LogLevel::Debug, &text);
        }
    }
}
