//! What the vendor's library was seen to do, one by one.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::Mutex;

use polychip_sys::qnn as sys;

use crate::call;
use crate::client::{
    self, F16, F32, I32, IN, OUT, P, S8, S16, STATIC, Session, T, U8, U16, alone, device, device_for, relu,
    validate,
};

#[test]
fn versions_and_slots() {
    let _alone = alone();
    let qnn = client::qnn();
    assert_eq!(qnn.core_api().to_string(), "2.40.0");
    assert_eq!(qnn.library_api().to_string(), "5.51.0");
    assert_eq!(qnn.system_api().to_string(), "1.15.0");
    // 68 pointers, none of them null
    let table: *const sys::Table = client::table();
    assert_eq!(size_of::<sys::Table>(), 68 * size_of::<usize>());
    for slot in 0..68 {
        // SAFETY: the table is an array of pointers of this size.
        let pointer = unsafe { *table.cast::<*const c_void>().add(slot) };
        assert!(!pointer.is_null(), "slot {slot}");
    }
    let mut id = ptr::null();
    assert_eq!(call!(build_id, &raw mut id), 0);
    // SAFETY: a text of the library.
    let id = unsafe { CStr::from_ptr(id) }.to_str().unwrap();
    assert!(
        id.contains("emulator"),
        "figures of an emulator are labelled: {id}"
    );
    for code in [0, 1000, 1002, 3110, 6004, 14001, 77] {
        let mut text = ptr::null();
        assert_eq!(call!(error_message, code, &raw mut text), 0);
        assert!(!text.is_null());
    }
}

#[test]
fn a_graph_runs_and_frees_all() {
    let _alone = alone();
    let before = client::live();
    let session = Session::new(None);
    let (graph, x, y) = relu(&session, c"g");
    assert_eq!(graph.finalize(), 0);
    let mut out = [0; 4];
    assert_eq!(graph.run(&x, &[10, 128, 130, 200], &y, &mut out), 0);
    assert_eq!(out, [128, 128, 130, 200]);
    let more: Vec<u64> = client::live().iter().zip(before).map(|(a, b)| a - b).collect();
    assert_eq!(more, [1, 1, 1, 1, 2, 0]);
    drop(session);
    assert_eq!(client::live(), before);
    for _ in 0..100 {
        let session = Session::new(Some(43));
        let (graph, ..) = relu(&session, c"g");
        assert_eq!(graph.finalize(), 0);
    }
    assert_eq!(client::live(), before);
}

#[test]
fn socs_are_accepted_or_14001() {
    let _alone = alone();
    for (soc, accepted) in [
        (30, true),
        (57, true),
        (123, true),
        (14, false),
        (79, false),
        (0, false),
    ] {
        match device_for(soc) {
            Ok(device) => {
                assert!(accepted, "{soc}");
                call!(device_free, device);
            }
            Err(code) => assert_eq!((code, accepted), (14001, false), "{soc}"),
        }
    }
    // the union begins at byte 8: what stands at byte 4 is not read
    call!(device_free, device(Some([0, 14, 57, 0, 0, 0, 0, 0])).unwrap());
    assert_eq!(device(Some([0, 57, 14, 0, 0, 0, 0, 0])).err(), Some(14001));
    // an architecture that does not exist is silently the default
    call!(device_free, device(Some([1, 60, 60, 0, 0, 0, 0, 0])).unwrap());
    // the newer async option
    assert_eq!(device(Some([9, 1, 1, 0, 0, 0, 0, 0])).err(), Some(14001));
}

fn s16_matmul(backend: sys::Backend) -> u64 {
    let a = T::new("a", IN, S16, &[2, 2]).scale(0.1, 0);
    let b = T::new("b", IN, S16, &[2, 2]).scale(0.1, 0);
    let y = T::new("y", OUT, S16, &[2, 2]).scale(0.1, 0);
    validate(backend, "MatMul", &[], &[&a, &b], &[&y])
}

#[test]
fn validation_answers_for_the_device_created_last_even_when_it_is_freed() {
    let _alone = alone();
    let backend = client::backend();
    let old = device_for(30).unwrap();
    assert_eq!(s16_matmul(backend), 3110);
    let new = device_for(57).unwrap();
    assert_eq!(s16_matmul(backend), 0);
    call!(device_free, new);
    assert_eq!(s16_matmul(backend), 0, "the freed one still answers");
    let again = device_for(36).unwrap();
    assert_eq!(s16_matmul(backend), 3110);
    for device in [old, again] {
        call!(device_free, device);
    }
    call!(backend_free, backend);
    assert_ne!(s16_matmul(backend), 0, "no such backend");
}

