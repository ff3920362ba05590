//! The program's outputs match ONNX Runtime (1.32, `examples/minimal/peers/onnxruntime.c`).

use std::path::Path;
use std::process::Command;

#[test]
fn minimal_app_matches_onnx_runtime() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shapes/shapes.onnx");
    let ran = Command::new(env!("CARGO_BIN_EXE_polychip-minimal"))
        .arg(model)
        .output()
        .unwrap();
    let text = String::from_utf8(ran.stdout).unwrap();
    assert!(
        ran.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let (name, values) = text.trim().split_once(": ").unwrap();
    assert_eq!(name, "probabilities [1, 12]");
    let values: Vec<f32> = values
        .trim_matches(['[', ']'])
        .split(", ")
        .map(|value| value.parse().unwrap())
        .collect();
    let wanted = [0.0128669, 0.930523, 0.00323426, 0.00454114, 0.0157141];
    assert_eq!(values.len(), wanted.len());
    for (value, wanted) in values.iter().zip(wanted) {
        assert!((value - wanted).abs() < 1e-5, "{values:?}, not {wanted:?}");
    }
}

#[test]
fn errors_are_readable() {
    let ran = Command::new(env!("CARGO_BIN_EXE_polychip-minimal"))
        .arg("no/such.onnx")
        .output()
        .unwrap();
    let words = String::from_utf8(ran.stderr).unwrap();
    assert!(!ran.status.success());
    assert!(words.starts_with("Error: no/such.onnx: "), "{words}");
}
