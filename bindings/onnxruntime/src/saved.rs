//! Contents of a compiled model for a set of nodes: the nodes with their constants as an ONNX
//! model, and the plans with their compiled parts.
//!
//! Invariants:
//! 1. A hash covers all bytes; nothing is used if it does not match.
//! 2. No stated length or offset is used before it is known to lie within the bytes.
//! 3. A node of the compiled model, with one part, and the file beside it, with all parts, have the
//!    same format.
//!
//! Format: 64 bytes (magic, format version, index length, total length, hash of what follows), the
//! index as JSON, models and blobs at multiples of 64 after the index, and a final non-zero byte.
//!
//! Not here: detection of stale content (`polychip`'s `Precompiled`), ONNX Runtime's nodes
//! (`compiled`).

use bytes::Bytes;
use polychip::Precompiled;
use polychip_graph::onnx::messages;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};

const MAGIC: [u8; 8] = *b"PLYSAVED";
const HEADER: usize = 64;
/// Models and blobs begin at multiples of it, so that what a plugin reads in place is aligned in a mapped file.
const ALIGN: usize = 64;
/// The last byte: releases of ONNX Runtime differ in whether a string that is read ends in a zero of theirs, so that zeros at
/// the end are no one's.
const END: u8 = 0x5a;

/// Version of the form that is written and read here.
pub(crate) const FORM: u32 = 1;

/// One set of nodes.
pub(crate) struct Part {
    /// The set's name in the compiled model.
    pub(crate) name: String,
    /// Names in the model below of the node's inputs and outputs, in the node's order.
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
    /// An ONNX model with its constants.
    pub(crate) model: Bytes,
    pub(crate) plans: Vec<Plan>,
}

/// A plan, as JSON of whatever version wrote it, with its compiled parts.
pub(crate) struct Plan {
    made: serde_json::Value,
    blobs: Vec<Option<Bytes>>,
}

/// Content that was read.
pub(crate) struct Saved {
    pub(crate) hash: Hash,
    pub(crate) parts: Vec<Part>,
}

/// Identifier of a content.
pub(crate) type Hash = blake3::Hash;

/// Location of a section, relative to the first one.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Span {
    start: u64,
    bytes: u64,
}

#[derive(Serialize, Deserialize)]
struct Index {
    parts: Vec<IndexPart>,
}

#[derive(Serialize, Deserialize)]
struct IndexPart {
    name: String,
    inputs: Vec<String>,
    outputs: Vec<String>,
    model: Span,
    plans: Vec<IndexPlan>,
}

#[derive(Serialize, Deserialize)]
struct IndexPlan {
    made: serde_json::Value,
    blobs: Vec<Option<Span>>,
}

impl Plan {
    pub(crate) fn new(made: &Precompiled) -> Result<Plan> {
        let json = serde_json::to_value(made);
        let json = json.map_err(|error| Failure::new(format!("a plan cannot be written: {error}")))?;
        Ok(Plan {
            made: json,
            blobs: made.blobs().to_vec(),
        })
    }

    /// The plan as this version reads it.
    pub(crate) fn precompiled(&self) -> Result<Precompiled> {
        let then = self.made.get("version").and_then(|version| version.as_str());
        let now = env!("CARGO_PKG_VERSION");
        if let Some(then) = then.filter(|then| *then != now) {
            // its words may be others
            return Err(Failure::new(format!(
                "the compiled content is stale: the version of Polychip was {then:?} when it was compiled, and is {now:?} \
                 now; compile it again"
            )));
        }
        let made: Precompiled = Deserialize::deserialize(&self.made)
            .map_err(|error| Failure::new(format!("a compiled plan cannot be read: {error}")))?;
        Ok(made.with_blobs(self.blobs.clone())?)
    }
}

impl Part {
    /// The nodes, as `graph` imports them.
    pub(crate) fn messages(&self) -> Result<messages::Model> {
        Ok(messages::Model::from_bytes(self.model.clone())?)
    }
}

