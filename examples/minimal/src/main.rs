//! `polychip-minimal MODEL.onnx`: runs a model once on the CPU, with all inputs 0.5, and prints the first values of
//! each output. The minimal use of Polychip in an app; [its page](../../../docs/small-apps.md) states its size.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "this program prints")]

use std::time::Duration;

use polychip::{Error, Policy, Runtime};

/// How long the run may take.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> Result<(), Error> {
    let path = std::env::args_os().nth(1).unwrap_or_else(|| "model.onnx".into());
    let runtime = Runtime::builder().only_given_folders().build()?;
    let session = runtime.session(&runtime.load(path)?, Policy::latency())?;
    let names: Vec<String> = session.inputs().map(|input| input.name.clone()).collect();
    let mut inputs = Vec::new();
    for name in &names {
        let mut input = session.input(name)?;
        input.values_mut::<f32>()?.fill(0.5);
        inputs.push(input);
    }
    let given: Vec<_> = inputs.iter().collect();
    let outputs = session.submit(&given)?.wait(PATIENCE)?;
    for index in 0..outputs.len() {
        let output = outputs.at(index)?;
        let values = output.values::<f32>()?;
        println!(
            "{} {:?}: {:?}",
            output.name(),
            output.shape(),
            &values[..values.len().min(5)]
        );
    }
    Ok(())
}
