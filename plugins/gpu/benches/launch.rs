//! What a run costs beside its kernels: from `execute` to the fence seen, for a part of one launch and one of a hundred
//! that depend on each other.
//!
//! Runs with commands recorded once and runs that encode their commands are interleaved. Without a GPU the benchmark
//! uses an installed software driver, or reports that it found none.
//!
//! `cargo bench -p polychip-gpu --bench launch -- DIR [RUNS]`, where DIR holds the plugin's library

use std::sync::Arc;
use std::time::{Duration, Instant};

use polychip_graph::{Graph, Node, Tensor, TensorId};
use polychip_host::{
    Access, Buffer, CompileOptions, Device, Executable, FlatGraph, Host, Memory, Submission,
};
use polychip_ops::{Attributes, DType, Op, TensorType};

const PATIENCE: Duration = Duration::from_secs(60);
/// Side of the squares that are multiplied.
const SIDE: usize = 32;

/// A loaded part with its memory.
struct Part {
    name: String,
    submission: Submission,
    executable: Executable,
    _buffers: Vec<Arc<Buffer>>,
    /// Nanoseconds of each run, and of those the GPU's.
    times: Vec<[u64; 2]>,
}

/// `y = x^(count + 1)` of squares, or for `count` 0 `y = relu(x)`.
fn graph(count: usize) -> Graph {
    let mut graph = Graph::new("launches");
    let mut tensor =
        |name: String| graph.add_tensor(Tensor::new(&name, TensorType::known(DType::F32, &[SIDE, SIDE])));
    let all: Vec<TensorId> = (0..=count.max(1))
        .map(|index| tensor(format!("t{index}")))
        .collect();
    for pair in all.windows(2) {
        let (op, inputs) = match count {
            0 => (Op::Relu, vec![Some(pair[0])]),
            _ => (Op::MatMul, vec![Some(pair[0]), Some(all[0])]),
        };
        graph.add_node(Node::new(op, inputs, vec![Some(pair[1])]).with(Attributes::new()));
    }
    graph.inputs = vec![all[0]];
    graph.outputs = all.last().copied().into_iter().collect();
    graph
}

fn part(device: &Device, name: &str, count: usize) -> Result<Part, Box<dyn std::error::Error>> {
    let graph = graph(count);
    let flat = FlatGraph::new(&graph, &[])?;
    let blob = device.compile(&flat, &CompileOptions::default())?;
    let executable = device.load(blob, &flat, 1)?;
    let mut submission = Submission::new(&executable, 4);
    let mut buffers = Vec::new();
    for (number, port) in (0u32..).zip(executable.ports()) {
        let buffer = Arc::new(device.import_buffer(&Memory::new(port.bytes)?)?);
        buffer.access(Access::Write, 0, port.bytes)?.fill(0);
        submission.bind(number, &buffer, 0)?;
        buffers.push(buffer);
    }
    Ok(Part {
        name: format!("{name}, {} launch(es)", count.max(1)),
        submission,
        executable,
        _buffers: buffers,
        times: Vec::new(),
    })
}

impl Part {
    fn run(&mut self) -> Result<(), Box<dyn std::error::Error>> {
        let begin = Instant::now();
        let fence = self.executable.execute(&mut self.submission, &[])?;
        fence.wait(PATIENCE)?;
        let took = u64::try_from(begin.elapsed().as_nanos())?;
        let (start, end) = fence.timing()?.span_ns.unwrap_or_default();
        self.times.push([took, end.saturating_sub(start)]);
        Ok(())
    }
}

#[allow(clippy::print_stdout)] // a benchmark's table is its output
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let folder = arguments
        .first()
        .ok_or("the folder of the plugin's library is missing")?;
    let runs: usize = arguments.get(1).map_or(Ok(400), |runs| runs.parse())?;
    let host = |record: &str| {
        Host::builder()
            .folder(folder)
            .configure("gpu", "record", record)
            .build()
    };
    let (recorded, encoded) = (host("on"), host("off"));
    let gpu = |host: &Host| {
        host.devices()
            .iter()
            .find(|device| device.name().starts_with("gpu"))
            .cloned()
    };
    let (Some(recorded), Some(encoded)) = (gpu(&recorded), gpu(&encoded)) else {
        println!("skipped: {:?}", recorded.refusals());
        return Ok(());
    };
    let info = recorded.info();
    println!("{}, {}", info.name, info.driver);
    let mut parts = vec![
        part(&recorded, "recorded", 0)?,
        part(&encoded, "encoded", 0)?,
        part(&recorded, "recorded", 100)?,
        part(&encoded, "encoded", 100)?,
    ];
    // an idle GPU's clock reads slow
    let warm = Instant::now();
    while !info.emulated && warm.elapsed() < Duration::from_millis(500) {
        parts[2].run()?;
    }
    const TURN: usize = 20;
    for part in &mut parts {
        part.times.clear();
    }
    for _ in 0..runs.div_ceil(TURN) {
        for part in &mut parts {
            for _ in 0..TURN {
                part.run()?;
            }
        }
    }
    println!("what                          runs   min us   p10 us   p50 us   p99 us   on the GPU, p50 us");
    for part in &mut parts {
        part.times.sort_unstable();
        let at = |permille: usize| part.times[(part.times.len() - 1) * permille / 1000][0] as f64 / 1e3;
        let (min, p10, p50, p99) = (at(0), at(100), at(500), at(990));
        part.times.sort_unstable_by_key(|times| times[1]);
        let gpu = part.times[part.times.len() / 2][1] as f64 / 1e3;
        let (name, count) = (&part.name, part.times.len());
        println!("{name:<28} {count:>5} {min:>8.1} {p10:>8.1} {p50:>8.1} {p99:>8.1} {gpu:>12.1}");
    }
    Ok(())
}
