//! Products with weights in ggml's blocks: the share of the memory's bandwidth that one row reaches, and of the peak of
//! multiplications of bytes that many rows reach.
//!
//! `cargo run --release -p polychip-cpu-kernels --example blocks -- [THREADS] [ISA] [WORD ...]`: `auto` selects the
//! widest instruction set; words name layouts and shapes (`576x1536`), by default all of them. The example cycles
//! through more weights than the caches hold; the bandwidth is that of reading as many bytes in the same run.
#![allow(clippy::print_stdout)] // an example's output

use polychip_cpu_kernels::quantised::{BlockLayout, BlockPlan};
use polychip_cpu_kernels::{AlignedVec, Isa, ThreadPool, peak};
use std::time::{Duration, Instant};

/// Bytes of weights that go by in turn.
const TURN: usize = 768 << 20;

const SHAPES: [(usize, usize); 5] = [(576, 576), (576, 1536), (1536, 576), (896, 4864), (576, 49_152)];

/// The least time of a call (others may be at work beside it), over some tenths of a second.
fn least(mut call: impl FnMut()) -> f64 {
    let (begin, mut least) = (Instant::now(), f64::INFINITY);
    while begin.elapsed() < Duration::from_millis(300) {
        let start = Instant::now();
        call();
        least = least.min(start.elapsed().as_secs_f64());
    }
    least
}

/// Bytes a second that all threads read together.
fn bandwidth(pool: &ThreadPool, memory: &[f32]) -> f64 {
    let pieces = memory.len().div_ceil(1 << 15);
    let seconds = least(|| {
        pool.run(pieces, &|piece| {
            let piece = &memory[piece << 15..((piece + 1) << 15).min(memory.len())];
            let mut sums = [0u32; 64];
            for chunk in piece.chunks_exact(64) {
                for (sum, x) in sums.iter_mut().zip(chunk) {
                    *sum ^= x.to_bits();
                }
            }
            std::hint::black_box(sums);
        });
    });
    memory.len() as f64 * 4.0 / seconds
}

fn main() {
    let mut words = std::env::args().skip(1);
    let threads = words
        .next()
        .map_or(1, |word| word.parse().expect("a number of threads"));
    let isa = match words.next().as_deref() {
        None | Some("auto") => Isa::detect(),
        Some(name) => {
            let plain = name.strip_suffix("-plain");
            let all = Isa::available();
            let isa = all.iter().find(|isa| isa.name() == plain.unwrap_or(name));
            let isa = *isa.expect("an instruction set of this CPU");
            if plain.is_some() {
                isa.without_extensions()
            } else {
                isa
            }
        }
    };
    let words: Vec<String> = words.collect();
    let wanted = |name: &str, among: &dyn Fn(&str) -> bool| {
        !words.iter().any(|word| among(word)) || words.iter().any(|word| word == name)
    };
    let pool = ThreadPool::new(threads);
    let _region = pool.region();
    let mut memory = AlignedVec::zeroed(TURN / 4);
    // touched, and no float of 16 bits among them is extreme
    memory.fill(f32::from_bits(0x2c11_2b97));
    let read = bandwidth(&pool, &memory) / 1e9;
    let rounds = 200_000;
    let byte_peak = threads as f64 * peak::multiply_add_bytes(isa, rounds) as f64
        / least(|| {
            peak::multiply_add_bytes(isa, rounds);
        })
        / 1e9;
    println!(
        "{} ({}), {threads} threads: reading {read:.1} GB/s, bytes {byte_peak:.0} GOP/s",
        isa.name(),
        isa.bytes_name()
    );
    println!(
        "layout  shape         1 row: us   GB/s  share |   8 rows  32 rows 128 rows 512 rows: GOP/s  share"
    );
    for layout in BlockLayout::ALL {
        let name = format!("{layout:?}");
        if !wanted(&name, &|word| word.starts_with('Q')) {
            continue;
        }
        for (depth, columns) in SHAPES {
            // blocks of 256 do not fill every depth
            let depth = depth / layout.elements() * layout.elements();
            let shape = format!("{depth}x{columns}");
            if !wanted(&shape, &|word| word.contains('x') && !word.starts_with('a')) {
                continue;
            }
            let plan = BlockPlan::new(isa, layout, depth, columns).expect("invariant: a valid shape");
            let len = plan.packed_len();
            let mut turn = memory.chunks_exact(len).cycle();
            let mut seconds = |rows: usize| {
                let x: Vec<f32> = (0..rows * depth)
                    .map(|i| (i * 7919 % 1009) as f32 - 504.0)
                    .collect();
                let mut y = AlignedVec::zeroed(rows * columns);
                let mut scratch = AlignedVec::zeroed(plan.scratch_len(rows, &pool));
                let mut once = || {
                    let packed = turn.next().expect("invariant: a cycle");
                    plan.run(&pool, rows, &x, packed, &mut y, &mut scratch);
                };
                let (begin, mut runs, mut least) = (Instant::now(), 0, f64::INFINITY);
                while begin.elapsed() < Duration::from_millis(150) || runs < 3 {
                    let start = Instant::now();
                    once();
                    least = least.min(start.elapsed().as_secs_f64());
                    runs += 1;
                }
                least
            };
            let one = seconds(1);
            let rate = 4.0 * len as f64 / one / 1e9;
            print!(
                "{name:6} {shape:>10} {:>12.1} {rate:>7.1} {:>5.0}% |",
                one * 1e6,
                100.0 * rate / read
            );
            let mut last = 0.0;
            for rows in [8, 32, 128, 512] {
                if rows * depth * columns > 512 * 4864 * 1000 {
                    print!("        -");
                    continue;
                }
                last = 2.0 * (rows * depth * columns) as f64 / seconds(rows) / 1e9;
                print!(" {last:>8.0}");
            }
            println!("         {:>5.0}%", 100.0 * last / byte_peak);
        }
    }
}
