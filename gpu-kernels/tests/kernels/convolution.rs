//! Convolutions and pools: odd channels, strides, padding on one side, dilations, groups, all tiles.

use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use polychip_gpu_kernels::{
    Access, Binary, Broadcast, Columns, Conv, ConvTile, Coordinates, Depthwise, Direction, Epilogue,
    EpilogueOperand, Expression, Features, Generate, GlobalPool, Image, ImageLayout, Interpolation, Limits,
    Pool, PoolKind, Resize, ResizeAxis, Rounding, Scalar, Threads, Unary, Window,
};

use crate::device::Gpu;
use crate::judge::{trial, validate};

fn image(batch: u32, height: u32, width: u32, channels: u32) -> Image {
    Image {
        batch,
        height,
        width,
        channels,
    }
}

fn window(
    kernel: [u32; 2],
    strides: [u32; 2],
    begin: [u32; 2],
    end: [u32; 2],
    dilations: [u32; 2],
) -> Window {
    Window {
        kernel,
        strides,
        dilations,
        begin,
        end,
    }
}

fn square(kernel: u32, stride: u32, pad: u32) -> Window {
    window([kernel; 2], [stride; 2], [pad; 2], [pad; 2], [1; 2])
}

/// Bias per channel, a residual and Relu.
fn residual(scalar: Scalar) -> Epilogue {
    let operand = |broadcast, access| EpilogueOperand {
        scalar,
        broadcast,
        access,
    };
    let add = |a, b| Expression::Binary(Binary::Add, Box::new(a), Box::new(b));
    Epilogue {
        expression: Expression::Unary(
            Unary::Relu,
            Box::new(add(
                add(Expression::Operand(0), Expression::Operand(1)),
                Expression::Operand(2),
            )),
        ),
        operands: vec![
            operand(Broadcast::Column, Access::Constant),
            operand(Broadcast::Same, Access::Read),
        ],
        output: scalar,
        columns: None,
    }
}

/// A scale and a bias per channel, and a zero point, rounded to bytes.
fn requantised(output: Scalar) -> Epilogue {
    let operand = EpilogueOperand {
        scalar: Scalar::F32,
        broadcast: Broadcast::Column,
        access: Access::Constant,
    };
    let binary = |f, a, b| Expression::Binary(f, Box::new(a), Box::new(b));
    let scaled = binary(
        Binary::Mul,
        Expression::Operand(0),
        binary(Binary::Mul, Expression::Operand(1), Expression::Constant(0.001)),
    );
    let sum = binary(Binary::Add, scaled, Expression::Constant(3.0));
    Epilogue {
        expression: sum,
        operands: vec![operand],
        output,
        columns: None,
    }
}

const SMALL: ConvTile = ConvTile::Direct {
    threads: Threads {
        rows: 2,
        quads: 1,
        down: 2,
        across: 2,
        slices: 4,
    },
    ahead: 2,
};
const STAGED: ConvTile = ConvTile::Staged {
    threads: Threads {
        rows: 2,
        quads: 2,
        down: 4,
        across: 4,
        slices: 2,
    },
    depth: 4,
};

fn conv(image: Image, channels_out: u32, window: Window, groups: u32, scalar: Scalar) -> Conv {
    Conv {
        image,
        source: ImageLayout::ChannelsLast,
        channels_out,
        window,
        direction: Direction::Forward,
        groups,
        scalar,
        zero_point: 0,
        epilogue: residual(scalar),
        tile: SMALL,
    }
}