#[test]
fn validation_judges_types_encodings_and_shapes() {
    let _alone = alone();
    let backend = client::backend();
    let device = device_for(57).unwrap();
    let x = T::new("x", IN, U8, &[2, 4]).scale(0.1, 128);
    let y = T::new("y", OUT, U8, &[2, 3]).scale(0.1, 128);
    let scales = [0.1, 0.2, 0.3];
    let connected = |w: &T| validate(backend, "FullyConnected", &[], &[&x, w], &[&y]);
    let w = |dtype| T::new("w", STATIC, dtype, &[3, 4]).data([1; 12]);
    assert_eq!(connected(&w(S8).per_axis(0, &scales)), 0);
    assert_eq!(connected(&w(S8).bits_per_axis(4, 0, &scales)), 0);
    assert_eq!(
        connected(&w(sys::POLYCHIP_QNN_TYPE_SFIXED4).per_axis(0, &scales)),
        3110
    );
    assert_eq!(connected(&w(S8).per_axis(0, &scales[..2])), 3110);
    assert_eq!(connected(&w(S8)), 3110, "no encoding");
    let unary = |op: &str, dtype: u32| {
        let (mut a, mut b) = (T::new("a", IN, dtype, &[4]), T::new("b", OUT, dtype, &[4]));
        if [U8, S8, U16, S16].contains(&dtype) {
            a = a.scale(0.1, 0);
            b = b.scale(0.1, 0);
        }
        validate(backend, op, &[], &[&a], &[&b])
    };
    for dtype in [U8, S8, U16, S16, F16, F32] {
        assert_eq!(unary("Relu", dtype), 0, "{dtype:#x}");
    }
    assert_eq!(unary("Relu", I32), 3110);
    assert_eq!(unary("NoSuchOp", U8), 3110);
    let wide = T::new("z", OUT, U8, &[2, 5]).scale(0.1, 128);
    assert_eq!(validate(backend, "Relu", &[], &[&x], &[&wide]), 3110);
    // values of tensor parameters are not needed
    let perm = P::Tensor(
        c"perm".into(),
        T::new("p", STATIC, sys::POLYCHIP_QNN_TYPE_U32, &[2]),
    );
    let turned = T::new("t", OUT, U8, &[4, 2]).scale(0.1, 128);
    assert_eq!(validate(backend, "Transpose", &[perm], &[&x], &[&turned]), 0);
    let (mut count, mut list) = (0, ptr::null());
    assert_eq!(
        call!(supported_operations, backend, &raw mut count, &raw mut list),
        0
    );
    assert!(count > 100);
    call!(device_free, device);
    call!(backend_free, backend);
}

#[test]
fn adding_checks_little_and_finalize_judges() {
    let _alone = alone();
    let session = Session::new(Some(57));
    for (name, op, dims) in [(c"op", "NoSuchOp", [1, 4]), (c"shape", "Relu", [1, 5])] {
        let graph = session.graph(name);
        let mut x = T::new("x", IN, U8, &[1, 4]).scale(0.5, 128);
        let mut y = T::new("y", OUT, U8, &dims).scale(0.5, 128);
        assert_eq!(graph.tensor(&mut x) + graph.tensor(&mut y), 0);
        assert_eq!(graph.node(op, &mut [], &[&x], &[&y]), 0, "{op}");
        assert_ne!(graph.finalize(), 0, "{op}");
        assert_ne!(graph.run(&x, &[0; 4], &y, &mut [0; 5]), 0, "{op}");
    }
    // a tensor that was never created
    let graph = session.graph(c"ghost");
    let ghost = T::new("ghost", IN, U8, &[1, 4]).scale(0.5, 128);
    let mut y = T::new("y", OUT, U8, &[1, 4]).scale(0.5, 128);
    assert_eq!(graph.tensor(&mut y), 0);
    assert_ne!(graph.node("Relu", &mut [], &[&ghost], &[&y]), 0);
}

