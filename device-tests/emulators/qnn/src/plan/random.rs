//! Random nodes: whatever a client writes into a node, it is refused or run, and never panics.
//!
//! Invariant: the same nodes each time, from one seed.

use polychip_emulator_qnn_format::{Encoding, Param, Scalar};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use super::*;

struct Dice(ChaCha8Rng);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0.next_u32() as usize % sides
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.roll(list.len())]
    }
}

const PARAMS: [&str; 24] = [
    "axis",
    "axes",
    "keep_dims",
    "stride",
    "pad_amount",
    "dilation",
    "group",
    "filter_size",
    "operation",
    "perm",
    "ranges",
    "split_index",
    "multiples",
    "block_size",
    "mode",
    "k",
    "epsilon",
    "radius",
    "transpose_in0",
    "rounding_mode",
    "shrink_axes",
    "begin_mask",
    "scheme",
    "pad_constant_value",
];

const TYPES: [Dtype; 8] = [
    Dtype::Ufixed8,
    Dtype::Ufixed8,
    Dtype::Sfixed8,
    Dtype::Ufixed16,
    Dtype::Float32,
    Dtype::Float16,
    Dtype::Int32,
    Dtype::Bool8,
];

fn tensor(dice: &mut Dice, id: u32, kind: Kind, common: (Dtype, &[u32])) -> Spec {
    let (mut dtype, mut dims) = (common.0, common.1.to_vec());
    if dice.roll(4) == 0 {
        dtype = dice.pick(&Dtype::ALL);
    }
    if dice.roll(3) == 0 {
        dims = (0..dice.roll(6)).map(|_| dice.roll(5) as u32).collect();
    }
    let step = |dice: &mut Dice| Linear {
        scale: dice.pick(&[0.1, 1.0, 1e-30, 0.0, f32::NAN, -1.0, 1e30]),
        offset: dice.pick(&[0, -128, 128, i32::MIN, i32::MAX]),
    };
    let plain = Encoding::PerTensor(Linear {
        scale: 0.1,
        offset: -3,
    });
    let encoding = match dice.roll(12) {
        0 => Encoding::None,
        1 => Encoding::PerTensor(step(dice)),
        2 => Encoding::PerAxis {
            axis: dice.pick(&[0, 1, 3, -1, 99]),
            steps: (0..dice.roll(5)).map(|_| step(dice)).collect(),
        },
        3 => Encoding::BitsPerAxis {
            bits: dice.pick(&[0, 1, 4, 8, 99]),
            axis: 0,
            steps: (0..dice.roll(5)).map(|_| step(dice)).collect(),
        },
        4 => Encoding::Other(17),
        _ => plain,
    };
    let mut spec = Spec {
        id,
        name: format!("t{id}"),
        kind,
        format: 0,
        dtype: dtype.code(),
        encoding,
        dims,
        data: Vec::new().into(),
    };
    if kind == Kind::Static {
        let bytes = spec.byte_len().unwrap_or(0);
        spec.data = (0..bytes).map(|_| dice.roll(256) as u8).collect();
    }
    spec
}

#[test]
fn no_node_panics() {
    let mut dice = Dice(ChaCha8Rng::seed_from_u64(42));
    let (mut ran, mut refused) = (0, 0);
    for round in 0..20_000 {
        let op = support::NAMES[round % support::NAMES.len()].to_str().unwrap();
        let rank = dice.pick(&[0, 1, 2, 3, 4, 4]);
        let dims: Vec<u32> = (0..rank).map(|_| 1 + dice.roll(4) as u32).collect();
        let common = (dice.pick(&TYPES), &dims[..]);
        let mut graph = Graph::default();
        let mut values = Values::new();
        let inputs = 1 + dice.roll(3) as u32;
        for id in 1..=inputs {
            let constant = id > 1 && dice.roll(2) == 0;
            let kind = if constant { Kind::Static } else { Kind::AppWrite };
            let spec = tensor(&mut dice, id, kind, common);
            if !constant {
                let bytes = spec.byte_len().unwrap_or(0);
                values.insert(id, (0..bytes).map(|_| dice.roll(256) as u8).collect());
            }
            graph.tensors.push(spec);
        }
        let outputs = 1 + dice.roll(8) as u32 / 7;
        for id in 0..outputs {
            graph
                .tensors
                .push(tensor(&mut dice, 100 + id, Kind::AppRead, common));
        }
        let params = (0..dice.roll(4))
            .map(|_| {
                let name = dice.pick(&PARAMS).to_owned();
                let value = dice.pick(&[0, 1, 2, 3, -1, i32::MAX, i32::MIN]);
                let param = if dice.roll(2) == 0 {
                    Param::Scalar(Scalar {
                        dtype: dice.pick(&[Dtype::Uint32, Dtype::Int32, Dtype::Float32]).code(),
                        bits: u64::from(value as u32),
                    })
                } else {
                    let count = dice.pick(&[0, 1, 2, 2, 4, 4, 12]);
                    let numbers = (0..count).flat_map(|_| {
                        let number: i32 = dice.pick(&[0, 1, 1, 2, 3, -1, i32::MAX]);
                        number.to_le_bytes()
                    });
                    Param::Tensor(Spec {
                        data: numbers.collect(),
                        dims: vec![count],
                        dtype: Dtype::Int32.code(),
                        encoding: Encoding::None,
                        ..graph.tensors[0].clone()
                    })
                };
                (name, param)
            })
            .collect();
        graph.nodes.push(Node {
            name: "n".into(),
            package: "qti.aisw".into(),
            op: op.into(),
            params,
            inputs: (1..=inputs).collect(),
            outputs: (100..100 + outputs).collect(),
        });
        match Plan::new(&graph, crate::soc::DEFAULT) {
            Ok(plan) => {
                // an index outside its axis is an error of the run
                let _ = plan.run(&mut values);
                ran += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(ran > 500 && refused > 500, "{ran} ran, {refused} were refused");
}
