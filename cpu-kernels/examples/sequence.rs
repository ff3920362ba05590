//! All convolutions of a model in sequence, each with weights of its own: what kernels are tuned on.
//!
//! A single layer repeated keeps its weights in the cache and flatters by 15 to 30 % (facts section 5).
//!
//! `cargo run --release -p polychip-cpu-kernels --example sequence -- [THREADS] [ISA] [MODEL] [layers] [ALGORITHM]`:
//! `auto` stands for the widest instruction set, `all` for every model; an algorithm (`direct`, `f2`, `f4`) is
//! forced where it fits; `u8` multiplies codes of 8 bits.
//!
//! Not here: pooling, additions that are not residuals, the classifier, layout changes.
#![allow(clippy::print_stdout)] // an example's output

use polychip_cpu_kernels::conv::{Algorithm, ConvParams, ConvPlan, Window};
use polychip_cpu_kernels::quantised::{self, Added, Codes, Output, Target, Weights};
use polychip_cpu_kernels::{AlignedVec, Epilogue, Isa, ThreadPool, Unary, peak};
use std::time::Instant;

struct Layer {
    plan: ConvPlan,
    /// Of codes, where those are measured.
    codes: Option<quantised::ConvPlan>,
    packed: AlignedVec,
    epilogue: Epilogue,
    residual: bool,
    macs: usize,
    name: String,
}

struct Model {
    isa: Isa,
    /// Forced where it fits.
    algorithm: Option<Algorithm>,
    codes: bool,
    size: usize,
    channels: usize,
    layers: Vec<Layer>,
}

impl Model {
    fn conv(
        &mut self,
        out: usize,
        kernel: usize,
        stride: usize,
        depthwise: bool,
        activation: Unary,
        residual: bool,
    ) {
        let groups = if depthwise { self.channels } else { 1 };
        let (size, pad) = (self.size, kernel / 2);
        let next = (size + 2 * pad - kernel) / stride + 1;
        let window = Window::new_2d([size; 2], [next; 2], [kernel; 2], [stride; 2], [1; 2], [pad; 2]);
        let params = ConvParams::dense(1, self.channels, out, groups, window);
        let plan = match self.algorithm {
            Some(algorithm) => ConvPlan::with_algorithm(self.isa, params, algorithm),
            None => ConvPlan::new(self.isa, params),
        }
        .expect("invariant: the shapes below are valid");
        let weights: Vec<f32> = (0..out * self.channels / groups * kernel * kernel)
            .map(|i| ((i * 7919) % 1009) as f32 / 1009.0 * 0.1 - 0.05)
            .collect();
        let codes = self
            .codes
            .then(|| quantised::ConvPlan::new(self.isa, params, Target::Codes))
            .transpose()
            .expect("invariant: the shapes below are valid");
        let mut packed =
            AlignedVec::zeroed(codes.as_ref().map_or(plan.packed_len(), |plan| plan.packed_len()));
        match &codes {
            Some(codes) => codes.pack(
                &Weights {
                    values: &weights.iter().map(|w| (w * 2000.0) as i8).collect::<Vec<_>>(),
                    input_zero: 128,
                    bias: &vec![0; out],
                    factor: &vec![0.01; out],
                    shift: &vec![0.0; out],
                },
                &mut packed,
            ),
            None => plan.pack(&weights, Some(&vec![0.1; out]), &mut packed),
        }
        let macs = next * next * weights.len();
        let kind = if depthwise { "depthwise" } else { "conv" };
        let name = format!(
            "{kind} {}->{out} {kernel}x{kernel}/{stride} @{next} {}",
            self.channels,
            if self.codes {
                "codes"
            } else {
                plan.algorithm().name()
            }
        );
        let epilogue = Epilogue::activation(activation);
        self.layers.push(Layer {
            plan,
            codes,
            packed,
            epilogue,
            residual,
            macs,
            name,
        });
        (self.size, self.channels) = (next, out);
    }
}

fn mobilenet_v2(m: &mut Model) {
    let relu6 = Unary::Clip { low: 0.0, high: 6.0 };
    m.conv(32, 3, 2, false, relu6, false);
    let blocks = [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ];
    for (expand, out, repeats, stride) in blocks {
        for i in 0..repeats {
            let (stride, from) = (if i == 0 { stride } else { 1 }, m.channels);
            if expand != 1 {
                m.conv(from * expand, 1, 1, false, relu6, false);
            }
            m.conv(from * expand, 3, stride, true, relu6, false);
            m.conv(out, 1, 1, false, Unary::Identity, stride == 1 && from == out);
        }
    }
    m.conv(1280, 1, 1, false, relu6, false);
}

