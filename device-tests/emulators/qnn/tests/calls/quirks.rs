//! What the vendor's library was seen to do, one by one.

use std::ptr;

use crate::call;
use crate::client::{self, Session, alone, relu};

#[test]
fn versions_are_those_whose_facts_are_followed() {
    let _alone = alone();
    let qnn = client::qnn();
    assert_eq!(qnn.core_api().to_string(), "2.40.0");
    assert_eq!(qnn.library_api().to_string(), "5.51.0");
    assert_eq!(qnn.system_api().to_string(), "1.15.0");
    let mut id = ptr::null();
    assert_eq!(call!(build_id, &raw mut id), 0);
}

#[test]
fn a_graph_runs_and_frees_all() {
    let _alone = alone();
    let before = client::live();
    let session = Session::new(None);
    let (graph, x, y) = relu(&session, c"g");
    assert_eq!(graph.finalize(), 0);
    let mut out = [0; 4];
    assert_eq!(graph.run(&x, &[10, 128, 130, 200], &y, &mut out), 0);
    assert_eq!(out, [128, 128, 130, 200]);
    let more: Vec<u64> = client::live().iter().zip(before).map(|(a, b)| a - b).collect();
    assert_eq!(more, [1, 1, 1, 1, 2, 0]);
    drop(session);
    assert_eq!(client::live(), before);
}
