//! Compile and load: blobs through memory and bytes, and bytes that are not the device's own.

use std::sync::Arc;

use polychip_abi as abi;
use polychip_abi::Sized;
use polychip_graph::{Constant, Graph, Node, Tensor};
use polychip_ops::{DType, Op, TensorType};

use crate::bench::Bench;
use crate::carrier;
use crate::case::Case;
use crate::plugin::{Blob, Executable, Failure, status_name};
use crate::problem::{Numbers, Problem, supported};
use crate::verdict::{Judgement, Stop, check, fail, skip};

/// Most truncations and flips that are tried.
const TRIES: usize = 256;

pub(super) fn cases(cases: &mut Vec<Case>) {
    let case = |name: &str, run: fn(&Bench) -> Judgement| Case::new("compile", name, run).basic();
    cases.extend([
        case("blob-from-memory", |bench| {
            bench
                .carrier()?
                .solve(&bench.device, bench.reduced, &bench.tolerances())
        }),
        case("blob-through-bytes", through_bytes),
        case("bytes-at-any-address", any_address),
        case("bytes-twice-the-same", bytes_twice),
        case("bytes-load-twice", load_twice),
        case("bytes-in-another-instance", another_instance),
        case("constants-through-bytes", constants),
        case("ports-as-the-graph-says", ports),
        case("precision-is-a-hint", precision_hint),
        case("threads-are-a-hint", threads_hint),
        case("layouts-are-a-hint", layouts_hint),
        case("bytes-truncated", truncated).alone(),
        case("bytes-flipped", flipped).alone(),
        case("bytes-empty", |bench| refused_bytes(bench, &[])).alone(),
        case("bytes-of-noise", noise).alone(),
        case("bytes-with-a-tail", tail).alone(),
        case("bytes-of-another-part", another_part).alone(),
        case("bytes-of-another-device", another_device).alone(),
        case("load-without-graph", without_graph).alone(),
    ]);
}

/// A carrier and the bytes of its blob.
fn carrier_bytes(bench: &Bench) -> Result<(Problem, Arc<[u8]>), Stop> {
    let problem = bench.carrier()?;
    let bytes = bench.device.compile(&problem.flat, bench.reduced)?.bytes()?;
    check!(!bytes.is_empty(), "a blob is empty");
    Ok((problem, bytes))
}

fn through_bytes(bench: &Bench) -> Judgement {
    let (problem, bytes) = carrier_bytes(bench)?;
    let executable = bench.device.load_bytes(&problem.flat, bytes)?;
    problem.run(&executable, &bench.tolerances())
}

fn any_address(bench: &Bench) -> Judgement {
    let (problem, bytes) = carrier_bytes(bench)?;
    for skip in [1, 3, 8] {
        let mut moved = vec![0; skip];
        moved.extend_from_slice(&bytes);
        let executable = bench
            .device
            .load_bytes_at(&problem.flat, Arc::from(moved), skip)?;
        problem.run(&executable, &bench.tolerances())?;
    }
    Ok(())
}

fn bytes_twice(bench: &Bench) -> Judgement {
    let problem = bench.carrier()?;
    let mut blob = bench.device.compile(&problem.flat, bench.reduced)?;
    let first = blob.bytes()?;
    check!(
        blob.bytes()? == first,
        "two reads of a blob return different bytes"
    );
    // and can still be loaded
    problem.run(&blob.load()?, &bench.tolerances())
}

fn load_twice(bench: &Bench) -> Judgement {
    let (problem, bytes) = carrier_bytes(bench)?;
    let one = bench.device.load_bytes(&problem.flat, Arc::clone(&bytes))?;
    let two = bench.device.load_bytes(&problem.flat, bytes)?;
    problem.run(&one, &bench.tolerances())?;
    problem.run(&two, &bench.tolerances())?;
    drop(one);
    problem.run(&two, &bench.tolerances())
}

fn another_instance(bench: &Bench) -> Judgement {
    let (problem, bytes) = carrier_bytes(bench)?;
    let other = bench.reopen()?;
    problem.run(&other.load_bytes(&problem.flat, bytes)?, &bench.tolerances())
}

