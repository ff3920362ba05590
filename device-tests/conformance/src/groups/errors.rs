//! Wrong arguments through the raw table, and garbage graphs: an error each, never a crash.
//!
//! Invariants:
//! 1. Every case runs in a process of its own.
//! 2. A plugin can detect each error without reading memory outside its arguments.

#![allow(unsafe_code)]

mod graph;

use std::ptr::{null, null_mut};
use std::sync::Arc;

use polychip_abi as abi;
use polychip_abi::Sized;

use crate::bench::Bench;
use crate::case::Case;
use crate::plugin::{RawGraph, status_name};
use crate::verdict::{Judgement, check, fail};

pub(super) fn cases(cases: &mut Vec<Case>) {
    let case = |name: &str, run: fn(&Bench) -> Judgement| Case::new("errors", name, run).basic().alone();
    cases.extend([
        case("null-handles", null_handles),
        case("null-results", null_results),
        case("null-arguments", null_arguments),
        case("null-error-record", null_record),
        case("error-record-is-filled", record_filled),
        case("error-record-of-a-newer-host", newer_record),
        case("torn-struct-sizes", torn_sizes),
        case("newer-structs", newer_structs),
        case("strides-too-small", strides),
        case("endless-counts", endless),
        case("unknown-codes", unknown_codes),
        case("unknown-port", unknown_port),
        case("blob-and-bytes-missing", no_source),
    ]);
    graph::cases(cases);
}

/// A call that must be refused as a bad argument.
fn bad(what: &str, status: u32) -> Judgement {
    check!(
        status == abi::POLYCHIP_STATUS_BAD_ARGUMENT,
        "{what}: {} instead of BAD_ARGUMENT",
        status_name(status)
    );
    Ok(())
}

/// A call that must be refused, with any status that is an error.
fn refused(what: &str, status: u32) -> Judgement {
    check!(status != abi::POLYCHIP_STATUS_OK, "{what}: taken");
    check!(
        status <= abi::POLYCHIP_STATUS_BAD_BLOB,
        "{what}: {}",
        status_name(status)
    );
    Ok(())
}

macro_rules! call {
    ($bench:expr, $name:ident ( $($argument:expr),* $(,)? )) => {{
        let call = $bench.library.table().$name.expect("invariant: required calls are checked");
        // SAFETY: what is wrong is null, or stated; the contract has a plugin see that.
        unsafe { call($($argument),*) }
    }};
}

fn null_handles(bench: &Bench) -> Judgement {
    let flat = bench.carrier()?.flat;
    let mut record = abi::polychip_error::sized();
    let error = &raw mut record;
    let mut count = 0;
    bad(
        "device_count",
        call!(bench, device_count(null_mut(), &raw mut count, error)),
    )?;
    let mut device = null_mut();
    bad(
        "device_open",
        call!(bench, device_open(null_mut(), 0, &raw mut device, error)),
    )?;
    let mut info = abi::polychip_device_info::sized();
    bad(
        "device_info",
        call!(bench, device_info(null_mut(), &raw mut info, error)),
    )?;
    let mut support = vec![abi::polychip_support::sized(); flat.node_count()];
    let stride = size_of::<abi::polychip_support>() as u64;
    bad(
        "query_support",
        call!(
            bench,
            query_support(null_mut(), flat.raw(), support.as_mut_ptr(), stride, error)
        ),
    )?;
    let options = abi::polychip_compile_options::sized();
    let mut blob = null_mut();
    bad(
        "compile",
        call!(
            bench,
            compile(null_mut(), flat.raw(), &raw const options, &raw mut blob, error)
        ),
    )?;
    let mut bytes = abi::polychip_bytes::default();
    bad(
        "blob_bytes",
        call!(bench, blob_bytes(null_mut(), &raw mut bytes, error)),
    )?;
    let source = abi::polychip_load_source::sized();
    let mut executable = null_mut();
    bad(
        "load",
        call!(
            bench,
            load(null_mut(), &raw const source, &raw mut executable, error)
        ),
    )?;
    let mut facts = abi::polychip_executable_info::sized();
    bad(
        "executable_info",
        call!(bench, executable_info(null_mut(), &raw mut facts, error)),
    )?;
    let mut port = abi::polychip_port::sized();
    bad(
        "port_info",
        call!(bench, port_info(null_mut(), 0, &raw mut port, error)),
    )?;
    let mut memory = abi::polychip_memory::sized();
    memory.bytes = 64;
    let mut buffer = null_mut();
    bad(
        "buffer_create",
        call!(
            bench,
            buffer_create(null_mut(), &raw const memory, &raw mut buffer, error)
        ),
    )?;
    bad(
        "buffer_import",
        call!(
            bench,
            buffer_import(null_mut(), &raw const memory, &raw mut buffer, error)
        ),
    )?;
    let mut data = null_mut();
    bad(
        "buffer_begin_access",
        call!(
            bench,
            buffer_begin_access(null_mut(), 1, 0, 0, &raw mut data, error)
        ),
    )?;
    bad(
        "buffer_end_access",
        call!(bench, buffer_end_access(null_mut(), error)),
    )?;
    let submit = abi::polychip_submit::sized();
    let mut fence = null_mut();
    bad(
        "execute",
        call!(
            bench,
            execute(null_mut(), &raw const submit, &raw mut fence, error)
        ),
    )?;
    bad("fence_wait", call!(bench, fence_wait(null_mut(), 0, error)))?;
    bench.works()
}

