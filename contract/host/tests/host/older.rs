//! A plugin that was built for version 1.0 of the contract: what it cannot say is not known, and all else is as before.

#![allow(unsafe_code, reason = "the calls of a plugin that knows a shorter record")]

use std::mem::offset_of;
use std::sync::OnceLock;

use polychip_abi as abi;
use polychip_graph::{Constant, Encoding, Graph, Node};
use polychip_host::{Clock, Device, FlatGraph, Host, Preemption};
use polychip_ops::{Attr, Attributes, BlockLayout, DType, Op};

use crate::bench::{Bench, add_relu, device, floats, tensor, to_floats};

/// What a plugin of 1.0 knows of a device's description, in bytes.
const OLDER: usize = offset_of!(abi::polychip_device_info, preemption);

/// Fills in what 1.0 knows, and leaves the rest as the host made it.
unsafe extern "C" fn device_info(
    device: *mut abi::polychip_device,
    out_info: *mut abi::polychip_device_info,
    error: *mut abi::polychip_error,
) -> u32 {
    let call = polychip_null::table().device_info.unwrap();
    let mut known = abi::polychip_device_info {
        struct_size: OLDER as u32,
        ..Default::default()
    };
    // SAFETY: the arguments are the host's, the record is ours and holds its own size.
    let status = unsafe { call(device, &raw mut known, error) };
    let skip = size_of::<u32>();
    // SAFETY: both records are longer than what is copied.
    unsafe {
        let (from, to) = ((&raw const known).cast::<u8>(), out_info.cast::<u8>());
        std::ptr::copy_nonoverlapping(from.add(skip), to.add(skip), OLDER - skip);
    }
    status
}

unsafe extern "C" fn query(_: u32, _: u32) -> *const abi::polychip_plugin_table {
    static TABLE: OnceLock<abi::polychip_plugin_table> = OnceLock::new();
    TABLE.get_or_init(|| abi::polychip_plugin_table {
        abi_minor: 0,
        device_info: Some(device_info),
        ..*polychip_null::table()
    })
}

/// A plugin that was built for version 1.2 of the contract.
unsafe extern "C" fn query_1_2(_: u32, _: u32) -> *const abi::polychip_plugin_table {
    static TABLE: OnceLock<abi::polychip_plugin_table> = OnceLock::new();
    TABLE.get_or_init(|| abi::polychip_plugin_table {
        abi_minor: 2,
        ..*polychip_null::table()
    })
}

const SCRIPT: &str = "name = \"npu\"\npreemption = \"commands\"\npreemption_bound_ns = 700\n\
     queue_depth = 3\nswitch_ns = 40\nmemory_bytes = 4096";

#[test]
fn plugin_of_1_0_works_and_fields_of_1_1_are_unknown() {
    let host = Host::builder()
        .linked(query)
        .clock(Clock::virtual_time())
        .configure("null", "script", format!("[[device]]\n{SCRIPT}"))
        .build();
    assert_eq!(host.refusals(), []);
    let old: &Device = &host.devices()[0];
    let info = old.info();
    assert_eq!((info.name.as_str(), info.memory_bytes), ("npu", Some(4096)));
    assert_eq!(info.preemption, Preemption::Unknown);
    assert_eq!(
        (info.preemption_bound_ns, info.queue_depth, info.switch_ns),
        (None, None, None)
    );
    let mut bench = Bench::new(old, &add_relu()).unwrap();
    let inputs = [floats(&[1.0, -2.0, 3.0, -4.0]), floats(&[0.5, 0.5, 0.5, 5.0])];
    bench.run(&inputs).unwrap();
    assert_eq!(to_floats(&bench.read(2)), [1.5, 0.0, 3.5, 1.0]);
}

#[test]
fn plugin_of_1_1_reports_how_parts_share_its_device() {
    let new = device(SCRIPT);
    let info = new.info();
    assert_eq!(info.preemption, Preemption::Commands);
    assert_eq!(
        (
            info.preemption_bound_ns,
            info.queue_depth.map(u32::from),
            info.switch_ns
        ),
        (Some(700), Some(3), Some(40))
    );
    let plain = device("name = \"npu\"\nqueue_depth = 0");
    let info = plain.info();
    assert_eq!(
        (info.preemption, info.preemption_bound_ns),
        (Preemption::None, None)
    );
    assert_eq!((info.queue_depth, info.switch_ns), (None, None));
}