/// `y = x + constant`.
fn with_constant(seed: &str) -> Result<Problem, Stop> {
    let mut graph = Graph::new("add-constant");
    let sizes = [1, 3, 5, 7];
    let values = carrier::values(seed, DType::F32, &sizes, -2.0, 3.0);
    let ty = || TensorType::known(DType::F32, &sizes);
    let x = graph.add_tensor(Tensor::new("x", ty()));
    let c = graph.add_tensor(Tensor::constant("c", ty(), Constant::from_literal(&values)));
    let y = graph.add_tensor(Tensor::new("y", ty()));
    graph.add_node(Node::new(Op::Add, vec![Some(x), Some(c)], vec![Some(y)]).named("add"));
    (graph.inputs, graph.outputs) = (vec![x], vec![y]);
    let inputs = vec![carrier::values("x", DType::F32, &sizes, -2.0, 3.0)];
    Problem::new(graph, inputs).map_err(Stop::Failed)
}

fn constants(bench: &Bench) -> Judgement {
    let problem = with_constant("c")?;
    supported(&bench.device, &problem.flat)?;
    let mut blob = bench.device.compile(&problem.flat, bench.reduced)?;
    let bytes = blob.bytes()?;
    problem.run(&blob.load()?, &bench.tolerances())?;
    drop(blob);
    problem.run(
        &bench.device.load_bytes(&problem.flat, bytes)?,
        &bench.tolerances(),
    )
}

fn ports(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let tensors = problem.inputs.iter().chain(&problem.expected);
    for (index, (port, tensor)) in executable.ports().iter().zip(tensors).enumerate() {
        let dims: Vec<i64> = tensor.shape.iter().map(|size| *size as i64).collect();
        check!(
            port.is_output() == (index >= problem.inputs.len()),
            "port {index} has the wrong direction"
        );
        check!(
            port.dtype == tensor.dtype.code(),
            "port {index} has data type {} instead of {}",
            port.dtype,
            tensor.dtype.code()
        );
        check!(
            port.dims == dims,
            "port {index} has shape {:?} instead of {dims:?}",
            port.dims
        );
        check!(
            !port.is_bound(),
            "port {index} has a known shape, but states upper bounds"
        );
        check!(
            port.layout == abi::POLYCHIP_LAYOUT_ROW_MAJOR,
            "port {index} has layout {}, but only row-major was requested",
            port.layout
        );
        let needed = tensor.bytes.len() as u64;
        check!(
            port.bytes >= needed,
            "port {index} holds {} bytes, but its tensor needs {needed}",
            port.bytes
        );
        check!(
            port.bytes <= needed.next_multiple_of(4096) + 4096,
            "port {index} requires {} bytes for a tensor of {needed}",
            port.bytes
        );
        check!(
            port.alignment.is_power_of_two() && port.alignment <= 65536,
            "port {index} requires alignment {}; a power of two up to 65536 is allowed",
            port.alignment
        );
        check!(
            port.memory_kinds != 0,
            "port {index} cannot be bound to any memory"
        );
        check!(
            port.state_port == abi::POLYCHIP_NO_INDEX,
            "port {index} is half of an in-out pair that the graph does not contain"
        );
        check!(
            port.strides.iter().all(|stride| *stride == 0),
            "a row-major port states strides"
        );
    }
    Ok(())
}

fn options() -> abi::polychip_compile_options {
    let mut options = abi::polychip_compile_options::sized();
    options.operating_point = abi::POLYCHIP_NO_INDEX;
    options
}

fn precision_hint(bench: &Bench) -> Judgement {
    let problem = bench.carrier()?;
    let mut options = options();
    for precision in [abi::POLYCHIP_PRECISION_EXACT, abi::POLYCHIP_PRECISION_REDUCED] {
        options.precision = precision;
        let executable = Blob::with(&bench.device, &problem.flat, &options)?.load()?;
        let reduced = bench.reduced || precision == abi::POLYCHIP_PRECISION_REDUCED;
        problem.run(
            &executable,
            &crate::tolerance::Tolerances::of("elementwise", reduced),
        )?;
    }
    Ok(())
}

fn threads_hint(bench: &Bench) -> Judgement {
    let problem = bench.carrier()?;
    let mut options = options();
    if bench.reduced {
        options.precision = abi::POLYCHIP_PRECISION_REDUCED;
    }
    for threads in [0, 1, 3, 1000] {
        options.threads = threads;
        let executable = Blob::with(&bench.device, &problem.flat, &options)?.load()?;
        problem.run(&executable, &bench.tolerances())?;
    }
    Ok(())
}

