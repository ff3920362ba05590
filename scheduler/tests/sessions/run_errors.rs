//! A run that fails names the node, its op, and the names and types of its inputs.

use std::time::Duration;

use polychip::{ErrorKind, Policy, Runtime};
use polychip_graph::text::parse;

const PATIENCE: Duration = Duration::from_secs(60);

/// The error of a run of a node with `index` (i64) beside nodes that are fine.
fn error(node: &str, shape: &str, index: &[i64]) -> String {
    let text = format!(
        "graph \"g\" {{\n\
           input t0 \"table\": f32[3, 2]\n\
           input t1 \"index\": i64{shape}\n\
           input t2 \"new\": f32[1, 2]\n\
           t3 \"before\": f32[3, 2] = Neg \"before\"(t0)\n\
           t4 \"result\": untyped = {node}\n\
           output t3\n\
           output t4\n\
         }}\n"
    );
    let mut graph = parse(&text).unwrap();
    polychip_graph::infer(&mut graph).unwrap();
    let runtime = Runtime::builder().only_given_folders().build().unwrap();
    let session = runtime
        .session(&runtime.load_graph("made", graph), Policy::latency().threads(1))
        .unwrap();
    let mut inputs = Vec::new();
    for spec in session.inputs() {
        let mut input = session.input(&spec.name).unwrap();
        if spec.name == "index" {
            input.write(index).unwrap();
        } else {
            let count = spec.shape.iter().product();
            input.write(&vec![1.0f32; count]).unwrap();
        }
        inputs.push(input);
    }
    let inputs: Vec<&polychip::Input> = inputs.iter().collect();
    let error = session
        .submit(&inputs)
        .and_then(|run| run.wait(PATIENCE))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadInput, "{error}");
    error.to_string()
}

#[test]
fn indices_out_of_range_name_their_node() {
    for (node, shape, index, words) in [
        (
            "Gather \"/embeddings/Gather\"(t0, t1)",
            "[2]",
            &[0, 3][..],
            "node \"/embeddings/Gather\" (Gather) with inputs \"table\" f32[3, 2], \"index\" i64[2]: cpu:0: ",
        ),
        (
            "GatherND \"nd\"(t3, t1)",
            "[1, 2]",
            &[0, 2],
            "node \"nd\" (GatherND) with inputs \"before\" f32[3, 2], \"index\" i64[1, 2]: cpu:0: ",
        ),
        (
            "GatherElements \"elements\"(t0, t1)",
            "[1, 2]",
            &[0, -4],
            "node \"elements\" (GatherElements) with inputs \"table\" f32[3, 2], \"index\" i64[1, 2]: cpu:0: ",
        ),
        (
            "ScatterElements \"scatter\"(t0, t1, t2)",
            "[1, 2]",
            &[0, 3],
            "node \"scatter\" (ScatterElements) with inputs \"table\" f32[3, 2], \"index\" i64[1, 2], \
             \"new\" f32[1, 2]: cpu:0: ",
        ),
        (
            "ScatterND \"\"(t0, t1, t2)",
            "[1, 1]",
            &[3],
            "node ScatterND of \"result\" with inputs \"table\" f32[3, 2], \"index\" i64[1, 1], \
             \"new\" f32[1, 2]: cpu:0: ",
        ),
    ] {
        let said = error(node, shape, index);
        assert!(said.starts_with(words), "{said}");
    }
}
