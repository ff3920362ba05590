//! Contents of a compiled model for a set of nodes: the nodes as an ONNX model, their constants, and the plans with their
//! compiled parts.
//!
//! Invariants:
//! 1. A hash covers all bytes; nothing is used if it does not match.
//! 2. No stated length or offset is used before it is known to lie within the bytes.
//! 3. A node of the compiled model, with one part, and the file beside it, with all parts, have the
//!    same format.
//! 4. A constant is stored once, also if several parts use it.
//! 5. Each byte is hashed once when it is read, and read from the file if there is one: pages of the mapping would count
//!    towards the process's memory.
//!
//! Format: 64 bytes (magic, format version, index length, total length, hash), the index as JSON, sections at multiples
//! of 64 after the index, and a final non-zero byte. A section is a model without its large constants, a blob or a
//! constant. The index has the hash of each section, and the hash of the header covers header and index.
//!
//! Not here: detection of stale content (`polychip`'s `Precompiled`), ONNX Runtime's nodes
//! (`compiled`).

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use polychip::{ModelFolder, Precompiled};
use polychip_graph::fingerprint::ConstantHashes;
use polychip_graph::onnx::messages::{self, EXTERNAL, StringPair};
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};
use crate::read::Nodes;
use crate::source::Files;

const MAGIC: [u8; 8] = *b"PLYSAVED";
const HEADER: usize = 64;
/// Where the hash is in the header; it covers what is before it.
const HASH: usize = 32;
/// Sections begin at multiples of it, so that what a plugin reads in place is aligned in a mapped file.
const ALIGN: usize = 64;
/// The last byte: releases of ONNX Runtime differ in whether a string that is read ends in a zero of theirs, so that zeros at
/// the end are no one's.
const END: u8 = 0x5a;
/// Constants from this size on are sections of their own, in bytes.
const LARGE: usize = 1024;
/// Bytes that are hashed at a time.
const BLOCK: usize = 256 << 10;
/// The key of a message's external data that gives the number of a constant.
const CONSTANT: &str = "constant";

/// Version of the form that is written and read here.
pub(crate) const FORM: u32 = 2;

/// One set of nodes.
pub(crate) struct Part {
    /// The set's name in the compiled model.
    pub(crate) name: String,
    /// Names in the model below of the node's inputs and outputs, in the node's order.
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
    /// An ONNX model; in place of its large constants, their numbers.
    model: Bytes,
    constants: Vec<Constant>,
    pub(crate) plans: Vec<Plan>,
}

/// A large constant.
#[derive(Clone)]
struct Constant {
    bytes: Bytes,
    hash: Hash,
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
    files: Option<Files>,
}

/// Identifier of a content.
pub(crate) type Hash = blake3::Hash;

/// Location of a section, relative to the first one, and its hash in hexadecimal.
#[derive(Clone, Serialize, Deserialize)]
struct Section {
    start: u64,
    bytes: u64,
    hash: String,
}

#[derive(Serialize, Deserialize)]
struct Index {
    constants: Vec<Section>,
    parts: Vec<IndexPart>,
}

#[derive(Serialize, Deserialize)]
struct IndexPart {
    name: String,
    inputs: Vec<String>,
    outputs: Vec<String>,
    model: Section,
    /// Numbers of the index's constants.
    constants: Vec<usize>,
    plans: Vec<IndexPlan>,
}

#[derive(Serialize, Deserialize)]
struct IndexPlan {
    made: serde_json::Value,
    blobs: Vec<Option<Section>>,
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
    /// A set of nodes with its plans. Its constants are not copied.
    pub(crate) fn new(
        name: &str,
        [inputs, outputs]: [Vec<String>; 2],
        mut model: messages::Model,
        plans: Vec<Plan>,
    ) -> Part {
        let mut constants = Vec::new();
        for_each_tensor(&mut model, &mut |tensor| {
            let Some(bytes) = tensor.raw_data.take_if(|bytes| bytes.len() >= LARGE) else {
                return Ok(());
            };
            tensor.data_location = EXTERNAL;
            tensor.external_data = vec![StringPair {
                key: CONSTANT.to_owned(),
                value: constants.len().to_string(),
            }];
            constants.push(bytes);
            Ok(())
        })
        .unwrap_or_default();
        let hashed = |bytes: Bytes| Constant {
            hash: blake3::hash(&bytes),
            bytes,
        };
        Part {
            name: name.to_owned(),
            inputs,
            outputs,
            model: Bytes::from(model.to_bytes()),
            constants: constants.into_iter().map(hashed).collect(),
            plans,
        }
    }

