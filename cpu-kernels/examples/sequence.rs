//! All convolutions of a model in sequence, each with weights of its own: what kernels are tuned on.
//!
//! A single layer repeated keeps its weights in the cache and flatters by 15 to 30 % (facts section 5).
//!
//! `cargo run --release -p polychip-cpu-kernels --example sequence -- [THREADS] [ISA] [layers]`
//!
//! Not here: pooling, additions that are not residuals, the classifier, layout changes.
#![allow(clippy::print_stdout)] // an example's output

use polychip_cpu_kernels::conv::{ConvParams, ConvPlan, Window};
use polychip_cpu_kernels::{AlignedVec, Epilogue, Isa, ThreadPool, Unary};
use std::time::Instant;

struct Layer {
    plan: ConvPlan,
    packed: AlignedVec,
    epilogue: Epilogue,
    residual: bool,
    macs: usize,
    name: String,
}

struct Model {
    isa: Isa,
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
        let plan = ConvPlan::new(self.isa, ConvParams::dense(1, self.channels, out, groups, window))
            .expect("invariant: the shapes below are valid");
        let weights: Vec<f32> = (0..out * self.channels / groups * kernel * kernel)
            .map(|i| ((i * 7919) % 1009) as f32 / 1009.0 * 0.1 - 0.05)
            .collect();
        let mut packed = AlignedVec::zeroed(plan.packed_len());
        plan.pack(&weights, Some(&vec![0.1; out]), &mut packed);
        let macs = next * next * weights.len();
        let kind = if depthwise { "depthwise" } else { "conv" };
        let name = format!(
            "{kind} {}->{out} {kernel}x{kernel}/{stride} @{next}",
            self.channels
        );
        let epilogue = Epilogue::activation(activation);
        self.layers.push(Layer {
            plan,
            packed,
            epilogue,
            residual,
            macs,
            name,
        });
        (self.size, self.channels) = (next, out);
    }
}

fn mobilenet_v2(isa: Isa) -> Model {
    let mut m = Model {
        isa,
        size: 224,
        channels: 3,
        layers: Vec::new(),
    };
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
    m
}

fn resnet50(isa: Isa) -> Model {
    let mut m = Model {
        isa,
        size: 224,
        channels: 3,
        layers: Vec::new(),
    };
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
    m
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let threads = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(1);
    let name = arguments.next().unwrap_or_default();
    let per_layer = arguments.next().is_some();
    let isa = Isa::available()
        .into_iter()
        .find(|isa| isa.name() == name)
        .unwrap_or_else(Isa::detect);
    let pool = ThreadPool::new(threads);
    for (name, model) in [("mobilenet_v2", mobilenet_v2(isa)), ("resnet50", resnet50(isa))] {
        let largest = 112 * 112 * 96;
        let mut buffers: Vec<AlignedVec> = (0..3)
            .map(|_| AlignedVec::zeroed(largest.max(224 * 224 * 3)))
            .collect();
        buffers[0].fill(0.5);
        let scratch_len = model
            .layers
            .iter()
            .map(|layer| layer.plan.scratch_len(&pool))
            .max()
            .unwrap_or(0);
        let mut scratch = AlignedVec::zeroed(scratch_len);
        let mut spent = vec![f64::INFINITY; model.layers.len()];
        let mut runs = Vec::new();
        let begin = Instant::now();
        while runs.len() < 10 || begin.elapsed().as_secs_f64() < 3.0 {
            let start = Instant::now();
            let region = pool.region();
            let mut last = start;
            for (index, layer) in model.layers.iter().enumerate() {
                let [a, b, c] = &mut buffers[..] else {
                    unreachable!()
                };
                let (input, output) = if index % 2 == 0 { (&*a, b) } else { (&*b, a) };
                let residual = layer.residual.then_some(&c[..]);
                layer.plan.run(
                    &pool,
                    &layer.packed,
                    input,
                    residual,
                    layer.epilogue,
                    output,
                    &mut scratch,
                );
                if per_layer {
                    let now = Instant::now();
                    spent[index] = spent[index].min((now - last).as_secs_f64());
                    last = now;
                }
            }
            drop(region);
            runs.push(start.elapsed().as_secs_f64() * 1e3);
        }
        runs.sort_by(f64::total_cmp);
        let macs: usize = model.layers.iter().map(|layer| layer.macs).sum();
        if per_layer {
            for (layer, spent) in model.layers.iter().zip(&spent) {
                let rate = 2e-9 * layer.macs as f64 / spent;
                println!("  {:40} {:8.1} us {rate:7.1} GFLOP/s", layer.name, spent * 1e6);
            }
        }
        let (best, median) = (runs[runs.len() / 10], runs[runs.len() / 2]);
        println!(
            "{name} {isa:?} {threads} threads: p10 {best:.2} ms, median {median:.2} ms, {:.1} GFLOP/s at p10",
            2e-6 * macs as f64 / best
        );
    }
}