fn null_results(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let mut record = abi::polychip_error::sized();
    let error = &raw mut record;
    let device = bench.device.raw();
    let instance = bench.device.instance();
    bad("plugin_info", call!(bench, plugin_info(null_mut())))?;
    bad(
        "create",
        call!(bench, create(instance.services().table(), null_mut(), error)),
    )?;
    bad(
        "device_count",
        call!(bench, device_count(instance.raw(), null_mut(), error)),
    )?;
    bad(
        "device_open",
        call!(bench, device_open(instance.raw(), 0, null_mut(), error)),
    )?;
    bad(
        "device_info",
        call!(bench, device_info(device, null_mut(), error)),
    )?;
    let stride = size_of::<abi::polychip_support>() as u64;
    bad(
        "query_support",
        call!(
            bench,
            query_support(device, problem.flat.raw(), null_mut(), stride, error)
        ),
    )?;
    let mut options = abi::polychip_compile_options::sized();
    options.operating_point = abi::POLYCHIP_NO_INDEX;
    bad(
        "compile",
        call!(
            bench,
            compile(device, problem.flat.raw(), &raw const options, null_mut(), error)
        ),
    )?;
    let mut blob = bench.device.compile(&problem.flat, bench.reduced)?;
    bad(
        "blob_bytes",
        call!(bench, blob_bytes(blob.raw(), null_mut(), error)),
    )?;
    blob.bytes()?;
    bad(
        "executable_info",
        call!(bench, executable_info(executable.raw(), null_mut(), error)),
    )?;
    bad(
        "port_info",
        call!(bench, port_info(executable.raw(), 0, null_mut(), error)),
    )?;
    let mut memory = abi::polychip_memory::sized();
    memory.bytes = 64;
    memory.fd = abi::POLYCHIP_NO_FD;
    bad(
        "buffer_create",
        call!(bench, buffer_create(device, &raw const memory, null_mut(), error)),
    )?;
    let buffer = bench.device.create_buffer(64, 64)?;
    bad(
        "buffer_begin_access",
        call!(
            bench,
            buffer_begin_access(buffer.raw(), 1, 0, 64, null_mut(), error)
        ),
    )?;
    buffer.write(0, &[1; 64])?;
    bench.works()
}

