//! Flat graphs of arbitrary numbers behind valid pointers: refused, or read completely without a panic.
//!
//! Invariant: every accessor of a view that `GraphView::new` gave can be called. Not here: dangling pointers, which
//! no check can find.

#![no_main]

#[path = "graph_view/flat.rs"]
mod flat;
#[path = "graph_view/walk.rs"]
mod walk;

use arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use polychip_sdk::GraphView;

fuzz_target!(|bytes: &[u8]| {
    let mut keep = flat::Keep::default();
    let Ok(graph) = flat::graph(&mut Unstructured::new(bytes), &mut keep, 0) else {
        return;
    };
    // SAFETY: every pointer of the graph leads into `keep` and is readable for the count beside it.
    if let Ok(view) = unsafe { GraphView::new(&raw const graph) } {
        walk::graph(&view);
    }
    drop(keep);
});