/// The shapes that every way of computing must get right.
fn shapes(scalar: Scalar) -> Vec<(&'static str, Conv)> {
    let odd = window([3, 2], [2, 1], [0, 1], [1, 0], [1, 2]);
    let first = Conv {
        source: ImageLayout::ChannelsFirst,
        ..conv(image(1, 15, 13, 3), 16, square(7, 2, 3), 1, scalar)
    };
    let transposed = |extra, c, m, window, groups| Conv {
        direction: Direction::Transposed { extra },
        ..conv(image(2, 5, 4, c), m, window, groups, scalar)
    };
    vec![
        (
            "1x1/16-24",
            conv(image(1, 7, 7, 16), 24, Window::POINT, 1, scalar),
        ),
        ("1x1/5-3", conv(image(2, 3, 5, 5), 3, Window::POINT, 1, scalar)),
        (
            "1x1/stride",
            conv(image(1, 7, 6, 8), 20, square(1, 2, 0), 1, scalar),
        ),
        ("1x1/pad", conv(image(1, 3, 3, 8), 8, square(1, 1, 1), 1, scalar)),
        (
            "3x3/16-24",
            conv(image(2, 6, 5, 16), 24, square(3, 1, 1), 1, scalar),
        ),
        (
            "3x3/valid",
            conv(image(1, 6, 5, 12), 8, square(3, 1, 0), 1, scalar),
        ),
        (
            "3x3/24-5",
            conv(image(1, 5, 5, 24), 5, square(3, 2, 1), 1, scalar),
        ),
        ("3x2/odd", conv(image(1, 9, 8, 4), 8, odd, 1, scalar)),
        ("3x2/1-1", conv(image(1, 9, 8, 1), 1, odd, 1, scalar)),
        (
            "3x3/3-16",
            conv(image(2, 8, 9, 3), 16, square(3, 2, 1), 1, scalar),
        ),
        (
            "5x1/line",
            conv(
                image(2, 1, 19, 6),
                10,
                window([1, 5], [1, 2], [0, 2], [0, 1], [1, 1]),
                1,
                scalar,
            ),
        ),
        (
            "3x3/groups",
            conv(image(1, 6, 6, 16), 24, square(3, 1, 1), 2, scalar),
        ),
        (
            "3x3/groups-of-odd",
            conv(image(1, 5, 6, 6), 9, square(3, 1, 1), 3, scalar),
        ),
        (
            "3x3/groups-of-2",
            conv(image(1, 5, 6, 8), 16, square(3, 1, 1), 4, scalar),
        ),
        ("7x7/first", first),
        ("2x2/transposed", transposed([0, 0], 8, 12, square(2, 2, 0), 1)),
        ("3x3/transposed", transposed([1, 0], 4, 6, square(3, 2, 1), 2)),
        (
            "3x2/transposed",
            transposed([0, 1], 5, 3, window([3, 2], [1, 3], [1, 0], [0, 1], [2, 1]), 1),
        ),
    ]
}

