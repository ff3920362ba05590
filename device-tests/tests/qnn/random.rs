//! Random networks whose nodes want different orders of axes, beside the CPU plugin.
//!
//! Invariant: a seed gives one network. An axis that is taken for another one is off by tens of steps, a sum of
//! roundings by a few.

use polychip_graph::{Graph, TensorId};
use polychip_ops::{Attr, Op};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use super::device::{compute, cpu, device, difference};
use super::net::{Kind, Net, none};

const SHAPE: [usize; 4] = [1, 4, 6, 6];

/// A network of `nodes` nodes over images of one shape, of which the last three are outputs.
fn network(seed: u64, nodes: usize) -> Graph {
    let mut net = Net::new(Kind::U8);
    net.numbers = ChaCha8Rng::seed_from_u64(seed);
    let mut images: Vec<TensorId> = vec![net.input(&SHAPE), net.input(&SHAPE)];
    for _ in 0..nodes {
        let pick = |net: &mut Net| ((net.number() + 1.0) * 4096.0) as usize;
        let x = images[pick(&mut net) % images.len()];
        let z = images[pick(&mut net) % images.len()];
        let image = match pick(&mut net) % 11 {
            0 | 1 => {
                let w = net.weights(&[4, 4, 1, 1], 0);
                net.then(Op::Conv, none(), &[x, w], &SHAPE)
            }
            2 => {
                let w = net.weights(&[4, 1, 3, 3], 0);
                let attributes = none()
                    .with_int(Attr::Group, 4)
                    .with_ints(Attr::Pads, &[1, 1, 1, 1]);
                net.then(Op::Conv, attributes, &[x, w], &SHAPE)
            }
            3 => net.then(Op::Max, none(), &[x, z], &SHAPE),
            4 => net.then(Op::Relu, none(), &[x], &SHAPE),
            5 => {
                let perm = none().with_ints(Attr::Perm, &[0, 1, 3, 2]);
                net.then(Op::Transpose, perm, &[x], &SHAPE)
            }
            6 => {
                // two channels of one, two of the other
                let [a, b] = [x, z].map(|of| {
                    let (starts, ends, axes) = (net.ints(&[1]), net.ints(&[3]), net.ints(&[1]));
                    net.then(Op::Slice, none(), &[of, starts, ends, axes], &[1, 2, 6, 6])
                });
                net.then(Op::Concat, none().with_int(Attr::Axis, 1), &[a, b], &SHAPE)
            }
            7 => {
                let axes = net.ints(&[2]);
                let least = net.then(Op::ReduceMin, none(), &[x, axes], &[1, 4, 1, 6]);
                net.then(Op::Min, none(), &[z, least], &SHAPE)
            }
            8 => {
                let shape = net.ints(&[1, 6, 6, 4]);
                let flat = net.then(Op::Reshape, none(), &[x, shape], &[1, 6, 6, 4]);
                let perm = none().with_ints(Attr::Perm, &[0, 3, 1, 2]);
                net.then(Op::Transpose, perm, &[flat], &SHAPE)
            }
            9 => {
                let attributes = none()
                    .with_ints(Attr::KernelShape, &[3, 3])
                    .with_ints(Attr::Pads, &[1, 1, 1, 1]);
                net.then(Op::MaxPool, attributes, &[x], &SHAPE)
            }
            _ => {
                // a column of the image, for each of its rows
                let (start, end, axis) = (net.ints(&[2]), net.ints(&[3]), net.ints(&[3]));
                let column = net.then(Op::Slice, none(), &[x, start, end, axis], &[1, 4, 6, 1]);
                let shape = net.ints(&[4, 6, 1]);
                let column = net.then(Op::Reshape, none(), &[column, shape], &[4, 6, 1]);
                net.then(Op::Max, none(), &[column, z], &SHAPE)
            }
        };
        images.push(image);
    }
    let last = images.split_off(images.len() - 3);
    net.out(&last)
}

#[test]
fn random_networks_compute_as_on_the_cpu() {
    let (qnn, cpu) = (device("SM8650"), cpu());
    for seed in 0..150 {
        let graph = network(seed, 3 + seed as usize % 14);
        let apart = difference(&graph, &compute(&qnn, &graph), &compute(&cpu, &graph));
        assert!(apart <= 4.0, "seed {seed}: {apart}");
    }
}
