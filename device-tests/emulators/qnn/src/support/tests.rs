//! Tests of accepted nodes: single rules, and the number of accepted cells that was measured.

// operands are a few numbers; every call has the same form
#![allow(clippy::cloned_ref_to_slice_refs)]

use polychip_emulator_qnn_format::{Param, Tensor as Spec};

use super::*;
use crate::operand::{Operand, PHONE, float, ints, list, u32_scalar};

#[test]
fn what_a_soc_accepts() {
    let accepts = |soc: u32, op: &str, inputs: &[Operand], output: &Operand| {
        let specs: Vec<Spec> = inputs
            .iter()
            .enumerate()
            .map(|(i, operand)| {
                let kind = if operand.constant {
                    Kind::Static
                } else {
                    Kind::AppWrite
                };
                operand.spec(i as u32 + 1, kind)
            })
            .collect();
        let inputs: Vec<Option<&Spec>> = specs.iter().map(Some).collect();
        let output = output.spec(9, Kind::AppRead);
        let outputs = [Some(&output)];
        let view = View {
            op,
            params: &[],
            inputs: &inputs,
            outputs: &outputs,
        };
        validate(&view, "qti.aisw", Soc::from_id(soc).unwrap()).is_ok()
    };
    let x = float(&[2, 2], &[0.0; 4]);
    let s16 = x.clone().fixed(Dtype::Sfixed16, 0.1, 0);
    let u16 = x.clone().fixed(Dtype::Ufixed16, 0.1, 0);
    for (soc, yes) in [
        (30, false),
        (36, false),
        (43, true),
        (57, true),
        (69, true),
        (87, true),
    ] {
        assert_eq!(
            accepts(soc, "MatMul", &[s16.clone(), s16.clone()], &s16),
            yes,
            "{soc}"
        );
        assert!(accepts(soc, "MatMul", &[u16.clone(), u16.clone()], &u16));
        let weights = x.clone().fixed(Dtype::Sfixed8, 0.1, 0).constant();
        assert!(accepts(soc, "MatMul", &[s16.clone(), weights], &s16));
    }
    let half = ints(Dtype::Float16, &[2, 2], &[0.0; 4]);
    for (soc, half_ok, float_ok) in [(1, false, false), (95, false, true), (57, true, true)] {
        assert_eq!(accepts(soc, "Relu", &[half.clone()], &half), half_ok, "{soc}");
        assert_eq!(accepts(soc, "Relu", &[x.clone()], &x), float_ok, "{soc}");
    }
    let whole = ints(Dtype::Int32, &[2, 2], &[0.0; 4]);
    assert!(accepts(
        57,
        "ElementWiseAdd",
        &[whole.clone(), whole.clone()],
        &whole
    ));
    assert!(!accepts(57, "Sigmoid", &[whole.clone()], &whole));
    assert!(!accepts(57, "NoSuchOp", &[x.clone()], &x));
    assert!(
        !accepts(57, "Relu", &[x.clone()], &float(&[4], &[])),
        "another shape"
    );
    let bare = ints(Dtype::Ufixed8, &[2, 2], &[0.0; 4]);
    assert!(!accepts(57, "Relu", &[bare.clone()], &bare), "no encoding");
    // every listed op is one that validation knows
    for name in NAMES {
        let name = name.to_str().unwrap();
        let view = View {
            op: name,
            params: &[u32_scalar("operation", 0)],
            inputs: &[],
            outputs: &[],
        };
        let refusal = validate(&view, "qti.aisw", PHONE).unwrap_err();
        assert_ne!(refusal, Refusal::Unknown, "{name}");
        assert_ne!(lower::lower(&view).err(), Some(Refusal::Unknown), "{name}");
    }
}

/// Op, parameters, inputs and output of a cell.
type Case = (String, Vec<(String, Param)>, Vec<Operand>, Operand);