fn null_arguments(bench: &Bench) -> Judgement {
    let problem = bench.carrier()?;
    let executable = problem.load(&bench.device, bench.reduced)?;
    let mut record = abi::polychip_error::sized();
    let error = &raw mut record;
    let device = bench.device.raw();
    let mut instance = null_mut();
    bad(
        "create without services",
        call!(bench, create(null(), &raw mut instance, error)),
    )?;
    let mut support = vec![abi::polychip_support::sized(); 8];
    let stride = size_of::<abi::polychip_support>() as u64;
    bad(
        "query_support without a graph",
        call!(
            bench,
            query_support(device, null(), support.as_mut_ptr(), stride, error)
        ),
    )?;
    let mut options = abi::polychip_compile_options::sized();
    options.operating_point = abi::POLYCHIP_NO_INDEX;
    let mut blob = null_mut();
    bad(
        "compile without a graph",
        call!(
            bench,
            compile(device, null(), &raw const options, &raw mut blob, error)
        ),
    )?;
    bad(
        "compile without options",
        call!(
            bench,
            compile(device, problem.flat.raw(), null(), &raw mut blob, error)
        ),
    )?;
    let mut loaded = null_mut();
    bad(
        "load without a source",
        call!(bench, load(device, null(), &raw mut loaded, error)),
    )?;
    let mut buffer = null_mut();
    bad(
        "buffer_create without a record",
        call!(bench, buffer_create(device, null(), &raw mut buffer, error)),
    )?;
    bad(
        "buffer_import without a record",
        call!(bench, buffer_import(device, null(), &raw mut buffer, error)),
    )?;
    let mut fence = null_mut();
    bad(
        "execute without a run",
        call!(bench, execute(executable.raw(), null(), &raw mut fence, error)),
    )?;
    let mut submit = abi::polychip_submit::sized();
    submit.deadline_ns = abi::POLYCHIP_NO_DEADLINE;
    submit.binding_count = executable.ports().len() as u64;
    submit.binding_stride = size_of::<abi::polychip_binding>() as u64;
    bad(
        "execute without bindings",
        call!(
            bench,
            execute(executable.raw(), &raw const submit, &raw mut fence, error)
        ),
    )?;
    let rows: Vec<abi::polychip_binding> = executable
        .ports()
        .iter()
        .enumerate()
        .map(|(port, described)| abi::polychip_binding {
            port: port as u32,
            bytes: described.bytes,
            ..Sized::sized()
        })
        .collect();
    submit.bindings = rows.as_ptr();
    bad(
        "execute with bindings of no buffer",
        call!(
            bench,
            execute(executable.raw(), &raw const submit, &raw mut fence, error)
        ),
    )?;
    problem.run(&executable, &bench.tolerances())
}

fn null_record(bench: &Bench) -> Judgement {
    let instance = bench.device.instance();
    let mut device = null_mut();
    refused(
        "device_open",
        call!(
            bench,
            device_open(instance.raw(), u32::MAX, &raw mut device, null_mut())
        ),
    )?;
    let mut blob = null_mut();
    refused(
        "compile",
        call!(
            bench,
            compile(bench.device.raw(), null(), null(), &raw mut blob, null_mut())
        ),
    )?;
    let mut executable = null_mut();
    refused(
        "load",
        call!(
            bench,
            load(bench.device.raw(), null(), &raw mut executable, null_mut())
        ),
    )?;
    bench.works()
}

fn record_filled(bench: &Bench) -> Judgement {
    let problem = bench.carrier()?;
    let mut failures = Vec::new();
    failures.extend(bench.device.instance().open(u32::MAX).err());
    failures.extend(bench.device.load_bytes(&problem.flat, Arc::from([1, 2, 3])).err());
    failures.extend(bench.device.create_buffer(u64::MAX, 64).err());
    let executable = problem.load(&bench.device, bench.reduced)?;
    failures.extend(executable.execute(&[], &[]).err());
    check!(failures.len() == 4, "{} of 4 wrong calls fail", failures.len());
    for failure in failures {
        check!(
            failure.record_status == failure.status,
            "{} returns {} and fills in {}",
            failure.call,
            status_name(failure.status),
            status_name(failure.record_status)
        );
        check!(
            !failure.words.is_empty(),
            "{} fails without a message",
            failure.call
        );
        check!(
            !failure.words.contains('\u{FFFD}') && !failure.words.contains('\0'),
            "{} fails with a message that is not text: {:?}",
            failure.call,
            failure.words
        );
    }
    Ok(())
}

