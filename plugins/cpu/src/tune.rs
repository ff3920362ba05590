//! Choice by measurement, where it is wished (configuration `cpu.tune`): of the algorithms that compute a convolution, the
//! fastest on this machine, timed once per shape and kept in the host's store.
//!
//! Invariants:
//! 1. Only speed depends on what is kept: a lost or foreign entry is timed again.
//! 2. The algorithm that the rule over shapes expects stands unless another is clearly faster.
//!
//! Not here: which algorithms there are (`cpu-kernels`), how a choice travels with a blob (`blob`).

use std::time::{Duration, Instant};

use polychip_cpu_kernels::conv::{Algorithm, ConvParams, ConvPlan};
use polychip_cpu_kernels::{AlignedVec, Epilogue, Isa, ThreadPool};
use polychip_sdk::{Error, HostServices, LogLevel, Result};

use crate::blob::BUILD_ID;

/// Share of the expected algorithm's time that another must beat.
const CLEARLY: f64 = 0.95;
/// Rounds in which all algorithms take their turn.
const ROUNDS: u32 = 5;
/// A convolution slower than this is timed fewer times.
const PATIENCE: Duration = Duration::from_millis(200);
/// Floats that are read before a timed run, so that it finds its weights where it does within a model: not in the
/// second-level cache. Weights that are hot flatter the algorithm with the larger ones.
const COLD: usize = 1 << 20;

/// How the algorithms of a part's convolutions are chosen.
#[derive(Clone, Copy)]
pub(crate) enum Choices<'a> {
    /// By the rule over shapes.
    Rule,
    /// By kept times, and where there are none by measurement.
    Measured(&'a HostServices),
    /// As a blob says: codes in the order of the convolutions.
    Given(&'a [u8]),
}

impl Choices<'_> {
    /// The algorithm of convolution `index`.
    pub(crate) fn algorithm(
        &self,
        index: usize,
        isa: Isa,
        pool: &ThreadPool,
        params: &ConvParams,
    ) -> Result<Algorithm> {
        match self {
            Choices::Rule => Ok(Algorithm::expected(isa, params)),
            Choices::Measured(host) => Ok(fastest(host, isa, pool, params)),
            Choices::Given(codes) => codes
                .get(index)
                .and_then(|&code| Algorithm::from_code(u32::from(code)))
                .filter(|algorithm| algorithm.fits(params))
                .ok_or_else(|| Error::bad_blob("the blob names no algorithm for a convolution of the part")),
        }
    }
}

fn fastest(host: &HostServices, isa: Isa, pool: &ThreadPool, params: &ConvParams) -> Algorithm {
    let expected = Algorithm::expected(isa, params);
    let mut candidates = vec![expected];
    candidates.extend(
        Algorithm::ALL
            .into_iter()
            .filter(|&algorithm| algorithm != expected && algorithm.fits(params)),
    );
    if candidates.len() < 2 {
        return expected;
    }
    let key = format!("tune {BUILD_ID} {} {} {params:?}", isa.name(), pool.threads());
    let kept = host.store_read(&key).ok().flatten();
    if let Some(kept) = kept.and_then(|code| Algorithm::from_code(u32::from(*code.first()?)))
        && candidates.contains(&kept)
    {
        return kept;
    }
    let Some(times) = times(isa, pool, params, &candidates) else {
        return expected;
    };
    let best = choose(&times);
    let told: Vec<String> = candidates
        .iter()
        .zip(&times)
        .map(|(algorithm, time)| format!("{} {:.1} µs", algorithm.name(), time * 1e6))
        .collect();
    host.log(
        LogLevel::Info,
        &format!(
            "tune: {} to {} channels, {:?} to {:?}, window {:?}, {} threads: {} won, {:.2} times as fast as the rule's {} ({})",
            params.in_channels,
            params.out_channels,
            params.window.input,
            params.window.output,
            params.window.kernel,
            pool.threads(),
            candidates[best].name(),
            times[0] / times[best],
            expected.name(),
            told.join(", ")
        ),
    );
    // a host without a store times again
    let _ = host.store_write(&key, &[candidates[best].code() as u8]);
    candidates[best]
}

