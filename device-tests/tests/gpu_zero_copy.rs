//! A CPU part and a GPU part share memory in both directions, without copies.
//!
//! - Whole sessions: the report counts no copy, and the answers are right.
//! - What the plugin copies is counted: nothing in place, all where a GPU carries its tensors to memory of its own.
//! - One buffer by hand: the address that the GPU's buffer gives to the host lies in the memory that the CPU's part
//!   writes to, over a memory file and over plain pages. A dma-buf is another mapping of the same pages.
//!
//! Skipped, with the reason, where no GPU's driver is installed; the cases of dma-bufs also where the machine makes
//! none or the driver takes none (`cargo xtask guest` runs them in a virtual machine that has all).

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use polychip::{Policy, Runtime};
use polychip_device_tests::{Need, skipped};
use polychip_graph::{Constant, Graph, Node, Tensor, TensorId};
use polychip_host::{
    Access, Buffer, CompileOptions, Device, DmaBufSource, Executable, FlatGraph, Host, Memory, Submission,
};
use polychip_ops::{Attributes, DType, Op, TensorType};
use polychip_sdk::{GraphView, onnx};

const COUNT: usize = 3000;
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> Result<()> {
    let arguments = Arguments::from_args();
    let host = Host::builder().linked(polychip_gpu::query).build();
    let missing = host.refusals().first().map(ToString::to_string);
    let trial =
        |name: &str, no_dma_buf: Option<&String>, test: fn() -> Result<()>| match (&missing, no_dma_buf) {
            (Some(why), _) => skipped(name, Need::Vulkan, why),
            (None, Some(why)) => skipped(name, Need::DmaBuf, why),
            (None, None) => Trial::test(name, move || {
                test().map_err(|error| Failed::from(format!("{error:#}")))
            }),
        };
    let (udmabuf, heap) = (
        no_dma_buf(&host, DmaBufSource::Udmabuf),
        no_dma_buf(&host, DmaBufSource::Heap),
    );
    let either = udmabuf.as_ref().and(heap.as_ref());
    let trials = vec![
        trial("a_session_over_both_copies_nothing", None, || {
            session_copies_nothing(None)
        }),
        trial("a_memory_file_is_the_same_memory_for_both", None, || {
            by_hand(&Memory::file(MEMORY)?)
        }),
        trial("plain_pages_are_the_same_memory_for_both", None, || {
            by_hand(&Memory::new(MEMORY)?)
        }),
        trial("what_a_gpu_copies_is_counted", None, copies_are_counted),
        trial("a_session_over_dma_bufs_copies_nothing", either, || {
            session_copies_nothing(Some("dma-buf"))
        }),
        trial("a_frame_in_a_memory_file_is_read_where_it_lies", None, || {
            frame(&Memory::file(BYTES)?)
        }),
        trial("a_frame_in_a_dma_buf_is_read_where_it_lies", either, || {
            frame(&Memory::dma_buf(BYTES)?)
        }),
        trial(
            "a_dma_buf_of_udmabuf_is_the_same_memory_for_both",
            udmabuf.as_ref(),
            || by_hand(&Memory::dma_buf_from(DmaBufSource::Udmabuf, MEMORY)?),
        ),
        trial(
            "a_dma_buf_of_a_heap_is_the_same_memory_for_both",
            heap.as_ref(),
            || by_hand(&Memory::dma_buf_from(DmaBufSource::Heap, MEMORY)?),
        ),
    ];
    libtest_mimic::run(&arguments, trials).exit()
}

/// Why dma-bufs of this source cannot be tried here.
fn no_dma_buf(host: &Host, source: DmaBufSource) -> Option<String> {
    if !DmaBufSource::available().contains(&source) {
        let path = match source {
            DmaBufSource::Udmabuf => "/dev/udmabuf",
            DmaBufSource::Heap => "/dev/dma_heap/system",
        };
        return Some(format!("{path} is not there or cannot be opened"));
    }
    let gpu = host.devices().first()?.info();
    (!gpu.imports_dma_bufs).then(|| format!("{} imports no dma-bufs: {}", gpu.name, gpu.driver))
}

/// Bytes of a tensor.
const BYTES: u64 = 4 * COUNT as u64;

/// Bytes of the memory that holds all tensors of a part.
const MEMORY: u64 = 4 * 16_384;