fn newer_record(bench: &Bench) -> Judgement {
    #[repr(C)]
    struct Newer(abi::polychip_error, [u64; 4]);
    let mut record = Newer(abi::polychip_error::sized(), [7; 4]);
    record.0.struct_size = size_of::<Newer>() as u32;
    let mut device = null_mut();
    let instance = bench.device.instance();
    let error = (&raw mut record).cast();
    refused(
        "device_open",
        call!(
            bench,
            device_open(instance.raw(), u32::MAX, &raw mut device, error)
        ),
    )?;
    check!(record.1 == [7; 4], "it wrote unknown fields of the record");
    check!(
        record.0.struct_size as usize == size_of::<Newer>(),
        "it changed struct_size"
    );
    check!(!record.0.text().is_empty(), "a longer record is not filled in");
    // one that it need not know is not written at all
    let mut short = abi::polychip_error::sized();
    short.struct_size = 4;
    short.status = 77;
    refused(
        "device_open",
        call!(
            bench,
            device_open(instance.raw(), u32::MAX, &raw mut device, &raw mut short)
        ),
    )?;
    check!(
        short.status == 77 && short.message_len == 0,
        "it wrote past a record of 4 bytes"
    );
    Ok(())
}

/// Sizes that end inside a field, and none at all.
const TORN: [u32; 4] = [0, 1, 3, 6];

fn torn_sizes(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let mut record = abi::polychip_error::sized();
    let error = &raw mut record;
    let device = bench.device.raw();
    for size in TORN {
        let mut memory = abi::polychip_memory::sized();
        (memory.struct_size, memory.bytes, memory.fd) = (size, 64, abi::POLYCHIP_NO_FD);
        let mut buffer = null_mut();
        bad(
            &format!("buffer_create with a record of {size} bytes"),
            call!(
                bench,
                buffer_create(device, &raw const memory, &raw mut buffer, error)
            ),
        )?;
        let mut options = abi::polychip_compile_options::sized();
        (options.struct_size, options.operating_point) = (size, abi::POLYCHIP_NO_INDEX);
        let mut blob = null_mut();
        bad(
            &format!("compile with options of {size} bytes"),
            call!(
                bench,
                compile(
                    device,
                    problem.flat.raw(),
                    &raw const options,
                    &raw mut blob,
                    error
                )
            ),
        )?;
        let mut source = abi::polychip_load_source::sized();
        source.struct_size = size;
        let mut loaded = null_mut();
        bad(
            &format!("load with a source of {size} bytes"),
            call!(bench, load(device, &raw const source, &raw mut loaded, error)),
        )?;
        let mut submit = abi::polychip_submit::sized();
        submit.struct_size = size;
        let mut fence = null_mut();
        bad(
            &format!("execute with a run of {size} bytes"),
            call!(
                bench,
                execute(executable.raw(), &raw const submit, &raw mut fence, error)
            ),
        )?;
        let mut info = abi::polychip_device_info::sized();
        info.struct_size = size;
        bad(
            &format!("device_info with a record of {size} bytes"),
            call!(bench, device_info(device, &raw mut info, error)),
        )?;
        let mut port = abi::polychip_port::sized();
        port.struct_size = size;
        bad(
            &format!("port_info with a record of {size} bytes"),
            call!(bench, port_info(executable.raw(), 0, &raw mut port, error)),
        )?;
        let mut graph = RawGraph::of(&problem.flat);
        graph.graph.struct_size = size;
        match graph.compile(&bench.device) {
            Ok(()) => return fail(format!("compile takes a graph of {size} bytes")),
            Err(failure) => bad(&format!("compile with a graph of {size} bytes"), failure.status)?,
        }
    }
    bench.works()
}

