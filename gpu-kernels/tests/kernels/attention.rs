//! Attention in tiles that are full and that are not, over a past too; rotary embedding; quantisation.

use std::sync::Arc;

use libtest_mimic::Trial;
use polychip_gpu_kernels::{
    Access, Attention, Dequantise, Mask, NewRows, Past, PastCopy, Quantise, Rotary, RotaryTables, Scalar,
    VisiblePast,
};

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
            // two queries a thread
            [2, 16, 4, 100, 100, 16, 12],
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
                            scalar,
                            strides,
                            access: Access::Read,
                        }),
                        heads_inside,
                        past: None,
                        new_rows: None,
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
    trials.extend(over_a_past(gpu));
    trials.extend(rotary(gpu));
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

/// What attention over a past does to the new rows: nothing, and for few queries all else.
fn new_rows(queries: u64, depth: u64, stored: Scalar) -> Vec<Option<NewRows>> {
    let mut ways = vec![None];
    if queries <= 4 && stored == Scalar::F16 {
        ways.push(Some(NewRows {
            rotary: None,
            rounded: true,
        }));
        for (interleaved, rotated, positions) in [
            (false, depth / 2 * 2, Scalar::I64),
            (true, depth / 2 * 2 - 2, Scalar::I32),
        ] {
            let tables = RotaryTables {
                rotated,
                interleaved,
                cached: 11,
                positions,
                access: Access::Constant,
            };
            ways.push(Some(NewRows {
                rotary: Some(tables),
                rounded: true,
            }));
        }
    }
    ways
}

fn ways(rows: Option<NewRows>) -> String {
    rows.map_or("plain".to_owned(), |rows| match rows.rotary {
        None => "rounded".to_owned(),
        Some(tables) => format!("rotated-{}-{}", tables.rotated, tables.interleaved),
    })
}

fn over_a_past(gpu: &Result<Arc<Gpu>, String>) -> Vec<Trial> {
    let mut trials = Vec::new();
    // few queries and many; a past that fills tiles, that does not, and of one position
    for [heads, kv_heads, queries, capacity, depth, value_depth] in [
        [9, 3, 1, 600, 64, 64],
        [4, 2, 3, 70, 16, 24],
        [2, 1, 4, 1, 7, 5],
        [9, 3, 33, 300, 64, 64],
        [4, 4, 8, 40, 16, 12],
        [2, 1, 5, 33, 7, 5],
        [16, 4, 100, 70, 16, 12],
    ] {
        for (scalar, stored) in [
            (Scalar::F32, Scalar::F16),
            (Scalar::F32, Scalar::F32),
            (Scalar::F16, Scalar::F16),
        ] {
            for (heads_inside, truths) in [(true, true), (false, false)] {
                let past = Past {
                    scalar: stored,
                    capacity,
                    partials: queries,
                };
                for new_rows in new_rows(queries, depth, stored) {
                    let generator = Attention {
                        scalar,
                        batch: 2,
                        heads,
                        kv_heads,
                        queries,
                        keys: queries,
                        depth,
                        value_depth,
                        scale: 0.35,
                        causal: None,
                        mask: truths.then_some(Mask {
                            scalar: Scalar::Bool,
                            strides: [0, 0, capacity + queries],
                            access: Access::Read,
                        }),
                        heads_inside,
                        past: Some(past),
                        new_rows,
                    };
                    let name = format!(
                        "attention-past/{}/{}/{heads}x{kv_heads}x{queries}x{capacity}x{depth}x{value_depth}/{truths}/{}",
                        scalar.name(),
                        stored.name(),
                        ways(new_rows),
                    );
                    trials.push(trial(gpu, name, generator));
                }
            }
        }
        let past = Past {
            scalar: Scalar::F16,
            capacity,
            partials: queries,
        };
        let copy = PastCopy {
            past,
            heads: kv_heads,
            depth,
            value_depth,
        };
        trials.push(trial(
            gpu,
            format!("past-copy/{capacity}x{depth}x{value_depth}"),
            copy,
        ));
        let visible = VisiblePast {
            rows: queries,
            capacity,
            width: capacity + queries,
            access: Access::Read,
        };
        trials.push(trial(gpu, format!("visible-past/{queries}x{capacity}"), visible));
    }
    trials
}

fn rotary(gpu: &Result<Arc<Gpu>, String>) -> Vec<Trial> {
    let mut trials = Vec::new();
    for (size, rotated) in [(64, 64), (12, 8), (7, 6)] {
        for interleaved in [false, true] {
            for positions in [None, Some(Scalar::I64), Some(Scalar::I32)] {
                for (scalar, heads_inside) in
                    [(Scalar::F32, true), (Scalar::F16, false), (Scalar::F32, false)]
                {
                    let (batch, rows) = (2, 5);
                    let generator = Rotary {
                        scalar,
                        output: if interleaved { Scalar::F16 } else { scalar },
                        batch,
                        heads: 3,
                        rows,
                        size,
                        rotated,
                        interleaved,
                        heads_inside,
                        cached: positions.map_or(batch * rows, |_| 17),
                        positions,
                        access: Access::Constant,
                    };
                    let name = format!(
                        "rotary/{}/{size}/{rotated}/{interleaved}/{heads_inside}/{}",
                        scalar.name(),
                        positions.map_or("none", Scalar::name)
                    );
                    trials.push(trial(gpu, name, generator));
                }
            }
        }
    }
    trials
}
