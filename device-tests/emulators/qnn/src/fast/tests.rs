//! Fast products against the oracle's, for each pair of types; and four bits by hand.

use polychip_emulator_qnn_format::Encoding;
use polychip_ops::DType;

use super::*;
use crate::operand::{Operand, PHONE, close, float, list, run, u32_scalar, wave};
use crate::support;

#[test]
fn fast_products_equal_the_oracles() {
    let bits = [
        (Dtype::Ufixed8, 0.02, 110, Dtype::Sfixed8),
        (Dtype::Sfixed8, 0.02, -5, Dtype::Ufixed8),
        (Dtype::Ufixed16, 0.0001, 30_000, Dtype::Sfixed8),
        (Dtype::Sfixed16, 0.0001, 0, Dtype::Sfixed8),
    ];
    for (x_type, x_scale, x_zero, w_type) in bits {
        let x = float(&[1, 4, 4, 4], &wave(64)).fixed(x_type, x_scale, x_zero);
        let y_scale = x_scale * 4.0;
        let params = |depthwise: bool, group: u32| {
            let mut params = vec![
                list("stride", &[2], &[1, 1]),
                list("pad_amount", &[2, 2], &[1, 1, 0, 0]),
                list("dilation", &[2], &[1, 1]),
            ];
            if !depthwise {
                params.push(u32_scalar("group", group));
            }
            params
        };
        for (op, w_dims, y_dims, group) in [
            ("Conv2d", [3, 1, 4, 6], [1, 4, 4, 6], 1),
            ("Conv2d", [3, 1, 2, 6], [1, 4, 4, 6], 2),
            ("DepthWiseConv2d", [3, 1, 1, 4], [1, 4, 4, 4], 4),
            ("DepthWiseConv2d", [3, 1, 1, 8], [1, 4, 4, 8], 4),
        ] {
            let count = w_dims.iter().product::<u32>() as usize;
            let w = float(&w_dims, &wave(count)).fixed(w_type, 0.01, 0).constant();
            let b = float(&[w_dims[3]], &wave(w_dims[3] as usize))
                .fixed(Dtype::Sfixed32, x_scale * 0.01, 0)
                .constant();
            let y = float(&y_dims, &[]).fixed(x_type, y_scale, x_zero);
            let params = params(op != "Conv2d", group);
            let seen = run(op, &params, &[x.clone(), w.clone(), b.clone()], &y);
            // the same numbers as reals, through the recipe
            let real = |operand: &Operand| {
                let spec = operand.spec(1, Kind::AppRead);
                let bytes = operand.bytes(&spec);
                let values = real::load(&spec, &bytes, DType::F64, false)
                    .unwrap()
                    .to_f64s()
                    .unwrap();
                Operand {
                    values,
                    dtype: Dtype::Float32,
                    step: None,
                    ..operand.clone()
                }
            };
            let wanted = run(op, &params, &[real(&x), real(&w), real(&b)], &float(&y_dims, &[]));
            let (low, high) = y.dtype.range();
            let limits = [low, high].map(|q| (q - i64::from(x_zero)) as f64 * f64::from(y_scale));
            let wanted: Vec<f64> = wanted.iter().map(|v| v.clamp(limits[0], limits[1])).collect();
            close(op, &seen, &wanted, f64::from(y_scale) * 0.51);
        }
    }
    // four bits in eight, one scale per unit
    let x = float(&[2, 4], &wave(8)).fixed(Dtype::Ufixed8, 0.01, 128);
    let mut graph_w = float(
        &[3, 4],
        &[-8.0, 7.0, 3.0, -1.0, 0.0, 5.0, -6.0, 2.0, 1.0, 1.0, 1.0, 1.0],
    )
    .fixed(Dtype::Sfixed8, 1.0, 0)
    .constant()
    .spec(2, Kind::Static);
    graph_w.encoding = Encoding::BitsPerAxis {
        bits: 4,
        axis: 0,
        steps: [0.1, 0.2, 0.3].map(|scale| Linear { scale, offset: 0 }).to_vec(),
    };
    let y = float(&[2, 3], &[]).fixed(Dtype::Ufixed8, 0.05, 100);
    let (x_spec, y_spec) = (x.spec(1, Kind::AppWrite), y.spec(3, Kind::AppRead));
    let numbers = real::numbers(&x_spec, &x.bytes(&x_spec)).unwrap();
    let inputs = [Some(&x_spec), Some(&graph_w)];
    let outputs = [Some(&y_spec)];
    let view = View {
        op: "FullyConnected",
        params: &[],
        inputs: &inputs,
        outputs: &outputs,
    };
    support::validate(&view, "qti.aisw", PHONE).unwrap();
    let out = Product::new(&view).unwrap().run(&x.bytes(&x_spec));
    let w = [[-8, 7, 3, -1], [0, 5, -6, 2], [1, 1, 1, 1]];
    for row in 0..2 {
        for unit in 0..3 {
            let sum: i64 = (0..4).map(|i| (numbers[row * 4 + i] - 128) * w[unit][i]).sum();
            let scale = f64::from(0.01f32) * f64::from([0.1f32, 0.2, 0.3][unit]) / f64::from(0.05f32);
            let q = (sum as f64 * scale).round() as i64 + 100;
            assert_eq!(i64::from(out[row * 3 + unit]), q.clamp(0, 255));
        }
    }
    // packed storage is rejected, and so is a scale per axis on an activation
    let packed = Tensor {
        dtype: Dtype::Sfixed4.code(),
        ..graph_w.clone()
    };
    let inputs = [Some(&x_spec), Some(&packed)];
    assert!(
        support::validate(
            &View {
                inputs: &inputs,
                ..view
            },
            "qti.aisw",
            PHONE
        )
        .is_err()
    );
}
