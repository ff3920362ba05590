//! The convolutions of MobileNetV2 and ResNet-50 at 224x224, batch 1, as their papers list them, and all tiles.

use polychip_gpu_kernels::{
    Access, Binary, Broadcast, Conv, ConvTile, Depthwise, Direction, Epilogue, EpilogueOperand, Expression,
    Generate, Image, ImageLayout, Kernel, Limits, Sample, Scalar, Threads, Unary, Window,
};

use crate::kernel_of;

/// One of both kinds.
pub(crate) enum Shape {
    Conv(Conv),
    Depthwise(Depthwise),
}

/// A layer, and how often the network has it.
pub(crate) struct Layer {
    pub(crate) name: String,
    pub(crate) count: u32,
    pub(crate) shape: Shape,
}

/// Bias, for some a residual, then for some clamping or Relu.
fn epilogue(scalar: Scalar, residual: bool, most: Option<f32>) -> Epilogue {
    let operand = |broadcast, access| EpilogueOperand {
        scalar,
        broadcast,
        access,
    };
    let binary = |f, a, b| Expression::Binary(f, Box::new(a), Box::new(b));
    let mut operands = vec![operand(Broadcast::Column, Access::Constant)];
    let mut sum = binary(Binary::Add, Expression::Operand(0), Expression::Operand(1));
    if residual {
        operands.push(operand(Broadcast::Same, Access::Read));
        sum = binary(Binary::Add, sum, Expression::Operand(2));
    }
    if let Some(most) = most {
        sum = Expression::Unary(Unary::Relu, Box::new(sum));
        if most.is_finite() {
            sum = binary(Binary::Min, sum, Expression::Constant(most));
        }
    }
    Epilogue {
        expression: sum,
        operands,
        output: scalar,
        columns: None,
    }
}

struct Network {
    scalar: Scalar,
    layers: Vec<Layer>,
}

impl Network {
    fn add(&mut self, name: String, shape: Shape) {
        match self.layers.iter_mut().find(|layer| layer.name == name) {
            Some(layer) => layer.count += 1,
            None => self.layers.push(Layer {
                name,
                count: 1,
                shape,
            }),
        }
    }

    fn conv(
        &mut self,
        size: u32,
        from: u32,
        to: u32,
        kernel: u32,
        stride: u32,
        residual: bool,
        most: Option<f32>,
    ) {
        let first = from == 3;
        let pad = kernel / 2;
        let name = format!(
            "{kernel}x{kernel}/{stride} {size}x{size} {from}-{to}{}",
            if residual { " +" } else { "" }
        );
        let conv = Conv {
            image: Image {
                batch: 1,
                height: size,
                width: size,
                channels: from,
            },
            source: if first {
                ImageLayout::ChannelsFirst
            } else {
                ImageLayout::ChannelsLast
            },
            channels_out: to,
            window: Window {
                kernel: [kernel; 2],
                strides: [stride; 2],
                begin: [pad; 2],
                end: [pad; 2],
                ..Window::POINT
            },
            direction: Direction::Forward,
            groups: 1,
            scalar: self.scalar,
            zero_point: 0,
            epilogue: epilogue(self.scalar, residual, most),
            tile: direct(1, 1, 8, 8, 1, 1),
        };
        self.add(name, Shape::Conv(conv));
    }

    fn depthwise(&mut self, size: u32, channels: u32, stride: u32) {
        let one = Depthwise {
            image: Image {
                batch: 1,
                height: size,
                width: size,
                channels,
            },
            channels_out: channels,
            window: Window {
                kernel: [3; 2],
                strides: [stride; 2],
                begin: [1; 2],
                end: [1; 2],
                ..Window::POINT
            },
            scalar: self.scalar,
            zero_point: 0,
            epilogue: epilogue(self.scalar, false, Some(6.0)),
            strip: 1,
        };
        self.add(
            format!("depthwise/{stride} {size}x{size} {channels}"),
            Shape::Depthwise(one),
        );
    }
}

