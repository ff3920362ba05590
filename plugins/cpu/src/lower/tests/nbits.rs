//! Models with `MatMulNBits` as ONNX Runtime's quantiser writes them, from the file to the step: products read the codes.

use ::half::f16;
use polychip_graph::onnx::messages::{
    Attribute, Dimension, DimensionValue, Graph, Model, Node as Call, OperatorSetId, Shape,
    Tensor as Initializer, TensorKind, Type, TypeValue, ValueInfo, attribute_type,
};
use polychip_graph::{onnx, passes};
use polychip_host::FlatGraph;
use polychip_sdk::GraphView;
use prost::Message as _;

use polychip_test_requirements::{Need, absent};

use super::groups::Reference;
use super::*;
use crate::part;

/// What is multiplied by what.
#[derive(Debug, Clone, Copy)]
struct Case<'a> {
    bits: usize,
    rows: &'a [usize],
    depth: usize,
    columns: usize,
    block: usize,
    zeros: bool,
    bias: bool,
    half: bool,
    /// Codes behind the last row of the product, which fill the last block.
    spare: usize,
}

/// A model of one product, and its weights `[columns, depth]` and bias as numbers.
struct Written {
    model: Model,
    weights: Vec<f64>,
    bias: Vec<f64>,
}

/// Values of some bits, low ones first, from one row to the next on whole bytes.
fn packed(values: &[u8], row: usize, bits: usize) -> Vec<u8> {
    let byte = |pair: &[u8]| pair[0] | pair.get(1).copied().unwrap_or(0) << 4;
    match bits {
        4 => values
            .chunks(row)
            .flat_map(|row| row.chunks(2).map(byte))
            .collect(),
        _ => values.to_vec(),
    }
}

impl Case<'_> {
    fn float(self) -> DType {
        if self.half { DType::F16 } else { DType::F32 }
    }

    /// Rows are rounded to 16 bits, and so are results of 16 bits.
    fn tolerance(self) -> f64 {
        if self.half { 2e-3 } else { 1e-4 }
    }

    /// Bytes of floats, and what they hold.
    fn floats(self, values: impl Iterator<Item = f32>) -> (Vec<u8>, Vec<f64>) {
        let mut bytes = Vec::new();
        let kept = values.map(|value| {
            if self.half {
                let value = f16::from_f32(value);
                bytes.extend(value.to_le_bytes());
                value.to_f64()
            } else {
                bytes.extend(value.to_le_bytes());
                f64::from(value)
            }
        });
        let kept = kept.collect();
        (bytes, kept)
    }

    fn write(self) -> Written {
        let Case {
            bits,
            depth,
            columns,
            block,
            ..
        } = self;
        let blocks = depth / block;
        let most = 1 << bits;
        let codes: Vec<u8> = (0..columns * depth)
            .map(|i| ((i * 37 + i / 13) % most) as u8)
            .collect();
        let zeros: Vec<u8> = (0..columns * blocks).map(|i| (i * 5 % most) as u8).collect();
        // half of all scales are negative where the farthest value of a block is, and a block of zeros has none
        let scale = |i: usize| 0.01 * ((i % 7) as f32 - 3.0);
        let (scale_bytes, scales) = self.floats((0..columns * blocks).map(scale));
        let (bias_bytes, bias) = self.floats((0..columns).map(|i| i as f32 / 16.0 - 0.5));
        let middle = (most / 2) as u8;
        let weights = (0..columns * depth).map(|i| {
            let at = i / depth * blocks + i % depth / block;
            let zero = if self.zeros { zeros[at] } else { middle };
            scales[at] * (f64::from(codes[i]) - f64::from(zero))
        });
        let weights = weights.collect();
        let initializer = |name: &str, dtype: DType, dims: &[usize], bytes: Vec<u8>| Initializer {
            name: name.to_owned(),
            dims: dims.iter().map(|&dim| dim as i64).collect(),
            data_type: dtype.code() as i32,
            raw_data: Some(bytes.into()),
            ..Initializer::default()
        };
        let bytes_of = block * bits / 8;
        let mut initializers = vec![
            initializer(
                "codes",
                DType::U8,
                &[columns, blocks, bytes_of],
                packed(&codes, depth, bits),
            ),
            initializer("scales", self.float(), &[columns * blocks], scale_bytes),
        ];
        let mut input: Vec<String> = ["x", "codes", "scales"].map(str::to_owned).to_vec();
        if self.zeros {
            let bytes = packed(&zeros, blocks, bits);
            let len = bytes.len();
            initializers.push(initializer("zeros", DType::U8, &[len], bytes));
            input.push("zeros".to_owned());
        }
        if self.bias {
            input.resize(5, String::new());
            input.push("bias".to_owned());
            initializers.push(initializer("bias", self.float(), &[columns], bias_bytes));
        }
        let set = |name: &str, value: usize| Attribute {
            name: name.to_owned(),
            i: Some(value as i64),
            r#type: attribute_type::INT,
            ..Attribute::default()
        };
        let call = Call {
            op_type: "MatMulNBits".to_owned(),
            domain: "com.microsoft".to_owned(),
            input,
            output: vec!["y".to_owned()],
            attribute: vec![
                set("K", depth - self.spare),
                set("N", columns),
                set("bits", bits),
                set("block_size", block),
            ],
            ..Call::default()
        };
        let info = |name: &str, last: usize| {
            let dims = self.rows.iter().copied().chain([last]);
            let dim = dims.map(|size| Dimension {
                value: Some(DimensionValue::Value(size as i64)),
            });
            let of = TensorKind {
                elem_type: self.float().code() as i32,
                shape: Some(Shape { dim: dim.collect() }),
            };
            ValueInfo {
                name: name.to_owned(),
                r#type: Some(Type {
                    value: Some(TypeValue::Tensor(of)),
                }),
            }
        };
        let opset = |domain: &str, version: i64| OperatorSetId {
            domain: domain.to_owned(),
            version,
        };
        let graph = Graph {
            node: vec![call],
            initializer: initializers,
            input: vec![info("x", depth - self.spare)],
            output: vec![info("y", columns)],
            ..Graph::default()
        };
        let model = Model {
            ir_version: Some(10),
            graph: Some(graph),
            opset_import: vec![opset("", 21), opset("com.microsoft", 1)],
            ..Model::default()
        };
        Written { model, weights, bias }
    }
}

