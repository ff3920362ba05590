//! Products: every tile on shapes that are small, odd, prime and batched; large tiles and matrix units, which the
//! driver here may lack, as text.

use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use polychip_gpu_kernels::{
    Access, BatchAxis, Binary, Broadcast, Columns, Epilogue, EpilogueOperand, Expression, Features, Gemm,
    GemmInt8, GemmTile, Generate, Limits, Quants, Right, Scalar, Unary,
};

use crate::{
    device::Gpu,
    judge::{trial, validate},
};

const SLICED: [GemmTile; 3] = [
    GemmTile::Sliced {
        across: 4,
        down: 1,
        rows: 1,
        slices: 16,
    },
    GemmTile::Sliced {
        across: 8,
        down: 2,
        rows: 4,
        slices: 4,
    },
    GemmTile::Sliced {
        across: 8,
        down: 4,
        rows: 2,
        slices: 1,
    },
];

const BLOCKED: [GemmTile; 3] = [
    GemmTile::Blocked {
        m: 16,
        n: 32,
        k: 8,
        rows: 4,
        columns: 4,
    },
    GemmTile::Blocked {
        m: 32,
        n: 16,
        k: 4,
        rows: 8,
        columns: 4,
    },
    GemmTile::Blocked {
        m: 16,
        n: 32,
        k: 4,
        rows: 8,
        columns: 8,
    },
];

fn matrices(side: u32) -> [GemmTile; 3] {
    let tile = |m, n, k, rows, columns| GemmTile::Matrix {
        m: m * side,
        n: n * side,
        k: k * side,
        rows: rows * side,
        columns: columns * side,
    };
    [tile(8, 8, 2, 4, 4), tile(4, 4, 2, 2, 2), tile(2, 4, 1, 2, 2)]
}

fn plain(scalar: Scalar, [m, n, k]: [u32; 3], transposed_a: bool, b: Right, tile: GemmTile) -> Gemm {
    Gemm {
        batch: Vec::new(),
        m,
        n,
        k,
        transposed_a,
        b,
        scalar,
        epilogue: Epilogue::sum(scalar),
        tile,
    }
}

fn operand(scalar: Scalar, broadcast: Broadcast, access: Access) -> EpilogueOperand {
    EpilogueOperand {
        scalar,
        broadcast,
        access,
    }
}

/// relu(sum + column) * row + same - single, in whatever types.
fn rich(output: Scalar, scalar: Scalar, same: Scalar) -> Epilogue {
    let binary = |op, a, b| Expression::Binary(op, Box::new(a), Box::new(b));
    let biased = binary(Binary::Add, Expression::Operand(0), Expression::Operand(1));
    let scaled = binary(
        Binary::Mul,
        Expression::Unary(Unary::Relu, Box::new(biased)),
        Expression::Operand(2),
    );
    let added = binary(Binary::Add, scaled, Expression::Operand(3));
    Epilogue {
        expression: binary(Binary::Sub, added, Expression::Operand(4)),
        operands: vec![
            operand(scalar, Broadcast::Column, Access::Constant),
            operand(scalar, Broadcast::Row, Access::Read),
            operand(same, Broadcast::Same, Access::Read),
            operand(scalar, Broadcast::Single, Access::Read),
        ],
        output,
        columns: None,
    }
}

/// sum * scale[column] + zero point: what quantises again.
fn requantise(output: Scalar) -> Epilogue {
    let scaled = Expression::Binary(
        Binary::Mul,
        Box::new(Expression::Operand(0)),
        Box::new(Expression::Operand(1)),
    );
    let shrunk = Expression::Binary(
        Binary::Mul,
        Box::new(scaled),
        Box::new(Expression::Constant(1.0 / 1024.0)),
    );
    Epilogue {
        expression: Expression::Binary(Binary::Add, Box::new(shrunk), Box::new(Expression::Constant(3.0))),
        operands: vec![operand(Scalar::F32, Broadcast::Column, Access::Constant)],
        output,
        columns: None,
    }
}

fn name(kind: &str, gemm: &Gemm) -> String {
    format!(
        "gemm/{kind}/{}/{}x{}x{}{}/{:?}/{}",
        gemm.scalar.name(),
        gemm.m,
        gemm.n,
        gemm.k,
        if gemm.transposed_a { "/t" } else { "" },
        gemm.b,
        gemm.tile.name()
    )
}