/// The 32 cases by 8 types that were measured on the vendor's library: 223 are accepted on SoC 30 and 36, one more
/// on 43, 57, 69 and 87. Which others are refused is not known, so that more are accepted here.
#[test]
fn of_the_256_measured_cells_one_differs_between_socs() {
    let unary = [
        "Relu",
        "Sigmoid",
        "Tanh",
        "Gelu",
        "Elu",
        "HardSwish",
        "ElementWiseAbs",
        "ElementWiseExp",
        "ElementWiseNeg",
        "ElementWiseSquareRoot",
        "ElementWiseRsqrt",
        "ElementWiseLog",
    ];
    let binary = [
        "Add", "Subtract", "Multiply", "Divide", "Maximum", "Minimum", "Binary",
    ];
    let accepted = |soc: u32| -> Vec<(String, Dtype)> {
        let soc = Soc::from_id(soc).unwrap();
        let mut cells = Vec::new();
        let types = [
            (Dtype::Ufixed8, Dtype::Ufixed8),
            (Dtype::Sfixed8, Dtype::Sfixed8),
            (Dtype::Ufixed16, Dtype::Ufixed8),
            (Dtype::Sfixed16, Dtype::Sfixed8),
            (Dtype::Float16, Dtype::Float16),
            (Dtype::Float32, Dtype::Float32),
            (Dtype::Int32, Dtype::Int32),
        ];
        for (ty, w_ty) in types {
            let of = |ty: Dtype, dims: &[u32]| {
                let count = dims.iter().product::<u32>() as usize;
                let operand = ints(ty, dims, &vec![0.0; count]);
                if ty.is_fixed() {
                    operand.fixed(ty, 0.1, 0)
                } else {
                    operand
                }
            };
            let x = |dims: &[u32]| of(ty, dims);
            let w = |dims: &[u32]| of(w_ty, dims).constant();
            let window = [
                list("stride", &[2], &[1, 1]),
                list("pad_amount", &[2, 2], &[0; 4]),
                list("dilation", &[2], &[1, 1]),
            ];
            let image = [1, 4, 4, 2];
            let mut cases: Vec<Case> = vec![
                (
                    "Conv2d".into(),
                    window.to_vec(),
                    vec![x(&image), w(&[1, 1, 2, 3])],
                    x(&[1, 4, 4, 3]),
                ),
                (
                    "DepthWiseConv2d".into(),
                    window.to_vec(),
                    vec![x(&image), w(&[1, 1, 1, 2])],
                    x(&image),
                ),
                (
                    "FullyConnected".into(),
                    vec![],
                    vec![x(&[2, 4]), w(&[3, 4])],
                    x(&[2, 3]),
                ),
                ("MatMul".into(), vec![], vec![x(&[2, 4]), w(&[4, 3])], x(&[2, 3])),
                ("MatMul".into(), vec![], vec![x(&[2, 4]), x(&[4, 3])], x(&[2, 3])),
                ("Softmax".into(), vec![], vec![x(&[2, 4])], x(&[2, 4])),
                ("Reshape".into(), vec![], vec![x(&[2, 4])], x(&[4, 2])),
                (
                    "Transpose".into(),
                    vec![list("perm", &[2], &[1, 0])],
                    vec![x(&[2, 4])],
                    x(&[4, 2]),
                ),
                ("Concat".into(), vec![], vec![x(&[2, 4]), x(&[2, 4])], x(&[4, 4])),
                ("LayerNorm".into(), vec![], vec![x(&[2, 4]), w(&[4])], x(&[2, 4])),
                ("RmsNorm".into(), vec![], vec![x(&[2, 4]), w(&[4])], x(&[2, 4])),
            ];
            for op in ["PoolMax2d", "PoolAvg2d"] {
                let size = vec![list("filter_size", &[2], &[4, 4])];
                cases.push((op.into(), size, vec![x(&image)], x(&[1, 1, 1, 2])));
            }
            for op in unary {
                cases.push((op.into(), vec![], vec![x(&[4])], x(&[4])));
            }
            for op in binary {
                let params = vec![u32_scalar("operation", 0)];
                cases.push((
                    format!("ElementWise{op}"),
                    params,
                    vec![x(&[4]), x(&[4])],
                    x(&[4]),
                ));
            }
            assert_eq!(cases.len(), 32);
            for (op, params, inputs, output) in cases {
                let specs: Vec<Spec> = inputs
                    .iter()
                    .map(|operand| {
                        let kind = if operand.constant {
                            Kind::Static
                        } else {
                            Kind::AppWrite
                        };
                        operand.spec(1, kind)
                    })
                    .collect();
                let inputs: Vec<Option<&Spec>> = specs.iter().map(Some).collect();
                let output = output.spec(9, Kind::AppRead);
                let outputs = [Some(&output)];
                let view = View {
                    op: &op,
                    params: &params,
                    inputs: &inputs,
                    outputs: &outputs,
                };
                if validate(&view, "qti.aisw", soc).is_ok() {
                    cells.push((op, ty));
                }
            }
        }
        cells
    };
    // floats of 32 bits count twice: with and without 16-bit precision
    let count = |cells: &[(String, Dtype)]| {
        let twice = cells.iter().filter(|(_, ty)| *ty == Dtype::Float32).count();
        cells.len() + twice
    };
    let (old, new) = (accepted(30), accepted(57));
    assert_eq!(old, accepted(36));
    for soc in [43, 69, 87] {
        assert_eq!(new, accepted(soc));
    }
    assert_eq!((count(&old), count(&new)), (235, 236));
    assert!(
        new.iter()
            .filter(|cell| **cell == ("MatMul".into(), Dtype::Sfixed16))
            .count()
            == 2
    );
    assert!(
        old.iter()
            .filter(|cell| **cell == ("MatMul".into(), Dtype::Sfixed16))
            .count()
            == 1
    );
}