/// A model that was run.
struct Ran {
    model: Vec<u8>,
    x: Boxed,
    y: Boxed,
    /// The names of its steps, in their order.
    steps: Vec<&'static str>,
}

/// Runs a case, and compares it with its numbers.
fn ran(case: Case<'_>) -> Ran {
    let written = case.write();
    let model = written.model.encode_to_vec();
    let bytes = model.clone().into();
    let mut graph = onnx::import(bytes, &onnx::NoExternalData, &onnx::Options::default()).unwrap();
    let mut options = passes::Options::default();
    // a matrix of floats would be more than may be folded
    options.fold_limit = case.columns * case.depth;
    passes::canonicalise(&mut graph, &Reference, &options).unwrap();
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    // SAFETY: the flat graph lives to the end of this function, and is not written to.
    let view = unsafe { GraphView::new(flat.raw()) }.unwrap();
    let (part, programs) = part::read(&view).unwrap();
    let pool = ThreadPool::new(2);
    let options = Options {
        programs: &programs,
        choices: crate::tune::Choices::Rule,
        isa: Isa::detect(),
        pool: &pool,
        layouts: &[Layout::RowMajor; 2],
        reduced: false,
    };
    let program = lower(&part, &options).unwrap();
    let depth = case.depth - case.spare;
    let shape = [case.rows, &[depth]].concat();
    let x = Net::default().boxed(case.float(), &shape);
    let y = run(&program, &pool, std::slice::from_ref(&x)).remove(0);
    let values = x.to_f64s().unwrap();
    let mut want = Vec::new();
    for row in values.chunks(depth) {
        for (weights, bias) in written.weights.chunks(case.depth).zip(&written.bias) {
            let sum: f64 = row.iter().zip(weights).map(|(x, w)| x * w).sum();
            want.push(sum + if case.bias { *bias } else { 0.0 });
        }
    }
    let shape = [case.rows, &[case.columns]].concat();
    let want = Boxed::from_f64s(polychip_reference::element(case.float()), shape, &want).unwrap();
    close(&y, &want, case.tolerance(), &format!("{case:?}"));
    Ran {
        model,
        x,
        y,
        steps: program.steps.iter().map(|step| step.name).collect(),
    }
}