/// All trials of this family.
pub(crate) fn trials(gpu: &Result<Arc<Gpu>, String>) -> Vec<Trial> {
    let limits = gpu.as_ref().map_or(Limits::LEAST, |gpu| gpu.limits);
    let mut trials = Vec::new();
    for scalar in [Scalar::F32, Scalar::F16] {
        for (name, conv) in shapes(scalar) {
            for (how, tile) in [("direct", SMALL), ("staged", STAGED)] {
                let name = format!("conv/{}/{how}/{name}", scalar.name());
                trials.push(trial(gpu, name, Conv { tile, ..conv.clone() }));
            }
        }
    }
    for (scalar, zero_point) in [(Scalar::I8, -3), (Scalar::U8, 130)] {
        for (name, conv) in shapes(scalar) {
            if conv.source == ImageLayout::ChannelsFirst {
                continue;
            }
            for (how, tile) in [("direct", SMALL), ("staged", STAGED)] {
                let name = format!("conv/{}/{how}/{name}", scalar.name());
                let epilogue = requantised(scalar);
                let conv = Conv {
                    tile,
                    zero_point,
                    epilogue,
                    ..conv.clone()
                };
                trials.push(trial(gpu, name, conv));
            }
        }
    }
    // some channels of an output
    for (channels, first, all) in [(8, 4, 20), (5, 12, 17)] {
        for scalar in [Scalar::F32, Scalar::U8] {
            for (how, tile) in [("direct", SMALL), ("staged", STAGED)] {
                let epilogue = Epilogue {
                    columns: Some(Columns { first, all }),
                    ..if scalar == Scalar::U8 {
                        requantised(scalar)
                    } else {
                        residual(scalar)
                    }
                };
                let name = format!("conv/{}/{how}/columns-{first}-of-{all}", scalar.name());
                let conv = Conv {
                    epilogue,
                    tile,
                    ..conv(image(2, 5, 6, 6), channels, square(3, 2, 1), 1, scalar)
                };
                trials.push(trial(gpu, name, conv));
            }
        }
    }
    // every tile that a device is offered
    for scalar in [Scalar::F32, Scalar::F16, Scalar::U8] {
        let epilogue = if scalar == Scalar::U8 {
            requantised(scalar)
        } else {
            residual(scalar)
        };
        let conv = Conv {
            epilogue,
            ..conv(image(1, 9, 7, 36), 44, square(3, 1, 1), 1, scalar)
        };
        for (i, tile) in conv.candidates(&limits).into_iter().enumerate() {
            let name = format!("conv/{}/candidate-{i}", scalar.name());
            trials.push(trial(gpu, name, Conv { tile, ..conv.clone() }));
        }
    }
    for scalar in [Scalar::F32, Scalar::F16, Scalar::I8, Scalar::U8] {
        for channels in [1, 3, 5, 16, 24] {
            let kinds = [
                ("max", PoolKind::Max),
                ("mean", PoolKind::Average { count_padding: false }),
                ("mean-padded", PoolKind::Average { count_padding: true }),
            ];
            for (what, kind) in kinds {
                if kind != PoolKind::Max && matches!(scalar, Scalar::I8 | Scalar::U8) {
                    continue;
                }
                for (name, window, ceil) in [
                    ("3x3/2", square(3, 2, 1), false),
                    ("2x3/ceil", window([2, 3], [3, 2], [0, 1], [1, 0], [1, 1]), true),
                    (
                        "3x2/dilated",
                        window([3, 2], [1, 1], [2, 0], [0, 1], [2, 3]),
                        false,
                    ),
                ] {
                    let pool = Pool {
                        image: image(2, 7, 8, channels),
                        window,
                        ceil,
                        kind,
                        scalar,
                    };
                    let name = format!("pool/{what}/{}/{name}/{channels}", scalar.name());
                    trials.push(trial(gpu, name, pool));
                }
                if matches!(scalar, Scalar::F32 | Scalar::F16) {
                    let pool = GlobalPool {
                        image: image(2, 7, 7, channels),
                        kind,
                        scalar,
                    };
                    let name = format!("global-pool/{what}/{}/{channels}", scalar.name());
                    trials.push(trial(gpu, name, pool));
                }
            }
        }
    }
    // matrix units of other devices: their text is validated here, their values where they are
    let units = |cooperative, lanes| Limits {
        shared_bytes: 48 << 10,
        invocations: 1024,
        subgroup: [lanes; 2],
        features: Features {
            cooperative,
            f16: true,
            ..limits.features
        },
        ..limits
    };
    for (name, conv) in shapes(Scalar::F16) {
        for (side, lanes) in [(16, 32), (8, 8)] {
            let tile = ConvTile::Matrix {
                rows: 1,
                columns: 2,
                down: 2,
                across: 1,
                slices: 2,
                depth: 2,
                filters: true,
            };
            let conv = Conv { tile, ..conv.clone() };
            let limits = units(side, lanes);
            if gpu
                .as_ref()
                .is_ok_and(|gpu| gpu.limits.features.cooperative == side)
            {
                trials.push(trial(gpu, format!("conv/f16/matrix/{name}"), conv.clone()));
            }
            trials.push(Trial::test(
                format!("conv/text/matrix-{side}/{name}"),
                move || {
                    let kernel = conv
                        .kernel(&limits)
                        .map_err(|error| Failed::from(error.to_string()))?;
                    validate(&kernel).map_err(Failed::from)
                },
            ));
        }
    }
    // weights straight from memory, where all tiles are whole
    for (side, lanes) in [(16, 32), (8, 8)] {
        let tile = ConvTile::Matrix {
            rows: 1,
            columns: 2,
            down: 1,
            across: 1,
            slices: 3,
            depth: 2,
            filters: false,
        };
        let conv = Conv {
            tile,
            ..conv(image(1, 7, 7, 2 * side), 64, square(3, 1, 1), 1, Scalar::F16)
        };
        let limits = units(side, lanes);
        if gpu
            .as_ref()
            .is_ok_and(|gpu| gpu.limits.features.cooperative == side)
        {
            trials.push(trial(gpu, "conv/f16/matrix/straight", conv.clone()));
        }
        trials.push(Trial::test(
            format!("conv/text/matrix-{side}/straight"),
            move || {
                let kernel = conv
                    .kernel(&limits)
                    .map_err(|error| Failed::from(error.to_string()))?;
                validate(&kernel).map_err(Failed::from)
            },
        ));
    }
    depthwise(gpu, &mut trials);
    resize(gpu, &mut trials);
    trials
}