/// The bytes of these parts, and their hash.
///
/// # Errors
/// The index is larger than memory.
pub(crate) fn write(parts: &[&Part]) -> Result<(Vec<u8>, Hash)> {
    let mut sections: Vec<&Bytes> = Vec::new();
    let mut end = 0;
    let mut span = |bytes| {
        let span = placed(&mut end, bytes);
        sections.push(bytes);
        span
    };
    let index = Index {
        parts: parts
            .iter()
            .map(|part| IndexPart {
                name: part.name.clone(),
                inputs: part.inputs.clone(),
                outputs: part.outputs.clone(),
                model: span(&part.model),
                plans: part
                    .plans
                    .iter()
                    .map(|plan| IndexPlan {
                        made: plan.made.clone(),
                        blobs: plan
                            .blobs
                            .iter()
                            .map(|blob| blob.as_ref().map(&mut span))
                            .collect(),
                    })
                    .collect(),
            })
            .collect(),
    };
    let index = serde_json::to_vec(&index)
        .map_err(|error| Failure::new(format!("compiled content cannot be written: {error}")))?;
    let first = (HEADER + index.len()).next_multiple_of(ALIGN);
    let mut bytes = Vec::with_capacity(first + end + 1);
    bytes.resize(HEADER, 0);
    bytes.extend_from_slice(&index);
    bytes.resize(first, 0);
    for section in sections {
        bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
        bytes.extend_from_slice(section);
    }
    bytes.push(END);
    let hash = blake3::hash(&bytes[HEADER..]);
    let all = bytes.len() as u64;
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&FORM.to_le_bytes());
    bytes[16..24].copy_from_slice(&(index.len() as u64).to_le_bytes());
    bytes[24..32].copy_from_slice(&all.to_le_bytes());
    bytes[32..64].copy_from_slice(hash.as_bytes());
    Ok((bytes, hash))
}

/// Where the next section goes.
fn placed(end: &mut usize, bytes: &Bytes) -> Span {
    let start = end.next_multiple_of(ALIGN);
    *end = start + bytes.len();
    Span {
        start: start as u64,
        bytes: bytes.len() as u64,
    }
}