    /// The model with its constants in place.
    fn messages(&self) -> Result<messages::Model> {
        let mut model = messages::Model::from_bytes(self.model.clone())?;
        for_each_tensor(&mut model, &mut |tensor| {
            if tensor.data_location != EXTERNAL {
                return Ok(());
            }
            let mut pairs = tensor.external_data.iter();
            let number = pairs
                .find(|pair| pair.key == CONSTANT)
                .map(|pair| pair.value.parse::<usize>());
            let constant = match number {
                Some(Ok(number)) => self.constants.get(number),
                _ => None,
            };
            let constant = constant.ok_or_else(|| {
                Failure::new(format!(
                    "the compiled content lacks the constant {:?}; compile the model again",
                    tensor.name
                ))
            })?;
            tensor.raw_data = Some(constant.bytes.clone());
            tensor.data_location = 0;
            tensor.external_data.clear();
            Ok(())
        })?;
        Ok(model)
    }
}

impl Saved {
    /// The nodes of a part, as `graph` imports them.
    pub(crate) fn nodes(&self, part: &Part) -> Result<Nodes> {
        let mut hashes = ConstantHashes::default();
        for constant in &part.constants {
            hashes.add(constant.bytes.clone(), *constant.hash.as_bytes());
        }
        Ok(Nodes {
            model: part.messages()?,
            files: self.files.clone(),
            hashes: Arc::new(hashes),
        })
    }
}

/// Calls a function for each tensor of a model, those of bodies included.
fn for_each_tensor(
    model: &mut messages::Model,
    each: &mut dyn FnMut(&mut messages::Tensor) -> Result<()>,
) -> Result<()> {
    fn graph(
        whole: &mut messages::Graph,
        each: &mut dyn FnMut(&mut messages::Tensor) -> Result<()>,
    ) -> Result<()> {
        whole.initializer.iter_mut().try_for_each(&mut *each)?;
        for attribute in whole.node.iter_mut().flat_map(|node| &mut node.attribute) {
            if let Some(tensor) = &mut attribute.t {
                each(tensor)?;
            }
            if let Some(body) = &mut attribute.g {
                graph(body, each)?;
            }
        }
        Ok(())
    }
    model.graph.as_mut().map_or(Ok(()), |whole| graph(whole, each))
}

/// Writes these parts, and returns their hash.
///
/// # Errors
/// The receiver's.
pub(crate) fn write(parts: &[&Part], out: &mut dyn Write) -> Result<Hash> {
    let failed = |error: io::Error| Failure::new(format!("compiled content cannot be written: {error}"));
    let mut sections = Sections::default();
    let mut numbers = BTreeMap::new();
    let mut constants = Vec::new();
    let mut index_parts = Vec::with_capacity(parts.len());
    for part in parts {
        let mut of_part = Vec::with_capacity(part.constants.len());
        for constant in &part.constants {
            let key = (*constant.hash.as_bytes(), constant.bytes.len());
            of_part.push(*numbers.entry(key).or_insert_with(|| {
                constants.push(sections.add(&constant.bytes, constant.hash));
                constants.len() - 1
            }));
        }
        let mut section = |bytes: &Bytes| sections.add(bytes, blake3::hash(bytes));
        let plan = |plan: &Plan, section: &mut dyn FnMut(&Bytes) -> Section| IndexPlan {
            made: plan.made.clone(),
            blobs: plan
                .blobs
                .iter()
                .map(|blob| blob.as_ref().map(&mut *section))
                .collect(),
        };
        index_parts.push(IndexPart {
            name: part.name.clone(),
            inputs: part.inputs.clone(),
            outputs: part.outputs.clone(),
            model: section(&part.model),
            constants: of_part,
            plans: part.plans.iter().map(|one| plan(one, &mut section)).collect(),
        });
    }
    let index = Index {
        constants,
        parts: index_parts,
    };
    let mut index = serde_json::to_vec(&index).map_err(|error| failed(error.into()))?;
    let index_bytes = index.len();
    index.resize((HEADER + index.len()).next_multiple_of(ALIGN) - HEADER, 0);
    let all = HEADER + index.len() + sections.end + 1;
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&FORM.to_le_bytes());
    header[16..24].copy_from_slice(&(index_bytes as u64).to_le_bytes());
    header[24..32].copy_from_slice(&(all as u64).to_le_bytes());
    let hash = root(&header[..HASH], &index);
    header[HASH..].copy_from_slice(hash.as_bytes());
    out.write_all(&header).map_err(failed)?;
    out.write_all(&index).map_err(failed)?;
    let mut end = 0usize;
    for bytes in sections.bytes {
        let start = end.next_multiple_of(ALIGN);
        out.write_all(&[0; ALIGN][..start - end]).map_err(failed)?;
        out.write_all(&bytes).map_err(failed)?;
        end = start + bytes.len();
    }
    out.write_all(&[END]).map_err(failed)?;
    Ok(hash)
}

