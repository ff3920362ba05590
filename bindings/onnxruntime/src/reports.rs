//! Reports on the ONNX Runtime sessions of this provider: claimed nodes, unclaimed nodes with
//! reasons, and statistics of the claimed parts.
//!
//! Invariant: a session that has ended is not held here.

#![allow(unsafe_code)]

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_char;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde::Serialize;

use crate::claim::Claim;

/// Record of one ONNX Runtime session.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By graph: ONNX Runtime queries a changed graph again.
    graphs: BTreeMap<String, Counted>,
    parts: Vec<Part>,
    /// Reports of the last released parts, for the final report.
    ended: VecDeque<Shown>,
    /// Counts parts.
    numbered: u64,
}

/// So many parts that are gone are told of: a node whose inputs come in ever other ranks has ever other sessions.
const KEPT_ENDED: usize = 64;

/// Tells the parts of a session apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartId(u64);

/// Claim on one graph.
#[derive(Debug, Default)]
struct Counted {
    nodes: usize,
    claimed: usize,
    refused: Vec<Refused>,
}

/// Nodes of one op that are not claimed, for one reason.
#[derive(Debug, Clone, Serialize)]
struct Refused {
    op: String,
    count: usize,
    reason: String,
}

/// One set of claimed nodes.
#[derive(Debug, Clone)]
struct Part {
    id: PartId,
    name: String,
    session: polychip::Session,
    copies: Arc<Copies>,
}

/// Bytes that were copied between ONNX Runtime's memory and ours, since sizes, strings or devices left no other way.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    input_bytes: AtomicU64,
    output_bytes: AtomicU64,
}

