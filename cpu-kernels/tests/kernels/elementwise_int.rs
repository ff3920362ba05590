//! Element-wise ops of integers and doubles against plain loops.

use polychip_cpu_kernels::elementwise::BinaryPlan;
use polychip_cpu_kernels::elementwise_int::*;
use polychip_cpu_kernels::reference::compare::Comparison;
use polychip_cpu_kernels::reference::{self, Tensor};
use polychip_cpu_kernels::{Isa, ThreadPool};

/// Numbers at the ends of the type, around zero, and between.
const NUMBERS: [i128; 12] = [i128::MIN, -128, -7, -2, -1, 0, 1, 2, 3, 5, 127, i128::MAX];

macro_rules! against_the_oracle {
    ($($name:ident: $t:ident $element:ident,)*) => {$(
        #[test]
        fn $name() {
            use reference::{Element, elementwise::Binary, compare};
            let values: Vec<$t> = NUMBERS.iter().map(|&n| n.clamp($t::MIN as i128, $t::MAX as i128) as $t).collect();
            let tensor = |shape: &[usize]| {
                let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                Tensor::from_bytes(Element::$element, shape.to_vec(), &bytes).unwrap()
            };
            let (rows, columns) = (tensor(&[12, 1]), tensor(&[12]));
            let plan = BinaryPlan::new(&[12, 1], &[12]).unwrap();
            let pool = ThreadPool::new(1);
            for isa in Isa::available() {
            for (ours, theirs) in [
                (Arithmetic::Add, Binary::Add), (Arithmetic::Sub, Binary::Sub), (Arithmetic::Mul, Binary::Mul),
                (Arithmetic::Div, Binary::Div), (Arithmetic::Max, Binary::Max), (Arithmetic::Min, Binary::Min),
                (Arithmetic::Mod, Binary::Mod), (Arithmetic::Fmod, Binary::Fmod),
            ] {
                let mut y = vec![0 as $t; 144];
                plan.rows(isa, &pool, <$t>::arithmetic(ours), &values, &values, &mut y);
                let bytes: Vec<u8> = y.iter().flat_map(|v| v.to_le_bytes()).collect();
                let wanted = reference::elementwise::binary(theirs, &rows, &columns).unwrap();
                assert_eq!(bytes, wanted.to_bytes(), "{ours:?}");
            }
            for (ours, theirs) in [
                (Bitwise::And, Binary::BitAnd), (Bitwise::Or, Binary::BitOr), (Bitwise::Xor, Binary::BitXor),
                (Bitwise::ShiftLeft, Binary::ShiftLeft), (Bitwise::ShiftRight, Binary::ShiftRight),
            ] {
                let mut y = vec![0 as $t; 144];
                plan.rows(isa, &pool, <$t>::bitwise(ours).unwrap(), &values, &values, &mut y);
                let bytes: Vec<u8> = y.iter().flat_map(|v| v.to_le_bytes()).collect();
                let wanted = reference::elementwise::binary(theirs, &rows, &columns).unwrap();
                assert_eq!(bytes, wanted.to_bytes(), "{ours:?}");
            }
            for f in [
                Comparison::Equal, Comparison::Less, Comparison::LessOrEqual, Comparison::Greater,
                Comparison::GreaterOrEqual,
            ] {
                let mut y = vec![0u8; 144];
                plan.rows(isa, &pool, <$t>::comparison(f), &values, &values, &mut y);
                assert_eq!(y, compare::compare(f, &rows, &columns).unwrap().to_bytes(), "{f:?}");
            }
            for (ours, theirs) in [
                (Single::Abs, reference::elementwise::Unary::Abs), (Single::Neg, reference::elementwise::Unary::Neg),
                (Single::Sign, reference::elementwise::Unary::Sign),
            ] {
                let mut y = vec![0 as $t; 12];
                pass(isa, &pool, &<$t>::single(ours), &values, &mut y);
                let bytes: Vec<u8> = y.iter().flat_map(|v| v.to_le_bytes()).collect();
                let wanted = reference::elementwise::unary(theirs, &columns).unwrap();
                assert_eq!(bytes, wanted.to_bytes(), "{ours:?}");
            }
            }
        }
    )*};
}

against_the_oracle! {
    of_i8: i8 I8, of_i16: i16 I16, of_i32: i32 I32, of_i64: i64 I64,
    of_u8: u8 U8, of_u16: u16 U16, of_u32: u32 U32, of_u64: u64 U64,
}