fn layouts_hint(bench: &Bench) -> Judgement {
    let problem = bench.carrier()?;
    let rows: Vec<abi::polychip_port_request> =
        [abi::POLYCHIP_LAYOUT_ANY, abi::POLYCHIP_LAYOUT_CHANNELS_LAST]
            .into_iter()
            .zip(0..problem.inputs.len() as u32)
            .map(|(layout, port)| abi::polychip_port_request {
                port,
                layout,
                ..Sized::sized()
            })
            .collect();
    let mut options = options();
    if bench.reduced {
        options.precision = abi::POLYCHIP_PRECISION_REDUCED;
    }
    options.ports = rows.as_ptr();
    options.port_count = rows.len() as u64;
    options.port_stride = size_of::<abi::polychip_port_request>() as u64;
    let executable = Blob::with(&bench.device, &problem.flat, &options)?.load()?;
    for (index, port) in executable.ports().iter().enumerate() {
        let dims: Vec<i64> = problem
            .inputs
            .iter()
            .chain(&problem.expected)
            .nth(index)
            .map(|tensor| tensor.shape.iter().map(|size| *size as i64).collect())
            .unwrap_or_default();
        check!(
            port.dims == dims,
            "port {index} in layout {} has shape {:?}; shapes must stay in ONNX order",
            port.layout,
            port.dims
        );
    }
    if executable
        .ports()
        .iter()
        .all(|port| port.layout == abi::POLYCHIP_LAYOUT_ROW_MAJOR)
    {
        return problem.run(&executable, &bench.tolerances());
    }
    run_in_layouts(bench, &problem, &executable)
}

/// Runs with each input in the layout that was granted.
fn run_in_layouts(bench: &Bench, problem: &Problem, executable: &Arc<Executable>) -> Judgement {
    let buffers = executable.buffers()?;
    for (index, input) in problem.inputs.iter().enumerate() {
        let port = &executable.ports()[index];
        let bytes = match port.layout {
            abi::POLYCHIP_LAYOUT_CHANNELS_LAST => channels_last(input),
            abi::POLYCHIP_LAYOUT_ROW_MAJOR => input.bytes.to_vec(),
            layout => {
                return fail(format!(
                    "port {index} has layout {layout}, which was not requested"
                ));
            }
        };
        buffers[index].write(0, &bytes)?;
    }
    let fence = executable.execute(&buffers, &[])?;
    fence.wait()?;
    problem.judge(&fence, executable, &buffers, &bench.tolerances())
}

fn channels_last(tensor: &polychip_ops::Literal) -> Vec<u8> {
    let [n, c, spatial @ ..] = tensor.shape.as_slice() else {
        return tensor.bytes.to_vec();
    };
    let pixels: usize = spatial.iter().product();
    let width = tensor.dtype.byte_width().unwrap_or(1);
    let mut bytes = Vec::with_capacity(tensor.bytes.len());
    for image in 0..*n {
        for pixel in 0..pixels {
            for channel in 0..*c {
                let at = ((image * c + channel) * pixels + pixel) * width;
                bytes.extend_from_slice(&tensor.bytes[at..at + width]);
            }
        }
    }
    bytes
}

/// Loading such bytes must fail as a bad blob, and the device goes on.
fn refused(what: &str, loaded: Result<Arc<Executable>, Failure>) -> Judgement {
    match loaded {
        Ok(_) => fail(format!("{what}: loaded")),
        Err(failure) => {
            check!(
                failure.status == abi::POLYCHIP_STATUS_BAD_BLOB,
                "{what}: refused as {} instead of BAD_BLOB",
                status_name(failure.status)
            );
            check!(!failure.words.is_empty(), "{what}: refused without a message");
            Ok(())
        }
    }
}

fn refused_bytes(bench: &Bench, bytes: &[u8]) -> Judgement {
    let problem = bench.carrier()?;
    let what = format!("{} bytes that are not a blob", bytes.len());
    refused(&what, bench.device.load_bytes(&problem.flat, Arc::from(bytes)))?;
    problem.solve(&bench.device, bench.reduced, &bench.tolerances())
}