pub(crate) fn trials(gpu: &Result<Arc<Gpu>, String>) -> Vec<Trial> {
    let mut trials = Vec::new();
    let mut add = |kind: &str, gemm: Gemm| trials.push(trial(gpu, name(kind, &gemm), gemm));
    let shapes = [
        [1, 1, 1],
        [1, 37, 129],
        [49, 68, 96],
        [13, 17, 19],
        [64, 64, 32],
        [33, 66, 34],
    ];
    for shape in shapes {
        for tile in SLICED.into_iter().chain(BLOCKED) {
            // drivers compile staged tiles slowly: not every tile meets every shape
            let staged = matches!(tile, GemmTile::Blocked { .. });
            if staged && matches!(shape, [1, 1, 1] | [64, 64, 32]) {
                continue;
            }
            for b in [Right::Plain, Right::Transposed, Right::Packed] {
                add("plain", plain(Scalar::F32, shape, false, b, tile));
            }
            if !staged || shape == [33, 66, 34] {
                add("plain", plain(Scalar::F32, shape, true, Right::Packed, tile));
                add("plain", plain(Scalar::F16, shape, false, Right::Packed, tile));
            }
        }
    }
    let side = gpu.as_ref().map_or(0, |gpu| gpu.limits.features.cooperative);
    for tile in matrices(if side == 0 { 16 } else { side }) {
        for b in [Right::Plain, Right::Transposed, Right::Packed] {
            add("plain", plain(Scalar::F16, [67, 65, 70], false, b, tile));
        }
        add(
            "plain",
            plain(Scalar::F16, [64, 68, 64], true, Right::Packed, tile),
        );
    }
    for quants in Quants::ALL {
        let k = if quants.elements() == 32 { 96 } else { 512 };
        for (m, tile) in [
            (1, SLICED[0]),
            (1, SLICED[1]),
            (13, SLICED[2]),
            (33, BLOCKED[0]),
            (9, BLOCKED[1]),
        ] {
            let b = Right::Quantised(quants);
            add("blocks", plain(Scalar::F32, [m, 37, k], false, b, tile));
            add("blocks", plain(Scalar::F16, [m, 37, k], false, b, tile));
        }
        for tile in matrices(if side == 0 { 16 } else { side }) {
            let b = Right::Quantised(quants);
            add("blocks", plain(Scalar::F16, [67, 65, k], false, b, tile));
        }
    }
    for (m, n, k) in [(9, 13, 7), (20, 24, 32)] {
        for tile in [SLICED[1], BLOCKED[0]] {
            let batch = vec![
                BatchAxis {
                    count: 2,
                    a: true,
                    b: false,
                },
                BatchAxis {
                    count: 3,
                    a: false,
                    b: true,
                },
                BatchAxis {
                    count: 2,
                    a: true,
                    b: true,
                },
            ];
            for b in [Right::Plain, Right::Transposed, Right::Packed] {
                add(
                    "batch",
                    Gemm {
                        batch: batch.clone(),
                        ..plain(Scalar::F32, [m, n, k], false, b, tile)
                    },
                );
            }
            let ends = [
                (Scalar::F32, Scalar::F32, Scalar::F16),
                (Scalar::F16, Scalar::F16, Scalar::F16),
                (Scalar::F32, Scalar::F32, Scalar::U8),
                (Scalar::F32, Scalar::F32, Scalar::I8),
                (Scalar::I8, Scalar::F32, Scalar::F32),
                (Scalar::U8, Scalar::F32, Scalar::F32),
                (Scalar::I32, Scalar::F32, Scalar::I32),
            ];
            for (output, scalar, same) in ends {
                let kind = format!("end-{}-{}-{}", output.name(), scalar.name(), same.name());
                add(
                    &kind,
                    Gemm {
                        epilogue: rich(output, scalar, same),
                        batch: batch.clone(),
                        ..plain(Scalar::F32, [m, n, k], false, Right::Packed, tile)
                    },
                );
            }
        }
    }
    for shape in [[1, 37, 129], [49, 68, 96], [13, 17, 19], [20, 24, 64], [5, 6, 3]] {
        for tile in [SLICED[0], SLICED[1], BLOCKED[0]] {
            trials.extend(bytes(gpu, shape, tile));
        }
    }
    trials.extend(columns(gpu));
    trials.extend(texts());
    trials
}

