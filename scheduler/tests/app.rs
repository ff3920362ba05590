//! The API as apps use it: waiting for a run slot, chained tensors, awaited runs, arrays.

#[allow(dead_code, reason = "not every test crate writes every kind of model")]
#[path = "../../apps/cli/tests/command/model.rs"]
mod model;

#[cfg(feature = "ndarray")]
#[path = "app/arrays.rs"]
mod arrays;
#[path = "app/awaited.rs"]
mod awaited;
#[path = "app/chained.rs"]
mod chained;
#[path = "app/places.rs"]
mod places;

use std::time::{Duration, Instant};

use model::{BOOL, F32, I64, constant, node, port};
use polychip::{ErrorKind, Input, Policy, Runtime, Session};
use polychip_sdk::protobuf::Message;

const PATIENCE: Duration = Duration::from_secs(60);

/// `a = -x` and `b = |x|`, on the machine's clock, with the scripted devices that the policy may name.
fn session(script: &str, policy: Policy) -> Session {
    let made = model::Model {
        nodes: vec![
            node("Neg", "neg", &["x"], &["a"]),
            node("Abs", "abs", &["x"], &["b"]),
        ],
        inputs: vec![port("x", F32, &["2", "3"])],
        outputs: vec![port("a", F32, &["2", "3"]), port("b", F32, &["2", "3"])],
        ..model::Model::default()
    };
    let runtime = Runtime::builder()
        .link(polychip_sdk::plugin_query::<polychip_null::NullPlugin>)
        .configure("null", "script", script)
        .only_given_folders()
        .build()
        .unwrap();
    let model = runtime.load_bytes("app.onnx", made.bytes()).unwrap();
    runtime.session(&model, policy).unwrap()
}

/// The same on the CPU.
fn on_cpu() -> Session {
    session("", Policy::latency().devices(["cpu"]))
}

/// The same on a device that takes `ms` milliseconds, with more said of it.
fn on_device(ms: u64, more: &str) -> Session {
    let script = format!("[[device]]\n{more}\ncost = {{ fixed_ns = {} }}\n", ms * 1_000_000);
    session(&script, Policy::latency().devices(["null"]).in_flight(1))
}

/// A session on the CPU of a model that negates `x` without end.
fn endless() -> Session {
    let body = Message::default()
        .message(1, &node("Identity", "go", &["going"], &["on"]))
        .message(1, &node("Neg", "neg", &["s"], &["t"]))
        .text(2, "body")
        .message(11, &port("i", I64, &[]))
        .message(11, &port("going", BOOL, &[]))
        .message(11, &port("s", F32, &["2", "3"]))
        .message(12, &port("on", BOOL, &[]))
        .message(12, &port("t", F32, &["2", "3"]));
    let attribute = Message::default().text(1, "body").message(6, &body).number(20, 5);
    let made = model::Model {
        nodes: vec![node("Loop", "loop", &["count", "", "x"], &["y"]).message(5, &attribute)],
        constants: vec![constant("count", I64, &[], &i64::MAX.to_le_bytes())],
        inputs: vec![port("x", F32, &["2", "3"])],
        outputs: vec![port("y", F32, &["2", "3"])],
        ..model::Model::default()
    };
    let runtime = Runtime::builder().only_given_folders().build().unwrap();
    let model = runtime.load_bytes("endless.onnx", made.bytes()).unwrap();
    let policy = Policy::latency().devices(["cpu"]).in_flight(1);
    runtime.session(&model, policy).unwrap()
}

fn filled(session: &Session, value: f32) -> Input {
    let mut input = session.input("x").unwrap();
    input.write(&[value; 6]).unwrap();
    input
}

/// Tries until it works, or until a minute is over.
fn soon<T>(mut attempt: impl FnMut() -> Result<T, polychip::Error>) -> T {
    let start = Instant::now();
    loop {
        match attempt() {
            Ok(found) => return found,
            Err(error) if error.kind() == ErrorKind::InFlight && start.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => panic!("{error}"),
        }
    }
}
