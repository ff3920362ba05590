//! All convolutions of a model in sequence, each with weights of its own: what kernels are tuned on.
//!
//! A single layer repeated keeps its weights in the cache and flatters by 15 to 30 %.
//!
//! `cargo run --release -p polychip-cpu-kernels --example sequence -- [THREADS] [ISA] [MODEL] [WORD ...]`: `auto` is
//! the widest instruction set, `all` is every model. Words: `f32`, `bf16`, `u8` (these precisions only), `layers`
//! (times of each), `silu` (YOLOv8n's activation, otherwise ReLU), and `direct`, `f2`, `f4` (an algorithm of f32, forced
//! where it fits). Rates are shares of the peak of multiplications with additions that the same run measures: of bytes
//! their own, of bf16 twice that of f32. Single-thread times are printed next to those of a prototype (an AMD EPYC Zen 5).
//!
//! Not here: pooling, additions that are not residuals, the classifier, layout changes.
#![allow(clippy::print_stdout)] // an example's output

use half::bf16;
use polychip_cpu_kernels::conv::{Algorithm, ConvParams, ConvPlan, Window};
use polychip_cpu_kernels::gemm::Elements;
use polychip_cpu_kernels::quantised::{self, CodeRange, Output, Weights};
use polychip_cpu_kernels::{AlignedVec, Epilogue, Isa, ThreadPool, Unary, peak};
use std::time::Instant;

/// What is multiplied.
#[derive(Clone, Copy, PartialEq)]
enum Precision {
    F32,
    Bf16,
    U8S8,
}

impl Precision {
    const ALL: [Precision; 3] = [Precision::F32, Precision::Bf16, Precision::U8S8];

    fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::Bf16 => "bf16",
            Precision::U8S8 => "u8",
        }
    }

    /// Runs the loop that measures the peak, and gives its operations.
    fn peak(self, isa: Isa, rounds: usize) -> f64 {
        match self {
            Precision::F32 => peak::multiply_add(isa, rounds) as f64,
            Precision::Bf16 => 2.0 * peak::multiply_add(isa, rounds) as f64,
            Precision::U8S8 => peak::multiply_add_bytes(isa, rounds) as f64,
        }
    }
}

enum Plan {
    Floats(ConvPlan),
    Codes(quantised::ConvPlan),
}

impl Plan {
    fn packed_len(&self) -> usize {
        match self {
            Plan::Floats(plan) => plan.packed_len(),
            Plan::Codes(plan) => plan.packed_len(),
        }
    }

    fn scratch_len(&self, pool: &ThreadPool) -> usize {
        match self {
            Plan::Floats(plan) => plan.scratch_len(pool),
            Plan::Codes(plan) => plan.scratch_len(pool),
        }
    }
}

struct Layer {
    plan: Plan,
    packed: AlignedVec,
    activation: Unary,
    residual: bool,
    macs: usize,
    elements: usize,
    name: String,
}

struct Model {
    isa: Isa,
    precision: Precision,
    /// Forced where it fits.
    algorithm: Option<Algorithm>,
    silu: bool,
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
        const VALID: &str = "invariant: the shapes below are valid";
        let groups = if depthwise { self.channels } else { 1 };
        let (size, pad) = (self.size, kernel / 2);
        let next = (size + 2 * pad - kernel) / stride + 1;
        let window = Window::new_2d([size; 2], [next; 2], [kernel; 2], [stride; 2], [1; 2], [pad; 2]);
        let params = ConvParams::dense(1, self.channels, out, groups, window);
        let plan = match (self.precision, self.algorithm) {
            (Precision::U8S8, _) => Plan::Codes(quantised::ConvPlan::new(self.isa, params).expect(VALID)),
            (Precision::Bf16, _) => {
                Plan::Floats(ConvPlan::of(Elements::Bf16, self.isa, params).expect(VALID))
            }
            (Precision::F32, Some(algorithm)) => {
                Plan::Floats(ConvPlan::with_algorithm(self.isa, params, algorithm).expect(VALID))
            }
            (Precision::F32, None) => Plan::Floats(ConvPlan::new(self.isa, params).expect(VALID)),
        };
        let len = out * self.channels / groups * kernel * kernel;
        let mut packed = AlignedVec::zeroed(plan.packed_len());
        let algorithm = match &plan {
            Plan::Floats(plan) => {
                let weights: Vec<f32> = (0..len)
                    .map(|i| ((i * 7919) % 1009) as f32 / 1009.0 * 0.1 - 0.05)
                    .collect();
                plan.pack(&weights, Some(&vec![0.1; out]), &mut packed);
                plan.algorithm().name()
            }
            Plan::Codes(plan) => {
                let weights = Weights {
                    values: &(0..len).map(|i| ((i * 7919) % 251) as i8).collect::<Vec<_>>(),
                    input_zero: 128,
                    bias: &vec![0; out],
                    factor: &vec![0.001; out],
                    shift: &vec![0.0; out],
                    zeros: &[],
                };
                plan.pack(&weights, &mut packed);
                "direct"
            }
        };
        let kind = if depthwise { "depthwise" } else { "conv" };
        let name = format!(
            "{kind} {}->{out} {kernel}x{kernel}/{stride} @{next} {algorithm}",
            self.channels,
        );
        self.layers.push(Layer {
            plan,
            packed,
            activation,
            residual,
            macs: next * next * len,
            elements: (size * size * self.channels).max(next * next * out),
            name,
        });
        (self.size, self.channels) = (next, out);
    }
}

