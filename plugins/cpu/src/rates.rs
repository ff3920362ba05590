//! How fast one core is: the rates that estimates are made of.
//!
//! Invariants:
//! 1. Nothing is measured unless the host asks for it (configuration `cpu.rates`): two processes of one machine reckon
//!    with the same rates, however busy it is.
//! 2. Stated rates follow from what identifies the processor: maker, family, instruction set, stated clock.
//! 3. Measured rates are kept by processor, cores chosen, instruction set and build, with the time; those of another are
//!    not read.
//!
//! Not here: what a part costs at these rates (`estimate`).

use std::fs;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use polychip_cpu_kernels::conv::{ConvParams, Window};
use polychip_cpu_kernels::gemm::{GemmPlan, Matrix};
use polychip_cpu_kernels::quantised::{CodeRange, ConvPlan, Output, Weights};
use polychip_cpu_kernels::{AlignedVec, Epilogue, Isa, ThreadPool};
use polychip_sdk::{HostServices, RatesWanted};

use crate::blob::BUILD_ID;
use crate::cores;
use crate::processor::Processor;

/// Rates of one core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peaks {
    /// Multiply-adds of f32 per second.
    pub(crate) macs_per_s: u64,
    /// Multiply-adds of bytes per second.
    pub(crate) byte_macs_per_s: u64,
    /// Bytes moved per second.
    pub(crate) bytes_per_s: u64,
    /// Additions of f64 per second of which each waits for the one before: the pace of loops over one element at a time.
    pub(crate) additions_per_s: u64,
}

/// Rates with where they come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rates {
    pub(crate) peaks: Peaks,
    /// When they were measured, in seconds since 1970; none where they are stated.
    pub(crate) measured_s: Option<u64>,
}

/// Bytes that one core copies in a second beyond its caches: 8 to 17 GB/s on servers and desktops, 6 to 12 on phones'
/// big cores.
const COPIED_BYTES_PER_S: u64 = if cfg!(target_arch = "x86_64") {
    10_000_000_000
} else {
    8_000_000_000
};
/// Ticks from one addition of f64 to the next that waits for it (Fog, Instruction tables: 3 to 4 since Haswell and Zen,
/// 2 to 4 on Arm's big cores).
const TICKS_OF_ADDITION: u64 = 4;
/// AMD's Zen 3 and 4, which take an instruction of 512 bits in two halves; later ones have the whole width.
const FAMILY_OF_HALVES: u32 = 25;

impl Rates {
    /// The rates of this processor's cores, measured where the host asks for that.
    pub(crate) fn of(
        host: &HostServices,
        wanted: RatesWanted,
        isa: Isa,
        processor: &Processor,
        cores: &[usize],
    ) -> Rates {
        let stated = Rates {
            peaks: Peaks::stated(isa, processor),
            measured_s: None,
        };
        let key = key(isa, processor, &cores::described(cores));
        let kept = || Rates::from_bytes(&host.store_read(&key).ok().flatten()?);
        let known = match wanted {
            RatesWanted::Stated => Some(stated),
            RatesWanted::Kept => Some(kept().unwrap_or(stated)),
            RatesWanted::Measured => kept(),
            RatesWanted::MeasuredAnew => None,
        };
        known.unwrap_or_else(|| {
            let Some(peaks) = Peaks::measure(isa, cores) else {
                return stated;
            };
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let rates = Rates {
                peaks,
                measured_s: Some(since.as_secs()),
            };
            // a host without a store reckons with the stated ones next time
            let _ = host.store_write(&key, &rates.to_bytes());
            rates
        })
    }

    fn to_bytes(self) -> Vec<u8> {
        let Peaks {
            macs_per_s,
            byte_macs_per_s,
            bytes_per_s,
            additions_per_s,
        } = self.peaks;
        let seconds = self.measured_s.unwrap_or(0);
        let words = [seconds, macs_per_s, byte_macs_per_s, bytes_per_s, additions_per_s];
        words.map(u64::to_le_bytes).concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Rates> {
        let words = <[u8; 40]>::try_from(bytes).ok()?;
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| words[8 * at + byte]));
        let rates = [1, 2, 3, 4].map(word);
        let [macs_per_s, byte_macs_per_s, bytes_per_s, additions_per_s] = rates;
        (!rates.contains(&0)).then_some(Rates {
            peaks: Peaks {
                macs_per_s,
                byte_macs_per_s,
                bytes_per_s,
                additions_per_s,
            },
            measured_s: Some(word(0)),
        })
    }
}

