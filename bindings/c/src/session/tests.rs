//! Runs on scripted devices: memory of their own, and faults.

use std::time::Duration;

use polychip::{Access, DType, Memory, Policy, RunOptions, Runtime};
use polychip_sdk::protobuf;

use super::SessionObject;
use crate::handle::Object;
use crate::run::RunObject;
use crate::status::POLYCHIP_ERROR_DEVICE_LOST;
use crate::tensor::{Form, Tensor};

#[path = "../../tests/c/models.rs"]
mod models;

const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));

/// y = max(x, 0) of four numbers, on a scripted device.
fn session(script: &str) -> (u64, std::sync::Arc<SessionObject>) {
    let folder = tempfile::tempdir().unwrap();
    models::write(folder.path()).unwrap();
    let script = format!(
        "[[device]]\nname = \"npu\"\nops = [\"Relu\"]\nlaunch_ns = 1000\n\
         cost = {{ fixed_ns = 10, ps_per_mac = 0.001, ps_per_byte = 0.001 }}\n{script}\n"
    );
    let runtime = Runtime::builder()
        .virtual_time()
        .link(polychip_sdk::plugin_query::<polychip_null::NullPlugin>)
        .configure("null", "script", script)
        .only_given_folders()
        .build()
        .unwrap();
    let model = runtime.load(folder.path().join("relu.onnx")).unwrap();
    let model = model.bind([("N", 4)]).unwrap();
    let policy = Policy::latency().devices(["null"]).replan(false).retry(0);
    let handle = SessionObject::new(runtime.session(&model, policy).unwrap())
        .into_handle()
        .unwrap();
    (handle, SessionObject::of(handle).unwrap())
}

/// A tensor of four numbers, and its memory.
fn tensor(values: [f32; 4]) -> (u64, Memory) {
    let memory = Memory::of_vec(values.to_vec());
    let form = Form::new(DType::F32.code(), &[4], None).unwrap();
    (
        Tensor::new(form, memory.clone()).unwrap().into_handle().unwrap(),
        memory,
    )
}

fn numbers(memory: &Memory) -> Vec<f32> {
    let bytes = memory.access(Access::Read).unwrap();
    let words = bytes.as_chunks().0.iter();
    words.map(|word| f32::from_ne_bytes(*word)).collect()
}

#[test]
fn output_in_device_memory_is_copied_back() {
    let (handle, session) = session("imports = []");
    let ((x, x_memory), (y, y_memory)) = (tensor([-1.0, 2.0, -3.0, 4.0]), tensor([7.0; 4]));
    for turn in 0..3 {
        let started = session
            .submit(handle, &[x], &[y], RunOptions::new(), false)
            .unwrap();
        RunObject::new(started).wait(PATIENCE).unwrap();
        assert_eq!(
            numbers(&y_memory),
            [0.0, 2.0 + turn as f32, 0.0, 4.0],
            "turn {turn}"
        );
        // the app changes its memory without a word
        let mut own = x_memory.access(Access::Write).unwrap();
        own[4..8].copy_from_slice(&(3.0f32 + turn as f32).to_ne_bytes());
    }
    let report = serde_json::to_string(&session.session.report()).unwrap();
    assert!(report.contains("\"device\":\"null:0\""));
}

#[test]
fn failed_run_reports_the_same_error_to_every_waiter() {
    let (handle, session) = session("fault = [{ kind = \"lost\", times = 1000 }]");
    let (x, _memory) = tensor([1.0; 4]);
    let started = session.submit(handle, &[x], &[], RunOptions::new(), false);
    // the device may be lost while the run is given to it, or later
    let failure = match started {
        Err(failure) => failure,
        Ok(started) => {
            let run = RunObject::new(started);
            let failure = run.wait(PATIENCE).unwrap_err();
            assert_eq!(run.wait(PATIENCE).unwrap_err(), failure);
            assert_eq!(run.output(0).map(drop).unwrap_err(), failure);
            assert_eq!(run.timing().unwrap_err(), failure);
            failure
        }
    };
    assert_eq!(failure.status, POLYCHIP_ERROR_DEVICE_LOST, "{failure:?}");
    assert!(
        failure.device == "null:0" || failure.message.contains("null:0"),
        "{failure:?}"
    );
}