/// Sections to be written.
#[derive(Default)]
struct Sections {
    bytes: Vec<Bytes>,
    end: usize,
}

impl Sections {
    fn add(&mut self, bytes: &Bytes, hash: Hash) -> Section {
        let start = self.end.next_multiple_of(ALIGN);
        self.end = start + bytes.len();
        self.bytes.push(bytes.clone());
        Section {
            start: start as u64,
            bytes: bytes.len() as u64,
            hash: hash.to_hex().to_string(),
        }
    }
}

/// The hash of header and index.
fn root(header: &[u8], index: &[u8]) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(header);
    hasher.update(index);
    hasher.finalize()
}

/// Compiled content: in memory, or mapped from a file.
pub(crate) enum Content {
    Embedded(Bytes),
    Mapped(ModelFolder),
}

impl Content {
    /// The bytes of a file in memory, which no longer depend on the file.
    pub(crate) fn copied(file: &ModelFolder) -> Result<Content> {
        let mut bytes = vec![0; file.bytes().len()];
        let read = file.read_at(0, &mut bytes);
        read.map_err(|error| Failure::new(format!("it cannot be read: {error}")))?;
        Ok(Content::Embedded(Bytes::from(bytes)))
    }

    fn bytes(&self) -> Bytes {
        match self {
            Content::Embedded(bytes) => bytes.clone(),
            Content::Mapped(file) => file.bytes(),
        }
    }

    /// The hash of some of the bytes.
    fn hash(&self, range: Range<usize>) -> Result<Hash> {
        let Content::Mapped(file) = self else {
            return Ok(blake3::hash(&self.bytes()[range]));
        };
        let mut hasher = blake3::Hasher::new();
        let mut block = vec![0; BLOCK.min(range.len())];
        let mut start = range.start;
        while start < range.end {
            let block = &mut block[..BLOCK.min(range.end - start)];
            let read = file.read_at(start, block);
            read.map_err(|error| Failure::new(format!("it cannot be read: {error}")))?;
            hasher.update(block);
            start += block.len();
        }
        Ok(hasher.finalize())
    }
}

