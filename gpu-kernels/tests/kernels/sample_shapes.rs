//! Sample shapes of large kernels: they keep the variant, need little work, and compute correctly on the available driver.

use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use polychip_gpu_kernels::{
    Access, ArgReduce, Concat, Coordinates, Copy, CumSum, Dequantise, Gather, GatherElements, GatherNd,
    Generate, GlobalPool, Image, Interpolation, Kernel, Limits, Lrn, OneHot, Pad, PadMode, Pool, PoolKind,
    Quantise, Resize, ResizeAxis, Result as Generated, Rounding, Sample, Scalar, ScatterElements, ScatterNd,
    Slice, Tile, Trilu, Window,
};

use crate::{device::Gpu, judge::trial};

/// The sample instance of a generator.
struct SampleInstance<G>(G);

impl<G: Generate> Generate for SampleInstance<G> {
    fn kernel(&self, limits: &Limits) -> Generated<Kernel> {
        self.0
            .sample_instance()
            .expect("a sample instance")
            .kernel(limits)
    }

    fn sample(&self) -> Sample {
        self.0.sample_instance().expect("a sample instance").sample()
    }
}

/// Whether a sample of it is quickly computed, as the numerics guard of a plugin sees it.
fn quick(kernel: &Kernel) -> bool {
    let bytes: u64 = kernel.bindings.iter().map(|binding| binding.bytes).sum();
    kernel.work <= 1 << 21 && bytes <= 8 << 20
}

const WINDOW: Window = Window {
    kernel: [3, 2],
    strides: [2, 1],
    dilations: [1, 2],
    begin: [1, 1],
    end: [0, 1],
};

