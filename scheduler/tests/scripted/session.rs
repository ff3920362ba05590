//! A small model on scripted devices and virtual time, and runs with checked outputs.

use std::time::Duration;

use polychip::{Input, Outputs, Runtime, Session};

use crate::model::{self, F32, node, port};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// `b = |-x|`, with `a = -x` an output as well, on the devices of a script.
pub(crate) fn runtime(script: &str) -> (Runtime, polychip::Model) {
    runtime_with(script, |builder| builder)
}

/// The same, with more said of the runtime.
pub(crate) fn runtime_with(
    script: &str,
    more: impl FnOnce(polychip::Builder) -> polychip::Builder,
) -> (Runtime, polychip::Model) {
    runtime_of(more(Runtime::builder().virtual_time()), script)
}

/// The same, of a runtime whose clock was chosen.
pub(crate) fn runtime_of(builder: polychip::Builder, script: &str) -> (Runtime, polychip::Model) {
    let folder = tempfile::tempdir().unwrap();
    let made = model::Model {
        nodes: vec![
            node("Neg", "neg", &["x"], &["a"]),
            node("Abs", "abs", &["a"], &["b"]),
        ],
        inputs: vec![port("x", F32, &["4"])],
        outputs: vec![port("a", F32, &["4"]), port("b", F32, &["4"])],
        ..model::Model::default()
    };
    let builder = builder
        .link(polychip_sdk::plugin_query::<polychip_null::NullPlugin>)
        .configure("null", "script", script)
        .only_given_folders();
    let runtime = builder.build().unwrap();
    let model = runtime.load(made.write(folder.path(), "m.onnx")).unwrap();
    (runtime, model)
}

/// The model's input, full of a value.
pub(crate) fn filled(session: &Session, value: f32) -> Input {
    let mut input = session.input("x").unwrap();
    input.write(&[value; 4]).unwrap();
    input
}

/// Checks the answer to a value.
pub(crate) fn right(outputs: &Outputs, value: f32) {
    assert_eq!(
        outputs.get("a").unwrap().values::<f32>().unwrap()[..],
        [-value; 4]
    );
    assert_eq!(outputs.get("b").unwrap().values::<f32>().unwrap()[..], [value; 4]);
}
