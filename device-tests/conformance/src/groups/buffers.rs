//! Buffers: memory created, imported and exported, ranges opened to the host, and bindings of runs.

use std::sync::Arc;

use polychip_abi as abi;
use polychip_abi::Sized;

use crate::bench::Bench;
use crate::case::Case;
use crate::plugin::{Binding, Buffer, Executable, Failure, HostMemory, status_name};
use crate::problem::Problem;
use crate::verdict::{Judgement, Stop, check, fail, skip};

pub(super) fn cases(cases: &mut Vec<Case>) {
    let case = |name: &str, run: fn(&Bench) -> Judgement| Case::new("buffers", name, run).basic();
    cases.extend([
        case("create-write-read", create_write_read),
        case("create-of-zero-bytes", zero_bytes),
        case("access-of-a-range", range),
        case("access-outside-is-refused", outside).alone(),
        case("access-of-unknown-kind-is-refused", unknown_access).alone(),
        case("alignment-is-kept", alignment),
        case("import-host-memory", import_host),
        case("import-host-memory-misaligned", import_misaligned).alone(),
        case("import-memory-file", import_memfd),
        case("import-unknown-kind-is-refused", import_unknown).alone(),
        case("import-of-kinds-not-stated-is-refused", import_not_stated).alone(),
        case("export", export),
        case("export-of-kinds-not-stated-is-refused", export_not_stated),
        case("reused-across-runs", reused),
        case("shared-by-executables", shared),
        case("output-feeds-input", output_feeds_input),
        case("bound-at-an-offset", offset),
        case("inputs-share-memory", inputs_share),
        case("input-is-output", input_is_output).alone(),
        case("too-small-buffer-is-refused", too_small).alone(),
        case("too-small-binding-is-refused", too_small_binding).alone(),
        case("binding-outside-buffer-is-refused", outside_binding).alone(),
        case("missing-binding-is-refused", missing_binding).alone(),
        case("readable-after-executable", after_executable),
    ]);
}

fn create_write_read(bench: &Bench) -> Judgement {
    for bytes in [1u64, 3, 64, 1000, 4096, (1 << 20) + 1] {
        let buffer = bench.device.create_buffer(bytes, 0)?;
        let pattern: Vec<u8> = (0..bytes).map(|index| (index * 7 + bytes) as u8).collect();
        buffer.write(0, &pattern)?;
        check!(
            buffer.read(0, bytes)? == pattern,
            "a buffer of {bytes} bytes loses written data"
        );
        buffer.write(0, &vec![0; bytes as usize])?;
        check!(
            buffer.read(0, bytes)?.iter().all(|byte| *byte == 0),
            "a buffer of {bytes} bytes keeps overwritten data"
        );
    }
    Ok(())
}

fn zero_bytes(bench: &Bench) -> Judgement {
    let buffer = bench.device.create_buffer(0, 0)?;
    buffer.write(0, &[])?;
    check!(buffer.read(0, 0)?.is_empty(), "it gives bytes");
    Ok(())
}

fn range(bench: &Bench) -> Judgement {
    let buffer = bench.device.create_buffer(256, 64)?;
    let pattern: Vec<u8> = (0..=255).collect();
    buffer.write(0, &pattern)?;
    check!(
        buffer.read(100, 56)? == pattern[100..156],
        "a range returns wrong bytes"
    );
    buffer.write(10, &[9; 5])?;
    let mut wanted = pattern;
    wanted[10..15].fill(9);
    check!(
        buffer.read(0, 256)? == wanted,
        "writing a range changes bytes outside it"
    );
    check!(buffer.read(256, 0)?.is_empty(), "it returns bytes past the end");
    Ok(())
}

/// An access that must be refused, and leaves the buffer usable.
fn refused_access(buffer: &Buffer, access: u32, offset: u64, bytes: u64) -> Judgement {
    match buffer.access(access, offset, bytes, |_| ()) {
        Ok(()) => fail(format!(
            "access {access} to {bytes} bytes at {offset} of a buffer of {} succeeds",
            buffer.bytes()
        )),
        Err(failure) => {
            check!(
                failure.status == abi::POLYCHIP_STATUS_BAD_ARGUMENT,
                "it is refused as {} instead of BAD_ARGUMENT",
                status_name(failure.status)
            );
            buffer.write(0, &[1])?;
            Ok(())
        }
    }
}

fn outside(bench: &Bench) -> Judgement {
    let buffer = bench.device.create_buffer(64, 0)?;
    for (offset, bytes) in [
        (0, 65),
        (64, 1),
        (63, 2),
        (1 << 40, 1),
        (u64::MAX, 2),
        (8, u64::MAX),
    ] {
        refused_access(&buffer, abi::POLYCHIP_ACCESS_READ, offset, bytes)?;
    }
    Ok(())
}