fn floats(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

fn tensor(graph: &mut Graph, name: &str) -> TensorId {
    graph.add_tensor(Tensor::new(name, TensorType::known(DType::F32, &[COUNT])))
}

fn constant(graph: &mut Graph, name: &str, value: impl Fn(usize) -> f32) -> TensorId {
    let data = Constant {
        bytes: floats((0..COUNT).map(value)).into(),
        file: None,
    };
    let of = TensorType::known(DType::F32, &[COUNT]);
    graph.add_tensor(Tensor::constant(name, of, data))
}

fn node(graph: &mut Graph, op: Op, inputs: &[TensorId], output: TensorId) {
    let inputs = inputs.iter().copied().map(Some).collect();
    graph.add_node(Node::new(op, inputs, vec![Some(output)]).with(Attributes::new()));
}

/// `y = relu(x + c) + c`.
fn whole() -> Graph {
    let mut graph = Graph::new("both");
    let x = tensor(&mut graph, "x");
    let c = constant(&mut graph, "c", |i| (i % 7) as f32 - 3.0);
    let (sum, positive, y) = (
        tensor(&mut graph, "sum"),
        tensor(&mut graph, "positive"),
        tensor(&mut graph, "y"),
    );
    node(&mut graph, Op::Add, &[x, c], sum);
    node(&mut graph, Op::Relu, &[sum], positive);
    node(&mut graph, Op::Add, &[positive, c], y);
    graph.inputs = vec![x];
    graph.outputs = vec![y];
    graph
}

fn input(round: usize) -> impl Iterator<Item = f32> {
    (0..COUNT).map(move |i| (i % 11) as f32 - 5.0 + round as f32)
}

fn wanted(round: usize) -> Vec<u8> {
    let c = |i: usize| (i % 7) as f32 - 3.0;
    let values = input(round).enumerate();
    floats(values.map(|(i, x)| (x + c(i)).max(0.0) + c(i)))
}

/// The whole as an ONNX model.
fn model() -> Result<Vec<u8>> {
    let graph = whole();
    let flat = FlatGraph::new(&graph, &[])?;
    // SAFETY: the flat graph lives as long as the view.
    let view = unsafe { GraphView::new(flat.raw()) }?;
    Ok(onnx::write(&view, &onnx::Options::default())?)
}

/// What a camera wrote is the input of a session, and what the session wrote lies in memory of the app: on each device,
/// and on both.
fn frame(camera: &Memory) -> Result<()> {
    let own = |file: std::os::fd::BorrowedFd<'_>| file.try_clone_to_owned();
    let seen = match (camera.dma_buf_file(), camera.memory_file()) {
        (Some(file), _) => Memory::of_dma_buf(own(file)?, BYTES)?,
        (None, Some(file)) => Memory::of_file(own(file)?, 0, BYTES)?,
        (None, None) => anyhow::bail!("the camera's memory has no descriptor"),
    };
    let runtime = Runtime::builder()
        .only_given_folders()
        .link(polychip_gpu::query)
        .build()?;
    let model = runtime.load_bytes("both.onnx", model()?)?;
    let both = Policy::latency()
        .devices(["cpu:0", "gpu:0"])
        .pin("n0", "gpu:0")
        .pin("n1", "cpu:0");
    for policy in [
        Policy::latency().devices(["cpu:0"]),
        Policy::latency().devices(["gpu:0"]),
        both,
    ] {
        let session = runtime.session(&model, policy)?;
        let x = session.input_from("i0", &[COUNT], &seen)?;
        let result = Memory::file(BYTES)?;
        let y = session.output_in_memory("o0", &[COUNT], &result)?;
        for round in 0..3 {
            camera
                .access(Access::Write)?
                .copy_from_slice(&floats(input(round)));
            session.submit_into(&[&x], &[&y])?.wait(PATIENCE)?;
            ensure!(result.access(Access::Read)?[..] == wanted(round), "round {round}");
        }
        let report = session.report();
        ensure!(
            report.copies == 0,
            "{} copies of {} bytes",
            report.copies,
            report.copied_bytes
        );
    }
    Ok(())
}

/// Parts in turns on both devices; `imports` are the kinds of memory that the GPU is to take.
fn session_copies_nothing(imports: Option<&str>) -> Result<()> {
    let mut builder = Runtime::builder().only_given_folders().link(polychip_gpu::query);
    if let Some(imports) = imports {
        builder = builder.configure("gpu", "imports", imports);
    }
    let runtime = builder.build()?;
    let model = runtime.load_bytes("both.onnx", model()?)?;
    for middle in ["gpu:0", "cpu:0"] {
        let ends = if middle == "cpu:0" { "gpu:0" } else { "cpu:0" };
        let policy = Policy::latency()
            .devices(["cpu:0", "gpu:0"])
            .pin("n0", ends)
            .pin("n1", middle)
            .pin("n2", ends);
        let session = runtime.session(&model, policy)?;
        for round in 0..3 {
            let mut x = session.input("i0")?;
            x.write(&input(round).collect::<Vec<f32>>())?;
            let outputs = session.submit(&[&x])?.wait(PATIENCE)?;
            let y = floats(outputs.get("o0")?.values::<f32>()?.iter().copied());
            ensure!(y == wanted(round), "round {round} with {middle} in the middle");
        }
        let report = session.report();
        ensure!(
            report.parts.len() == 3 && report.parts[1].device == middle,
            "the parts are {:?}",
            report.parts
        );
        ensure!(
            report.copies == 0 && report.copied_bytes == 0 && report.device_copied_bytes == 0,
            "{} copies of {} bytes with {middle} in the middle, {} bytes by the plugin",
            report.copies,
            report.copied_bytes,
            report.device_copied_bytes
        );
    }
    Ok(())
}

/// Bytes that the plugin says it copied.
fn copies_are_counted() -> Result<()> {
    let host = Host::builder().linked(polychip_gpu::query).build();
    let gpu = host.devices().first().context("no GPU")?;
    let quarter = MEMORY / 4;
    let mut part = Part::new(gpu, &Memory::file(MEMORY)?, Op::Relu, 0, quarter)?;
    let fence = part.executable.execute(&mut part.submission, &[])?;
    fence.wait(PATIENCE)?;
    let told = fence.timing()?.copied_bytes;
    ensure!(told == Some(0), "in place: {told:?}");
    let runtime = Runtime::builder()
        .only_given_folders()
        .link(polychip_gpu::query)
        .configure("gpu", "carry", "on")
        .build()?;
    let model = runtime.load_bytes("both.onnx", model()?)?;
    let session = runtime.session(&model, Policy::latency().devices(["gpu:0"]))?;
    for round in 0..3 {
        let mut x = session.input("i0")?;
        x.write(&input(round).collect::<Vec<f32>>())?;
        session.submit(&[&x])?.wait(PATIENCE)?;
    }
    let report = session.report();
    ensure!(report.device_copied_bytes == 3 * 2 * BYTES, "{report}");
    Ok(())
}

/// One part of one node on a device, from and to these places of a memory.
struct Part {
    executable: Executable,
    submission: Submission,
    buffer: Arc<Buffer>,
}

impl Part {
    fn new(device: &Device, memory: &Memory, op: Op, from: u64, to: u64) -> Result<Part> {
        let mut graph = Graph::new("part");
        let x = tensor(&mut graph, "x");
        let y = tensor(&mut graph, "y");
        let inputs = match op {
            Op::Add => vec![x, constant(&mut graph, "c", |i| (i % 7) as f32 - 3.0)],
            _ => vec![x],
        };
        node(&mut graph, op, &inputs, y);
        graph.inputs = vec![x];
        graph.outputs = vec![y];
        let flat = FlatGraph::new(&graph, &[])?;
        let blob = device.compile(&flat, &CompileOptions::default())?;
        let executable = device.load(blob, &flat, 1)?;
        let mut submission = Submission::new(&executable, 4);
        let buffer = Arc::new(device.import_buffer(memory)?);
        submission.bind(0, &buffer, from)?;
        submission.bind(1, &buffer, to)?;
        Ok(Part {
            executable,
            submission,
            buffer,
        })
    }

    fn run(&mut self) -> Result<()> {
        let fence = self.executable.execute(&mut self.submission, &[])?;
        Ok(fence.wait(PATIENCE)?)
    }
}

/// Add on the CPU, Relu on the GPU, Add on the CPU, in one memory.
fn by_hand(memory: &Memory) -> Result<()> {
    let host = Host::builder()
        .linked(polychip_cpu::query)
        .linked(polychip_gpu::query)
        .build();
    let device = |name: &str| {
        let mut devices = host.devices().iter();
        devices
            .find(|device| device.name() == name)
            .with_context(|| format!("{name} is missing: {:?}", host.refusals()))
    };
    let (cpu, gpu) = (device("cpu:0")?, device("gpu:0")?);
    let quarter = MEMORY / 4;
    let mut first = Part::new(cpu, memory, Op::Add, 0, quarter)?;
    let mut second = Part::new(gpu, memory, Op::Relu, quarter, 2 * quarter)?;
    let mut third = Part::new(cpu, memory, Op::Add, 2 * quarter, 3 * quarter)?;
    let bytes = 4 * COUNT as u64;
    for round in 0..3 {
        // written through the GPU's buffer, read by the CPU's part
        let mut access = second.buffer.access(Access::Write, 0, bytes)?;
        access.copy_from_slice(&floats(input(round)));
        drop(access);
        first.run()?;
        second.run()?;
        third.run()?;
        // written by the CPU's part, read through the GPU's buffer
        let access = second.buffer.access(Access::Read, 3 * quarter, bytes)?;
        ensure!(access[..] == wanted(round), "round {round}");
    }
    if memory.is_dma_buf() {
        ensure!(
            !second.buffer.is_by_address() && first.buffer.is_by_address(),
            "the GPU took the memory by its address, and not as a dma-buf"
        );
        let memory = memory.access(Access::Read)?;
        let start = 3 * quarter as usize;
        ensure!(
            memory[start..][..bytes as usize] == wanted(2)[..],
            "the host's mapping does not hold what the parts wrote"
        );
        return Ok(());
    }
    let of_gpu = second.buffer.access(Access::Read, quarter, bytes)?.as_ptr() as usize;
    let start = memory.access(Access::Read)?.as_ptr() as usize;
    ensure!(
        of_gpu == start + quarter as usize,
        "the GPU's buffer is at {of_gpu:#x}, the memory at {start:#x}"
    );
    Ok(())
}