fn newer_structs(bench: &Bench) -> Judgement {
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Newer<T: Copy>(T, [u64; 4]);
    let mut record = abi::polychip_error::sized();
    let error = &raw mut record;
    let device = bench.device.raw();
    let mut memory = Newer(abi::polychip_memory::sized(), [u64::MAX; 4]);
    memory.0.struct_size = size_of_val(&memory) as u32;
    (memory.0.bytes, memory.0.alignment, memory.0.fd) = (64, 64, abi::POLYCHIP_NO_FD);
    let mut buffer = null_mut();
    let status = call!(
        bench,
        buffer_create(device, (&raw const memory).cast(), &raw mut buffer, error)
    );
    check!(
        status == abi::POLYCHIP_STATUS_OK,
        "a longer record is refused by buffer_create: {}",
        status_name(status)
    );
    let destroy = bench
        .library
        .table()
        .buffer_destroy
        .expect("invariant: required calls are checked");
    // SAFETY: made just now, destroyed once.
    unsafe { destroy(buffer) };
    let mut info = Newer(abi::polychip_device_info::sized(), [7; 4]);
    info.0.struct_size = size_of_val(&info) as u32;
    let status = call!(bench, device_info(device, (&raw mut info).cast(), error));
    check!(
        status == abi::POLYCHIP_STATUS_OK,
        "a longer record is refused by device_info: {}",
        status_name(status)
    );
    check!(info.1 == [7; 4], "device_info wrote unknown fields");
    // rows of a newer host, stepped through by their stride
    let problem = bench.carrier()?;
    let row = Newer(abi::polychip_support::sized(), [7; 4]);
    let mut rows = vec![row; problem.flat.node_count()];
    let stride = size_of::<Newer<abi::polychip_support>>() as u64;
    for row in &mut rows {
        row.0.struct_size = stride as u32;
        row.0.reason = u32::MAX;
    }
    let status = call!(
        bench,
        query_support(
            device,
            problem.flat.raw(),
            rows.as_mut_ptr().cast(),
            stride,
            error
        )
    );
    check!(
        status == abi::POLYCHIP_STATUS_OK,
        "longer rows are refused by query_support: {}",
        status_name(status)
    );
    for row in &rows {
        check!(
            row.0.reason == 0,
            "with a larger stride, a row is missed: reason {}",
            row.0.reason
        );
        check!(row.1 == [7; 4], "query_support wrote between the rows");
    }
    Ok(())
}

fn strides(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let mut record = abi::polychip_error::sized();
    let error = &raw mut record;
    let device = bench.device.raw();
    for stride in [0, 1, 3] {
        let mut support = vec![abi::polychip_support::sized(); problem.flat.node_count()];
        if problem.flat.node_count() > 1 {
            bad(
                &format!("query_support with rows {stride} bytes apart"),
                call!(
                    bench,
                    query_support(device, problem.flat.raw(), support.as_mut_ptr(), stride, error)
                ),
            )?;
        }
        for (what, tear) in [
            (
                "nodes",
                (|graph, stride| graph.graph.node_stride = stride) as fn(&mut RawGraph, u64),
            ),
            ("tensors", |graph, stride| graph.graph.tensor_stride = stride),
        ] {
            let graph = RawGraph::of(&problem.flat).torn(|graph| tear(graph, stride));
            match graph.compile(&bench.device) {
                Ok(()) => return fail(format!("compile takes {what} {stride} bytes apart")),
                Err(failure) => bad(
                    &format!("compile with {what} {stride} bytes apart"),
                    failure.status,
                )?,
            }
        }
        let rows = vec![abi::polychip_binding::sized(); executable.ports().len()];
        let mut submit = abi::polychip_submit::sized();
        submit.bindings = rows.as_ptr();
        submit.binding_count = rows.len() as u64;
        submit.binding_stride = stride;
        let mut fence = null_mut();
        bad(
            &format!("execute with bindings {stride} bytes apart"),
            call!(
                bench,
                execute(executable.raw(), &raw const submit, &raw mut fence, error)
            ),
        )?;
    }
    bench.works()
}