fn unknown_access(bench: &Bench) -> Judgement {
    let buffer = bench.device.create_buffer(64, 0)?;
    refused_access(&buffer, 0, 0, 64)?;
    refused_access(&buffer, 64, 0, 64)
}

fn alignment(bench: &Bench) -> Judgement {
    for alignment in [0u64, 1, 16, 64, 4096] {
        let buffer = bench.device.create_buffer(100, alignment)?;
        let address = buffer.access(abi::POLYCHIP_ACCESS_READ, 0, 100, |data| data as usize)?;
        check!(
            address.is_multiple_of(alignment.max(1) as usize),
            "a buffer with alignment {alignment} is at {address:#x}"
        );
    }
    Ok(())
}

fn imports(bench: &Bench, kind: u32) -> Result<bool, Stop> {
    Ok(bench.device.info()?.import_kinds & (1 << kind) != 0)
}

/// A refusal of what the device does not state.
fn unsupported<T>(what: &str, done: Result<T, Failure>) -> Judgement {
    match done {
        Ok(_) => fail(format!("{what} is accepted, but not stated")),
        Err(failure) => {
            check!(
                failure.status == abi::POLYCHIP_STATUS_UNSUPPORTED,
                "{what} is refused as {} instead of UNSUPPORTED",
                status_name(failure.status)
            );
            Ok(())
        }
    }
}

/// The alignment at which host memory is imported.
fn import_alignment(bench: &Bench) -> Result<usize, Stop> {
    Ok((bench.device.info()?.import_alignment.max(1) as usize).max(64))
}

fn import_host(bench: &Bench) -> Judgement {
    let alignment = import_alignment(bench)?;
    if !imports(bench, abi::POLYCHIP_MEMORY_HOST)? {
        let memory = HostMemory::new(4096, alignment, 0);
        return unsupported("host memory", bench.device.import_buffer(memory));
    }
    let (problem, executable) = bench.loaded()?;
    let buffers = executable
        .ports()
        .iter()
        .map(|port| {
            bench
                .device
                .import_buffer(HostMemory::new(port.bytes as usize, alignment, 0))
        })
        .collect::<Result<Vec<_>, _>>()?;
    problem.write(&executable, &buffers)?;
    let fence = executable.execute(&buffers, &[])?;
    fence.wait()?;
    problem.judge(&fence, &executable, &buffers, &bench.tolerances())?;
    for (index, buffer) in buffers.iter().enumerate() {
        let intact = buffer.memory().is_some_and(HostMemory::is_intact);
        check!(intact, "it wrote past the end of the memory of port {index}");
    }
    Ok(())
}

fn import_misaligned(bench: &Bench) -> Judgement {
    if !imports(bench, abi::POLYCHIP_MEMORY_HOST)? {
        return skip("host memory is not imported");
    }
    let needed = bench.device.info()?.import_alignment.max(1) as usize;
    let problem = bench.carrier()?;
    let executable = problem.load(&bench.device, bench.reduced)?;
    let bytes = executable.ports()[0].bytes as usize;
    match bench
        .device
        .import_buffer(HostMemory::new(bytes, needed.max(64), 4))
    {
        Err(failure) => {
            check!(
                needed > 4,
                "import_alignment is {needed}, but memory at 4 is refused: {failure}"
            );
            check!(
                failure.status == abi::POLYCHIP_STATUS_UNSUPPORTED,
                "it is refused as {} instead of UNSUPPORTED",
                status_name(failure.status)
            );
            Ok(())
        }
        Ok(buffer) => {
            // taken: then it works
            check!(
                needed <= 4,
                "memory not aligned to import_alignment {needed} is accepted"
            );
            let mut buffers = problem.buffers(&executable)?;
            buffers[0] = buffer;
            problem.write(&executable, &buffers)?;
            let fence = executable.execute(&buffers, &[])?;
            fence.wait()?;
            problem.judge(&fence, &executable, &buffers, &bench.tolerances())
        }
    }
}

