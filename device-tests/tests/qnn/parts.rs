//! Whole parts: networks, blobs, chips, refusals, resets.

use polychip_graph::{Encoding, EncodingAxis, Graph};
use polychip_host::{CompileOptions, ErrorKind, FlatGraph, Memory};
use polychip_ops::{DType, Op};

use super::device::{compute, cpu, device, difference, host, run};
use super::net::{Kind, Net, feeds, network, none};

#[test]
fn a_quantised_network_is_within_a_few_steps_of_the_cpu() {
    for (kind, steps) in [
        (Kind::U8, 3.0),
        (Kind::I8, 3.0),
        (Kind::U16, 6.0),
        (Kind::I16, 6.0),
    ] {
        let graph = network(kind);
        let apart = difference(&graph, &compute(&device("57"), &graph), &compute(&cpu(), &graph));
        assert!(apart <= steps, "{kind:?}: {apart}");
    }
}

#[test]
fn a_cached_blob_loads_and_one_changed_or_foreign_is_refused() {
    let (device, graph) = (device("SM8550"), network(Kind::U8));
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let mut blob = device.compile(&flat, &CompileOptions::default()).unwrap();
    let bytes = blob.bytes().unwrap().to_vec();
    let feeds = feeds(&graph);
    let fresh = device.load(blob, &flat, 1).unwrap();
    let cached = device.load_bytes(bytes.clone().into(), &flat, 1).unwrap();
    let expected = run(&device, &fresh, &feeds).unwrap();
    for _ in 0..3 {
        assert_eq!(run(&device, &cached, &feeds).unwrap(), expected);
    }
    for index in [0, 20, bytes.len() / 2, bytes.len() - 1] {
        let mut changed = bytes.clone();
        changed[index] ^= 1;
        let refused = device.load_bytes(changed.into(), &flat, 1).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::BadBlob, "byte {index}");
    }
    let cut = bytes[..bytes.len() - 64].to_vec();
    let refused = device.load_bytes(cut.into(), &flat, 1).map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::BadBlob);
    // the library itself would load it on any chip
    let other = super::device::device("SM8650");
    let refused = other.load_bytes(bytes.into(), &flat, 1).map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::BadBlob);
    let words = refused.to_string();
    assert!(words.contains("soc 43") && words.contains("soc 57"), "{words}");
}

/// The product of two tensors of signed 16 bits, which came with v73.
fn signed_product() -> Graph {
    let mut net = Net::new(Kind::U16);
    let encoding = || {
        Some(Encoding {
            axis: EncodingAxis::PerTensor,
            scales: [0.001].into(),
            zero_points: [].into(),
            real: DType::F32,
        })
    };
    let (a, b) = (
        net.named(DType::I16, &[2, 4, 4], encoding()),
        net.named(DType::I16, &[2, 4, 4], encoding()),
    );
    net.graph.inputs = vec![a, b];
    let y = net.named(DType::I16, &[2, 4, 4], encoding());
    net.node(Op::MatMul, none(), &[a, b], &[y]);
    net.out(&[y])
}

#[test]
fn devices_answer_for_their_own_chip() {
    let graph = signed_product();
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let (old, new) = (device("SM8350"), device("SM8550"));
    for _ in 0..2 {
        let reason = |device: &polychip_host::Device| device.query_support(&flat).unwrap()[0].reason;
        assert_eq!(reason(&old), polychip_abi::POLYCHIP_SUPPORT_VENDOR);
        assert_eq!(reason(&new), polychip_abi::POLYCHIP_SUPPORT_YES);
    }
    let refusal = &old.query_support(&flat).unwrap()[0].detail;
    assert!(
        refusal.contains("MatMul") && refusal.contains("3110"),
        "{refusal}"
    );
}

#[test]
fn device_self_description_is_true() {
    let device = device("57");
    let info = device.info();
    assert!(info.emulated);
    assert!(info.name.contains("Hexagon v75 (SM8650)"), "{}", info.name);
    assert!(info.name.contains("QNN HTP emulator"), "{}", info.name);
    assert_eq!((info.vendor.as_str(), info.soc.as_str()), ("Qualcomm", "SM8650"));
    assert!(info.driver.contains("core 2."), "{}", info.driver);
    let points = device.operating_points().unwrap();
    let names: Vec<&str> = points.iter().map(|point| point.name.as_str()).collect();
    assert!(
        names.contains(&"burst") && names.contains(&"power_saver"),
        "{names:?}"
    );
    for point in 0..points.len() as u32 {
        device.set_operating_point(point).unwrap();
    }
    assert!(device.set_operating_point(points.len() as u32).is_err());
}