/// What measured rates are kept under.
fn key(isa: Isa, processor: &Processor, cores: &str) -> String {
    let Processor {
        vendor,
        name,
        revision,
        nominal_khz,
        family: _,
    } = processor;
    format!(
        "rates {BUILD_ID} {} {} {vendor} {name} {revision} {nominal_khz} {cores}",
        isa.name(),
        isa.without_tiles().bytes_name()
    )
}

impl Peaks {
    /// What follows from the processor's design and clock: multiply-adds per tick of a core, as makers document the
    /// width and the number of its units (Fog, The microarchitecture of Intel, AMD and VIA CPUs; Arm, software
    /// optimization guides of Cortex-A76 and later).
    fn stated(isa: Isa, processor: &Processor) -> Peaks {
        let halves = processor.vendor == "AuthenticAMD" && processor.family <= FAMILY_OF_HALVES;
        let macs = match isa.name() {
            "avx512" if !halves => 32,
            // two units of 256 bits
            "avx512" | "avx2" => 16,
            // two units of 128 bits
            "neon" => 8,
            _ => 2,
        };
        let byte_macs = match isa.without_tiles().bytes_name() {
            "avx512_vnni" if !halves => 128,
            "avx512_vnni" | "avx_vnni" => 64,
            // products of bytes as sums of pairs take three instructions
            "avx512" if !halves => 40,
            "avx512" | "avx2" => 20,
            "neon_dotprod" => 32,
            "neon" => 12,
            _ => 1,
        };
        let ticks = processor.nominal_khz.saturating_mul(1_000);
        Peaks {
            macs_per_s: ticks.saturating_mul(macs),
            byte_macs_per_s: ticks.saturating_mul(byte_macs),
            bytes_per_s: COPIED_BYTES_PER_S,
            additions_per_s: ticks / TICKS_OF_ADDITION,
        }
    }

    /// Products in cache, copies beyond it, sums; none where there is no memory for that.
    fn measure(isa: Isa, cores: &[usize]) -> Option<Peaks> {
        let (m, k, n) = (96, 256, 256);
        let plan = GemmPlan::new(isa, k, n).ok()?;
        let pool = ThreadPool::pinned(1, cores);
        let b = vec![1.0; k * n];
        let mut packed = AlignedVec::try_zeroed(plan.packed_len())?;
        plan.pack(Matrix::rows(&b, n), None, &mut packed);
        let a = AlignedVec::try_zeroed(m * k)?;
        let mut c = AlignedVec::try_zeroed(m * n)?;
        let mut scratch = AlignedVec::try_zeroed(plan.scratch_len(m, &pool))?;
        let product = steady(|| {
            plan.run(
                &pool,
                m,
                Matrix::rows(&a, k),
                &packed,
                None,
                Epilogue::NONE,
                &mut c,
                n,
                &mut scratch,
            );
        });
        let window = Window::new_2d([1, m], [1, m], [1, 1], [1, 1], [1, 1], [0, 0]);
        // by vectors, as what tiles do is counted in what vectors do
        let isa = isa.without_tiles();
        let plan = ConvPlan::new(isa, ConvParams::dense(1, k, n, 1, window)).ok()?;
        let weights = Weights {
            values: &vec![1; k * n],
            input_zero: 0,
            bias: &vec![0; n],
            factor: &vec![0.01; n],
            shift: &vec![0.0; n],
            zeros: &[],
        };
        let mut packed = AlignedVec::try_zeroed(plan.packed_len())?;
        plan.pack(&weights, &mut packed);
        let (a, mut c) = (vec![1; m * k], vec![0; m * n]);
        let mut scratch = AlignedVec::try_zeroed(plan.scratch_len(&pool))?;
        let byte_product = steady(|| {
            let output = Output::Codes(&mut c, CodeRange::all(0));
            plan.run(&pool, &packed, &a, 0, None, output, &mut scratch);
        });
        // 64 MiB: beyond the caches of all but the largest servers
        let words = 1 << 23;
        let source = AlignedVec::try_zeroed(words)?;
        let mut target = AlignedVec::try_zeroed(words)?;
        let copy = steady(|| target.copy_from_slice(&source));
        let terms = 1 << 14;
        let addend = std::hint::black_box(1.0f64);
        let sum = steady(|| {
            // no compiler may take these in another order
            std::hint::black_box((0..terms).fold(0.0, |sum, _| sum + addend));
        });
        let rate = |work: usize, seconds: f64| ((work as f64 / seconds.max(1e-12)) as u64).max(1);
        Some(Peaks {
            macs_per_s: rate(m * k * n, product),
            byte_macs_per_s: rate(m * k * n, byte_product),
            bytes_per_s: rate(8 * words, copy),
            additions_per_s: rate(terms, sum),
        })
    }
}

