//! Runs a model until its session has settled on a plan, and says where it stands before and after, in Rust.
//!
//! ```sh
//! cargo run --release --package polychip --example learn -- examples/shapes/shapes.onnx cpu,openvino 400
//! ```

#![allow(clippy::print_stdout)]

use std::time::Duration;

use polychip::{Input, Policy, Runtime, Session};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn run(session: &Session, inputs: &[&Input], runs: usize) -> Result<()> {
    for _ in 0..runs {
        session.submit(inputs)?.wait(Duration::from_secs(60))?;
    }
    let learning = session.report().learning.ok_or("the session does not learn")?;
    let state = if learning.settled { "settled" } else { "cold" };
    println!("{state} on {}", learning.plan);
    Ok(())
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [model, devices, runs] = &words[..] else {
        return Err("usage: learn MODEL.onnx DEVICES RUNS".into());
    };
    let runtime = Runtime::builder().build()?;
    let policy = Policy::latency().with_setting("devices", devices)?;
    let session = runtime.session(&runtime.load(model)?, policy.with_setting("learn", "10%")?)?;
    let inputs: Vec<Input> = session
        .inputs()
        .map(|input| session.input(&input.name))
        .collect::<polychip::Result<_>>()?;
    let inputs: Vec<&Input> = inputs.iter().collect();
    run(&session, &inputs, 1)?;
    run(&session, &inputs, runs.parse()?)
}