fn truncated(bench: &Bench) -> Judgement {
    let (problem, bytes) = carrier_bytes(bench)?;
    let all = bytes.len().div_ceil(64);
    for index in (0..all).step_by(all.div_ceil(TRIES)) {
        let len = index * 64;
        refused(
            &format!("the first {len} of {} bytes", bytes.len()),
            bench.device.load_bytes(&problem.flat, Arc::from(&bytes[..len])),
        )?;
    }
    refused(
        "all but the last byte",
        bench
            .device
            .load_bytes(&problem.flat, Arc::from(&bytes[..bytes.len() - 1])),
    )?;
    problem.run(
        &bench.device.load_bytes(&problem.flat, bytes)?,
        &bench.tolerances(),
    )
}

fn flipped(bench: &Bench) -> Judgement {
    let (problem, bytes) = carrier_bytes(bench)?;
    let places = bytes.len().min(TRIES);
    let mut numbers = Numbers::of("flips");
    for place in 0..places {
        let at = place * bytes.len() / places;
        let mut torn = bytes.to_vec();
        torn[at] ^= 1 << numbers.int(0, 8);
        refused(
            &format!("one bit of byte {at} of {} flipped", bytes.len()),
            bench.device.load_bytes(&problem.flat, Arc::from(torn)),
        )?;
    }
    problem.run(
        &bench.device.load_bytes(&problem.flat, bytes)?,
        &bench.tolerances(),
    )
}

fn noise(bench: &Bench) -> Judgement {
    let mut numbers = Numbers::of("noise");
    for len in [1, 7, 64, 1000, 65_536] {
        let bytes: Vec<u8> = (0..len).map(|_| numbers.draw() as u8).collect();
        refused_bytes(bench, &bytes)?;
        refused_bytes(bench, &vec![0; len])?;
        refused_bytes(bench, &vec![255; len])?;
    }
    // a file of another kind
    refused_bytes(bench, b"\x7fELF\x02\x01\x01\x00 and no more")
}

fn tail(bench: &Bench) -> Judgement {
    let (problem, bytes) = carrier_bytes(bench)?;
    for more in [1, 64] {
        let mut long = bytes.to_vec();
        long.resize(bytes.len() + more, 0);
        match bench.device.load_bytes(&problem.flat, Arc::from(long)) {
            // what stands behind the blob may be ignored
            Ok(executable) => problem.run(&executable, &bench.tolerances())?,
            failed => refused(&format!("{more} bytes after the blob"), failed)?,
        }
    }
    Ok(())
}

fn another_part(bench: &Bench) -> Judgement {
    let (one, two) = (with_constant("c")?, with_constant("d")?);
    if bench.device.refusal(&one.flat)?.is_none() {
        // the same structure with other constants
        let bytes = bench.device.compile(&one.flat, bench.reduced)?.bytes()?;
        refused(
            "bytes of a part with other constants",
            bench.device.load_bytes(&two.flat, bytes),
        )?;
    }
    let (problem, bytes) = carrier_bytes(bench)?;
    let other = carrier::all()
        .iter()
        .find(|other| other.name != problem.name)
        .ok_or_else(|| Stop::Skipped("there is only one carrier".into()))?;
    refused(
        "bytes of another part",
        bench.device.load_bytes(&other.flat, bytes),
    )
}

fn another_device(bench: &Bench) -> Judgement {
    let instance = bench.device.instance();
    let count = instance.device_count()?;
    if count < 2 {
        return skip("the plugin has only one device");
    }
    let (problem, bytes) = carrier_bytes(bench)?;
    let index = (bench.device.index() + 1) % count;
    let other = bench.library.create(&bench.configuration)?.open(index)?;
    match other.load_bytes(&problem.flat, bytes) {
        // a device that is the same chip may say so
        Ok(executable) => problem.run(&executable, &bench.tolerances()),
        failed => refused("bytes of another device", failed),
    }
}

fn without_graph(bench: &Bench) -> Judgement {
    let (problem, bytes) = carrier_bytes(bench)?;
    match Executable::without_graph(&bench.device, &problem.flat, bytes) {
        Ok(executable) => problem.run(&executable, &bench.tolerances()),
        Err(failure) => {
            check!(!failure.words.is_empty(), "refused without a message: {failure}");
            Ok(())
        }
    }
}