/// Products that give some columns of an output: the first, some between, and the last, which may be odd.
fn columns(gpu: &Result<Arc<Gpu>, String>) -> Vec<Trial> {
    let mut trials = Vec::new();
    for (n, first, all) in [(8, 0, 20), (12, 4, 37), (13, 24, 37), (16, 8, 24)] {
        let of_output = |epilogue| Epilogue {
            columns: Some(Columns { first, all }),
            ..epilogue
        };
        for tile in [SLICED[1], BLOCKED[0]] {
            for output in [Scalar::F32, Scalar::U8] {
                let gemm = Gemm {
                    epilogue: of_output(rich(output, Scalar::F32, Scalar::F32)),
                    ..plain(Scalar::F32, [9, n, 13], false, Right::Packed, tile)
                };
                let name = name(&format!("columns-{first}-of-{all}-{}", output.name()), &gemm);
                trials.push(trial(gpu, name, gemm));
            }
            for output in [Scalar::I8, Scalar::I32] {
                let gemm = GemmInt8 {
                    batch: Vec::new(),
                    m: 9,
                    n,
                    k: 13,
                    a: Scalar::U8,
                    a_zero: 3,
                    b: Scalar::I8,
                    b_zeros: (0..n as i32).map(|i| i % 7 - 3).collect(),
                    epilogue: of_output(if output == Scalar::I32 {
                        Epilogue::sum(output)
                    } else {
                        requantise(output)
                    }),
                    tile,
                };
                let name = format!(
                    "gemm/int8/columns-{first}-of-{all}/{n}/{}/{}",
                    output.name(),
                    tile.name()
                );
                trials.push(trial(gpu, name, gemm));
            }
        }
    }
    let beyond = Gemm {
        epilogue: Epilogue {
            columns: Some(Columns { first: 4, all: 20 }),
            ..Epilogue::sum(Scalar::F32)
        },
        ..plain(Scalar::F32, [1, 10, 4], false, Right::Packed, SLICED[0])
    };
    trials.push(Trial::test("gemm/columns/no-fours", move || {
        match beyond.kernel(&Limits::LEAST) {
            Err(error) if error.to_string() == "an epilogue of 10 columns from 4 on, of 20" => Ok(()),
            other => Err(format!("{other:?}").into()),
        }
    }));
    trials
}

fn bytes(gpu: &Result<Arc<Gpu>, String>, [m, n, k]: [u32; 3], tile: GemmTile) -> Vec<Trial> {
    let make = |a, a_zero, b, b_zeros, epilogue| GemmInt8 {
        batch: Vec::new(),
        m,
        n,
        k,
        a,
        a_zero,
        b,
        b_zeros,
        epilogue,
        tile,
    };
    let columns = (0..n as i32).map(|i| i % 7 - 3).collect();
    [
        make(Scalar::I8, 0, Scalar::I8, Vec::new(), Epilogue::sum(Scalar::I32)),
        make(
            Scalar::U8,
            117,
            Scalar::I8,
            Vec::new(),
            Epilogue::sum(Scalar::I32),
        ),
        make(Scalar::U8, 3, Scalar::U8, vec![131], requantise(Scalar::U8)),
        make(Scalar::I8, -5, Scalar::I8, columns, requantise(Scalar::I8)),
        make(Scalar::U8, 128, Scalar::U8, vec![128], requantise(Scalar::F32)),
    ]
    .into_iter()
    .enumerate()
    .map(|(i, gemm)| {
        let name = format!("gemm/int8/{m}x{n}x{k}/{i}/{}", tile.name());
        trial(gpu, name, gemm)
    })
    .collect()
}

/// Every candidate for shapes of networks, on a device that has everything, as text.
fn texts() -> Vec<Trial> {
    let limits = |cooperative, f16| Limits {
        invocations: 1024,
        workgroup: [1024, 1024, 64],
        shared_bytes: 48 << 10,
        binding_bytes: 1 << 30,
        subgroup: [32, 32],
        features: Features {
            f16,
            cooperative,
            ..Limits::LEAST.features
        },
        ..Limits::LEAST
    };
    let shapes = [
        [4096, 4096, 4096],
        [49, 320, 960],
        [1, 1000, 2048],
        [3136, 64, 147],
        [197, 197, 64],
    ];
    let mut trials = Vec::new();
    for shape in shapes {
        for (scalar, cooperative) in [(Scalar::F32, 0), (Scalar::F16, 16), (Scalar::F16, 8)] {
            for (transposed_a, b) in [
                (false, Right::Packed),
                (true, Right::Plain),
                (false, Right::Transposed),
            ] {
                let limits = limits(cooperative, scalar == Scalar::F16);
                let gemm = Gemm {
                    epilogue: rich(scalar, scalar, scalar),
                    ..plain(
                        scalar,
                        shape,
                        transposed_a,
                        b,
                        GemmTile::Sliced {
                            across: 1,
                            down: 1,
                            rows: 1,
                            slices: 1,
                        },
                    )
                };
                let name = format!("{}/{cooperative}", name("text", &gemm));
                trials.push(Trial::test(name, move || {
                    let tiles = gemm.candidates(&limits);
                    if tiles.len() < 2 {
                        return Err(Failed::from("fewer than two tiles"));
                    }
                    for tile in tiles {
                        let kernel = gemm
                            .with(tile)
                            .kernel(&limits)
                            .map_err(|error| error.to_string())?;
                        validate(&kernel)?;
                    }
                    Ok(())
                }));
            }
        }
    }
    let gemm = plain(Scalar::F32, [100, 100, 100], false, Right::Packed, BLOCKED[0]);
    trials.push(Trial::test("gemm/least", move || {
        if gemm.candidates(&Limits::LEAST).is_empty() {
            return Err(Failed::from("the least device has no tile"));
        }
        Ok(())
    }));
    trials
}