#[test]
fn soc_30_refuses_three_ops_of_f32_only_at_the_end() {
    let _alone = alone();
    for (soc, code) in [(30, 1002), (57, 0)] {
        let session = Session::new(Some(soc));
        for op in ["Gelu", "Elu"] {
            let graph = session.graph(&std::ffi::CString::new(op).unwrap());
            let mut x = T::new("x", IN, F32, &[1, 4]);
            let mut y = T::new("y", OUT, F32, &[1, 4]);
            assert_eq!(validate(session.backend, op, &[], &[&x], &[&y]), 0);
            assert_eq!(graph.tensor(&mut x) + graph.tensor(&mut y), 0);
            assert_eq!(graph.node(op, &mut [], &[&x], &[&y]), 0);
            assert_eq!(graph.finalize(), code, "{op} on {soc}");
        }
    }
}

#[test]
fn graph_options_that_are_not_known_are_ignored_and_16_bits_are_had_by_asking() {
    let _alone = alone();
    // 1 + 2^-12 is 1 in 16 bits; SoC 30 computes in 32
    let precise = 1.0f32 + 2f32.powi(-12);
    for (option, value, wanted) in [(99, 7, precise), (2, 0, precise), (2, 1, 1.0)] {
        let session = Session::new(Some(30));
        let custom = sys::HtpGraphConfig {
            option,
            zero: 0,
            value: sys::polychip_qnn_htp_graph_value { unsigned32: value },
        };
        let known = sys::Config {
            option: sys::POLYCHIP_QNN_CONFIG_CUSTOM,
            value: sys::polychip_qnn_config_value {
                custom: (&raw const custom).cast(),
            },
        };
        let odd = sys::Config {
            option: 77,
            value: sys::polychip_qnn_config_value { unsigned64: 1 },
        };
        let list = [&raw const odd, &raw const known, ptr::null()];
        let mut handle = ptr::null_mut();
        let code = call!(
            graph_create,
            session.context,
            c"g".as_ptr(),
            list.as_ptr(),
            &raw mut handle
        );
        assert_eq!(code, 0);
        let graph = client::G { graph: handle };
        let (mut x, mut y) = (T::new("x", IN, F32, &[1]), T::new("y", OUT, F32, &[1]));
        assert_eq!(graph.tensor(&mut x) + graph.tensor(&mut y), 0);
        assert_eq!(graph.node("Relu", &mut [], &[&x], &[&y]), 0);
        assert_eq!(graph.finalize(), 0);
        let mut out = [0; 4];
        assert_eq!(graph.run(&x, &precise.to_le_bytes(), &y, &mut out), 0);
        assert_eq!(f32::from_le_bytes(out), wanted, "option {option}");
        // and the same from its binary
        let loaded = Session::from_binary(Some(30), &session.binary(), None)
            .ok()
            .unwrap();
        let graph = loaded.retrieve(c"g").unwrap();
        assert_eq!(graph.run(&x, &precise.to_le_bytes(), &y, &mut out), 0);
        assert_eq!(f32::from_le_bytes(out), wanted, "option {option}");
    }
}

#[test]
fn buffers_of_any_size_are_taken_and_only_ids_count() {
    let _alone = alone();
    let session = Session::new(Some(57));
    let (graph, x, mut y) = relu(&session, c"g");
    assert_ne!(graph.run(&x, &[0; 4], &y, &mut [0; 4]), 0, "not finalized yet");
    assert_eq!(graph.finalize(), 0);
    let mut out = [7; 6];
    assert_eq!(graph.run(&x, &[200; 3], &y, &mut out[..3]), 0);
    assert_eq!(out, [200, 200, 200, 7, 7, 7]);
    assert_eq!(graph.run(&x, &[200; 5], &y, &mut out[..5]), 0);
    assert_eq!(out, [200, 200, 200, 200, 7, 7]);
    // v1 on v2 and back, and no name
    y.version = 2;
    y.name = c"".into();
    assert_eq!(graph.run(&x, &[199; 4], &y, &mut out), 0);
    assert_eq!(out[0], 199);
    let id = std::mem::replace(&mut y.id, 0);
    assert_eq!(graph.run(&x, &[199; 4], &y, &mut out), 6004);
    y.id = id;
    // memory of any alignment
    let bytes = [0, 131, 132, 133, 134];
    assert_eq!(graph.run(&x, &bytes[1..], &y, &mut out[1..5]), 0);
    assert_eq!(out[1..5], bytes[1..]);
}