/// Reads the result of [`write`], in place. Trailing bytes are allowed.
///
/// # Errors
/// A message that names the problem.
pub(crate) fn read(content: Content) -> Result<Saved> {
    let wrong = |words: String| Failure::new(words);
    let bytes = content.bytes();
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
    if all <= HEADER || all > bytes.len() {
        return Err(wrong(format!(
            "it is truncated: {} of {all} bytes are present",
            bytes.len()
        )));
    }
    let torn = || wrong("its hash does not match: it is torn or was changed".to_owned());
    let outside = || wrong("an offset in it lies outside of it".to_owned());
    let behind = HEADER
        .checked_add(index)
        .filter(|behind| *behind < all)
        .ok_or_else(outside)?;
    let first = behind.next_multiple_of(ALIGN);
    if first >= all {
        return Err(outside());
    }
    let hash = root(&bytes[..HASH], &bytes[HEADER..first]);
    if bytes[HASH..HEADER] != *hash.as_bytes() {
        return Err(torn());
    }
    // the hash holds: what is wrong below was written so, or is in a section
    let index: Index = serde_json::from_slice(&bytes[HEADER..behind])
        .map_err(|error| wrong(format!("its index cannot be read: {error}")))?;
    let place = |section: &Section| -> Result<Range<usize>> {
        let start = usize::try_from(section.start).ok();
        let start = start.and_then(|start| start.checked_add(first));
        let bytes = usize::try_from(section.bytes).ok();
        let end = start
            .zip(bytes)
            .and_then(|(start, bytes)| start.checked_add(bytes));
        match start.zip(end).filter(|(_, end)| *end < all) {
            Some((start, end)) => Ok(start..end),
            None => Err(outside()),
        }
    };
    // all sections, as they lie: nothing but zeros between them
    let mut end = first;
    for section in index.in_order() {
        let range = place(section)?;
        if range.start != end.next_multiple_of(ALIGN) {
            return Err(outside());
        }
        let gap = [0; ALIGN];
        let is_filled = content.hash(end..range.start)? == blake3::hash(&gap[..range.start - end]);
        let hash = content.hash(range.clone())?;
        if !is_filled || Hash::from_hex(&section.hash).ok() != Some(hash) {
            return Err(torn());
        }
        end = range.end;
    }
    if end + 1 != all || bytes[end] != END {
        return Err(torn());
    }
    let slice = |section: &Section| -> Result<Bytes> { Ok(bytes.slice(place(section)?)) };
    let constant = |section: &Section| -> Result<Constant> {
        Ok(Constant {
            bytes: slice(section)?,
            hash: Hash::from_hex(&section.hash).map_err(|_| torn())?,
        })
    };
    let constants: Vec<Constant> = index.constants.iter().map(constant).collect::<Result<_>>()?;
    let plan = |plan: IndexPlan| -> Result<Plan> {
        let blobs = plan.blobs.iter().map(|blob| blob.as_ref().map(slice).transpose());
        Ok(Plan {
            blobs: blobs.collect::<Result<_>>()?,
            made: plan.made,
        })
    };
    let part = |part: IndexPart| -> Result<Part> {
        let numbered = part
            .constants
            .iter()
            .map(|number| constants.get(*number).cloned());
        Ok(Part {
            model: slice(&part.model)?,
            constants: numbered.collect::<Option<_>>().ok_or_else(outside)?,
            name: part.name,
            inputs: part.inputs,
            outputs: part.outputs,
            plans: part.plans.into_iter().map(plan).collect::<Result<_>>()?,
        })
    };
    let parts = index.parts.into_iter().map(part).collect::<Result<_>>()?;
    Ok(Saved {
        hash,
        parts,
        files: match content {
            Content::Embedded(_) => None,
            Content::Mapped(file) => Some(Files::alone(file)),
        },
    })
}

