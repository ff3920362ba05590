//! Attention in tiles that are full and that are not; quantisation.

use std::sync::Arc;

use libtest_mimic::Trial;
use polychip_gpu_kernels::{Access, Attention, Dequantise, Mask, Quantise, Scalar};

use crate::device::Gpu;
use crate::judge::trial;

pub(crate) fn trials(gpu: &Result<Arc<Gpu>, String>) -> Vec<Trial> {
    let mut trials = Vec::new();
    for scalar in [Scalar::F32, Scalar::F16] {
        for [batch, heads, kv_heads, queries, keys, depth, value_depth] in [
            [1, 2, 2, 33, 33, 16, 16],
            [2, 4, 2, 5, 70, 8, 12],
            [1, 3, 1, 1, 40, 64, 64],
            [1, 1, 1, 17, 3, 7, 5],
            [1, 12, 12, 20, 20, 64, 64],
        ] {
            // all ways on the first shape in f32, else the plain one and the fullest
            let all = scalar == Scalar::F32 && queries == 33;
            for causal in [None, Some(0), Some(keys as i64 - queries as i64)] {
                for (heads_inside, strides) in [
                    (false, None),
                    (true, Some([heads * queries * keys, queries * keys, keys])),
                    (true, None),
                    (false, Some([keys, 0, 0])),
                ] {
                    let (plain, fullest) = (
                        causal.is_none() && !heads_inside,
                        causal == Some(0) && heads_inside,
                    );
                    if !(all || plain && strides.is_none() || fullest && strides.is_some()) {
                        continue;
                    }
                    let generator = Attention {
                        scalar,
                        batch,
                        heads,
                        kv_heads,
                        queries,
                        keys,
                        depth,
                        value_depth,
                        scale: 0.35,
                        causal: causal.filter(|shift| *shift >= 0),
                        mask: strides.map(|strides| Mask {
                            strides,
                            access: Access::Read,
                        }),
                        heads_inside,
                    };
                    let name = format!(
                        "attention/{}/{batch}x{heads}x{kv_heads}x{queries}x{keys}x{depth}x{value_depth}/\
                         {causal:?}/{heads_inside}/{}",
                        scalar.name(),
                        strides.is_some()
                    );
                    trials.push(trial(gpu, name, generator));
                }
            }
        }
    }
    for small in [Scalar::U8, Scalar::I8, Scalar::U16, Scalar::I16, Scalar::I32] {
        for float in [Scalar::F32, Scalar::F16] {
            for (shape, axis) in [
                (&[2u64, 3, 8][..], None),
                (&[2, 3, 8], Some(1)),
                (&[5, 7], Some(1)),
            ] {
                for zero_point in [false, true] {
                    let name = format!(
                        "{}/{}/{shape:?}/{axis:?}/{zero_point}",
                        small.name(),
                        float.name()
                    );
                    if small != Scalar::I32 {
                        let generator = Quantise {
                            from: float,
                            to: small,
                            shape: shape.to_vec(),
                            axis,
                            zero_point,
                            access: Access::Constant,
                        };
                        trials.push(trial(gpu, format!("quantise/{name}"), generator));
                    }
                    let generator = Dequantise {
                        from: small,
                        to: float,
                        shape: shape.to_vec(),
                        axis,
                        zero_point,
                        access: Access::Constant,
                    };
                    trials.push(trial(gpu, format!("dequantise/{name}"), generator));
                }
            }
        }
    }
    trials
}