/// Values of every precision, as many of each.
struct Buffer {
    floats: AlignedVec,
    halves: Vec<bf16>,
    codes: Vec<u8>,
}

impl Buffer {
    /// Of one precision; the others are empty.
    fn new(precision: Precision, len: usize) -> Self {
        let of = |other| if precision == other { len } else { 0 };
        let mut floats = AlignedVec::zeroed(of(Precision::F32));
        floats.fill(0.5);
        Self {
            floats,
            halves: vec![bf16::from_f32(0.5); of(Precision::Bf16)],
            codes: vec![130; of(Precision::U8S8)],
        }
    }
}

impl Layer {
    fn run(
        &self,
        pool: &ThreadPool,
        input: &Buffer,
        added: &Buffer,
        output: &mut Buffer,
        scratch: &mut AlignedVec,
    ) {
        let epilogue = Epilogue::activation(self.activation);
        match &self.plan {
            Plan::Codes(plan) => {
                let low = if self.activation == Unary::Identity {
                    0
                } else {
                    128
                };
                let codes = CodeRange {
                    zero: 128,
                    low,
                    high: 255,
                };
                let added = self.residual.then(|| quantised::Added {
                    codes: &added.codes,
                    factor: 1.0,
                    shift: -128.0,
                    rounded: (CodeRange::all(128), 1.0),
                });
                let output = Output::Codes(&mut output.codes, codes);
                plan.run(pool, &self.packed, &input.codes, 128, added, output, scratch);
            }
            Plan::Floats(plan) if input.halves.is_empty() => {
                let added = self.residual.then(|| (&added.floats[..]).into());
                plan.run(
                    pool,
                    &self.packed,
                    &input.floats,
                    added,
                    epilogue,
                    &mut output.floats,
                    scratch,
                );
            }
            Plan::Floats(plan) => {
                let added = self.residual.then(|| (&added.halves).into());
                plan.run(
                    pool,
                    &self.packed,
                    &input.halves,
                    added,
                    epilogue,
                    &mut output.halves,
                    scratch,
                );
            }
        }
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
    let silu = if m.silu {
        Unary::Swish { alpha: 1.0 }
    } else {
        Unary::Relu
    };
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

/// A model's name, what makes its layers, and the times of the prototype in each precision in ms.
type Make = (&'static str, fn(&mut Model), [Option<f64>; 3]);

const MODELS: [Make; 4] = [
    ("mobilenet_v2", mobilenet_v2, [Some(3.2), Some(1.72), None]),
    (
        "squeezenet1_1",
        squeezenet1_1,
        [Some(2.1), Some(1.39), Some(0.75)],
    ),
    ("resnet50", resnet50, [Some(28.7), Some(16.3), Some(8.15)]),
    ("yolov8n", yolov8n, [Some(22.0), Some(17.6), Some(9.1)]),
];

/// Runs the layers again and again, with the peak's loop between, and prints a line.
fn measure(name: &str, model: &Model, pool: &ThreadPool, prototype: Option<f64>, per_layer: bool) {
    let (isa, threads) = (model.isa, pool.threads());
    let largest = model.layers.iter().map(|layer| layer.elements).max().unwrap_or(0);
    let mut buffers = [(); 3].map(|()| Buffer::new(model.precision, largest));
    let scratch_len = model
        .layers
        .iter()
        .map(|layer| layer.plan.scratch_len(pool))
        .max()
        .unwrap_or(0);
    let mut scratch = AlignedVec::zeroed(scratch_len);
    let mut spent = vec![f64::INFINITY; model.layers.len()];
    let (mut runs, mut peaks) = (Vec::new(), Vec::new());
    let begin = Instant::now();
    while runs.len() < 10 || begin.elapsed().as_secs_f64() < 2.0 {
        let start = Instant::now();
        let region = pool.region();
        let mut last = start;
        for (index, layer) in model.layers.iter().enumerate() {
            let [a, b, added] = &mut buffers;
            let (input, output) = if index % 2 == 0 { (&*a, b) } else { (&*b, a) };
            layer.run(pool, input, added, output, &mut scratch);
            let now = Instant::now();
            spent[index] = spent[index].min((now - last).as_secs_f64());
            last = now;
        }
        drop(region);
        runs.push(start.elapsed().as_secs_f64() * 1e3);
        let start = Instant::now();
        pool.run(threads, &|_| {
            model.precision.peak(isa, PEAK_ROUNDS);
        });
        let spent = start.elapsed().as_secs_f64();
        let operations = model.precision.peak(isa, 1) * (PEAK_ROUNDS * threads) as f64;
        peaks.push(1e-9 * operations / spent);
    }
    runs.sort_by(f64::total_cmp);
    peaks.sort_by(f64::total_cmp);
    let macs: usize = model.layers.iter().map(|layer| layer.macs).sum();
    if per_layer {
        for (layer, spent) in model.layers.iter().zip(&spent) {
            let rate = 2e-9 * layer.macs as f64 / spent;
            println!("  {:40} {:8.1} us {rate:7.1} G/s", layer.name, spent * 1e6);
        }
    }
    let (best, median) = (runs[runs.len() / 10], runs[runs.len() / 2]);
    // the tenth percentile of times is the ninetieth of rates
    let peak = peaks[peaks.len() - 1 - peaks.len() / 10];
    let rate = 2e-6 * macs as f64 / best;
    let prototype = prototype.filter(|_| threads == 1).map_or(String::new(), |ms| {
        format!("; the prototype took {ms} ms, ratio {:.2}", best / ms)
    });
    println!(
        "{name} {} {isa:?} {threads} threads: p10 {best:.2} ms, median {median:.2} ms, {rate:.0} G/s at p10, {:.0} % of the \
         peak of {peak:.0} at p10; shortest time of each layer, summed: {:.2} ms{prototype}",
        model.precision.name(),
        100.0 * rate / peak,
        1e3 * spent.iter().sum::<f64>()
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let threads = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(1);
    let name = arguments.next().unwrap_or_default();
    let only = arguments.next().unwrap_or_else(|| "all".to_owned());
    let words: Vec<String> = arguments.collect();
    let has = |word: &str| words.iter().any(|given| given == word);
    let algorithm = words.iter().find_map(|word| match word.as_str() {
        "direct" => Some(Algorithm::Direct),
        "f2" => Some(Algorithm::WinogradTwo),
        "f4" => Some(Algorithm::WinogradFour),
        _ => None,
    });
    let some = Precision::ALL.iter().any(|precision| has(precision.name()));
    let isa = Isa::available()
        .into_iter()
        .find(|isa| isa.name() == name)
        .unwrap_or_else(Isa::detect);
    let pool = ThreadPool::new(threads);
    let models = MODELS
        .into_iter()
        .filter(|(name, ..)| only == "all" || only == *name);
    for (name, make, prototypes) in models {
        for (precision, prototype) in Precision::ALL.into_iter().zip(prototypes) {
            if some && !has(precision.name()) {
                continue;
            }
            let mut model = Model {
                isa,
                precision,
                algorithm,
                silu: has("silu"),
                size: 224,
                channels: 3,
                layers: Vec::new(),
            };
            make(&mut model);
            measure(name, &model, &pool, prototype, has("layers"));
        }
    }
}
