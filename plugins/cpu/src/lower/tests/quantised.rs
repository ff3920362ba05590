//! Tensors with an encoding.

use super::*;

fn encoding(kind: EncodingKind, scales: &[f32], zero_points: &[i32]) -> Encoding {
    Encoding {
        kind,
        scales: scales.to_vec(),
        zero_points: zero_points.to_vec(),
        real_dtype: DType::F32,
    }
}

#[test]
fn an_op_on_quantised_tensors_means_dequantise_op_quantise() {
    let per_tensor = |scale: f32, zero: i32| encoding(EncodingKind::PerTensor, &[scale], &[zero]);
    let mut net = Net::default();
    let x = net.input(DType::U8, &[1, 3, 5, 5]);
    net.part.tensors[x].encoding = Some(per_tensor(0.02, 7));
    let weights = net.boxed(DType::I8, &[4, 3, 3, 3]);
    let w = net.constant(&weights);
    net.part.tensors[w].encoding = Some(encoding(
        EncodingKind::PerAxis { axis: 0 },
        &[0.01, 0.02, 0.03, 0.005],
        &[],
    ));
    let y = net.tensor(DType::U8, Some(vec![1, 4, 3, 3]));
    net.part.tensors[y].encoding = Some(per_tensor(0.05, 100));
    net.part.nodes.push(Node::new(Op::Conv, &[x, w], &[y]));
    let z = net.tensor(DType::U8, Some(vec![1, 4, 3, 3]));
    net.part.tensors[z].encoding = Some(per_tensor(0.05, 100));
    net.part.nodes.push(Node::new(Op::Relu, &[y], &[z]));
    net.output(z);

    // the same by hand, on plain tensors
    let mut plain = Net::default();
    let fed = plain.feed(net.fed[0].clone());
    let constant = |net: &mut Net, dtype: DType, shape: &[usize], values: &[f64]| {
        let element = polychip_reference::element(dtype);
        let value = if dtype.is_float() {
            Boxed::from_f64s(element, shape.to_vec(), values).unwrap()
        } else {
            let values: Vec<i128> = values.iter().map(|&value| value as i128).collect();
            Boxed::from_i128s(element, shape.to_vec(), &values).unwrap()
        };
        net.constant(&value)
    };
    let (s, zp) = (
        constant(&mut plain, DType::F32, &[], &[0.02]),
        constant(&mut plain, DType::U8, &[], &[7.0]),
    );
    let x = plain.plain(Op::DequantizeLinear, &[fed, s, zp]);
    let w = plain.constant(&weights);
    let s = constant(&mut plain, DType::F32, &[4], &[0.01, 0.02, 0.03, 0.005]);
    let w = plain.node(
        Op::DequantizeLinear,
        Attributes::new().with_int(Attr::Axis, 0),
        &[w, s],
    );
    let y = plain.plain(Op::Conv, &[x, w]);
    let (s, zp) = (
        constant(&mut plain, DType::F32, &[], &[0.05]),
        constant(&mut plain, DType::U8, &[], &[100.0]),
    );
    let y = plain.plain(Op::QuantizeLinear, &[y, s, zp]);
    let y = plain.plain(Op::DequantizeLinear, &[y, s, zp]);
    let y = plain.plain(Op::Relu, &[y]);
    let y = plain.plain(Op::QuantizeLinear, &[y, s, zp]);
    plain.output(y);
    let want = evaluate(&plain.part, &plain.fed);

    let pool = ThreadPool::new(1);
    let program = net.lower(&[Layout::RowMajor; 2], &pool);
    let have = run(&program, &pool, &net.fed);
    let (have, want) = (have[0].to_i64s().unwrap(), want[0].to_i64s().unwrap());
    // a value at the middle between two integers may round either way
    assert!(
        have.iter().zip(&want).all(|(a, b)| (a - b).abs() <= 1),
        "{have:?} {want:?}"
    );
    assert!(have.iter().zip(&want).filter(|(a, b)| a != b).count() <= 1);
}
