//! Each kind of node beside the CPU plugin, in each way that reals are stored.

use polychip_host::FlatGraph;

use super::cases::CASES;
use super::device::{compute, cpu, device, difference};
use super::net::{Kind, Net};

/// Differences allowed in steps, or in thousandths of floats: 16 bits show what 8 bits round away.
fn allowed(kind: Kind, steps: f64) -> f64 {
    match kind {
        Kind::U8 | Kind::I8 => steps,
        Kind::U16 | Kind::I16 if steps == 0.0 => 0.0,
        // parameters of floats are quantised to 8 bits beside 16-bit data
        Kind::U16 | Kind::I16 => 2.0 + (steps - 1.0) * 200.0,
        Kind::F16 => 4.0,
    }
}

fn every_case_on(kind: Kind, least: usize) {
    let (qnn, cpu) = (device("SM8550"), cpu());
    let mut run = 0;
    let mut wrong = Vec::new();
    for (name, steps, make) in CASES {
        let mut net = Net::new(kind);
        let outputs = make(&mut net);
        let graph = net.out(&outputs);
        let flat = FlatGraph::new(&graph, &[]).unwrap();
        let support = &qnn.query_support(&flat).unwrap()[0];
        if support.reason != polychip_abi::POLYCHIP_SUPPORT_YES {
            eprintln!("{kind:?} {name}: {}", support.detail);
            continue;
        }
        run += 1;
        let apart = difference(&graph, &compute(&qnn, &graph), &compute(&cpu, &graph));
        if apart > allowed(kind, *steps) {
            wrong.push(format!("{name}: {apart}"));
        }
    }
    assert!(wrong.is_empty(), "{kind:?}: {wrong:?}");
    assert!(run >= least, "{kind:?}: {run} of {} cases run", CASES.len());
}

#[test]
fn unsigned_bytes_compute_as_on_the_cpu() {
    every_case_on(Kind::U8, CASES.len());
}

#[test]
fn signed_bytes_compute_as_on_the_cpu() {
    every_case_on(Kind::I8, CASES.len());
}

#[test]
fn sixteen_bits_compute_as_on_the_cpu() {
    every_case_on(Kind::U16, CASES.len() - 4);
}

#[test]
fn signed_sixteen_bits_compute_as_on_the_cpu() {
    every_case_on(Kind::I16, CASES.len() - 4);
}

#[test]
fn half_floats_compute_as_on_the_cpu() {
    every_case_on(Kind::F16, CASES.len() - 4);
}