fn mobilenet(scalar: Scalar) -> Vec<Layer> {
    let mut net = Network {
        scalar,
        layers: Vec::new(),
    };
    let six = Some(6.0);
    net.conv(224, 3, 32, 3, 2, false, six);
    let (mut size, mut from) = (112, 32);
    for (widen, to, count, stride) in [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ] {
        for i in 0..count {
            let stride = if i == 0 { stride } else { 1 };
            let wide = from * widen;
            if widen > 1 {
                net.conv(size, from, wide, 1, 1, false, six);
            }
            net.depthwise(size, wide, stride);
            size /= stride;
            net.conv(size, wide, to, 1, 1, i > 0, None);
            from = to;
        }
    }
    net.conv(7, 320, 1280, 1, 1, false, six);
    net.conv(1, 1280, 1000, 1, 1, false, None);
    net.layers
}

fn resnet(scalar: Scalar) -> Vec<Layer> {
    let mut net = Network {
        scalar,
        layers: Vec::new(),
    };
    let relu = Some(f32::INFINITY);
    net.conv(224, 3, 64, 7, 2, false, relu);
    let (mut size, mut from) = (56, 64);
    for (width, count, stride) in [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)] {
        for i in 0..count {
            let stride = if i == 0 { stride } else { 1 };
            net.conv(size, from, width, 1, 1, false, relu);
            net.conv(size, width, width, 3, stride, false, relu);
            if i == 0 {
                net.conv(size, from, 4 * width, 1, stride, false, None);
            }
            size /= stride;
            net.conv(size, width, 4 * width, 1, 1, true, relu);
            from = 4 * width;
        }
    }
    net.conv(1, 2048, 1000, 1, 1, false, None);
    net.layers
}

/// Networks by name.
pub(crate) fn networks() -> Vec<(&'static str, Vec<Layer>)> {
    vec![
        ("mobilenetv2-f32", mobilenet(Scalar::F32)),
        ("mobilenetv2-f16", mobilenet(Scalar::F16)),
        ("resnet50-f16", resnet(Scalar::F16)),
        ("resnet50-f32", resnet(Scalar::F32)),
    ]
}

fn direct(rows: u32, quads: u32, down: u32, across: u32, slices: u32, ahead: u32) -> ConvTile {
    ConvTile::Direct {
        threads: Threads {
            rows,
            quads,
            down,
            across,
            slices,
        },
        ahead,
    }
}

fn staged(rows: u32, quads: u32, down: u32, across: u32, slices: u32, depth: u32) -> ConvTile {
    ConvTile::Staged {
        threads: Threads {
            rows,
            quads,
            down,
            across,
            slices,
        },
        depth,
    }
}

fn matrix(rows: u32, columns: u32, down: u32, across: u32, slices: u32, depth: u32) -> ConvTile {
    ConvTile::Matrix {
        rows,
        columns,
        down,
        across,
        slices,
        depth,
        filters: true,
    }
}

/// As [`matrix`], with weights straight from memory.
fn straight(rows: u32, columns: u32, down: u32, across: u32, slices: u32, depth: u32) -> ConvTile {
    ConvTile::Matrix {
        rows,
        columns,
        down,
        across,
        slices,
        depth,
        filters: false,
    }
}

