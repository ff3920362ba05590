//! Settings that change while a size is being made.

use polychip_graph::onnx::messages::{
    self, Dimension, DimensionValue, OperatorSetId, Shape, TensorKind, Type, TypeValue, ValueInfo,
};

use super::{Kind, Sizes};
use crate::{Policy, Runtime};

/// Relu of `n` floats.
fn relu() -> messages::Model {
    let port = |name: &str| ValueInfo {
        name: name.to_owned(),
        r#type: Some(Type {
            value: Some(TypeValue::Tensor(TensorKind {
                elem_type: 1,
                shape: Some(Shape {
                    dim: vec![Dimension {
                        value: Some(DimensionValue::Param("n".to_owned())),
                    }],
                }),
            })),
        }),
    };
    messages::Model {
        ir_version: Some(8),
        graph: Some(messages::Graph {
            name: "relu".to_owned(),
            node: vec![messages::Node {
                op_type: "Relu".to_owned(),
                input: vec!["x".to_owned()],
                output: vec!["y".to_owned()],
                ..messages::Node::default()
            }],
            input: vec![port("x")],
            output: vec![port("y")],
            ..messages::Graph::default()
        }),
        opset_import: vec![OperatorSetId {
            version: 17,
            ..OperatorSetId::default()
        }],
        ..messages::Model::default()
    }
}

#[test]
fn setting_changed_while_a_size_is_made_holds_for_it() {
    let runtime = Runtime::builder().only_given_folders().build().unwrap();
    let model = runtime.load_bytes("made.onnx", relu().to_bytes()).unwrap();
    let session = runtime.session(&model, Policy::latency().threads(1)).unwrap();
    let Kind::Open(open) = &session.0.kind else {
        panic!("the size is open");
    };
    let sizes = Sizes::from_slice(&[4]);
    session.set("deadline", "5").unwrap();
    let made = open.make(&sizes, &open.policy, &open.answers).unwrap();
    session.set("deadline", "7").unwrap();
    open.enter(&mut open.lock(), &sizes, made, false);
    let inner = session.0.latest().unwrap();
    assert_eq!(inner.lateness.deadline_ns(), Some(7_000_000));
}
