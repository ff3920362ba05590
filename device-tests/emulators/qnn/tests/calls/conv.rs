//! Convolutions of fixed-point numbers against the exact reference: integers, then one rounding.

use crate::client::{IN, NATIVE, OUT, P, S8, S32, STATIC, Session, T, U8, alone, noise};

struct Case {
    size: u32,
    channels: u32,
    filters: u32,
    weights: u32,
    version: u32,
    depthwise: bool,
}

const X_SCALE: f32 = 0.05;
const Y_SCALE: f32 = 0.8;

fn w_scale(filter: usize, per_axis: bool) -> f32 {
    if per_axis {
        0.002 + 0.0005 * (filter % 7) as f32
    } else {
        0.004
    }
}

fn run(case: &Case) {
    let &Case {
        size,
        channels,
        filters,
        ..
    } = case;
    let per_axis = case.weights == S8;
    let session = Session::new(Some(57));
    let graph = session.graph(c"conv");
    let (x_zero, w_zero, y_zero) = (120i64, if per_axis { 0 } else { 130 }, 100i64);
    let mut x = T::new("x", IN, U8, &[1, size, size, channels]).scale(X_SCALE, x_zero as i32);
    let w_dims = if case.depthwise {
        [3, 3, 1, channels]
    } else {
        [3, 3, channels, filters]
    };
    let weights = noise(7, w_dims.iter().product::<u32>() as usize);
    let scales: Vec<f32> = (0..filters as usize).map(|f| w_scale(f, per_axis)).collect();
    let w = T::new("w", STATIC, case.weights, &w_dims).data(weights.clone());
    let mut w = if per_axis {
        w.per_axis(3, &scales)
    } else {
        w.scale(scales[0], w_zero as i32)
    };
    let bias: Vec<i32> = (0..filters as i32).map(|f| f * 37 - 500).collect();
    let bias_bytes: Vec<u8> = bias.iter().flat_map(|b| b.to_le_bytes()).collect();
    let b_scales: Vec<f32> = scales.iter().map(|s| s * X_SCALE).collect();
    let b = T::new("b", STATIC, S32, &[filters]).data(bias_bytes);
    let mut b = if per_axis {
        b.per_axis(0, &b_scales)
    } else {
        b.scale(b_scales[0], 0)
    };
    let mut mid = T::new("mid", NATIVE, U8, &[1, size, size, filters]).scale(Y_SCALE, y_zero as i32);
    let mut y = T::new("y", OUT, U8, &[1, size, size, filters]).scale(Y_SCALE, y_zero as i32);
    for tensor in [&mut x, &mut w, &mut b, &mut mid, &mut y] {
        tensor.version = case.version;
        assert_eq!(graph.tensor(tensor), 0);
        assert_ne!(tensor.id, 0);
    }
    let mut params = vec![
        P::u32s("stride", &[2], &[1, 1]),
        P::u32s("pad_amount", &[2, 2], &[1; 4]),
        P::u32s("dilation", &[2], &[1, 1]),
    ];
    let op = if case.depthwise {
        "DepthWiseConv2d"
    } else {
        params.push(P::u32("group", 1));
        "Conv2d"
    };
    let code = graph.node(op, &mut params, &[&x, &w, &b], &[&mid]);
    assert_eq!(code, 0);
    assert_eq!(
        graph.node("ElementWiseNeuron", &mut [P::u32("operation", 4)], &[&mid], &[&y]),
        0
    );
    assert_eq!(graph.finalize(), 0);
    let input = noise(3, x.elements());
    let mut output = vec![0u8; y.elements()];
    assert_eq!(graph.run(&x, &input, &y, &mut output), 0);

    let n = size as i64;
    for oy in 0..n {
        for ox in 0..n {
            for f in 0..filters as usize {
                let mut sum = i64::from(bias[f]);
                for ky in 0..3 {
                    for kx in 0..3 {
                        let (iy, ix) = (oy + ky - 1, ox + kx - 1);
                        if !(0..n).contains(&iy) || !(0..n).contains(&ix) {
                            continue;
                        }
                        let each = if case.depthwise {
                            f..f + 1
                        } else {
                            0..channels as usize
                        };
                        for c in each {
                            let xq = i64::from(input[((iy * n + ix) as usize) * channels as usize + c]);
                            let row = if case.depthwise { 0 } else { c };
                            let rows = w_dims[2] as usize;
                            let at = ((ky * 3 + kx) as usize * rows + row) * filters as usize + f;
                            let wq = if per_axis {
                                i64::from(weights[at] as i8)
                            } else {
                                i64::from(weights[at])
                            };
                            sum += (xq - x_zero) * (wq - w_zero);
                        }
                    }
                }
                let factor = f64::from(X_SCALE) * f64::from(scales[f]) / f64::from(Y_SCALE);
                let q = ((sum as f64 * factor).round() as i64 + y_zero).clamp(0, 255);
                let wanted = q.max(y_zero);
                let seen = i64::from(output[((oy * n + ox) as usize) * filters as usize + f]);
                assert_eq!(seen, wanted, "at {oy} {ox} {f}");
            }
        }
    }
}

#[test]
fn convolutions_with_relu_are_exact() {
    let _alone = alone();
    for (size, channels, filters, weights, version) in [
        (4, 8, 8, U8, 1),
        (16, 16, 32, U8, 2),
        (16, 16, 32, S8, 1),
        (7, 5, 3, S8, 2),
    ] {
        run(&Case {
            size,
            channels,
            filters,
            weights,
            version,
            depthwise: false,
        });
    }
    run(&Case {
        size: 9,
        channels: 6,
        filters: 6,
        weights: S8,
        version: 1,
        depthwise: true,
    });
}
