//! Ops whose result size depends on data against the reference.

use polychip_cpu_kernels::Isa;
use polychip_cpu_kernels::data_dependent::*;
use polychip_cpu_kernels::reference::{Element, Tensor, detect, sort};

fn numbers(count: usize, seed: u64) -> impl Iterator<Item = f32> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 40) as f32 / (1 << 24) as f32
    })
    .take(count)
}

#[test]
fn non_zero_matches_the_reference() {
    for (rows, columns) in [(3, 70), (1, 1), (5, 0), (7, 16)] {
        let x: Vec<f32> = numbers(rows * columns, 3)
            .map(|v| match (v * 5.0) as u32 {
                0 => 0.0,
                1 => -0.0,
                2 => f32::NAN,
                _ => v,
            })
            .collect();
        let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
        let tensor = Tensor::from_bytes(Element::F32, vec![rows, columns], &bytes).unwrap();
        let want = sort::non_zero(&tensor).unwrap().to_i64s().unwrap();
        for isa in Isa::available() {
            let mut counts = vec![9; rows];
            count_non_zero(isa, &x, columns, &mut counts);
            let mut found = vec![0; counts.iter().sum()];
            columns_non_zero(&x, columns, &mut found);
            assert_eq!(found, want[found.len()..], "{isa:?}");
            let of_rows = counts
                .iter()
                .enumerate()
                .flat_map(|(row, &n)| std::iter::repeat_n(row as i64, n));
            assert_eq!(of_rows.collect::<Vec<_>>(), want[..found.len()], "{isa:?}");
        }
    }
}

#[test]
fn ties_keep_their_order() {
    let wide = [i64::MAX, 3, i64::MIN, 3, 0, i64::MIN];
    let mut order = [(0, 0); 6];
    sorted(&wide, &mut order);
    assert_eq!(order.map(|at| at.1), [2, 5, 4, 1, 3, 0]);
    let narrow = [f32::NAN, 0.0, -1.0, -0.0, f32::NAN, 2.0];
    sorted(&narrow, &mut order);
    assert_eq!(order.map(|at| at.1), [2, 1, 3, 5, 0, 4]);
    // few values, which are counted
    let few: Vec<i64> = (0..500).map(|i| (i * 7919) % 13 - 6).collect();
    let mut order = vec![(0, 0); few.len()];
    sorted(&few, &mut order);
    let mut want: Vec<(i64, u32)> = few.iter().copied().zip(0..).collect();
    want.sort_unstable();
    assert_eq!(order, want);
    sorted::<i64>(&[], &mut []);
}

#[test]
fn non_max_suppression_matches_the_reference() {
    for (count, centre, score) in [
        (200, false, Some(0.2)),
        (60, true, None),
        (1, false, None),
        (0, true, None),
    ] {
        let boxes: Vec<f32> = numbers(4 * count, 5).collect();
        let scores: Vec<f32> = numbers(count, 8).map(|v| (v * 20.0).floor() / 20.0).collect();
        for most in [0, 5, 500] {
            let p = Suppression {
                centre,
                most,
                overlap: 0.3,
                score,
            };
            let mut found = Vec::new();
            non_max_suppression(boxes.as_chunks().0, &scores, p, |i| found.push(i as i64));
            let tensor = |shape: Vec<usize>, v: &[f32]| {
                let v: Vec<f64> = v.iter().map(|&v| f64::from(v)).collect();
                Tensor::from_f64s(Element::F32, shape, &v).unwrap()
            };
            let (b, s) = (
                tensor(vec![1, count, 4], &boxes),
                tensor(vec![1, 1, count], &scores),
            );
            let of = detect::Suppression {
                centre,
                max_output: most,
                iou: 0.3,
                score: score.map(f64::from),
            };
            let want = detect::non_max_suppression(&b, &s, of)
                .unwrap()
                .to_i64s()
                .unwrap();
            let want: Vec<i64> = want.chunks(3).map(|found| found[2]).collect();
            assert_eq!(found, want, "{count} {most}");
        }
    }
}