impl Copies {
    pub(crate) fn add_input(&self, bytes: usize) {
        self.input_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_output(&self, bytes: usize) {
        self.output_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

#[derive(Serialize)]
struct Whole<'a> {
    nodes: usize,
    claimed: usize,
    refused: &'a [Refused],
    parts: Vec<Shown>,
}

#[derive(Debug, Clone, Serialize)]
struct Shown {
    name: String,
    copied_input_bytes: u64,
    copied_output_bytes: u64,
    report: polychip::Report,
}

impl Shown {
    fn new(part: &Part) -> Shown {
        Shown {
            name: part.name.clone(),
            copied_input_bytes: part.copies.input_bytes.load(Ordering::Relaxed),
            copied_output_bytes: part.copies.output_bytes.load(Ordering::Relaxed),
            report: part.session.report(),
        }
    }
}

impl Entry {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the claim on a graph.
    pub(crate) fn claimed(&self, graph: &str, claim: &Claim) {
        let counted = Counted {
            nodes: claim.nodes,
            claimed: claim.sets.iter().map(Vec::len).sum(),
            refused: grouped(&claim.refused),
        };
        self.lock().graphs.insert(graph.to_owned(), counted);
    }

    pub(crate) fn compiled(&self, name: &str, session: &polychip::Session, copies: &Arc<Copies>) -> PartId {
        let mut state = self.lock();
        state.numbered += 1;
        let id = PartId(state.numbered);
        state.parts.push(Part {
            id,
            name: name.to_owned(),
            session: session.clone(),
            copies: Arc::clone(copies),
        });
        id
    }

    /// Sessions of the live parts.
    pub(crate) fn sessions(&self) -> Vec<polychip::Session> {
        let state = self.lock();
        state.parts.iter().map(|part| part.session.clone()).collect()
    }

    /// Releases a part: its session is dropped here, its report is kept.
    pub(crate) fn released(&self, id: PartId) {
        let gone: Vec<Part> = self.lock().parts.extract_if(.., |part| part.id == id).collect();
        // without the lock: a session that ends waits for its last run
        let ended: Vec<Shown> = gone.iter().map(Shown::new).collect();
        drop(gone);
        let mut state = self.lock();
        state.ended.extend(ended);
        let more = state.ended.len().saturating_sub(KEPT_ENDED);
        state.ended.drain(..more);
    }

    /// As JSON.
    pub(crate) fn json(&self) -> serde_json::Result<String> {
        let state = self.lock();
        let nodes = state.graphs.values().map(|graph| graph.nodes).sum();
        let claimed = state.graphs.values().map(|graph| graph.claimed).sum();
        let refused: Vec<Refused> = state
            .graphs
            .values()
            .flat_map(|graph| graph.refused.clone())
            .collect();
        let (parts, mut shown) = (state.parts.clone(), Vec::from(state.ended.clone()));
        drop(state);
        shown.extend(parts.iter().map(Shown::new));
        serde_json::to_string(&Whole {
            nodes,
            claimed,
            refused: &refused,
            parts: shown,
        })
    }
}

fn grouped(refused: &[(String, String)]) -> Vec<Refused> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (op, reason) in refused {
        *counts.entry((op, reason)).or_default() += 1;
    }
    let one = |((op, reason), count): ((&str, &str), usize)| Refused {
        op: op.to_owned(),
        count,
        reason: reason.to_owned(),
    };
    counts.into_iter().map(one).collect()
}

/// Warning about a graph with unclaimed nodes; `None` if all are claimed.
pub(crate) fn warning(claim: &Claim) -> Option<String> {
    if claim.refused.is_empty() {
        return None;
    }
    let claimed: usize = claim.sets.iter().map(Vec::len).sum();
    let nodes = if claim.nodes == 1 { "node" } else { "nodes" };
    let mut words = match claimed {
        0 => format!(
            "runs none of {} {nodes}; all stay with other providers",
            claim.nodes
        ),
        _ => format!(
            "runs {claimed} of {} {nodes}, in {} of its own; the others stay with other providers",
            claim.nodes,
            match claim.sets.len() {
                1 => "a part".to_owned(),
                parts => format!("{parts} parts"),
            }
        ),
    };
    let mut groups = grouped(&claim.refused);
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    let more = groups.len().saturating_sub(MOST_NAMED);
    for (index, group) in groups.iter().take(MOST_NAMED).enumerate() {
        let count = match group.count {
            1 => String::new(),
            count => format!(" ({count} times)"),
        };
        let before = if index == 0 { ": " } else { "; " };
        words += &format!("{before}{}{count}: {}", group.op, group.reason);
    }
    if more > 0 {
        words += &format!("; and {more} more, in the report");
    }
    Some(words)
}

/// Number of refusal kinds in a warning.
const MOST_NAMED: usize = 5;

static ENTRIES: Mutex<Vec<Weak<Entry>>> = Mutex::new(Vec::new());

/// Registers a new ONNX Runtime session.
pub(crate) fn begin() -> Arc<Entry> {
    let entry = Arc::new(Entry::default());
    let mut entries = ENTRIES.lock().unwrap_or_else(PoisonError::into_inner);
    entries.retain(|entry| entry.strong_count() > 0);
    entries.push(Arc::downgrade(&entry));
    entry
}

/// Reports on all open sessions in order of creation, as a JSON list.
fn all() -> String {
    let entries = ENTRIES.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let open = entries.iter().filter_map(Weak::upgrade);
    let all: Vec<String> = open.filter_map(|entry| entry.json().ok()).collect();
    format!("[{}]", all.join(","))
}

/// Writes the reports of all open sessions, a JSON list with a terminating zero byte, to memory of
/// the caller, and returns the number of bytes required. If `room` is smaller, nothing is written:
/// call again with more. Returns 0 in a child of `fork`. Thread-safe.
///
/// # Safety
/// `text` is null, or `room` bytes can be written there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_ort_reports(text: *mut c_char, room: usize) -> usize {
    // a child of fork could wait for ever for what is locked
    if crate::api::is_forked() {
        return 0;
    }
    let Ok(all) = crate::entry::caught(all) else {
        return 0;
    };
    let needed = all.len() + 1;
    if !text.is_null() && needed <= room {
        // SAFETY: the caller's promise.
        unsafe {
            ptr::copy_nonoverlapping(all.as_ptr(), text.cast(), all.len());
            text.add(all.len()).write(0);
        }
    }
    needed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warning_states_amount_and_reason() {
        let refused = |op: &str, why: &str| (op.to_owned(), why.to_owned());
        let mut claim = Claim {
            sets: vec![vec![0, 1]],
            refused: vec![
                refused("x.A", "the op is not known here"),
                refused("B", "no"),
                refused("x.A", "the op is not known here"),
            ],
            nodes: 5,
        };
        assert_eq!(
            warning(&claim).unwrap(),
            "runs 2 of 5 nodes, in a part of its own; the others stay with other providers: x.A (2 times): the op is not \
             known here; B: no"
        );
        claim.sets.clear();
        assert!(
            warning(&claim)
                .unwrap()
                .starts_with("runs none of 5 nodes; all stay")
        );
        claim.refused.clear();
        assert!(warning(&claim).is_none());
    }

    #[test]
    fn reports_are_written_if_they_fit() {
        let held = begin();
        let mut text = vec![1u8; 4096];
        // SAFETY: null is allowed, and the room is that of the text.
        let (needed, small, whole) = unsafe {
            let needed = polychip_ort_reports(ptr::null_mut(), 0);
            let small = polychip_ort_reports(text.as_mut_ptr().cast(), 4);
            assert_eq!(text[0], 1, "nothing is written where there is no room");
            (
                needed,
                small,
                polychip_ort_reports(text.as_mut_ptr().cast(), text.len()),
            )
        };
        assert_eq!((small, whole), (needed, needed));
        assert_eq!(text[needed - 1], 0);
        let all: serde_json::Value = serde_json::from_slice(&text[..needed - 1]).unwrap();
        assert_eq!(all[0]["claimed"], 0);
        drop(held);
    }
}