/// All trials of this family.
pub(crate) fn trials(gpu: &Result<Arc<Gpu>, String>) -> Vec<Trial> {
    let limits = Limits {
        binding_bytes: 1 << 32,
        ..Limits::LEAST
    };
    let mut trials = Vec::new();
    macro_rules! add {
        ($($large:expr),+ $(,)?) => {$({
            let large = $large;
            let name = format!("small/{}", format!("{large:?}").replace(' ', ""));
            let name: String = name.chars().take(110).collect();
            let (of_large, of_small) = (large.kernel(&limits), large.sample_instance().unwrap().kernel(&limits));
            trials.push(Trial::test(format!("{name}/variant"), move || {
                let words = |error: polychip_gpu_kernels::Error| Failed::from(error.to_string());
                let (large, small) = (of_large.map_err(words)?, of_small.map_err(words)?);
                if small.variant != large.variant {
                    return Err(format!("{} instead of {}", small.variant, large.variant).into());
                }
                if quick(&large) || !quick(&small) {
                    return Err(format!("work {}, and {} of the small one", large.work, small.work).into());
                }
                Ok(())
            }));
            trials.push(trial(gpu, name, SampleInstance(large)));
        })+};
    }
    let image = |channels| Image {
        batch: 2,
        height: 231,
        width: 233,
        channels,
    };
    let pool = |kind, channels, scalar| Pool {
        image: image(channels),
        window: WINDOW,
        ceil: true,
        kind,
        scalar,
    };
    let mean = PoolKind::Average { count_padding: false };
    add!(
        pool(PoolKind::Max, 64, Scalar::F32),
        pool(mean, 35, Scalar::F32),
        pool(PoolKind::Max, 67, Scalar::U8),
    );
    for (kind, channels) in [(mean, 256), (PoolKind::Max, 67)] {
        add!(GlobalPool {
            image: image(channels),
            kind,
            scalar: Scalar::F32,
        });
    }
    let resize = |interpolation, coordinates, scale: f32, channels| {
        let image = image(channels);
        let axis = |size: u32| ResizeAxis {
            output: (size as f32 * scale) as u32,
            scale,
            region: [0.0, 1.0],
        };
        Resize {
            image,
            axes: [axis(image.height), axis(image.width)],
            interpolation,
            coordinates,
            antialias: false,
            exclude_outside: false,
            extrapolation: 0.0,
            scalar: Scalar::F32,
        }
    };
    add!(
        resize(Interpolation::Linear, Coordinates::HalfPixel, 2.0, 64),
        resize(Interpolation::Cubic(-0.75), Coordinates::AlignCorners, 0.4, 131),
        resize(
            Interpolation::Nearest(Rounding::Floor),
            Coordinates::Asymmetric,
            3.0,
            16
        ),
    );
    for (shape, axis) in [
        (vec![30_522, 768], 0),
        (vec![4, 50_000, 37], 1),
        (vec![6, 500, 30, 90], 2),
    ] {
        add!(Gather {
            scalar: Scalar::F32,
            shape,
            axis,
            indices: 384,
            index: Scalar::I64,
        });
    }
    add!(
        GatherElements {
            scalar: Scalar::F32,
            shape: vec![300, 40, 500],
            axis: 1,
            indices: vec![300, 7, 500],
            index: Scalar::I64,
        },
        GatherNd {
            scalar: Scalar::F16,
            shape: vec![4, 300, 400, 36],
            indices: vec![4, 5000, 1],
            batch: 1,
            index: Scalar::I64,
        },
        ScatterElements {
            scalar: Scalar::F32,
            shape: vec![300, 400, 50],
            axis: 1,
            indices: vec![300, 70, 50],
            index: Scalar::I64,
        },
        ScatterNd {
            scalar: Scalar::F32,
            shape: vec![300, 400, 50],
            indices: vec![90, 70, 2],
            index: Scalar::I64,
        },
        Concat {
            scalar: Scalar::F32,
            shapes: vec![vec![3, 40, 150, 150], vec![3, 21, 150, 150]],
            axis: 1,
        },
        Slice {
            scalar: Scalar::F32,
            shape: vec![3, 400, 300, 20],
            starts: vec![1, 399, 20, 4],
            steps: vec![1, -2, 1, 1],
            counts: vec![2, 190, 256, 16],
        },
        Slice {
            scalar: Scalar::F16,
            shape: vec![400, 9000],
            starts: vec![0, 8],
            steps: vec![1, 1],
            counts: vec![400, 8000],
        },
        Tile {
            scalar: Scalar::F32,
            shape: vec![200, 1, 70],
            to: vec![400, 90, 70],
        },
        CumSum {
            scalar: Scalar::F32,
            outer: 700,
            count: 4000,
            inner: 1,
            exclusive: false,
            reverse: true,
        },
        Trilu {
            scalar: Scalar::F32,
            shape: vec![12, 500, 501],
            upper: true,
            diagonal: 1,
        },
        OneHot {
            scalar: Scalar::F32,
            index: Scalar::I64,
            outer: 5000,
            depth: 1000,
            inner: 1,
        },
        Copy { bytes: 64 << 20 },
        Lrn {
            scalar: Scalar::F32,
            images: 2,
            channels: 96,
            places: 55 * 550,
            channels_last: true,
            size: 5,
            alpha: 1e-4,
            beta: 0.75,
            bias: 1.0,
        },
        ArgReduce {
            scalar: Scalar::F32,
            shape: vec![100, 300, 200],
            axis: 1,
            largest: true,
            last: false,
            index: Scalar::I64,
        },
        Quantise {
            from: Scalar::F32,
            to: Scalar::U8,
            shape: vec![2, 64, 300, 200],
            axis: None,
            zero_point: true,
            access: Access::Constant,
        },
        Dequantise {
            from: Scalar::I8,
            to: Scalar::F32,
            shape: vec![2, 64, 300, 200],
            axis: Some(1),
            zero_point: false,
            access: Access::Constant,
        },
    );
    for mode in [PadMode::Constant, PadMode::Reflect, PadMode::Edge, PadMode::Wrap] {
        add!(Pad {
            scalar: Scalar::F32,
            shape: vec![2, 200, 211, 36],
            before: vec![0, 3, 2, 0],
            after: vec![0, 1, -1, 0],
            mode,
            fill: u64::from(2.5f32.to_bits()),
        });
    }
    trials
}