fn depthwise(gpu: &Result<Arc<Gpu>, String>, trials: &mut Vec<Trial>) {
    let shapes = [
        ("3x3/16", image(2, 7, 9, 16), 16, square(3, 1, 1)),
        ("3x3/2/24", image(1, 8, 9, 24), 24, square(3, 2, 1)),
        ("3x3/5", image(1, 6, 5, 5), 5, square(3, 1, 1)),
        (
            "2x3/1-3",
            image(2, 6, 5, 1),
            3,
            window([2, 3], [1, 2], [1, 0], [0, 2], [1, 1]),
        ),
        (
            "5x3/4-8",
            image(1, 9, 9, 4),
            8,
            window([5, 3], [2, 3], [0, 2], [3, 1], [2, 1]),
        ),
        (
            "3x9/dilated",
            image(1, 6, 40, 8),
            8,
            window([3, 9], [1, 1], [1, 12], [1, 12], [1, 3]),
        ),
    ];
    for scalar in [Scalar::F32, Scalar::F16, Scalar::I8, Scalar::U8] {
        for (name, image, channels_out, window) in shapes {
            for strip in [1, 4] {
                let bytes = matches!(scalar, Scalar::I8 | Scalar::U8);
                let one = Depthwise {
                    image,
                    channels_out,
                    window,
                    scalar,
                    zero_point: if scalar == Scalar::U8 { 120 } else { 5 },
                    epilogue: if bytes {
                        requantised(scalar)
                    } else {
                        residual(scalar)
                    },
                    strip,
                };
                trials.push(trial(
                    gpu,
                    format!("depthwise/{}/{name}/{strip}", scalar.name()),
                    one,
                ));
            }
        }
    }
}

fn resize(gpu: &Result<Arc<Gpu>, String>, trials: &mut Vec<Trial>) {
    let axis = |output, scale, region| ResizeAxis {
        output,
        scale,
        region,
    };
    let plain = Resize {
        image: image(2, 5, 6, 4),
        axes: [axis(10, 2.0, [0.0, 1.0]), axis(9, 1.5, [0.0, 1.0])],
        interpolation: Interpolation::Linear,
        coordinates: Coordinates::HalfPixel,
        antialias: false,
        exclude_outside: false,
        extrapolation: 0.0,
        scalar: Scalar::F32,
    };
    let all = [
        ("linear", plain),
        (
            "linear/f16",
            Resize {
                scalar: Scalar::F16,
                ..plain
            },
        ),
        (
            "linear/corners/3",
            Resize {
                coordinates: Coordinates::AlignCorners,
                image: image(1, 5, 6, 3),
                ..plain
            },
        ),
        (
            "cubic",
            Resize {
                interpolation: Interpolation::Cubic(-0.75),
                coordinates: Coordinates::PytorchHalfPixel,
                exclude_outside: true,
                ..plain
            },
        ),
        (
            "linear/antialias/f16",
            Resize {
                axes: [axis(2, 0.4, [0.0, 1.0]), axis(6, 1.0, [0.0, 1.0])],
                antialias: true,
                scalar: Scalar::F16,
                image: image(1, 5, 6, 3),
                ..plain
            },
        ),
        (
            "linear/crop",
            Resize {
                axes: [axis(4, 0.8, [-0.2, 0.8]), axis(5, 0.83, [0.1, 1.3])],
                coordinates: Coordinates::TfCropAndResize,
                extrapolation: 7.5,
                ..plain
            },
        ),
    ];
    for (name, one) in all {
        trials.push(trial(gpu, format!("resize/{name}"), one));
    }
    for scalar in [Scalar::F32, Scalar::U8] {
        for channels in [3, 8] {
            let one = Resize {
                interpolation: Interpolation::Nearest(Rounding::Floor),
                coordinates: Coordinates::Asymmetric,
                image: image(1, 5, 6, channels),
                scalar,
                ..plain
            };
            trials.push(trial(
                gpu,
                format!("resize/nearest/{}/{channels}", scalar.name()),
                one,
            ));
        }
    }
}