/// Seconds of one run by each algorithm; `None` where one of them has no memory.
fn times(isa: Isa, pool: &ThreadPool, params: &ConvParams, candidates: &[Algorithm]) -> Option<Vec<f64>> {
    let floats = |pixels: usize, stride: usize| pixels.checked_mul(params.batch)?.checked_mul(stride);
    let window = &params.window;
    let input = AlignedVec::try_zeroed(floats(window.input.iter().product(), params.in_stride)?)?;
    let mut output = AlignedVec::try_zeroed(floats(window.output.iter().product(), params.out_stride)?)?;
    let cold = AlignedVec::try_zeroed(COLD)?;
    let mut trials = Vec::new();
    for &algorithm in candidates {
        let plan = ConvPlan::with_algorithm(isa, *params, algorithm).ok()?;
        let packed = AlignedVec::try_zeroed(plan.packed_len())?;
        let scratch = AlignedVec::try_zeroed(plan.scratch_len(pool))?;
        trials.push((plan, packed, scratch));
    }
    let mut times = vec![f64::INFINITY; trials.len()];
    let begin = Instant::now();
    let _region = pool.region();
    for _ in 0..ROUNDS {
        for ((plan, packed, scratch), time) in trials.iter_mut().zip(&mut times) {
            std::hint::black_box(cold.iter().sum::<f32>());
            let start = Instant::now();
            plan.run(
                pool,
                packed,
                &input[..],
                None,
                Epilogue::NONE,
                &mut output[..],
                scratch,
            );
            *time = time.min(start.elapsed().as_secs_f64());
        }
        if begin.elapsed() > PATIENCE {
            break;
        }
    }
    Some(times)
}

/// The fastest, or the first where that is not clearly slower.
fn choose(times: &[f64]) -> usize {
    let fastest = (0..times.len()).min_by(|&a, &b| times[a].total_cmp(&times[b]));
    match fastest {
        Some(index) if times[index] < times[0] * CLEARLY => index,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polychip_cpu_kernels::conv::Window;

    #[test]
    fn rule_is_kept_unless_clearly_slower() {
        assert_eq!(choose(&[1.0, 0.97, 2.0]), 0);
        assert_eq!(choose(&[1.0, 0.9, 0.8]), 2);
    }

    #[test]
    fn blob_choices_are_used_or_refused() {
        let window = |kernel| {
            Window::new_2d(
                [8, 8],
                [8, 8],
                [kernel, kernel],
                [1, 1],
                [1, 1],
                [kernel / 2, kernel / 2],
            )
        };
        let params = |kernel| ConvParams::dense(1, 16, 16, 1, window(kernel));
        let (isa, pool) = (Isa::detect(), ThreadPool::new(1));
        let choose =
            |codes: &[u8], index, kernel| Choices::Given(codes).algorithm(index, isa, &pool, &params(kernel));
        assert_eq!(choose(&[0, 2], 1, 3).unwrap(), Algorithm::WinogradFour);
        assert_eq!(choose(&[0, 2], 0, 1).unwrap(), Algorithm::Direct);
        // none, an unknown one, and one that does not fit a window of 1
        assert!(choose(&[0], 1, 3).is_err() && choose(&[9], 0, 3).is_err() && choose(&[2], 0, 1).is_err());
    }

    #[test]
    fn every_candidate_is_timed() {
        let params = ConvParams::dense(
            1,
            16,
            16,
            1,
            Window::new_2d([8, 8], [8, 8], [3, 3], [1, 1], [1, 1], [1, 1]),
        );
        let times = times(Isa::detect(), &ThreadPool::new(2), &params, &Algorithm::ALL).unwrap();
        assert!(times.len() == 3 && times.iter().all(|time| time.is_finite()));
    }
}
