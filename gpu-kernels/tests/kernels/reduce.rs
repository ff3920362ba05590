//! Reductions, softmax and norms over rows that lie side by side and rows that do not.

use std::sync::Arc;

use libtest_mimic::Trial;
use polychip_gpu_kernels::{
    Access, ArgReduce, GroupNorm, LayerNorm, LpNorm, Lrn, Reduce, Reduction, Scalar, Softmax,
};

use crate::device::Gpu;
use crate::judge::trial;

pub(crate) fn trials(gpu: &Result<Arc<Gpu>, String>) -> Vec<Trial> {
    let mut trials = Vec::new();
    let shapes: [(&[u64], &[usize]); 8] = [
        (&[3, 5, 7], &[2]),
        (&[3, 5, 7], &[1]),
        (&[3, 5, 7], &[0, 2]),
        (&[2, 3, 4, 6], &[1, 2]),
        (&[2, 300, 40], &[1]),
        (&[5, 1000], &[1]),
        (&[1], &[0]),
        (&[4, 9], &[0, 1]),
    ];
    for (shape, axes) in shapes {
        for reduction in [
            Reduction::Sum,
            Reduction::Mean,
            Reduction::Max,
            Reduction::Min,
            Reduction::Prod,
            Reduction::L1,
            Reduction::L2,
            Reduction::SumSquare,
            Reduction::LogSum,
            Reduction::LogSumExp,
        ] {
            for scalar in [Scalar::F32, Scalar::F16, Scalar::I32, Scalar::I64] {
                let float = matches!(scalar, Scalar::F32 | Scalar::F16);
                let only_floats = matches!(
                    reduction,
                    Reduction::L2 | Reduction::LogSum | Reduction::LogSumExp
                );
                // a product of many integers is beyond what a sample can state exactly
                let exact = reduction != Reduction::Prod || shape.iter().product::<u64>() < 20;
                // the other types share the tree: fewer shapes
                if matches!(scalar, Scalar::F16 | Scalar::I64) && shape.len() != 4 {
                    continue;
                }
                if float || (!only_floats && exact) {
                    let generator = Reduce {
                        scalar,
                        shape: shape.to_vec(),
                        axes: axes.to_vec(),
                        reduction,
                    };
                    let name = format!("reduce/{reduction:?}/{}/{shape:?}/{axes:?}", scalar.name());
                    trials.push(trial(gpu, name, generator));
                }
            }
        }
    }
    for (shape, axis) in [
        (&[3u64, 50][..], 1usize),
        (&[2, 9, 5], 1),
        (&[70, 3], 0),
        (&[1, 1000], 1),
    ] {
        for scalar in [Scalar::F32, Scalar::F16, Scalar::I32, Scalar::U8, Scalar::I8] {
            for (largest, last) in [(true, false), (true, true), (false, false), (false, true)] {
                if scalar != Scalar::F32 && largest == last {
                    continue;
                }
                let index = if largest { Scalar::I64 } else { Scalar::I32 };
                {
                    let generator = ArgReduce {
                        scalar,
                        shape: shape.to_vec(),
                        axis,
                        largest,
                        last,
                        index,
                    };
                    let name = format!(
                        "argreduce/{}/{}/{shape:?}/{largest}/{last}",
                        scalar.name(),
                        index.name()
                    );
                    trials.push(trial(gpu, name, generator));
                }
            }
        }
    }
    for scalar in [Scalar::F32, Scalar::F16] {
        let s = scalar.name();
        for [outer, count, inner] in [
            [3, 7, 1],
            [2, 384, 1],
            [1, 1, 1],
            [1, 1000, 1],
            [2, 5, 6],
            [1, 21, 50],
        ] {
            for log in [false, true] {
                let generator = Softmax {
                    scalar,
                    outer,
                    count,
                    inner,
                    log,
                };
                trials.push(trial(
                    gpu,
                    format!("softmax/{s}/{outer}x{count}x{inner}/{log}"),
                    generator,
                ));
            }
            for p in [1, 2] {
                let generator = LpNorm {
                    scalar,
                    outer,
                    count,
                    inner,
                    p,
                };
                trials.push(trial(
                    gpu,
                    format!("lpnorm/{s}/{outer}x{count}x{inner}/{p}"),
                    generator,
                ));
            }
        }
        for (rows, count) in [(3, 7), (4, 384), (1, 1), (2, 1024)] {
            for (rms, bias) in [(false, true), (false, false), (true, false)] {
                let generator = LayerNorm {
                    scalar,
                    rows,
                    count,
                    epsilon: 1e-5,
                    rms,
                    bias,
                    access: Access::Constant,
                };
                trials.push(trial(
                    gpu,
                    format!("layernorm/{s}/{rows}x{count}/{rms}/{bias}"),
                    generator,
                ));
            }
        }
        for (channels, groups, places) in [(6, 6, 20), (6, 2, 20), (6, 1, 7), (5, 5, 9), (32, 32, 49)] {
            for channels_last in [false, true] {
                let generator = GroupNorm {
                    scalar,
                    images: 2,
                    channels,
                    groups,
                    places,
                    channels_last,
                    epsilon: 1e-5,
                    access: Access::Read,
                };
                let name = format!("groupnorm/{s}/{channels}/{groups}/{places}/{channels_last}");
                trials.push(trial(gpu, name, generator));
            }
        }
        for (channels, size) in [(7, 3), (5, 4), (3, 9), (4, 1)] {
            for channels_last in [false, true] {
                let generator = Lrn {
                    scalar,
                    images: 2,
                    channels,
                    places: 11,
                    channels_last,
                    size,
                    alpha: 0.5,
                    beta: 0.75,
                    bias: 1.0,
                };
                trials.push(trial(
                    gpu,
                    format!("lrn/{s}/{channels}/{size}/{channels_last}"),
                    generator,
                ));
            }
        }
    }
    trials
}
