//! Fourier transforms.

use super::*;

fn scalar(net: &mut Net, value: i64) -> usize {
    net.constant(&Boxed::from_i64s(vec![], vec![value]).unwrap())
}

#[test]
fn transforms_along_any_axis_of_any_length() {
    for (shape, axis, length) in [
        (&[2, 16, 1][..], None, None),
        (&[2, 15, 1], None, None),
        (&[3, 12, 2], None, None),
        (&[1, 1, 1], None, None),
        (&[2, 7, 3, 1], Some(1), None),
        (&[2, 7, 3, 2], Some(-3), None),
        (&[4, 5, 2], Some(0), None),
        // filled with zeros, cut
        (&[2, 10, 1], None, Some(16)),
        (&[2, 10, 1], None, Some(6)),
        (&[2, 9, 2], None, Some(5)),
    ] {
        for (inverse, onesided) in [(0, 0), (0, 1), (1, 0)] {
            if onesided == 1 && shape.last() == Some(&2) {
                continue;
            }
            for dtype in [DType::F32, DType::F16] {
                let mut net = Net::default();
                let x = net.input(dtype, shape);
                let length = length.map(|length| scalar(&mut net, length));
                let axis = axis.map(|axis| scalar(&mut net, axis));
                let attributes = Attributes::new()
                    .with_int(Attr::Inverse, inverse)
                    .with_int(Attr::Onesided, onesided);
                let y = net.nodes(Op::DFT, attributes, &[Some(x), length, axis], 1)[0];
                net.output(y);
                let tolerance = if dtype == DType::F32 { 1e-5 } else { 2e-3 };
                let steps = net.check(tolerance);
                assert!(steps.contains(&"fourier"), "{steps:?}");
            }
        }
    }
}

#[test]
fn frames_of_a_signal_with_and_without_a_window() {
    for (shape, step, length, with_window, onesided) in [
        (&[1, 40, 1][..], 5, 16, true, 1),
        (&[2, 33, 1], 7, 9, true, 0),
        (&[2, 33], 3, 8, false, 1),
        (&[1, 30, 2], 4, 10, true, 0),
        (&[1, 16, 1], 100, 16, false, 1),
    ] {
        let mut net = Net::default();
        let x = net.input(DType::F32, shape);
        let step = scalar(&mut net, step);
        let window = with_window.then(|| net.weights(&[length as usize]));
        let length = scalar(&mut net, length);
        let attributes = Attributes::new().with_int(Attr::Onesided, onesided);
        let inputs = [Some(x), Some(step), window, Some(length)];
        let y = net.nodes(Op::STFT, attributes, &inputs, 1)[0];
        net.output(y);
        let steps = net.check(1e-5);
        assert!(steps.contains(&"fourier"), "{steps:?}");
    }
}