fn resnet50(m: &mut Model) {
    m.conv(64, 7, 2, false, Unary::Relu, false);
    m.size = 56; // a maximum pooling
    for (width, repeats, stride) in [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)] {
        for i in 0..repeats {
            let (size, channels) = (m.size, m.channels);
            let stride = if i == 0 { stride } else { 1 };
            if i == 0 {
                m.conv(width * 4, 1, stride, false, Unary::Identity, false);
                (m.size, m.channels) = (size, channels);
            }
            m.conv(width, 1, 1, false, Unary::Relu, false);
            m.conv(width, 3, stride, false, Unary::Relu, false);
            m.conv(width * 4, 1, 1, false, Unary::Relu, true);
        }
    }
}

fn squeezenet1_1(m: &mut Model) {
    m.conv(64, 3, 2, false, Unary::Relu, false);
    for (size, squeeze, expand) in [
        (55, 16, 64),
        (55, 16, 64),
        (27, 32, 128),
        (27, 32, 128),
        (13, 48, 192),
        (13, 48, 192),
        (13, 64, 256),
        (13, 64, 256),
    ] {
        m.size = size; // a maximum pooling before some
        m.conv(squeeze, 1, 1, false, Unary::Relu, false);
        m.conv(expand, 1, 1, false, Unary::Relu, false);
        m.channels = squeeze;
        m.conv(expand, 3, 1, false, Unary::Relu, false);
        m.channels = 2 * expand;
    }
    m.conv(1000, 1, 1, false, Unary::Relu, false);
}

fn yolov8n(m: &mut Model) {
    let silu = Unary::Swish { alpha: 1.0 };
    // one convolution of an image of `size` pixels
    let conv = |m: &mut Model, size: usize, from: usize, to: usize, kernel: usize, stride: usize| {
        (m.size, m.channels) = (size, from);
        m.conv(to, kernel, stride, false, silu, false);
    };
    let bottlenecks = |m: &mut Model, size: usize, from: usize, to: usize, repeats: usize| {
        conv(m, size, from, to, 1, 1);
        for _ in 0..2 * repeats {
            conv(m, size, to / 2, to / 2, 3, 1);
        }
        conv(m, size, to / 2 * (2 + repeats), to, 1, 1);
    };
    conv(m, 640, 3, 16, 3, 2);
    conv(m, 320, 16, 32, 3, 2);
    bottlenecks(m, 160, 32, 32, 1);
    conv(m, 160, 32, 64, 3, 2);
    bottlenecks(m, 80, 64, 64, 2);
    conv(m, 80, 64, 128, 3, 2);
    bottlenecks(m, 40, 128, 128, 2);
    conv(m, 40, 128, 256, 3, 2);
    bottlenecks(m, 20, 256, 256, 1);
    conv(m, 20, 256, 128, 1, 1);
    conv(m, 20, 512, 256, 1, 1);
    bottlenecks(m, 40, 384, 128, 1);
    bottlenecks(m, 80, 192, 64, 1);
    conv(m, 80, 64, 64, 3, 2);
    bottlenecks(m, 40, 192, 128, 1);
    conv(m, 40, 128, 128, 3, 2);
    bottlenecks(m, 20, 384, 256, 1);
    for (size, from) in [(80, 64), (40, 128), (20, 256)] {
        for to in [64, 80] {
            conv(m, size, from, to, 3, 1);
            conv(m, size, to, to, 3, 1);
            conv(m, size, to, to, 1, 1);
        }
    }
}

/// Rounds of the loop that measures the peak rate, after each run.
const PEAK_ROUNDS: usize = 50_000;