/// A batch is at least so long, so that reading clocks takes nothing of it.
const BATCH: Duration = Duration::from_millis(2);
/// Batches in which the core was not shared; the median of these counts.
const BATCHES: usize = 31;
/// How long they are waited for on a busy machine.
const PATIENCE: Duration = Duration::from_secs(3);

/// Seconds of one call: the median of many short batches, those left out in which the thread waited for a core; of all
/// batches the shortest where the machine is too busy for enough of the others.
fn steady(mut call: impl FnMut()) -> f64 {
    let begin = Instant::now();
    let (mut quiet, mut best) = (Vec::new(), f64::INFINITY);
    let mut calls = 1u32;
    while quiet.len() < BATCHES && (begin.elapsed() < PATIENCE || best.is_infinite()) {
        let waited = waited_ns();
        let start = Instant::now();
        for _ in 0..calls {
            call();
        }
        let took = start.elapsed();
        if took < BATCH && calls < 1 << 20 {
            calls *= 2;
            continue;
        }
        let each = took.as_secs_f64() / f64::from(calls);
        best = best.min(each);
        // a hundredth of a batch is less than its batches differ by
        let wait = waited_ns().saturating_sub(waited);
        if u128::from(wait) * 100 <= took.as_nanos() {
            quiet.push(each);
        }
    }
    if quiet.len() < BATCHES {
        return best;
    }
    quiet.sort_by(f64::total_cmp);
    quiet[BATCHES / 2]
}

/// How long this thread has waited for a core, as Linux counts it; 0 where that is not known.
fn waited_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let mut words = text.split_whitespace();
    words.nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processor(vendor: &str, family: u32) -> Processor {
        Processor {
            vendor: vendor.to_owned(),
            family,
            nominal_khz: 2_000_000,
            ..Processor::default()
        }
    }

    #[test]
    fn stated_rates_follow_from_the_processor() {
        for isa in Isa::available() {
            let stated = |vendor, family| Peaks::stated(isa, &processor(vendor, family));
            let intel = stated("GenuineIntel", 6);
            assert_eq!(intel, stated("GenuineIntel", 6));
            let faster = Processor {
                nominal_khz: 4_000_000,
                ..processor("GenuineIntel", 6)
            };
            assert_eq!(Peaks::stated(isa, &faster).macs_per_s, 2 * intel.macs_per_s);
            let halves = stated("AuthenticAMD", 25).macs_per_s;
            assert_eq!(
                halves < intel.macs_per_s,
                isa.name() == "avx512",
                "{}",
                isa.name()
            );
        }
    }

    #[test]
    fn stored_rates_are_read_and_damaged_ones_are_not() {
        let rates = Rates {
            peaks: Peaks::stated(Isa::SCALAR, &processor("", 0)),
            measured_s: Some(7),
        };
        let bytes = rates.to_bytes();
        assert_eq!(Rates::from_bytes(&bytes), Some(rates));
        assert_eq!(Rates::from_bytes(&bytes[1..]), None);
        assert_eq!(Rates::from_bytes(&[0; 40]), None);
    }

    #[test]
    fn measured_rates_are_kept_by_processor_and_instruction_set() {
        let one = processor("GenuineIntel", 6);
        let changed: [fn(&mut Processor); 4] = [
            |one| one.vendor = "AuthenticAMD".into(),
            |one| one.name = "another".into(),
            |one| one.revision = "6-143-8".into(),
            |one| one.nominal_khz += 100_000,
        ];
        for change in changed {
            let mut other = one.clone();
            change(&mut other);
            assert_ne!(key(Isa::SCALAR, &one, "2x1"), key(Isa::SCALAR, &other, "2x1"));
        }
        assert_ne!(key(Isa::SCALAR, &one, "2x1"), key(Isa::SCALAR, &one, "2x1@1"));
        let keys: Vec<String> = Isa::available().iter().map(|isa| key(*isa, &one, "")).collect();
        assert!(keys.iter().enumerate().all(|(at, key)| !keys[..at].contains(key)));
    }

    #[test]
    fn measured_rate_is_near_the_stated_one() {
        let (isa, processor) = (Isa::detect(), Processor::find());
        let (stated, measured) = (Peaks::stated(isa, &processor), Peaks::measure(isa, &[]).unwrap());
        eprintln!("stated {stated:?}\nmeasured {measured:?}");
        let ratio = measured.macs_per_s as f64 / stated.macs_per_s as f64;
        // an order of magnitude: an emulated processor is no faster than its emulator
        assert!(ratio < 10.0, "{ratio}");
    }
}