#[test]
fn missing_handle_returns_1000() {
    let _alone = alone();
    let session = Session::new(Some(57));
    let (graph, ..) = relu(&session, c"g");
    assert_eq!(graph.finalize(), 0);
    assert_eq!(call!(has_capability, 1), 0, "claims what it does not have");
    let none = ptr::null_mut;
    let code = call!(
        execute_async,
        graph.graph,
        ptr::null(),
        0,
        ptr::null_mut(),
        0,
        none(),
        ptr::null_mut(),
        None,
        none().cast::<c_void>()
    );
    assert_eq!(code, 1000);
    let mut signal = ptr::null_mut();
    assert_eq!(
        call!(signal_create, session.backend, ptr::null(), &raw mut signal),
        1000
    );
    let mut memory = ptr::null_mut();
    assert_eq!(
        call!(memory_register, session.context, ptr::null(), 0, &raw mut memory),
        1000
    );
    assert_eq!(call!(memory_deregister, ptr::null(), 0), 1000);
    let bytes = session.binary();
    let code = call!(
        validate_binary,
        session.backend,
        session.device,
        ptr::null(),
        bytes.as_ptr().cast(),
        bytes.len() as u64
    );
    assert_eq!(code, 1000);
}

#[test]
fn platform_and_power_are_the_same_whatever_was_selected() {
    let _alone = alone();
    let device = device_for(87).unwrap();
    let mut info = ptr::null();
    assert_eq!(call!(device_info, device, &raw mut info), 0);
    // SAFETY: the library's constant memory, of version 1 all the way.
    unsafe {
        let platform = (*info).info.v1;
        assert_eq!(((*info).version, platform.device_count), (1, 1));
        let hardware = (*platform.devices).device.v1;
        assert_eq!(hardware.core_count, 1);
        let extension = *hardware
            .extension
            .cast::<sys::polychip_qnn_htp_device_extension>();
        let on_chip = extension.on_chip;
        assert_eq!((on_chip.soc, on_chip.arch, on_chip.vtcm_mb), (30, 68, 4));
    }
    let mut same = ptr::null();
    assert_eq!(call!(platform_info, ptr::null_mut(), &raw mut same), 0);
    assert_eq!(same, info);
    assert_eq!(call!(platform_info_free, ptr::null_mut(), same), 0);
    let mut power = ptr::null();
    assert_eq!(call!(infrastructure, &raw mut power), 0);
    // SAFETY: the library's constant memory; its calls take these arguments.
    unsafe {
        let mut id = 0;
        assert_eq!((*power).create_power_config.unwrap()(0, 0, &raw mut id), 0);
        assert_eq!((*power).set_power_config.unwrap()(id, ptr::null()), 0);
        assert_eq!((*power).destroy_power_config.unwrap()(id), 0);
    }
    call!(device_free, device);
}

#[test]
fn freeing_backend_or_device_kills_a_living_context() {
    let _alone = alone();
    for first in ["device", "backend"] {
        let session = Session::new(Some(57));
        let (graph, x, y) = relu(&session, c"g");
        assert_eq!(graph.finalize(), 0);
        assert_eq!(graph.run(&x, &[0; 4], &y, &mut [0; 4]), 0);
        let other = Session::new(Some(57));
        match first {
            "device" => assert_eq!(call!(device_free, session.device), 0),
            _ => assert_eq!(call!(backend_free, session.backend), 0),
        }
        assert_ne!(graph.run(&x, &[0; 4], &y, &mut [0; 4]), 0, "{first}");
        assert!(session.retrieve(c"g").is_err());
        // another session in the process goes on
        let (graph, x, y) = relu(&other, c"g");
        assert_eq!(graph.finalize(), 0);
        assert_eq!(graph.run(&x, &[0; 4], &y, &mut [0; 4]), 0);
    }
}

