//! Compares the cost of a run through C with that through Rust: one model, pairs of sessions,
//! interleaved in one process.
//!
//!     cargo run --release -p polychip-capi --example overhead -- MODEL.onnx [ROUNDS] [THREADS] [PAIRS]
//!
//! Invariants:
//! 1. Both sides run the same plan of the same build with the same threads, and the order changes
//!    each round.
//! 2. The placement of weights and tensors in memory makes a session up to a few percent faster or
//!    slower than an identical one, for a model of milliseconds. So there are several pairs, and
//!    the side that is created first changes with each.
//!
//! Sizes that the model leaves open are 1.

use std::ffi::{CString, c_char, c_void};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use polychip::{Input, Policy, Runtime, Session, TensorSpec};
use polychip_capi::{
    POLYCHIP_FOREVER, POLYCHIP_OK, polychip_failure, polychip_model_bind, polychip_model_destroy,
    polychip_model_load, polychip_policy_create, polychip_policy_destroy, polychip_policy_set,
    polychip_run_destroy, polychip_run_output, polychip_runtime_create, polychip_runtime_destroy,
    polychip_session_create, polychip_session_destroy, polychip_session_run, polychip_tensor_desc,
    polychip_tensor_destroy, polychip_tensor_lend,
};

/// Rounds before any that counts.
const WARM_UP: usize = 20;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(model) = arguments.next() else {
        eprintln!("usage: overhead MODEL.onnx [ROUNDS] [THREADS] [PAIRS]");
        return ExitCode::from(2);
    };
    let mut number = |default: usize| {
        arguments
            .next()
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let (rounds, threads, pairs) = (number(500), number(1), number(8));
    match compare(&model, rounds.max(1), threads, pairs.max(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(
    path: &str,
    rounds: usize,
    threads: usize,
    pairs: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    let threads = threads.to_string();
    let (mut rust, mut c) = (Vec::new(), Vec::new());
    for pair in 0..pairs {
        let (through_rust, through_c) = if pair % 2 == 0 {
            let through_rust = ThroughRust::new(path, &threads)?;
            let through_c = ThroughC::new(path, &threads, &through_rust.described())?;
            (through_rust, through_c)
        } else {
            // what the C side needs to know of the model comes of a session that is gone before it is made
            let like = ThroughRust::new(path, &threads)?.described();
            let through_c = ThroughC::new(path, &threads, &like)?;
            (ThroughRust::new(path, &threads)?, through_c)
        };
        for round in 0..WARM_UP + rounds.div_ceil(pairs) {
            let (mut of_rust, mut of_c) = (Duration::ZERO, Duration::ZERO);
            for turn in 0..2 {
                let start = Instant::now();
                if (round + turn) % 2 == 0 {
                    through_rust.run()?;
                    of_rust = start.elapsed();
                } else {
                    through_c.run()?;
                    of_c = start.elapsed();
                }
            }
            if round >= WARM_UP {
                rust.push(of_rust);
                c.push(of_c);
            }
        }
    }
    let difference = |(rust, c): (&Duration, &Duration)| c.as_nanos() as i128 - rust.as_nanos() as i128;
    let differences: Vec<i128> = rust.iter().zip(&c).map(difference).collect();
    print(&mut rust, &mut c, differences);
    Ok(())
}

/// A session and its inputs.
struct ThroughRust {
    open: Vec<String>,
    session: Session,
    inputs: Vec<Input>,
}

/// Names of a model's open sizes, and its inputs.
type Described = (Vec<String>, Vec<TensorSpec>);

impl ThroughRust {
    fn new(path: &str, threads: &str) -> Result<ThroughRust, polychip::Error> {
        let runtime = Runtime::builder().build()?;
        let model = runtime.load(path)?;
        let open = model.open_dims();
        let model = model.bind(open.iter().map(|name| (name.clone(), 1)))?;
        let policy = Policy::latency().with_setting("threads", threads)?;
        let session = runtime.session(&model, policy)?;
        let names: Vec<String> = session.inputs().map(|spec| spec.name.clone()).collect();
        let inputs = names.iter().map(|name| session.input(name));
        let inputs = inputs.collect::<Result<_, _>>()?;
        Ok(ThroughRust {
            open,
            session,
            inputs,
        })
    }

    fn described(&self) -> Described {
        (self.open.clone(), self.session.inputs().cloned().collect())
    }

    fn run(&self) -> Result<(), polychip::Error> {
        let inputs: Vec<&Input> = self.inputs.iter().collect();
        let outputs = self.session.submit(&inputs)?.wait(Duration::from_secs(600))?;
        std::hint::black_box(outputs.at(0)?.bytes().as_ptr());
        Ok(())
    }
}

/// The same session, made by calls of the header.
struct ThroughC {
    session: u64,
    /// What the session was made of, the last one first.
    made: [u64; 3],
    tensors: Vec<u64>,
    /// What the tensors lie in.
    _memory: Vec<Vec<u64>>,
}

impl Drop for ThroughC {
    fn drop(&mut self) {
        let none = std::ptr::null_mut;
        let [policy, model, runtime] = self.made;
        // SAFETY: in this and what follows, failures are not wanted, and no run is in flight.
        unsafe { polychip_session_destroy(self.session, none()) };
        for tensor in &self.tensors {
            // SAFETY: as above.
            unsafe { polychip_tensor_destroy(*tensor, none()) };
        }
        // SAFETY: as above.
        unsafe { polychip_policy_destroy(policy, none()) };
        // SAFETY: as above.
        unsafe { polychip_model_destroy(model, none()) };
        // SAFETY: as above.
        unsafe { polychip_runtime_destroy(runtime, none()) };
    }
}

fn record() -> polychip_failure {
    // SAFETY: a record is numbers and text, for which zeros are values.
    let mut record: polychip_failure = unsafe { std::mem::zeroed() };
    record.struct_size = size_of::<polychip_failure>() as u32;
    record
}

fn ok(status: u32, record: &polychip_failure) -> Result<(), String> {
    if status == POLYCHIP_OK {
        return Ok(());
    }
    let bytes: Vec<u8> = record.message.iter().map(|byte| *byte as u8).collect();
    let text = String::from_utf8_lossy(&bytes[..record.message_bytes as usize]).into_owned();
    Err(format!("status {status}: {text}"))
}

impl ThroughC {
    fn new(path: &str, threads: &str, like: &Described) -> Result<ThroughC, Box<dyn std::error::Error>> {
        let (open, inputs) = like;
        let mut why = record();
        let why = &raw mut why;
        let text = |text: &str| CString::new(text);
        let (path, threads) = (text(path)?, text(threads)?);
        let (mut runtime, mut model, mut policy, mut session) = (0, 0, 0, 0);
        let check = |status: u32| {
            // SAFETY: the record lives as long as this function.
            ok(status, unsafe { &*why })
        };
        // SAFETY: in this and what follows, texts and places live during each call, and the record's size is set.
        check(unsafe { polychip_runtime_create(0, &raw mut runtime, why) })?;
        // SAFETY: as above.
        check(unsafe { polychip_model_load(runtime, path.as_ptr(), &raw mut model, why) })?;
        for name in open {
            let name = text(name)?;
            let name: *const c_char = name.as_ptr();
            let mut bound = 0;
            // SAFETY: as above.
            check(unsafe { polychip_model_bind(model, name, 1, &raw mut bound, why) })?;
            // SAFETY: as above.
            check(unsafe { polychip_model_destroy(model, why) })?;
            model = bound;
        }
        // SAFETY: as above.
        check(unsafe { polychip_policy_create(&raw mut policy, why) })?;
        // SAFETY: as above.
        check(unsafe { polychip_policy_set(policy, c"threads".as_ptr(), threads.as_ptr(), why) })?;
        // SAFETY: as above.
        check(unsafe { polychip_session_create(runtime, model, policy, &raw mut session, why) })?;
        let (mut tensors, mut memory) = (Vec::new(), Vec::new());
        for spec in inputs {
            let shape: Vec<u64> = spec.shape.iter().map(|size| *size as u64).collect();
            let desc = polychip_tensor_desc {
                struct_size: size_of::<polychip_tensor_desc>() as u32,
                dtype: spec.dtype.code(),
                rank: shape.len() as u32,
                reserved: 0,
                shape: shape.as_ptr(),
                strides: std::ptr::null(),
            };
            let mut values = vec![0u64; usize::try_from(spec.bytes)?.div_ceil(8).max(1)];
            let data = values.as_mut_ptr().cast::<c_void>();
            let (bytes, user) = (values.len() as u64 * 8, std::ptr::null_mut());
            let mut tensor = 0;
            // SAFETY: as above; the values live as long as the tensor.
            check(unsafe {
                polychip_tensor_lend(&raw const desc, data, bytes, None, user, &raw mut tensor, why)
            })?;
            tensors.push(tensor);
            memory.push(values);
        }
        Ok(ThroughC {
            session,
            made: [policy, model, runtime],
            tensors,
            _memory: memory,
        })
    }

    fn run(&self) -> Result<(), String> {
        let mut why = record();
        let why = &raw mut why;
        let (mut run, mut data) = (0, std::ptr::null());
        let check = |status: u32| {
            // SAFETY: the record lives as long as this function.
            ok(status, unsafe { &*why })
        };
        let (none, info) = (std::ptr::null(), std::ptr::null_mut());
        let (tensors, count) = (self.tensors.as_ptr(), self.tensors.len() as u64);
        // SAFETY: the arrays are as long as is said, places live during the call, and the record's size is set.
        check(unsafe {
            polychip_session_run(
                self.session,
                tensors,
                count,
                std::ptr::null(),
                0,
                none,
                POLYCHIP_FOREVER,
                &raw mut run,
                why,
            )
        })?;
        // SAFETY: as above.
        check(unsafe { polychip_run_output(run, 0, info, &raw mut data, why) })?;
        std::hint::black_box(data);
        // SAFETY: as above.
        check(unsafe { polychip_run_destroy(run, why) })
    }
}

fn print(rust: &mut [Duration], c: &mut [Duration], mut differences: Vec<i128>) {
    let count = rust.len();
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    rust.sort_unstable();
    c.sort_unstable();
    differences.sort_unstable();
    let p95 = (count - 1) * 95 / 100;
    for (name, times) in [("Rust", &*rust), ("C", &*c)] {
        eprintln!(
            "{name:>4}: median {:.1} µs, p95 {:.1} µs of {count} runs",
            us(times[count / 2]),
            us(times[p95])
        );
    }
    let share = us(c[count / 2]) / us(rust[count / 2]) - 1.0;
    eprintln!(
        "C beside Rust: {:+.2} % of the median; median of the differences {:+.2} µs",
        share * 100.0,
        differences[count / 2] as f64 / 1e3
    );
}