impl Index {
    /// All sections by their starts.
    fn in_order(&self) -> Vec<&Section> {
        let of_parts = self.parts.iter().flat_map(|part| {
            let blobs = part.plans.iter().flat_map(|plan| plan.blobs.iter().flatten());
            std::iter::once(&part.model).chain(blobs)
        });
        let mut all: Vec<&Section> = self.constants.iter().chain(of_parts).collect();
        // an empty section starts where the next one does
        all.sort_by_key(|section| (section.start, section.bytes));
        all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A part with a large constant of this value, and a small one.
    fn part(name: &str, value: u8) -> Part {
        let tensor = |name: &str, bytes: Vec<u8>| messages::Tensor {
            name: name.to_owned(),
            raw_data: Some(Bytes::from(bytes)),
            ..messages::Tensor::default()
        };
        let body = messages::Graph {
            initializer: vec![tensor("inner", vec![9; LARGE])],
            ..messages::Graph::default()
        };
        let node = messages::Node {
            attribute: vec![messages::Attribute {
                g: Some(Box::new(body)),
                ..messages::Attribute::default()
            }],
            ..messages::Node::default()
        };
        let model = messages::Model {
            graph: Some(messages::Graph {
                node: vec![node],
                initializer: vec![
                    tensor("large", vec![value; LARGE + 1]),
                    tensor("small", vec![5; 3]),
                ],
                ..messages::Graph::default()
            }),
            ..messages::Model::default()
        };
        let plan = Plan {
            made: serde_json::json!({"version": "0.0.1"}),
            blobs: vec![Some(Bytes::from_static(&[7; 100])), None, Some(Bytes::new())],
        };
        let ports = [vec!["x".to_owned(), String::new()], vec!["y".to_owned()]];
        Part::new(name, ports, model, vec![plan])
    }

    fn written() -> Vec<u8> {
        let mut bytes = Vec::new();
        let hash = write(&[&part("a", 1), &part("b", 2)], &mut bytes).unwrap();
        assert_eq!(bytes[HASH..HEADER], *hash.as_bytes());
        bytes
    }

    fn embedded(bytes: Vec<u8>) -> Result<Saved> {
        read(Content::Embedded(Bytes::from(bytes)))
    }

    fn words(bytes: Vec<u8>) -> String {
        embedded(bytes).err().unwrap().words
    }

    /// The same bytes with a hash of header and index that holds.
    fn rehashed(mut bytes: Vec<u8>) -> Vec<u8> {
        let index = u64::from_le_bytes(*bytes[16..].first_chunk().unwrap());
        let first = usize::try_from(index).unwrap_or(0).saturating_add(HEADER);
        let first = first.min(bytes.len()).next_multiple_of(ALIGN).min(bytes.len());
        let hash = root(&bytes[..HASH], &bytes[HEADER..first]);
        bytes[HASH..HEADER].copy_from_slice(hash.as_bytes());
        bytes
    }

    #[test]
    fn saved_data_is_read_back() {
        let mut bytes = written();
        assert_ne!(bytes.last(), Some(&0));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("content.bin");
        std::fs::write(&path, &bytes).unwrap();
        // ONNX Runtime may add a zero
        bytes.push(0);
        let mapped = Content::Mapped(ModelFolder::open(&path).unwrap());
        for (saved, is_file) in [(embedded(bytes).unwrap(), false), (read(mapped).unwrap(), true)] {
            let [a, b] = &saved.parts[..] else {
                panic!("two parts were written");
            };
            assert_eq!((&*a.name, &*b.name), ("a", "b"));
            assert_eq!(a.inputs, ["x", ""]);
            for (part, value) in [(a, 1), (b, 2)] {
                let nodes = saved.nodes(part).unwrap();
                assert_eq!(nodes.files.is_some(), is_file);
                let graph = nodes.model.graph.unwrap();
                let [large, small] = &graph.initializer[..] else {
                    panic!("two constants were written");
                };
                assert_eq!(large.raw_data.as_deref(), Some(&[value; LARGE + 1][..]));
                assert_eq!(small.raw_data.as_deref(), Some(&[5; 3][..]));
                let inner = &graph.node[0].attribute[0].g.as_ref().unwrap().initializer[0];
                assert_eq!(inner.raw_data.as_deref(), Some(&[9; LARGE][..]));
                assert_eq!((inner.data_location, inner.external_data.len()), (0, 0));
            }
            // stored once: both parts have it
            let inner = |part: &Part| {
                part.constants
                    .iter()
                    .find(|one| one.bytes[0] == 9)
                    .unwrap()
                    .bytes
                    .as_ptr()
            };
            assert_eq!(inner(a), inner(b));
            assert!(
                is_file
                    || inner(a)
                        .addr()
                        .abs_diff(a.model.as_ptr().addr())
                        .is_multiple_of(ALIGN)
            );
            let blobs = &b.plans[0].blobs;
            assert_eq!(blobs[0].as_deref(), Some(&[7u8; 100][..]));
            assert_eq!((blobs[1].as_deref(), blobs[2].as_deref()), (None, Some(&[][..])));
            let stale = a.plans[0].precompiled().err().unwrap().words;
            assert!(stale.contains("was \"0.0.1\" when it was compiled"), "{stale}");
        }
    }

    #[test]
    fn copied_data_does_not_depend_on_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("content.bin");
        std::fs::write(&path, written()).unwrap();
        let saved = read(Content::copied(&ModelFolder::open(&path).unwrap()).unwrap()).unwrap();
        std::fs::write(&path, b"").unwrap();
        let nodes = saved.nodes(&saved.parts[1]).unwrap();
        assert!(nodes.files.is_none());
        let graph = nodes.model.graph.unwrap();
        assert_eq!(
            graph.initializer[0].raw_data.as_deref(),
            Some(&[2; LARGE + 1][..])
        );
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
        // every byte counts: of the header's rest, index, sections, and what is between them
        for place in (12..16).chain(HASH..bytes.len()) {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            let words = words(changed);
            assert!(words.contains("hash does not match"), "byte {place}: {words}");
        }
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
            if let Ok(saved) = embedded(bytes) {
                for part in &saved.parts {
                    let _ = saved.nodes(part);
                    part.plans.iter().for_each(|plan| drop(plan.precompiled()));
                }
            }
        }
    }
}