#[test]
fn binaries_load_anywhere_unless_they_are_cut() {
    let _alone = alone();
    let session = Session::new(Some(57));
    for name in [c"first", c"second"] {
        let graph = session.graph(name);
        let mut x = T::new("x", IN, U8, &[1, 4]).scale(0.5, 128);
        let mut w = T::new("w", STATIC, U8, &[1, 4]).scale(0.5, 128).data([130; 4]);
        let mut y = T::new("y", OUT, U8, &[1, 4]).scale(0.5, 128);
        for tensor in [&mut x, &mut w, &mut y] {
            assert_eq!(graph.tensor(tensor), 0);
        }
        assert_eq!(graph.node("ElementWiseAdd", &mut [], &[&x, &w], &[&y]), 0);
        assert_eq!(graph.finalize(), 0);
    }
    let bytes = session.binary();
    assert_eq!(bytes, session.binary());
    drop(session);

    let described = describe(&bytes).unwrap();
    assert_eq!(described.soc, 57);
    assert_eq!(described.graphs.len(), 2);
    let (name, inputs, outputs) = &described.graphs[0];
    assert_eq!(name, "first");
    let port = |ports: &[(u32, String, u32, Vec<u32>)], name: &str| {
        let (id, seen, dtype, dims) = ports[0].clone();
        assert_eq!((seen.as_str(), dtype, dims), (name, U8, vec![1, 4]));
        id
    };
    let (x_id, y_id) = (port(inputs, "x"), port(outputs, "y"));

    let run = |session: &Session, name: &CStr| {
        let graph = session.retrieve(name).unwrap();
        let mut x = T::new("x", IN, U8, &[1, 4]);
        let mut y = T::new("y", OUT, U8, &[1, 4]);
        (x.id, y.id) = (x_id, y_id);
        let mut out = [0; 4];
        (graph.run(&x, &[10, 128, 130, 200], &y, &mut out), out)
    };
    // prepared for 57, run on 30
    let other = Session::from_binary(Some(30), &bytes, None).ok().unwrap();
    assert_eq!(run(&other, c"first"), (0, [12, 130, 132, 202]));
    assert_eq!(other.retrieve(c"third").err().map(|code| code != 0), Some(true));
    // a graph left out is found and does not run
    let some = Session::from_binary(Some(57), &bytes, Some(&[c"second"]))
        .ok()
        .unwrap();
    assert_eq!(run(&some, c"first").0, 1100);
    // one flipped bit of a weight
    let mut flipped = bytes.clone();
    *flipped.last_mut().unwrap() ^= 1;
    assert!(Session::from_binary(Some(57), &flipped, None).is_ok());
    for len in [bytes.len() - 1, bytes.len() / 2, 40] {
        assert_eq!(
            Session::from_binary(Some(57), &bytes[..len], None).err(),
            Some(30010)
        );
        assert_eq!(describe(&bytes[..len]).err(), Some(30010));
    }
    let zeros = vec![0; bytes.len()];
    assert_eq!(Session::from_binary(Some(57), &zeros, None).err(), Some(30001));
    assert_eq!(describe(&zeros).err(), Some(30001));
}

type Port = (u32, String, u32, Vec<u32>);

struct Described {
    soc: u32,
    graphs: Vec<(String, Vec<Port>, Vec<Port>)>,
}

/// What the System library says of a binary.
fn describe(bytes: &[u8]) -> Result<Described, u64> {
    let table = client::qnn().system_table();
    let mut system = ptr::null_mut();
    // SAFETY: the calls take these arguments; what they give is read before the object is freed.
    unsafe {
        assert_eq!(table.create.unwrap()(&raw mut system), 0);
        let mut info = ptr::null();
        let code =
            table.get_metadata.unwrap()(system, bytes.as_ptr().cast(), bytes.len() as u64, &raw mut info);
        if code != 0 {
            assert_eq!(table.free.unwrap()(system), 0);
            return Err(code);
        }
        let text = |text| CStr::from_ptr(text).to_str().unwrap().to_owned();
        let ports = |list: *mut sys::Tensor, count: u32| -> Vec<Port> {
            std::slice::from_raw_parts(list, count as usize)
                .iter()
                .map(|tensor| {
                    let v1 = tensor.tensor.v1;
                    let dims = std::slice::from_raw_parts(v1.dimensions, v1.rank as usize);
                    (v1.id, text(v1.name), v1.data_type, dims.to_vec())
                })
                .collect()
        };
        assert_eq!((*info).version, 3);
        let v3 = (*info).info.v3;
        let graphs = std::slice::from_raw_parts(v3.v2.v1.graphs, v3.v2.v1.graph_count as usize);
        let described = Described {
            soc: v3.soc,
            graphs: graphs
                .iter()
                .map(|graph| {
                    assert_eq!(graph.version, 3);
                    let v1 = graph.info.v3.v2.v1;
                    let (inputs, outputs) = (
                        ports(v1.inputs, v1.input_count),
                        ports(v1.outputs, v1.output_count),
                    );
                    (text(v1.name), inputs, outputs)
                })
                .collect(),
        };
        assert_eq!(table.free.unwrap()(system), 0);
        assert_ne!(table.free.unwrap()(system), 0);
        Ok(described)
    }
}

