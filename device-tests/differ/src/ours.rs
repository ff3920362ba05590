//! Polychip's side: a model on the CPU, and split over the CPU and scripted devices.
//!
//! Invariant: a panic is an outcome that never passes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use anyhow::{Result, anyhow};
use polychip::{Policy, Runtime};
use polychip_device_tests::model;

use crate::peer::Tensors;

/// Scripts of devices that take some ops each at little cost, so that graphs are split among them and the CPU.
const SCRIPTS: [[&str; 2]; 3] = [
    [
        "ops = [\"Add\", \"Mul\", \"Conv\", \"Reshape\", \"Slice\", \"ReduceSum\", \"MaxPool\", \"Softmax\"]",
        "ops = [\"Sub\", \"Relu\", \"MatMul\", \"Gemm\", \"Transpose\", \"Concat\", \"Resize\", \"Cast\"]",
    ],
    [
        "without_ops = [\"Conv\", \"MatMul\", \"Gather\", \"Cast\", \"Add\"]\nbodies = true\ndynamic_shapes = true",
        "ops = [\"Cast\", \"Gather\", \"Conv\", \"Where\", \"Clip\"]\nimports = []",
    ],
    [
        "dtypes = [\"f32\", \"i64\", \"bool\"]\nmax_rank = 4",
        "without_ops = [\"Split\", \"TopK\", \"Pad\"]\ndtypes = [\"f16\", \"f64\", \"i8\", \"u8\", \"i32\"]\nimports = []",
    ],
];

/// Runtimes, with and without scripted devices.
pub(crate) struct Ours {
    cpu: Runtime,
    scripted: Vec<Runtime>,
}

/// Where a graph is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    /// On the CPU alone.
    Cpu,
    /// On the CPU and the scripted devices of this turn.
    Split(usize),
}

/// What a run came to.
pub(crate) struct Ran {
    pub(crate) outputs: Tensors,
    /// Parts of its plan.
    pub(crate) parts: usize,
}

impl Ours {
    /// # Errors
    /// There is no runtime.
    pub(crate) fn new() -> Result<Ours> {
        let scripted = SCRIPTS.iter().map(|devices| {
            let script: String = devices
                .iter()
                .map(|device| {
                    format!(
                        "[[device]]\n{device}\nlaunch_ns = 1\ncost = {{ fixed_ns = 1, ps_per_mac = 0.001, ps_per_byte = 0.001 }}\n"
                    )
                })
                .collect();
            Ok(Runtime::builder()
                .link(polychip_sdk::plugin_query::<polychip_null::NullPlugin>)
                .configure("null", "script", script)
                .virtual_time()
                .only_given_folders()
                .build()?)
        });
        Ok(Ours {
            cpu: Runtime::builder().only_given_folders().build()?,
            scripted: scripted.collect::<Result<_>>()?,
        })
    }

    /// A model on the CPU alone, or by a plan over the CPU and scripted devices.
    ///
    /// # Errors
    /// Polychip's words; those of a panic begin with `PANIC`.
    pub(crate) fn run(&self, on: On, path: &Path, inputs: &Tensors) -> Result<Ran> {
        let policy = Policy::latency().threads(1).in_flight(1);
        let (runtime, policy) = match on {
            On::Cpu => (&self.cpu, policy.devices(["cpu:0"])),
            On::Split(turn) => (&self.scripted[turn % self.scripted.len()], policy),
        };
        unwound(|| {
            let model = model::bound(runtime, path, inputs)?;
            let session = runtime.session(&model, policy)?;
            let parts = session.report().parts.len();
            let outputs = model::run_session(&session, inputs)?.into_iter().collect();
            Ok(Ran { outputs, parts })
        })
    }
}

fn unwound<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| {
        let words = payload.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| payload.downcast_ref::<&str>().copied());
        Err(anyhow!("PANIC: {}", words.unwrap_or_default()))
    })
}
