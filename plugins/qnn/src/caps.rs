//! Supported nodes: our own rules first, then the vendor's verdict on each operation of a node.
//!
//! Invariants:
//! 1. A node is supported only if every operation of it, including conversions between axis orders, was accepted.
//! 2. An answer of the library is kept per build, chip and operation (kind, parameters, types, extents,
//!    encodings), in memory and in the host's store; refusals of our own are not kept.
//!
//! Not here: how nodes become operations (`lower`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use polychip_lowering::operands::{self, Info};
use polychip_lowering::{Node, Outcome, Part, Refusal};
use polychip_sdk::{HostServices, LogLevel, Reason, Support};

use crate::lower::{self, Target};
use crate::program::{Operation, Param, Program, Quant, Role, Tensor, Type};
use crate::session::{Refused, Session};

/// The library's verdict: accepted, or its code and message.
type LibraryVerdict = Option<(u64, String)>;

/// Format version of stored verdicts.
const FORM: u32 = 2;

/// Verdicts of one library on one chip.
pub(crate) struct SupportCache {
    session: Arc<Session>,
    host: HostServices,
    target: Target,
    key: String,
    known: Mutex<BTreeMap<[u8; 32], LibraryVerdict>>,
}

impl SupportCache {
    /// Verdicts stored by the host.
    pub(crate) fn new(session: Arc<Session>, host: HostServices, target: Target) -> SupportCache {
        let key = format!("answers {FORM} {} soc {}", session.version(), target.soc.id);
        let stored = host.store_read(&key).ok().flatten().unwrap_or_default();
        let known = read(&stored).unwrap_or_default();
        SupportCache {
            session,
            host,
            target,
            key,
            known: Mutex::new(known),
        }
    }

    /// Whether the chip runs each node of a graph.
    pub(crate) fn support(&self, part: &Part) -> Vec<Support> {
        let infos = operands::infos(part, &self.target);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.len();
        let answers = part
            .nodes
            .iter()
            .map(|node| match self.node(part, &infos, node, &mut known) {
                Ok(()) => Support::Yes,
                Err(refusal) => refusal.support(),
            })
            .collect();
        if known.len() != before
            && let Err(error) = self.host.store_write(&self.key, &write(&known))
        {
            let text = format!("answers of the QNN library are not kept: {error}");
            self.host.log(LogLevel::Debug, &text);
        }
        answers
    }

    fn node(
        &self,
        part: &Part,
        infos: &[Outcome<Info>],
        node: &Node,
        known: &mut BTreeMap<[u8; 32], LibraryVerdict>,
    ) -> Outcome<()> {
        let lowered = |data| lower::alone(part, infos, node, self.target, data);
        for (order, bare) in lowered(false)?.into_iter().enumerate() {
            // made when the first question is new
            let mut full: Option<Program> = None;
            for (index, operation) in bare.operations.iter().enumerate() {
                let key = *blake3::hash(bare.key(operation).as_bytes()).as_bytes();
                let answer = match known.get(&key) {
                    Some(answer) => answer.clone(),
                    None => {
                        let program = match &mut full {
                            Some(program) => program,
                            none => none.insert(lowered(true)?.swap_remove(order)),
                        };
                        let asked = self.session.validate(program, &program.operations[index]);
                        let passing = asked.as_ref().is_err_and(|refused| !is_lasting(refused));
                        let answer = asked.err().map(|Refused { code, words }| (code, words));
                        if !passing {
                            known.insert(key, answer.clone());
                        }
                        answer
                    }
                };
                if let Some((code, words)) = answer {
                    let code = code & 0xffff;
                    return Err(Refusal::new(
                        Reason::Vendor,
                        format!("{} refused with QNN code {code}: {words}", operation.kind),
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Whether a refusal is the library's word on the operation, which it would repeat. Others, of memory or of a
/// device that was not there, say nothing about it: they are given, not kept.
fn is_lasting(refused: &Refused) -> bool {
    matches!(refused.short(), 1000 | 3000..=3999)
}

/// Whether the library takes a normalisation of 16-bit data with a scale of 16 bits: asked once per device.
pub(crate) fn takes_wide_scales(session: &Session) -> bool {
    let tensor = |name: &str, ty: Type, dims: &[usize], role| Tensor {
        name: name.to_owned(),
        ty,
        quant: Quant::PerTensor {
            scale: 0.001,
            zero: 0,
        },
        dims: dims.to_vec(),
        image: false,
        role,
    };
    let bytes = |count: usize| Role::Data(vec![1; count]);
    let mut program = Program {
        tensors: vec![
            tensor("x", Type::Ufixed16, &[1, 4, 8], Role::Input),
            tensor("scale", Type::Ufixed16, &[8], bytes(16)),
            tensor("shift", Type::Sfixed32, &[8], bytes(32)),
            tensor("y", Type::Ufixed16, &[1, 4, 8], Role::Output),
        ],
        inputs: vec![0],
        outputs: vec![3],
        ..Program::default()
    };
    let axes = Param::U32s {
        dims: vec![1],
        values: vec![2],
    };
    program.operations.push(Operation {
        name: "0_LayerNorm".to_owned(),
        kind: "LayerNorm",
        params: vec![("epsilon", Param::F32(1e-5)), ("axes", axes)],
        inputs: vec![0, 1, 2],
        outputs: vec![3],
        node: Some(0),
    });
    session.validate(&program, &program.operations[0]).is_ok()
}

/// Verdicts as bytes: for each a hash, a code, and the length and bytes of the message.
fn write(known: &BTreeMap<[u8; 32], LibraryVerdict>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (key, answer) in known {
        let (code, words) = answer.as_ref().map_or((0, ""), |(code, words)| (*code, &**words));
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(&code.to_le_bytes());
        bytes.extend_from_slice(&(words.len() as u32).to_le_bytes());
        bytes.extend_from_slice(words.as_bytes());
    }
    bytes
}

/// The answers that bytes hold; `None` where they are torn.
fn read(mut bytes: &[u8]) -> Option<BTreeMap<[u8; 32], LibraryVerdict>> {
    let mut known = BTreeMap::new();
    while !bytes.is_empty() {
        let (key, rest) = bytes.split_first_chunk::<32>()?;
        let (code, rest) = rest.split_first_chunk::<8>()?;
        let (len, rest) = rest.split_first_chunk::<4>()?;
        let words = rest.get(..u32::from_le_bytes(*len) as usize)?;
        let code = u64::from_le_bytes(*code);
        let answer = (code != 0).then(|| (code, String::from_utf8_lossy(words).into_owned()));
        known.insert(*key, answer);
        bytes = &rest[words.len()..];
    }
    Some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_about_the_operation_are_kept() {
        let lasting = |code| {
            is_lasting(&Refused {
                code,
                words: String::new(),
            })
        };
        assert!(lasting(3110) && lasting(1000) && lasting(0xabc_0000 + 3110));
        // no code, memory, a restart, a device that is not made
        assert!(![0, 1002, 1007, 14001].map(lasting).contains(&true));
    }

    #[test]
    fn stored_answers_are_read_back_and_torn_ones_dropped() {
        let known = BTreeMap::from([
            ([1; 32], None),
            ([2; 32], Some((3110, "no such type".to_owned()))),
        ]);
        let bytes = write(&known);
        assert_eq!(read(&bytes), Some(known));
        assert_eq!(read(&bytes[..bytes.len() - 1]), None);
        assert_eq!(read(&[]), Some(BTreeMap::new()));
    }
}