#[test]
fn estimates_come_from_some_socs_only() {
    let _alone = alone();
    let kinds = |soc| {
        let session = Session::new(Some(soc));
        let (graph, x, y) = relu(&session, c"g");
        let mut profile = ptr::null_mut();
        assert_eq!(call!(profile_create, session.backend, 1, &raw mut profile), 0);
        assert_eq!(call!(finalize, graph.graph, profile, ptr::null_mut()), 0);
        let seen = events(profile);
        let (mut input, mut output) = ([0u8; 4], [0u8; 4]);
        let inputs = [x.with(input.as_mut_ptr().cast(), 4)];
        let mut outputs = [y.with(output.as_mut_ptr().cast(), 4)];
        let code = call!(
            execute,
            graph.graph,
            inputs.as_ptr(),
            1,
            outputs.as_mut_ptr(),
            1,
            profile,
            ptr::null_mut()
        );
        assert_eq!(code, 0);
        assert_eq!(events(profile).len(), 1);
        assert_eq!(call!(profile_free, profile), 0);
        assert_ne!(call!(profile_free, profile), 0);
        seen
    };
    let (on_72, again) = (kinds(72), kinds(72));
    let estimates = |list: &[(u32, u64)]| -> Vec<(u32, u64)> {
        list.iter().copied().filter(|(kind, _)| *kind >= 2006).collect()
    };
    assert_eq!(estimates(&on_72).len(), 9);
    assert_eq!(estimates(&on_72), estimates(&again));
    assert!(estimates(&kinds(57)).iter().all(|(kind, _)| *kind > 2016));
}

fn events(profile: sys::Profile) -> Vec<(u32, u64)> {
    let (mut list, mut count) = (ptr::null(), 0);
    assert_eq!(call!(profile_events, profile, &raw mut list, &raw mut count), 0);
    // SAFETY: the library keeps the list as long as the profile.
    let ids = unsafe { std::slice::from_raw_parts(list, count as usize) };
    ids.iter()
        .map(|&id| {
            let mut data = sys::EventData {
                kind: 0,
                unit: 0,
                value: 0,
                identifier: ptr::null(),
            };
            assert_eq!(call!(profile_event_data, id, &raw mut data), 0);
            (data.kind, data.value)
        })
        .collect()
}

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

unsafe extern "C" {
    fn vsnprintf(
        buffer: *mut std::ffi::c_char,
        size: usize,
        format: *const std::ffi::c_char,
        list: *mut c_void,
    ) -> i32;
}

unsafe extern "C" fn log_line(format: *const std::ffi::c_char, _: u32, _: u64, list: *mut c_void) {
    let mut buffer = [0u8; 512];
    // SAFETY: the library gives a format and the list that belongs to it.
    unsafe { vsnprintf(buffer.as_mut_ptr().cast(), buffer.len(), format, list) };
    let line = CStr::from_bytes_until_nul(&buffer).unwrap().to_str().unwrap();
    LINES.lock().unwrap().push(line.to_owned());
}

#[test]
fn the_log_callback_gets_a_format_and_its_arguments() {
    let _alone = alone();
    let mut log = ptr::null_mut();
    assert_eq!(call!(log_create, Some(log_line), 3, &raw mut log), 0);
    let session = Session::new(Some(57));
    let x = T::new("odd %s name", IN, U8, &[1, 4]).scale(0.5, 128);
    let y = T::new("y", OUT, F32, &[1, 4]);
    assert_eq!(validate(session.backend, "Relu", &[], &[&x], &[&y]), 3110);
    let lines = std::mem::take(&mut *LINES.lock().unwrap());
    assert!(lines.iter().any(|line| line.contains("SoC 57")), "{lines:?}");
    assert!(
        lines
            .iter()
            .any(|line| line.contains("Relu") && line.contains("rejected")),
        "{lines:?}"
    );
    assert_eq!(call!(log_set_level, log, 1), 0);
    drop(Session::new(Some(57)));
    assert!(LINES.lock().unwrap().is_empty());
    assert_eq!(call!(log_free, log), 0);
}
