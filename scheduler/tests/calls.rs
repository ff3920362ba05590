//! The plugin calls of a session, in order and by thread, as a scripted device records them,
//! compared with the vendor page.

use std::path::Path;

use polychip::{Policy, Runtime};

#[allow(dead_code, reason = "not every test crate writes every kind of model")]
#[path = "../../apps/cli/tests/command/model.rs"]
mod model;
#[allow(dead_code, reason = "one way to make a runtime is enough")]
#[path = "scripted/session.rs"]
mod scripted;

use scripted::{PATIENCE, filled, right, runtime_of};

const PAGE: &str = include_str!("../../docs/calls.md");

/// What the page shows of this name.
fn shown(name: &str) -> Vec<String> {
    let start = format!("```text {name}\n");
    let (_, rest) = PAGE
        .split_once(&start)
        .unwrap_or_else(|| panic!("docs/calls.md has no block {name}"));
    let (block, _) = rest.split_once("```").unwrap();
    block
        .lines()
        .map(|line| line.split('#').next().unwrap().trim_end().to_owned())
        .collect()
}

/// What was written down since, where waits that follow each other stand once: how many there are is a matter of time.
fn written(record: &Path, from: &mut usize) -> Vec<String> {
    let text = std::fs::read_to_string(record).unwrap();
    let mut lines: Vec<String> = text.lines().skip(*from).map(str::to_owned).collect();
    *from += lines.len();
    lines.dedup_by(|next, before| next == before && next.ends_with("fence_wait"));
    lines
}

#[test]
fn the_page_of_calls_shows_what_a_session_calls() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("calls.txt");
    let script = format!("[[device]]\nrecord = {record:?}\ncost = {{ fixed_ns = 1000.0 }}\nlaunch_ns = 10\n");
    let mut from = 0;
    let mut seen = Vec::new();
    let (runtime, model) = runtime_of(Runtime::builder().virtual_time(), &script);
    seen.push(("runtime", written(&record, &mut from)));
    let session = runtime
        .session(&model, Policy::latency().devices(["null:0"]))
        .unwrap();
    seen.push(("session", written(&record, &mut from)));
    let input = filled(&session, 3.0);
    seen.push(("input", written(&record, &mut from)));
    for _ in 0..2 {
        let outputs = session.submit(&[&input]).unwrap().wait(PATIENCE).unwrap();
        right(&outputs, 3.0);
        seen.push(("run", written(&record, &mut from)));
    }
    drop((input, session));
    drop((model, runtime));
    seen.push(("end", written(&record, &mut from)));
    let wanted: Vec<_> = seen.iter().map(|(name, _)| (*name, shown(name))).collect();
    assert_eq!(seen, wanted, "docs/calls.md shows other calls than were made");
}
