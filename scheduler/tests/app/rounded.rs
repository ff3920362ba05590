//! A Gelu of which a tool quantised every step: its roundings stay on a CPU, and go where an NPU wants the whole op.

use polychip::{Policy, Runtime};

use crate::PATIENCE;
use crate::model::{F32, Message, Model, constant, node, port};

const U8: u64 = 2;

/// A constant of one number.
fn number(name: &str, value: f32) -> Message {
    constant(name, F32, &[], &value.to_le_bytes())
}

/// `y = x / 2 * (1 + erf(x / √2))` over every code of 8 bits, with the values between its steps as outputs too where asked.
fn gelu(opened: bool) -> Vec<u8> {
    let rounded = |from: &str, to: &str, scale: &str, zero: &str| {
        let stored = format!("{to}_stored");
        [
            node(
                "QuantizeLinear",
                &format!("{to}_q"),
                &[from, scale, zero],
                &[&stored],
            ),
            node(
                "DequantizeLinear",
                &format!("{to}_d"),
                &[&stored, scale, zero],
                &[to],
            ),
        ]
    };
    let mut nodes = Vec::new();
    nodes.extend(rounded("x", "xr", "wide", "mid"));
    nodes.push(node("Div", "div", &["xr", "root"], &["d"]));
    nodes.push(node("Erf", "erf", &["d"], &["e"]));
    nodes.extend(rounded("e", "er", "unit", "mid"));
    nodes.push(node("Add", "add", &["er", "one"], &["a"]));
    nodes.extend(rounded("a", "ar", "unit2", "none"));
    nodes.push(node("Mul", "mul", &["xr", "ar"], &["m"]));
    nodes.extend(rounded("m", "mr", "wide2", "mid"));
    nodes.push(node("Mul", "halve", &["mr", "half"], &["h"]));
    nodes.extend(rounded("h", "y", "wide", "mid"));
    let inner = ["d", "e", "er", "a", "ar", "m", "mr", "h"];
    let mut outputs = vec![port("y", F32, &["256"])];
    outputs.extend(
        inner
            .iter()
            .filter(|_| opened)
            .map(|name| port(name, F32, &["256"])),
    );
    let model = Model {
        nodes,
        constants: vec![
            number("wide", 0.03),
            number("wide2", 0.0625),
            number("unit", 1.0 / 127.0),
            number("unit2", 2.0 / 255.0),
            number("root", std::f32::consts::SQRT_2),
            number("one", 1.0),
            number("half", 0.5),
            constant("mid", U8, &[], &[128]),
            constant("none", U8, &[], &[0]),
        ],
        inputs: vec![port("x", F32, &["256"])],
        outputs,
        ..Model::default()
    };
    model.bytes()
}

/// What a model gives on these devices.
fn run(model: Vec<u8>, devices: &str) -> Vec<f32> {
    let runtime = Runtime::builder()
        .link(polychip_sdk::plugin_query::<polychip_null::NullPlugin>)
        .configure("null", "script", "[[device]]\nkind = \"npu\"\n")
        .only_given_folders()
        .build()
        .unwrap();
    let model = runtime.load_bytes("gelu.onnx", model).unwrap();
    let session = runtime
        .session(&model, Policy::latency().devices([devices]))
        .unwrap();
    let mut input = session.input("x").unwrap();
    let values: Vec<f32> = (0..256u16).map(|code| (f32::from(code) - 128.0) * 0.03).collect();
    input.write(&values).unwrap();
    let outputs = session.submit(&[&input]).unwrap().wait(PATIENCE).unwrap();
    outputs.get("y").unwrap().values::<f32>().unwrap()[..].to_vec()
}

#[test]
fn roundings_stay_on_a_cpu_and_go_on_an_npu() {
    // with every value an output nothing is fused
    let stepwise = run(gelu(true), "cpu");
    assert_eq!(run(gelu(false), "cpu"), stepwise);
    let whole = run(gelu(false), "null");
    assert_ne!(whole, stepwise);
    for (whole, stepwise) in whole.iter().zip(&stepwise) {
        assert!(
            (whole - stepwise).abs() < 0.091,
            "{whole} and {stepwise}: more than three steps of 0.03"
        );
    }
}