fn endless(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let mut record = abi::polychip_error::sized();
    let error = &raw mut record;
    let buffers = problem.buffers(&executable)?;
    let rows: Vec<abi::polychip_binding> = buffers
        .iter()
        .zip(executable.ports())
        .enumerate()
        .map(|(port, (buffer, described))| abi::polychip_binding {
            port: port as u32,
            buffer: buffer.raw(),
            bytes: described.bytes,
            ..Sized::sized()
        })
        .collect();
    for count in [u64::MAX, u64::MAX / 8, 1 << 60] {
        let mut submit = abi::polychip_submit::sized();
        submit.deadline_ns = abi::POLYCHIP_NO_DEADLINE;
        submit.bindings = rows.as_ptr();
        submit.binding_count = count;
        submit.binding_stride = size_of::<abi::polychip_binding>() as u64;
        let mut fence = null_mut();
        bad(
            &format!("execute with {count} bindings"),
            call!(
                bench,
                execute(executable.raw(), &raw const submit, &raw mut fence, error)
            ),
        )?;
        // more than any memory holds
        for (what, tear) in [
            (
                "nodes",
                (|graph, count| graph.graph.node_count = count) as fn(&mut RawGraph, u64),
            ),
            ("tensors", |graph, count| graph.graph.tensor_count = count),
            ("inputs", |graph, count| graph.graph.input_count = count),
            ("outputs", |graph, count| graph.graph.output_count = count),
        ] {
            let graph = RawGraph::of(&problem.flat).torn(|graph| tear(graph, count));
            match graph.compile(&bench.device) {
                Ok(()) => return fail(format!("compile takes {count} {what}")),
                Err(failure) => bad(&format!("compile with {count} {what}"), failure.status)?,
            }
        }
    }
    bench.works()
}

fn unknown_codes(bench: &Bench) -> Judgement {
    let problem = bench.carrier()?;
    // codes of a later minor version: the plugin refuses the node, or the call with a message
    for (what, edit) in [
        (
            "data type 999",
            (|graph| graph.tensors[0].dtype = 999) as fn(&mut RawGraph),
        ),
        ("data type 8 (strings)", |graph| graph.tensors[0].dtype = 8),
        ("op 65535", |graph| graph.nodes[0].op = 65_535),
        ("op 4294967295", |graph| graph.nodes[0].op = u32::MAX),
    ] {
        let graph = RawGraph::of(&problem.flat).edited(edit);
        if let Ok(answers) = graph.support(&bench.device) {
            let refused = answers.iter().any(|answer| answer.reason != 0);
            check!(refused, "{what}: every node is supported");
        }
        check!(graph.compile(&bench.device).is_err(), "{what}: it compiles");
    }
    bench.works()
}

fn unknown_port(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let mut record = abi::polychip_error::sized();
    let error = &raw mut record;
    let count = executable.ports().len() as u32;
    for number in [count, u32::MAX] {
        let mut port = abi::polychip_port::sized();
        bad(
            &format!("port_info of port {number} of {count}"),
            call!(bench, port_info(executable.raw(), number, &raw mut port, error)),
        )?;
    }
    let buffers = problem.buffers(&executable)?;
    for number in [count, u32::MAX, 0] {
        // the last one binds port 0 twice, and its own not at all
        let mut rows: Vec<abi::polychip_binding> = buffers
            .iter()
            .zip(executable.ports())
            .enumerate()
            .map(|(port, (buffer, described))| abi::polychip_binding {
                port: port as u32,
                buffer: buffer.raw(),
                bytes: described.bytes,
                ..Sized::sized()
            })
            .collect();
        if let Some(last) = rows.last_mut() {
            last.port = number;
        }
        let mut submit = abi::polychip_submit::sized();
        submit.deadline_ns = abi::POLYCHIP_NO_DEADLINE;
        submit.bindings = rows.as_ptr();
        submit.binding_count = rows.len() as u64;
        submit.binding_stride = size_of::<abi::polychip_binding>() as u64;
        let mut fence = null_mut();
        bad(
            &format!("execute with a binding of port {number} instead of the last"),
            call!(
                bench,
                execute(executable.raw(), &raw const submit, &raw mut fence, error)
            ),
        )?;
    }
    problem.run(&executable, &bench.tolerances())
}

fn no_source(bench: &Bench) -> Judgement {
    let problem = bench.carrier()?;
    let mut record = abi::polychip_error::sized();
    let mut source = abi::polychip_load_source::sized();
    source.graph = problem.flat.raw();
    let mut executable = null_mut();
    let status = call!(
        bench,
        load(
            bench.device.raw(),
            &raw const source,
            &raw mut executable,
            &raw mut record
        )
    );
    refused("load of nothing", status)?;
    // bytes at no address
    source.bytes.len = 100;
    let status = call!(
        bench,
        load(
            bench.device.raw(),
            &raw const source,
            &raw mut executable,
            &raw mut record
        )
    );
    refused("load of 100 bytes at no address", status)?;
    bench.works()
}