#[test]
fn matmulnbits_uses_its_codes() {
    let case = Case {
        bits: 4,
        rows: &[1],
        depth: 96,
        columns: 7,
        block: 32,
        zeros: false,
        bias: false,
        half: false,
        spare: 0,
    };
    for bits in [4, 8] {
        for (rows, block) in [(&[1][..], 32), (&[33], 96), (&[2, 3], 32), (&[2, 1, 5], 96)] {
            for (zeros, bias) in [(false, false), (true, false), (true, true), (false, true)] {
                let case = Case {
                    bits,
                    rows,
                    block,
                    zeros,
                    bias,
                    ..case
                };
                assert_eq!(ran(case).steps, ["products with blocks"], "{case:?}");
                for case in [Case { half: true, ..case }, Case { spare: 5, ..case }] {
                    let names = ran(case).steps;
                    assert!(names.contains(&"products with blocks"), "{names:?}");
                }
            }
        }
    }
}

#[test]
fn codes_in_blocks_of_16_are_multiplied() {
    let case = Case {
        bits: 4,
        rows: &[2, 3],
        depth: 48,
        columns: 7,
        block: 16,
        zeros: true,
        bias: false,
        half: false,
        spare: 0,
    };
    assert_eq!(ran(case).steps, ["gemm of 4-bit weights"]);
    ran(Case {
        bits: 8,
        bias: true,
        ..case
    });
}

/// Runs each model of a folder on the `x` beside it.
const WITNESS: &str = "
import pathlib, sys, numpy, onnxruntime
for model in sorted(pathlib.Path(sys.argv[1]).glob('*.onnx')):
    session = onnxruntime.InferenceSession(str(model), providers=['CPUExecutionProvider'])
    port = session.get_inputs()[0]
    kind = numpy.float16 if 'float16' in port.type else numpy.float32
    x = numpy.fromfile(model.with_suffix('.x'), kind).reshape(port.shape)
    session.run(None, {port.name: x})[0].tofile(model.with_suffix('.y'))
";

#[test]
fn onnx_runtime_multiplies_the_same_matrices() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = std::env::var_os("POLYCHIP_PYTHON")
        .map_or_else(|| root.join("target/venv/bin/python"), std::path::PathBuf::from);
    if !python.is_file() {
        absent(Need::Python, &format!("no {}", python.display()));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut cases = Vec::new();
    for bits in [4, 8] {
        for (rows, [depth, columns], block) in [
            (&[1][..], [96, 7], 32),
            (&[33], [64, 19], 64),
            (&[2, 3], [160, 5], 32),
            (&[3], [256, 33], 128),
            (&[5], [48, 3], 16),
            (&[7], [224, 6], 32),
        ] {
            for (zeros, bias, half) in [
                (false, false, false),
                (true, true, false),
                (true, false, true),
                (false, true, true),
            ] {
                cases.push(Case {
                    bits,
                    rows,
                    depth,
                    columns,
                    block,
                    zeros,
                    bias,
                    half,
                    spare: if depth == 224 { 16 } else { 0 },
                });
            }
        }
    }
    let at = |index: usize, end: &str| folder.path().join(format!("{index}.{end}"));
    let all: Vec<Ran> = cases.iter().map(|&case| ran(case)).collect();
    for (index, ran) in all.iter().enumerate() {
        std::fs::write(at(index, "onnx"), &ran.model).unwrap();
        std::fs::write(at(index, "x"), ran.x.to_bytes()).unwrap();
    }
    let told = std::process::Command::new(python)
        .args(["-c", WITNESS])
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    for (index, (ran, case)) in all.iter().zip(&cases).enumerate() {
        let bytes = std::fs::read(at(index, "y")).unwrap();
        let want = tensor_from_bytes(case.float(), ran.y.shape(), &bytes).unwrap();
        close(&ran.y, &want, case.tolerance(), &format!("{case:?}"));
    }
}