/// Reads the result of [`write`], in place. Trailing bytes are allowed.
///
/// # Errors
/// A message that names the problem.
pub(crate) fn read(bytes: Bytes) -> Result<Saved> {
    let wrong = |words: String| Failure::new(words);
    if bytes.len() < HEADER || bytes[..8] != MAGIC {
        return Err(wrong(
            "it is not content compiled by the Polychip provider, or it is truncated".to_owned(),
        ));
    }
    let four = |at: usize| {
        bytes[at..]
            .first_chunk::<4>()
            .map_or(0, |four| u32::from_le_bytes(*four))
    };
    let eight = |at: usize| {
        bytes[at..]
            .first_chunk::<8>()
            .map_or(0, |eight| u64::from_le_bytes(*eight))
    };
    if four(8) != FORM {
        return Err(wrong(format!(
            "its format version is {}, but this version of Polychip reads {FORM}; compile the model again",
            four(8)
        )));
    }
    let length = |at: usize| usize::try_from(eight(at)).unwrap_or(usize::MAX);
    let (index, all) = (length(16), length(24));
    if all < HEADER || all > bytes.len() {
        return Err(wrong(format!(
            "it is truncated: {} of {all} bytes are present",
            bytes.len()
        )));
    }
    let bytes = bytes.slice(..all);
    let hash = blake3::hash(&bytes[HEADER..]);
    if bytes[32..64] != *hash.as_bytes() {
        return Err(wrong(
            "its hash does not match: it is torn or was changed".to_owned(),
        ));
    }
    // the hash holds: what is wrong below was written so
    let outside = || wrong("an offset in it lies outside of it".to_owned());
    let behind = HEADER
        .checked_add(index)
        .filter(|behind| *behind <= all)
        .ok_or_else(outside)?;
    let first = behind.next_multiple_of(ALIGN).min(all);
    let index: Index = serde_json::from_slice(&bytes[HEADER..behind])
        .map_err(|error| wrong(format!("its index cannot be read: {error}")))?;
    let section = |span: Span| -> Result<Bytes> {
        let start = usize::try_from(span.start)
            .ok()
            .and_then(|start| start.checked_add(first));
        let end = usize::try_from(span.bytes)
            .ok()
            .zip(start)
            .and_then(|(bytes, start)| start.checked_add(bytes));
        match start.zip(end).filter(|(_, end)| *end <= all) {
            Some((start, end)) => Ok(bytes.slice(start..end)),
            None => Err(outside()),
        }
    };
    let plan = |plan: IndexPlan| -> Result<Plan> {
        let blobs = plan.blobs.into_iter().map(|blob| blob.map(section).transpose());
        Ok(Plan {
            made: plan.made,
            blobs: blobs.collect::<Result<_>>()?,
        })
    };
    let part = |part: IndexPart| -> Result<Part> {
        Ok(Part {
            name: part.name,
            inputs: part.inputs,
            outputs: part.outputs,
            model: section(part.model)?,
            plans: part.plans.into_iter().map(plan).collect::<Result<_>>()?,
        })
    };
    Ok(Saved {
        hash,
        parts: index.parts.into_iter().map(part).collect::<Result<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn part(name: &str, bytes: &'static [u8]) -> Part {
        Part {
            name: name.to_owned(),
            inputs: vec!["x".to_owned(), String::new()],
            outputs: vec!["y".to_owned()],
            model: Bytes::from_static(bytes),
            plans: vec![Plan {
                made: serde_json::json!({"version": "0.0.1"}),
                blobs: vec![Some(Bytes::from_static(&[7; 100])), None, Some(Bytes::new())],
            }],
        }
    }

    fn written() -> Vec<u8> {
        write(&[&part("a", &[1, 2, 3]), &part("b", &[0; 65])]).unwrap().0
    }

    fn words(bytes: Vec<u8>) -> String {
        read(Bytes::from(bytes)).err().unwrap().words
    }

    /// The same bytes with a hash that holds.
    fn rehashed(mut bytes: Vec<u8>) -> Vec<u8> {
        let hash = blake3::hash(&bytes[HEADER..]);
        bytes[32..64].copy_from_slice(hash.as_bytes());
        bytes
    }

    #[test]
    fn saved_data_is_read_back() {
        let mut bytes = written();
        assert_ne!(bytes.last(), Some(&0));
        // ONNX Runtime may add a zero
        bytes.push(0);
        let saved = read(Bytes::from(bytes)).unwrap();
        let [a, b] = &saved.parts[..] else {
            panic!("two parts were written");
        };
        assert_eq!((a.name.as_str(), &a.model[..]), ("a", &[1, 2, 3][..]));
        assert_eq!((b.name.as_str(), b.model.len()), ("b", 65));
        assert_eq!(a.inputs, ["x", ""]);
        let blobs = &b.plans[0].blobs;
        assert_eq!(blobs[0].as_deref(), Some(&[7u8; 100][..]));
        assert_eq!((blobs[1].as_deref(), blobs[2].as_deref()), (None, Some(&[][..])));
        let start = a.model.as_ptr() as usize;
        assert!((blobs[0].as_ref().unwrap().as_ptr() as usize - start).is_multiple_of(ALIGN));
        let stale = a.plans[0].precompiled().err().unwrap().words;
        assert!(stale.contains("was \"0.0.1\" when it was compiled"), "{stale}");
    }

    #[test]
    fn invalid_data_is_refused_with_the_reason() {
        let bytes = written();
        assert!(words(Vec::new()).contains("truncated"));
        assert!(words(b"something else".repeat(9)).contains("not content compiled"));
        assert!(words(bytes[..bytes.len() - 1].to_vec()).contains("is truncated: "));
        let mut other = bytes.clone();
        other[8] = 9;
        assert!(words(other).contains("version is 9"));
        let mut changed = bytes.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert!(words(changed).contains("hash does not match"));
        let mut long = bytes.clone();
        long[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(words(rehashed(long)).contains("outside"));
        let mut no_json = bytes;
        no_json[HEADER] = b'?';
        assert!(words(rehashed(no_json)).contains("index cannot be read"));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_crash(at in 0usize..2000, to: u8, cut in 0usize..2000, holds: bool) {
            let mut bytes = written();
            let at = at % bytes.len();
            bytes[at] = to;
            bytes.truncate(bytes.len().saturating_sub(cut % 64));
            let bytes = if holds && bytes.len() >= HEADER { rehashed(bytes) } else { bytes };
            // an error or not, as it happens
            if let Ok(saved) = read(Bytes::from(bytes)) {
                for part in &saved.parts {
                    let _ = part.messages();
                    part.plans.iter().for_each(|plan| drop(plan.precompiled()));
                }
            }
        }
    }
}