/// Tiles to choose from when the rule is made.
fn wide() -> Vec<ConvTile> {
    vec![
        direct(1, 1, 4, 4, 16, 4),
        direct(2, 1, 4, 4, 16, 2),
        direct(2, 1, 4, 4, 16, 4),
        direct(2, 1, 8, 4, 8, 2),
        direct(2, 1, 2, 4, 32, 4),
        direct(2, 1, 2, 8, 16, 2),
        direct(4, 1, 2, 4, 32, 2),
        direct(4, 1, 4, 4, 16, 2),
        direct(4, 1, 4, 8, 8, 2),
        direct(4, 1, 8, 8, 4, 2),
        direct(4, 1, 8, 8, 2, 2),
        direct(4, 1, 8, 8, 1, 2),
        direct(4, 2, 4, 4, 8, 2),
        direct(4, 2, 8, 8, 2, 1),
        direct(4, 2, 8, 8, 1, 1),
        staged(1, 1, 8, 8, 4, 16),
        staged(2, 1, 8, 4, 8, 32),
        staged(2, 1, 8, 8, 4, 16),
        staged(4, 1, 4, 8, 8, 32),
        staged(4, 1, 4, 8, 8, 16),
        staged(4, 1, 8, 4, 8, 16),
        staged(4, 1, 8, 8, 4, 16),
        staged(4, 1, 8, 8, 2, 8),
        staged(4, 2, 8, 8, 2, 8),
        staged(4, 2, 8, 8, 1, 8),
        staged(8, 2, 8, 8, 1, 4),
        staged(8, 1, 8, 8, 2, 8),
        staged(8, 2, 4, 4, 8, 16),
        matrix(1, 1, 1, 1, 8, 4),
        matrix(1, 1, 1, 2, 8, 2),
        matrix(1, 1, 1, 2, 4, 4),
        matrix(1, 2, 1, 1, 8, 4),
        matrix(1, 2, 1, 1, 4, 4),
        matrix(1, 1, 2, 2, 4, 4),
        matrix(1, 2, 2, 1, 4, 4),
        matrix(1, 2, 2, 1, 8, 2),
        matrix(1, 2, 2, 1, 2, 4),
        matrix(2, 2, 1, 1, 8, 2),
        matrix(2, 2, 1, 1, 4, 2),
        matrix(2, 2, 1, 2, 4, 2),
        matrix(2, 2, 2, 1, 2, 2),
        matrix(2, 2, 2, 2, 2, 2),
        matrix(2, 2, 2, 2, 1, 4),
        matrix(2, 2, 2, 2, 1, 2),
        matrix(2, 4, 2, 2, 1, 2),
        matrix(4, 2, 1, 2, 2, 2),
        matrix(4, 4, 2, 2, 1, 2),
        matrix(1, 1, 1, 1, 8, 2),
        matrix(1, 1, 1, 1, 16, 1),
        straight(1, 1, 1, 1, 8, 2),
        straight(1, 1, 1, 1, 8, 4),
        straight(1, 1, 1, 1, 16, 2),
        straight(1, 2, 1, 1, 4, 4),
        straight(1, 2, 1, 1, 8, 2),
        straight(1, 2, 1, 1, 8, 4),
        straight(1, 2, 1, 1, 16, 2),
        straight(2, 2, 1, 1, 4, 4),
        straight(2, 2, 1, 1, 8, 2),
        straight(2, 2, 1, 1, 8, 4),
        straight(2, 2, 1, 2, 4, 2),
        straight(2, 2, 2, 2, 2, 2),
        straight(2, 1, 1, 1, 8, 4),
        straight(2, 1, 1, 2, 8, 2),
    ]
}

impl Shape {
    pub(crate) fn sample(&self) -> Sample {
        match self {
            Shape::Conv(conv) => conv.sample(),
            Shape::Depthwise(one) => one.sample(),
        }
    }

    /// All kernels that the device can hold, each with its rank among those that the library offers.
    pub(crate) fn kernels(&self, limits: &Limits, all: bool) -> Vec<(Option<usize>, Kernel)> {
        match self {
            Shape::Conv(conv) => {
                let offered = conv.candidates(limits);
                let mut tiles: Vec<(Option<usize>, ConvTile)> = offered
                    .iter()
                    .enumerate()
                    .map(|(i, &tile)| (Some(i), tile))
                    .collect();
                if all {
                    tiles.extend(
                        wide()
                            .into_iter()
                            .filter(|t| !offered.contains(t))
                            .map(|t| (None, t)),
                    );
                }
                tiles
                    .into_iter()
                    .filter_map(|(rank, tile)| {
                        let conv = Conv { tile, ..conv.clone() };
                        Some((rank, kernel_of(&conv, limits)?))
                    })
                    .collect()
            }
            Shape::Depthwise(one) => one
                .candidates(limits)
                .into_iter()
                .enumerate()
                .filter_map(|(i, strip)| {
                    let one = Depthwise { strip, ..one.clone() };
                    Some((Some(i), kernel_of(&one, limits)?))
                })
                .collect(),
        }
    }
}