/// A model's name and what makes its layers.
type Make = (&'static str, fn(&mut Model));

const MODELS: [Make; 4] = [
    ("mobilenet_v2", mobilenet_v2),
    ("squeezenet1_1", squeezenet1_1),
    ("resnet50", resnet50),
    ("yolov8n", yolov8n),
];

/// Runs a layer on codes, from one buffer to the other.
fn run_codes(
    pool: &ThreadPool,
    plan: &quantised::ConvPlan,
    layer: &Layer,
    buffers: &mut [Vec<u8>],
    index: usize,
    scratch: &mut [f32],
) {
    let [a, b, c] = buffers else { unreachable!() };
    let (input, output) = if index.is_multiple_of(2) {
        (&*a, b)
    } else {
        (&*b, a)
    };
    let added = layer.residual.then_some(Added {
        codes: c,
        factor: 0.5,
        shift: -64.0,
        rounded: (Codes::all(128), 0.5),
    });
    let output = Output::Codes(output, Codes::all(128));
    plan.run(pool, &layer.packed, input, 128, added, output, scratch);
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let threads = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(1);
    let name = arguments.next().unwrap_or_default();
    let only = arguments.next().unwrap_or_else(|| "all".to_owned());
    let rest: Vec<String> = arguments.collect();
    let per_layer = rest.iter().any(|word| word == "layers");
    let codes = rest.iter().any(|word| word == "u8");
    let algorithm = rest.iter().find_map(|word| match word.as_str() {
        "direct" => Some(Algorithm::Direct),
        "f2" => Some(Algorithm::WinogradTwo),
        "f4" => Some(Algorithm::WinogradFour),
        _ => None,
    });
    let isa = Isa::available()
        .into_iter()
        .find(|isa| isa.name() == name)
        .unwrap_or_else(Isa::detect);
    let pool = ThreadPool::new(threads);
    for (name, make) in MODELS
        .into_iter()
        .filter(|(name, _)| only == "all" || only == *name)
    {
        let mut model = Model {
            isa,
            algorithm,
            codes,
            size: 224,
            channels: 3,
            layers: Vec::new(),
        };
        make(&mut model);
        let largest = model
            .layers
            .iter()
            .flat_map(|layer| {
                let p = layer.plan.params();
                let pixels = |size: [usize; 3]| size.iter().product::<usize>();
                [
                    pixels(p.window.input) * p.in_channels,
                    pixels(p.window.output) * p.out_channels,
                ]
            })
            .max()
            .unwrap_or(0);
        let mut buffers: Vec<AlignedVec> = (0..3).map(|_| AlignedVec::zeroed(largest)).collect();
        buffers[0].fill(0.5);
        let mut bytes = vec![vec![128u8; if codes { largest } else { 0 }]; 3];
        let scratch_len = model
            .layers
            .iter()
            .map(|layer| {
                let codes = layer.codes.as_ref();
                codes.map_or_else(|| layer.plan.scratch_len(&pool), |plan| plan.scratch_len(&pool))
            })
            .max()
            .unwrap_or(0);
        let mut scratch = AlignedVec::zeroed(scratch_len);
        let mut spent = vec![f64::INFINITY; model.layers.len()];
        let (mut runs, mut peaks) = (Vec::new(), Vec::new());
        let begin = Instant::now();
        while runs.len() < 10 || begin.elapsed().as_secs_f64() < 3.0 {
            let start = Instant::now();
            let region = pool.region();
            let mut last = start;
            for (index, layer) in model.layers.iter().enumerate() {
                if let Some(plan) = &layer.codes {
                    run_codes(&pool, plan, layer, &mut bytes, index, &mut scratch);
                    let now = Instant::now();
                    spent[index] = spent[index].min((now - last).as_secs_f64());
                    last = now;
                    continue;
                }
                let [a, b, c] = &mut buffers[..] else {
                    unreachable!()
                };
                let (input, output) = if index % 2 == 0 { (&*a, b) } else { (&*b, a) };
                let residual = layer.residual.then(|| (&c[..]).into());
                layer.plan.run(
                    &pool,
                    &layer.packed,
                    input,
                    residual,
                    layer.epilogue,
                    output,
                    &mut scratch,
                );
                let now = Instant::now();
                spent[index] = spent[index].min((now - last).as_secs_f64());
                last = now;
            }
            drop(region);
            runs.push(start.elapsed().as_secs_f64() * 1e3);
            let start = Instant::now();
            let rate = if codes {
                peak::multiply_add_bytes
            } else {
                peak::multiply_add
            };
            pool.run(threads, &|_| {
                rate(isa, PEAK_ROUNDS);
            });
            let flops = rate(isa, 1) as f64 * (PEAK_ROUNDS * threads) as f64;
            peaks.push(1e-9 * flops / start.elapsed().as_secs_f64());
        }
        runs.sort_by(f64::total_cmp);
        peaks.sort_by(f64::total_cmp);
        let macs: usize = model.layers.iter().map(|layer| layer.macs).sum();
        if per_layer {
            for (layer, spent) in model.layers.iter().zip(&spent) {
                let rate = 2e-9 * layer.macs as f64 / spent;
                println!("  {:40} {:8.1} us {rate:7.1} GFLOP/s", layer.name, spent * 1e6);
            }
        }
        let (best, median) = (runs[runs.len() / 10], runs[runs.len() / 2]);
        // the tenth percentile of times is the ninetieth of rates
        let peak = peaks[peaks.len() - 1 - peaks.len() / 10];
        let rate = 2e-6 * macs as f64 / best;
        println!(
            "{name} {isa:?} {threads} threads: p10 {best:.2} ms, median {median:.2} ms, {rate:.1} GFLOP/s at p10, \
             {:.0} % of the peak of {peak:.1} at p10; shortest time of each layer, summed: {:.2} ms",
            100.0 * rate / peak,
            1e3 * spent.iter().sum::<f64>()
        );
    }
}
