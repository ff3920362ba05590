//! Movement: every op over types of each size, odd shapes included.

use std::sync::Arc;

use libtest_mimic::Trial;
use polychip_gpu_kernels::{
    Concat, CumSum, Gather, GatherElements, GatherNd, OneHot, Pad, PadMode, Scalar, ScatterElements,
    ScatterNd, Slice, Tile, Transpose, Trilu,
};

use crate::device::Gpu;
use crate::judge::trial;

pub(crate) fn trials(gpu: &Result<Arc<Gpu>, String>) -> Vec<Trial> {
    let mut trials = Vec::new();
    for scalar in [Scalar::F32, Scalar::F16, Scalar::I64, Scalar::U8, Scalar::I16] {
        let s = scalar.name();
        for (shape, order) in [
            (&[5u64, 7][..], &[1usize, 0][..]),
            (&[1, 3, 35], &[0, 2, 1]),
            (&[2, 40, 33], &[0, 2, 1]),
            (&[2, 64, 32], &[0, 2, 1]),
            (&[3, 4, 5, 16], &[0, 2, 1, 3]),
            (&[2, 3, 4, 5, 6], &[4, 2, 0, 3, 1]),
            (&[9, 2, 10], &[2, 1, 0]),
            (&[2, 1, 2, 3, 2, 1, 2, 3], &[7, 0, 6, 1, 5, 2, 4, 3]),
            (&[6], &[0]),
        ] {
            let generator = Transpose {
                scalar,
                shape: shape.to_vec(),
                order: order.to_vec(),
            };
            trials.push(trial(
                gpu,
                format!("transpose/{s}/{shape:?}/{order:?}"),
                generator,
            ));
        }
        for crd in [false, true] {
            let generator = Transpose::depth_to_space(scalar, [1, 8, 3, 2], 2, crd).unwrap();
            trials.push(trial(gpu, format!("depthtospace/{s}/{crd}"), generator));
        }
        let generator = Transpose::space_to_depth(scalar, [1, 3, 4, 6], 2).unwrap();
        trials.push(trial(gpu, format!("spacetodepth/{s}"), generator));
        for (starts, steps, counts) in [
            ([0u64, 1, 0], [1i64, 1, 1], [3u64, 2, 8]),
            ([2, 3, 7], [-1, -2, -3], [3, 2, 3]),
            ([1, 0, 4], [1, 3, 1], [1, 2, 4]),
            ([0, 0, 1], [1, 1, 2], [3, 4, 3]),
        ] {
            let generator = Slice {
                scalar,
                shape: vec![3, 4, 8],
                starts: starts.to_vec(),
                steps: steps.to_vec(),
                counts: counts.to_vec(),
            };
            trials.push(trial(gpu, format!("slice/{s}/{starts:?}{steps:?}"), generator));
        }
        for (shapes, axis) in [
            (&[[2u64, 3, 4], [2, 5, 4]][..], 1),
            (&[[2, 3, 4], [2, 3, 1], [2, 3, 2]], 2),
            (&[[1, 1, 5], [3, 1, 5]], 0),
            (&[[2, 3, 4]], 0),
        ] {
            let generator = Concat {
                scalar,
                shapes: shapes.iter().map(|shape| shape.to_vec()).collect(),
                axis,
            };
            trials.push(trial(gpu, format!("concat/{s}/{shapes:?}/{axis}"), generator));
        }
        for mode in [PadMode::Constant, PadMode::Reflect, PadMode::Edge, PadMode::Wrap] {
            for (before, after) in [
                ([0i64, 2, 0], [0i64, 1, 0]),
                ([1, 0, 3], [1, 2, 2]),
                ([0, -1, 1], [1, 0, -2]),
                ([0, 0, 0], [0, 0, 0]),
            ] {
                let generator = Pad {
                    scalar,
                    shape: vec![2, 4, 8],
                    before: before.to_vec(),
                    after: after.to_vec(),
                    mode,
                    fill: 0x3c3c,
                };
                trials.push(trial(
                    gpu,
                    format!("pad/{s}/{mode:?}/{before:?}{after:?}"),
                    generator,
                ));
            }
        }
        for (shape, to) in [
            ([1u64, 3, 1], [4u64, 3, 5]),
            ([2, 3, 4], [4, 3, 12]),
            ([1, 1, 8], [3, 7, 8]),
            ([1, 1, 1], [1, 1, 1]),
        ] {
            let generator = Tile {
                scalar,
                shape: shape.to_vec(),
                to: to.to_vec(),
            };
            trials.push(trial(gpu, format!("tile/{s}/{shape:?}/{to:?}"), generator));
        }
        for index in [Scalar::I64, Scalar::I32] {
            let i = index.name();
            for (shape, axis, indices) in [(&[7u64, 16][..], 0, 5), (&[2, 5, 3], 1, 7), (&[2, 6], 1, 1)] {
                let generator = Gather {
                    scalar,
                    shape: shape.to_vec(),
                    axis,
                    indices,
                    index,
                };
                trials.push(trial(gpu, format!("gather/{s}/{i}/{shape:?}/{axis}"), generator));
            }
            for axis in 0..3 {
                let generator = GatherElements {
                    scalar,
                    shape: vec![3, 4, 5],
                    axis,
                    indices: vec![2, 3, 5],
                    index,
                };
                trials.push(trial(gpu, format!("gatherelements/{s}/{i}/{axis}"), generator));
            }
            for (shape, indices, batch) in [
                (&[3u64, 4, 8][..], &[5u64, 2][..], 0),
                (&[3, 4, 8], &[3, 2, 1], 1),
                (&[3, 4, 5], &[2, 3], 0),
            ] {
                let generator = GatherNd {
                    scalar,
                    shape: shape.to_vec(),
                    indices: indices.to_vec(),
                    batch,
                    index,
                };
                trials.push(trial(
                    gpu,
                    format!("gathernd/{s}/{i}/{shape:?}/{indices:?}"),
                    generator,
                ));
            }
            if scalar.bytes() >= 4 {
                for axis in 0..3 {
                    let generator = ScatterElements {
                        scalar,
                        shape: vec![3, 4, 5],
                        axis,
                        indices: vec![2, 3, 4],
                        index,
                    };
                    trials.push(trial(gpu, format!("scatterelements/{s}/{i}/{axis}"), generator));
                }
            }
            let mut scattered = vec![(vec![5u64, 4, 8], vec![3u64, 1])];
            if scalar.bytes() >= 4 {
                scattered.push((vec![3, 4, 5], vec![2, 3, 3]));
            }
            for (shape, indices) in scattered {
                let name = format!("scatternd/{s}/{i}/{shape:?}/{indices:?}");
                let generator = ScatterNd {
                    scalar,
                    shape,
                    indices,
                    index,
                };
                trials.push(trial(gpu, name, generator));
            }
            let generator = OneHot {
                scalar,
                index,
                outer: 3,
                depth: 5,
                inner: 2,
            };
            trials.push(trial(gpu, format!("onehot/{s}/{i}"), generator));
        }
        for (upper, diagonal) in [(true, 0), (false, 1), (true, -2), (false, -9)] {
            let generator = Trilu {
                scalar,
                shape: vec![2, 5, 7],
                upper,
                diagonal,
            };
            trials.push(trial(gpu, format!("trilu/{s}/{upper}/{diagonal}"), generator));
        }
    }
    for scalar in [Scalar::F32, Scalar::F16, Scalar::I32, Scalar::I64] {
        for (exclusive, reverse) in [(false, false), (true, false), (false, true), (true, true)] {
            let generator = CumSum {
                scalar,
                outer: 3,
                count: 17,
                inner: 2,
                exclusive,
                reverse,
            };
            trials.push(trial(
                gpu,
                format!("cumsum/{}/{exclusive}/{reverse}", scalar.name()),
                generator,
            ));
        }
    }
    trials
}