#[test]
fn folds_match_the_reference() {
    use reference::reduce::Reduction;
    for threads in [1, 3] {
        let pool = ThreadPool::new(threads);
        for isa in Isa::available() {
            for shape in [[1, 1, 1], [3, 70, 1], [2, 5, 3], [1, 9, 200], [4, 0, 2]] {
                let [outer, n, inner] = shape;
                let x: Vec<i64> = (0..(outer * n * inner) as i64)
                    .map(|i| i * 7919 % 41 - 20)
                    .collect();
                let wide = Tensor::from_i64s(shape.to_vec(), x.clone()).unwrap();
                for (f, of) in [
                    (Fold::Sum, Reduction::Sum),
                    (Fold::Product, Reduction::Prod),
                    (Fold::Max, Reduction::Max),
                    (Fold::Min, Reduction::Min),
                ] {
                    let want = reference::reduce::reduce(&wide, of, &[1], true).unwrap();
                    let mut y = vec![7; outer * inner];
                    fold(isa, &pool, shape, f, &x, &mut y);
                    assert_eq!(y, want.to_i64s().unwrap(), "{isa:?} {shape:?} {f:?}");
                }
            }
        }
    }
}

#[test]
fn operands_broadcast_in_every_way() {
    let pool = ThreadPool::new(2);
    let sum = |a: &[usize], b: &[usize]| {
        let plan = BinaryPlan::new(a, b).unwrap();
        let count = |shape: &[usize]| shape.iter().product::<usize>() as i64;
        let (x, z): (Vec<i64>, Vec<i64>) =
            ((0..count(a)).collect(), (0..count(b)).map(|v| 100 * v).collect());
        let mut y = vec![-1; plan.output_len()];
        plan.rows(
            Isa::SCALAR,
            &pool,
            i64::arithmetic(Arithmetic::Add),
            &x,
            &z,
            &mut y,
        );
        y
    };
    assert_eq!(sum(&[2, 1], &[3]), [0, 100, 200, 1, 101, 201]);
    assert_eq!(sum(&[2, 3], &[]), [0, 1, 2, 3, 4, 5]);
    assert_eq!(sum(&[], &[2]), [0, 100]);
    assert_eq!(sum(&[], &[]), [0]);
    assert_eq!(sum(&[2, 1, 2], &[2, 1]), [0, 1, 100, 101, 2, 3, 102, 103]);
    assert_eq!(sum(&[0, 3], &[3]), Vec::<i64>::new());
    // longer than a value is repeated at a time
    let long = 2 * 1024 + 3;
    assert_eq!(
        sum(&[2, 1], &[long]),
        Vec::from_iter((0..2).flat_map(|a| (0..long as i64).map(move |b| a + 100 * b)))
    );
}

#[test]
fn nan_is_kept_and_equals_nothing() {
    let (nan, isa) = (f64::NAN, Isa::detect());
    let mut y = [0.0; 2];
    f64::arithmetic(Arithmetic::Max)(isa, &mut y, &[nan, 1.0], Row::Many(&[1.0, nan]));
    assert!(y.iter().all(|y| y.is_nan()));
    f64::clip(isa, &mut y, &[nan, 5.0], Some(0.0), Some(2.0));
    assert!(y[0].is_nan() && y[1] == 2.0);
    let mut same = [9; 2];
    f64::comparison(Comparison::Equal)(isa, &mut same, &[nan, 1.0], Row::Many(&[nan, 1.0]));
    assert_eq!(same, [0, 1]);
}

#[test]
fn nonzero_bytes_are_true() {
    let (isa, mut y) = (Isa::detect(), [9; 4]);
    let (a, b) = (&[0u8, 2, 4, 0][..], Row::Many(&[0u8, 1, 0, 8][..]));
    logic(Logic::And)(isa, &mut y, a, b);
    assert_eq!(y, [0, 1, 0, 0]);
    logic(Logic::Xor)(isa, &mut y, a, b);
    assert_eq!(y, [0, 0, 1, 1]);
    logic(Logic::Equal)(isa, &mut y, a, b);
    assert_eq!(y, [1, 1, 0, 0]);
    select(isa, &mut y, Row::Many(a), Row::One(5), Row::Many(&[1, 2, 3, 4]));
    assert_eq!(y, [1, 5, 5, 4]);
}