#[test]
fn floats_are_refused_where_the_chip_or_the_model_does_not_allow_them() {
    let graph = |kind| {
        let mut net = Net::new(kind);
        let x = net.input(&[2, 8]);
        let y = net.then(Op::Sigmoid, none(), &[x], &[2, 8]);
        net.out(&[y])
    };
    let half = graph(Kind::F16);
    let mut single = half.clone();
    for id in [single.inputs[0], single.outputs[0]] {
        single.tensor_mut(id).ty.dtype = DType::F32;
    }
    let answer = |host: &polychip_host::Host, graph: &Graph| {
        let flat = FlatGraph::new(graph, &[]).unwrap();
        let device = &host.devices()[0];
        let support = device.query_support(&flat).unwrap().remove(0);
        let compiled = device.compile(&flat, &CompileOptions::default());
        assert_eq!(
            compiled.is_ok(),
            support.reason == polychip_abi::POLYCHIP_SUPPORT_YES,
            "{}",
            support.detail
        );
        (support.reason, support.detail)
    };
    let (old, new) = (host("SM8350", &[]), host("SM8550", &[]));
    let reduced = host("SM8550", &[("precision", "reduced")]);
    let (reason, words) = answer(&old, &half);
    assert_eq!(reason, polychip_abi::POLYCHIP_SUPPORT_ENCODING);
    assert!(words.contains("quantise the model"), "{words}");
    assert_eq!(answer(&new, &half).0, polychip_abi::POLYCHIP_SUPPORT_YES);
    assert_eq!(answer(&new, &single).0, polychip_abi::POLYCHIP_SUPPORT_DTYPE);
    assert_eq!(answer(&reduced, &single).0, polychip_abi::POLYCHIP_SUPPORT_YES);
}

#[test]
fn chips_that_the_library_does_not_know_are_refused_by_name() {
    let refusal = |soc| {
        let host = host(soc, &[]);
        assert!(host.devices().is_empty());
        host.refusals()[0].reason.to_string()
    };
    let words = refusal("14");
    assert!(words.contains("SoC 14") && words.contains("libQnnHtp"), "{words}");
    let words = refusal("SM1");
    assert!(words.contains("SM1") && words.contains("SM8550"), "{words}");
}

#[test]
fn a_part_runs_again_after_a_reset() {
    let (device, graph) = (device("SM8550"), network(Kind::U8));
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let blob = device.compile(&flat, &CompileOptions::default()).unwrap();
    let executable = device.load(blob, &flat, 1).unwrap();
    let expected = run(&device, &executable, &feeds(&graph)).unwrap();
    device.reset().unwrap();
    let again = device.compile(&flat, &CompileOptions::default()).unwrap();
    let again = device.load(again, &flat, 1).unwrap();
    assert_eq!(run(&device, &again, &feeds(&graph)).unwrap(), expected);
}

#[test]
fn a_buffer_that_is_too_small_never_reaches_the_library() {
    let (device, graph) = (device("SM8550"), network(Kind::U8));
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let blob = device.compile(&flat, &CompileOptions::default()).unwrap();
    let executable = device.load(blob, &flat, 1).unwrap();
    let bytes = executable.ports()[0].bytes;
    let small = std::sync::Arc::new(device.import_buffer(&Memory::new(bytes - 1).unwrap()).unwrap());
    let mut submission = polychip_host::Submission::new(&executable, 0);
    assert!(submission.bind(0, &small, 0).is_err());
}

#[test]
fn a_model_may_mix_widths_and_signs() {
    let kinds = [Kind::U8, Kind::I8, Kind::U16, Kind::I16];
    for left in kinds {
        for right in kinds {
            for result in kinds {
                let mut net = Net::new(left);
                let x = net.input(&[1, 4, 5, 5]);
                net.kind = right;
                let z = net.input(&[1, 4, 5, 5]);
                net.kind = result;
                let sum = net.then(Op::Add, none(), &[x, z], &[1, 4, 5, 5]);
                let w = net.weights(&[3, 4, 1, 1], 0);
                let b = net.floats(&[3], &[0.5, -0.25, 0.125]);
                let y = net.then(Op::Conv, none(), &[x, w, b], &[1, 3, 5, 5]);
                let graph = net.out(&[sum, y]);
                let apart = difference(&graph, &compute(&device("57"), &graph), &compute(&cpu(), &graph));
                assert!(apart <= 1.0, "{left:?} {right:?} {result:?}: {apart}");
            }
        }
    }
}