/// What is less urgent gives way after the bound, and ends as much later.
#[test]
fn scripted_run_yields_to_a_more_urgent_one() {
    let device = device(
        "preemption = \"any_time\"\npreemption_bound_ns = 700\nswitch_ns = 40\n\
         cost = { fixed_ns = 5000, ps_per_byte = 0.0 }",
    );
    let inputs = [floats(&[1.0, -2.0, 3.0, -4.0]), floats(&[0.5, 0.5, 0.5, 5.0])];
    let [mut batch, mut urgent] = [(); 2].map(|()| Bench::new(&device, &add_relu()).unwrap());
    for bench in [&batch, &urgent] {
        inputs
            .iter()
            .enumerate()
            .for_each(|(port, bytes)| bench.write(port, bytes));
    }
    batch.submission.priority = polychip_host::Priority::Batch;
    urgent.submission.priority = polychip_host::Priority::Urgent;
    let first = batch.start().unwrap();
    let second = urgent.start().unwrap();
    for fence in [&first, &second] {
        fence.wait(std::time::Duration::MAX).unwrap();
    }
    assert_eq!(second.timing().unwrap().span_ns, Some((700, 700 + 10_040)));
    assert_eq!(first.timing().unwrap().span_ns, Some((0, 10_000 + 10_040)));
    // one that is as urgent waits
    let first = urgent.start().unwrap();
    batch.submission.priority = polychip_host::Priority::Urgent;
    let second = batch.start().unwrap();
    second.wait(std::time::Duration::MAX).unwrap();
    assert_eq!(
        first.timing().unwrap().span_ns.unwrap().1,
        second.timing().unwrap().span_ns.unwrap().0
    );
}

/// One row of 32 ones times one column in a block; of Q4_0 it has a scale of a half, and 9 - 8 everywhere.
fn product_with_a_block(layout: BlockLayout) -> Graph {
    let mut graph = Graph::new("product");
    let x = tensor(&mut graph, "x", DType::F32, &[1, 32]);
    let w = tensor(&mut graph, "w", DType::U8, &[1, 32]);
    let y = tensor(&mut graph, "y", DType::F32, &[1, 1]);
    let mut block = vec![0x99; layout.bytes()];
    block[..2].copy_from_slice(&[0x00, 0x38]);
    let weights = graph.tensor_mut(w);
    weights.data = Some(Constant::new(block));
    weights.encoding = Some(Encoding::blocks(layout));
    let inputs = vec![Some(x), Some(w)];
    let columns = Attributes::new().with_int(Attr::TransB, 1);
    graph.add_node(Node::new(Op::Gemm, inputs, vec![Some(y)]).with(columns));
    graph.inputs.push(x);
    graph.outputs.push(y);
    graph
}

#[test]
fn weights_in_blocks_require_a_plugin_of_1_2() {
    let graph = product_with_a_block(BlockLayout::Q4_0);
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let host = Host::builder()
        .linked(query)
        .clock(Clock::virtual_time())
        .configure("null", "script", format!("[[device]]\n{SCRIPT}"))
        .build();
    let support = host.devices()[0].query_support(&flat).unwrap();
    assert_eq!(support[0].reason, abi::POLYCHIP_SUPPORT_ENCODING);
    assert!(
        support[0].detail.contains("built for 1.0"),
        "{}",
        support[0].detail
    );
    assert_eq!(host.devices()[0].estimate(&flat, &[0]).unwrap(), None);

    let new = device("name = \"npu\"");
    assert_eq!(
        new.query_support(&flat).unwrap()[0].reason,
        abi::POLYCHIP_SUPPORT_YES
    );
    let mut bench = Bench::new(&new, &graph).unwrap();
    bench.run(&[floats(&[1.0; 32])]).unwrap();
    assert_eq!(to_floats(&bench.read(1)), [16.0]);
}

#[test]
fn layouts_of_1_3_require_a_plugin_of_1_3() {
    let graphs = [BlockLayout::Q4_0, BlockLayout::Q5_0].map(product_with_a_block);
    let host = Host::builder()
        .linked(query_1_2)
        .clock(Clock::virtual_time())
        .configure("null", "script", format!("[[device]]\n{SCRIPT}"))
        .build();
    let [known, unknown] = graphs.each_ref().map(|graph| {
        let flat = FlatGraph::new(graph, &[]).unwrap();
        host.devices()[0].query_support(&flat).unwrap().remove(0)
    });
    assert_eq!(known.reason, abi::POLYCHIP_SUPPORT_YES);
    assert_eq!(unknown.reason, abi::POLYCHIP_SUPPORT_ENCODING);
    assert!(
        unknown
            .detail
            .contains("contract 1.3; the plugin was built for 1.2"),
        "{}",
        unknown.detail
    );
    let flat = FlatGraph::new(&graphs[1], &[]).unwrap();
    let support = device("name = \"npu\"").query_support(&flat).unwrap();
    assert_eq!(support[0].reason, abi::POLYCHIP_SUPPORT_YES);
}