fn record(kind: u32) -> abi::polychip_memory {
    let mut record = abi::polychip_memory::sized();
    record.kind = kind;
    record.fd = abi::POLYCHIP_NO_FD;
    record.bytes = 4096;
    record
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn import_memfd(bench: &Bench) -> Judgement {
    use rustix::fs::MemfdFlags;
    use std::os::fd::AsRawFd as _;
    let system = |error: rustix::io::Errno| Stop::Failed(format!("the system: {error}"));
    let file = |bytes: u64| {
        let file = rustix::fs::memfd_create("conformance", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(system)?;
        rustix::fs::ftruncate(&file, bytes).map_err(system)?;
        Ok::<_, Stop>(file)
    };
    let mut given = record(abi::POLYCHIP_MEMORY_MEMFD);
    if !imports(bench, abi::POLYCHIP_MEMORY_MEMFD)? {
        let file = file(4096)?;
        given.fd = i64::from(file.as_raw_fd());
        return unsupported(
            "a memory file",
            Buffer::import_record(&bench.device, &given, None),
        );
    }
    let (problem, executable) = bench.loaded()?;
    let mut files = Vec::new();
    let mut buffers = Vec::new();
    for port in executable.ports() {
        let memory = file(port.bytes + 8192)?;
        given.fd = i64::from(memory.as_raw_fd());
        given.offset = 4096;
        given.bytes = port.bytes;
        buffers.push(Buffer::import_record(&bench.device, &given, None)?);
        files.push(memory);
    }
    problem.write(&executable, &buffers)?;
    // the file holds the bytes written through the buffer, from the offset on
    let mut seen = vec![0; problem.inputs[0].bytes.len()];
    rustix::io::pread(&files[0], &mut seen[..], 4096).map_err(system)?;
    check!(
        seen[..] == problem.inputs[0].bytes[..],
        "an imported memory file lacks the written data"
    );
    let output = files.pop();
    drop(files);
    let fence = executable.execute(&buffers, &[])?;
    fence.wait()?;
    problem.judge(&fence, &executable, &buffers, &bench.tolerances())?;
    let mut behind = vec![1; 4096];
    if let Some(output) = output {
        let end = 4096 + executable.ports().last().map_or(0, |port| port.bytes);
        rustix::io::pread(&output, &mut behind[..], end).map_err(system)?;
    }
    check!(
        behind.iter().all(|byte| *byte == 0),
        "it wrote past the end of an imported range"
    );
    Ok(())
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn import_memfd(_: &Bench) -> Judgement {
    skip("this system has no memory files")
}

fn import_unknown(bench: &Bench) -> Judgement {
    for kind in [6, 31, 32, 99, u32::MAX] {
        match Buffer::import_record(&bench.device, &record(kind), None) {
            Ok(_) => return fail(format!("memory of kind {kind} is imported")),
            Err(failure) => check!(
                matches!(
                    failure.status,
                    abi::POLYCHIP_STATUS_UNSUPPORTED | abi::POLYCHIP_STATUS_BAD_ARGUMENT
                ),
                "memory of kind {kind} is refused as {}",
                status_name(failure.status)
            ),
        }
    }
    Ok(())
}

fn import_not_stated(bench: &Bench) -> Judgement {
    let mut asked = 0;
    for kind in abi::POLYCHIP_MEMORY_MEMFD..=abi::POLYCHIP_MEMORY_VENDOR {
        if !imports(bench, kind)? {
            asked += 1;
            match Buffer::import_record(&bench.device, &record(kind), None) {
                Ok(_) => return fail(format!("memory of kind {kind} is imported, but not stated")),
                // a record without descriptor and handle may be called that
                Err(failure) => check!(
                    matches!(
                        failure.status,
                        abi::POLYCHIP_STATUS_UNSUPPORTED | abi::POLYCHIP_STATUS_BAD_ARGUMENT
                    ),
                    "memory of kind {kind} is refused as {}",
                    status_name(failure.status)
                ),
            }
        }
    }
    if asked == 0 {
        return skip("every kind is stated");
    }
    Ok(())
}

fn export(bench: &Bench) -> Judgement {
    let kinds = bench.device.info()?.export_kinds;
    if kinds == 0 {
        return skip("nothing is exported");
    }
    let buffer = bench.device.create_buffer(4096, 64)?;
    let pattern: Vec<u8> = (0..4096).map(|index| (index % 251) as u8).collect();
    buffer.write(0, &pattern)?;
    for kind in 0..=abi::POLYCHIP_MEMORY_VENDOR {
        if kinds & (1 << kind) == 0 {
            continue;
        }
        let memory = match buffer.export(kind) {
            Ok(Some(memory)) => memory,
            Ok(None) => return fail("export_kinds are stated, but buffer_export is not offered"),
            // a buffer may lie in memory of one kind only
            Err(failure) if failure.status == abi::POLYCHIP_STATUS_UNSUPPORTED => continue,
            Err(failure) => return Err(failure.into()),
        };
        check!(
            memory.kind == kind,
            "it exported kind {} instead of the requested kind {kind}",
            memory.kind
        );
        check!(memory.bytes >= 4096, "it exports {} of 4096 bytes", memory.bytes);
        let named = !memory.data.is_null() || memory.fd >= 0 || memory.handle != 0;
        check!(named, "kind {kind} has neither address, descriptor nor handle");
        if kind == abi::POLYCHIP_MEMORY_HOST {
            // what is exported is what another device of the plugin would take
            let again = Buffer::import_record(&bench.device, &memory, None);
            if let Ok(again) = again {
                check!(
                    again.read(0, 4096)? == pattern,
                    "after export and import, its bytes differ"
                );
            }
        }
    }
    Ok(())
}

fn export_not_stated(bench: &Bench) -> Judgement {
    let kinds = bench.device.info()?.export_kinds;
    let buffer = bench.device.create_buffer(64, 0)?;
    for kind in (0..=abi::POLYCHIP_MEMORY_VENDOR).filter(|kind| kinds & (1 << kind) == 0) {
        match buffer.export(kind) {
            Ok(None) => return skip("buffer_export is not offered"),
            Ok(Some(_)) => return fail(format!("kind {kind} is exported, but not stated")),
            Err(failure) => check!(
                failure.status == abi::POLYCHIP_STATUS_UNSUPPORTED,
                "kind {kind} is refused as {}",
                status_name(failure.status)
            ),
        }
    }
    Ok(())
}

fn reused(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let buffers = executable.buffers()?;
    for seed in 0..20 {
        let next = problem.seeded(seed)?;
        next.write(&executable, &buffers)?;
        let fence = executable.execute(&buffers, &[])?;
        fence.wait()?;
        next.judge(&fence, &executable, &buffers, &bench.tolerances())?;
    }
    Ok(())
}

fn shared(bench: &Bench) -> Judgement {
    let (problem, one) = bench.loaded()?;
    let two = problem.load(&bench.device, bench.reduced)?;
    let buffers = problem.buffers(&one)?;
    for executable in [&one, &two, &one] {
        let fence = executable.execute(&buffers, &[])?;
        fence.wait()?;
        problem.judge(&fence, executable, &buffers, &bench.tolerances())?;
    }
    drop(one);
    let fence = two.execute(&buffers, &[])?;
    fence.wait()?;
    problem.judge(&fence, &two, &buffers, &bench.tolerances())
}

fn output_feeds_input(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let first = problem.buffers(&executable)?;
    let mut second = problem.buffers(&executable)?;
    second[0] = Arc::clone(&first[problem.inputs.len()]);
    executable.execute(&first, &[])?.wait()?;
    let mut inputs = problem.inputs.clone();
    inputs[0] = problem.expected[0].clone();
    let wanted = problem.with_inputs(inputs)?;
    let fence = executable.execute(&second, &[])?;
    fence.wait()?;
    wanted.judge(&fence, &executable, &second, &bench.tolerances())
}

/// Whole buffers, one binding per port.
fn bindings(executable: &Executable, buffers: &[Arc<Buffer>]) -> Vec<Binding> {
    buffers
        .iter()
        .zip(executable.ports())
        .map(|(buffer, port)| Binding {
            buffer: Arc::clone(buffer),
            offset: 0,
            bytes: port.bytes,
        })
        .collect()
}

fn offset(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let buffers = problem.buffers(&executable)?;
    let mut bound = bindings(&executable, &buffers);
    let number = problem.inputs.len();
    let port = &executable.ports()[number];
    let (bytes, before) = (port.bytes, port.alignment.max(256));
    let (whole, start) = (bytes + 2 * before, before as usize);
    let large = bench.device.create_buffer(whole, before)?;
    large.write(0, &vec![0x5A; whole as usize])?;
    bound[number] = Binding {
        buffer: Arc::clone(&large),
        offset: before,
        bytes,
    };
    let fence = executable.execute_bound(&bound, &[])?;
    fence.wait()?;
    let all = large.read(0, whole)?;
    let around = all[..start].iter().chain(&all[start + bytes as usize..]);
    check!(
        around.copied().all(|byte| byte == 0x5A),
        "it wrote outside of the bound range"
    );
    let inside = bench.device.create_buffer(bytes, 64)?;
    inside.write(0, &all[start..start + bytes as usize])?;
    let mut buffers = buffers;
    buffers[number] = inside;
    problem.judge(&fence, &executable, &buffers, &bench.tolerances())
}

fn inputs_share(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    if problem.inputs.len() < 2 {
        return skip("the carrier has one input only");
    }
    let mut buffers = problem.buffers(&executable)?;
    buffers[1] = Arc::clone(&buffers[0]);
    let inputs = vec![problem.inputs[0].clone(); 2];
    let wanted = problem.with_inputs(inputs)?;
    wanted.write(&executable, &buffers)?;
    let fence = executable.execute(&buffers, &[])?;
    fence.wait()?;
    wanted.judge(&fence, &executable, &buffers, &bench.tolerances())
}

fn input_is_output(bench: &Bench) -> Judgement {
    // the host may not do it: a plugin refuses, or is right
    let (problem, executable) = bench.loaded()?;
    let number = problem.inputs.len();
    let mut buffers = problem.buffers(&executable)?;
    buffers[number] = Arc::clone(&buffers[0]);
    match executable.execute(&buffers, &[]) {
        Err(failure) => {
            check!(
                failure.status == abi::POLYCHIP_STATUS_BAD_ARGUMENT,
                "it is refused as {} instead of BAD_ARGUMENT",
                status_name(failure.status)
            );
            Ok(())
        }
        Ok(fence) => {
            fence.wait()?;
            problem.judge(&fence, &executable, &buffers, &bench.tolerances())
        }
    }
}

/// A run that must be refused; another one then works.
fn refused_run(
    bench: &Bench,
    problem: &Problem,
    executable: &Arc<Executable>,
    bound: &[Binding],
    what: &str,
) -> Judgement {
    match executable.execute_bound(bound, &[]) {
        Ok(fence) => {
            let ended = fence.wait();
            return fail(format!("{what} is accepted, and the run ends with {ended:?}"));
        }
        Err(failure) => check!(
            failure.status == abi::POLYCHIP_STATUS_BAD_ARGUMENT,
            "{what} is refused as {} instead of BAD_ARGUMENT",
            status_name(failure.status)
        ),
    }
    problem.run(executable, &bench.tolerances())
}

fn too_small(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let buffers = problem.buffers(&executable)?;
    for (index, port) in executable.ports().iter().enumerate() {
        let mut bound = bindings(&executable, &buffers);
        bound[index].buffer = bench.device.create_buffer(port.bytes - 1, 64)?;
        refused_run(
            bench,
            &problem,
            &executable,
            &bound,
            &format!("port {index} with a buffer one byte short"),
        )?;
        bound[index].bytes = port.bytes - 1;
        refused_run(
            bench,
            &problem,
            &executable,
            &bound,
            &format!("port {index} with a buffer one byte short"),
        )?;
    }
    Ok(())
}

fn too_small_binding(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let buffers = problem.buffers(&executable)?;
    for (index, port) in executable.ports().iter().enumerate() {
        for bytes in [0, 1, port.bytes - 1] {
            let mut bound = bindings(&executable, &buffers);
            bound[index].bytes = bytes;
            let what = format!("port {index} of {} bytes bound to {bytes}", port.bytes);
            refused_run(bench, &problem, &executable, &bound, &what)?;
        }
    }
    Ok(())
}

fn outside_binding(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let buffers = problem.buffers(&executable)?;
    for (index, port) in executable.ports().iter().enumerate() {
        for (offset, bytes) in [
            (64, port.bytes),
            (u64::MAX - 63, port.bytes),
            (0, u64::MAX),
            (1 << 40, port.bytes),
        ] {
            let mut bound = bindings(&executable, &buffers);
            (bound[index].offset, bound[index].bytes) = (offset, bytes);
            let what = format!(
                "port {index} bound to {bytes} bytes at {offset} of {}",
                port.bytes
            );
            refused_run(bench, &problem, &executable, &bound, &what)?;
        }
    }
    Ok(())
}

fn missing_binding(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let buffers = problem.buffers(&executable)?;
    let bound = bindings(&executable, &buffers);
    refused_run(
        bench,
        &problem,
        &executable,
        &bound[..bound.len() - 1],
        "a run without its last port",
    )?;
    refused_run(bench, &problem, &executable, &[], "a run without bindings")?;
    let mut more = bound.clone();
    more.push(bound[0].clone());
    refused_run(
        bench,
        &problem,
        &executable,
        &more,
        "a run with one port too many",
    )
}

fn after_executable(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let buffers = problem.buffers(&executable)?;
    executable.execute(&buffers, &[])?.wait()?;
    let number = problem.inputs.len();
    let bytes = problem.expected[0].bytes.len() as u64;
    let before = buffers[number].read(0, bytes)?;
    drop(executable);
    check!(
        buffers[number].read(0, bytes)? == before,
        "an output is lost with its executable"
    );
    buffers[0].write(0, &problem.inputs[0].bytes)?;
    Ok(())
}
