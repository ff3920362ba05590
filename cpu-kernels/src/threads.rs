//! A pool of spinning threads: one region per inference, chunks claimed from one atomic counter.
//!
//! 1. Nothing is allocated after [`ThreadPool::new`].
//! 2. A pool of one thread has no threads and costs a loop.
//! 3. A chunk belongs to the thread whose compare-and-swap took it from the counter. A step ends when every chunk
//!    has ended, never when every thread has looked at it, so a thread that the system has put aside delays
//!    nobody. This also makes shares fair between unlike cores.
//! 4. Threads spin for [`SPIN`] after the last chunk they saw, or while nobody is in a region not at all.
//!
//! Not here: how a kernel cuts its work into chunks, and any nesting: a chunk that starts a step runs it alone.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::*};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a thread of an open region spins between two steps before it parks (facts: 50 to 100 µs).
const SPIN: Duration = Duration::from_micros(100);

type Call = unsafe fn(*const (), usize, usize);

/// Threads that run the chunks of one step after another.
///
/// ```
/// use polychip_cpu_kernels::ThreadPool;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// let pool = ThreadPool::new(2);
/// let _region = pool.region(); // once per inference: threads wake here, and not between steps
/// let sum = AtomicUsize::new(0);
/// pool.run(10, &|chunk| {
///     sum.fetch_add(chunk, Ordering::Relaxed);
/// });
/// assert_eq!(sum.into_inner(), 45);
/// ```
#[derive(Debug)]
pub struct ThreadPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// On a cache line of its own, so that claims do not slow the readers of other fields down.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line<T>(T);

#[derive(Debug)]
struct Shared {
    /// Chunks of the current step that nobody has claimed yet.
    unclaimed: Line<AtomicUsize>,
    /// Chunks of the current step that have not ended yet.
    pending: Line<AtomicUsize>,
    /// The current step; written only while `unclaimed` and `pending` are zero, read only after a claim.
    call: AtomicPtr<()>,
    data: AtomicPtr<()>,
    chunks: AtomicUsize,
    /// Someone is publishing or running a step.
    busy: AtomicBool,
    panicked: AtomicBool,
    /// Regions that are open.
    regions: AtomicUsize,
    parked: AtomicUsize,
    stop: AtomicBool,
    /// Threads that have begun, and with it allocated what a thread of the standard library allocates.
    begun: AtomicUsize,
}

impl Shared {
    /// Takes one chunk of the current step and runs it.
    fn run_one(&self, thread: usize) -> bool {
        let mut left = self.unclaimed.0.load(Acquire);
        loop {
            if left == 0 {
                return false;
            }
            match self
                .unclaimed
                .0
                .compare_exchange_weak(left, left - 1, AcqRel, Acquire)
            {
                Ok(_) => break,
                Err(now) => left = now,
            }
        }
        // This thread owns a chunk of the current step, so the step cannot end and its fields cannot change.
        let chunk = self.chunks.load(Relaxed) - left;
        let call = self.call.load(Relaxed);
        // SAFETY: `call` was made from a `Call` by `run`, before the claim that the swap acquired.
        let call = unsafe { std::mem::transmute::<*mut (), Call>(call) };
        let data = self.data.load(Relaxed).cast_const();
        // SAFETY: `data` is the closure that `call` was instantiated for; `run` keeps it alive until `pending` is 0.
        if catch_unwind(AssertUnwindSafe(|| unsafe { call(data, thread, chunk) })).is_err() {
            self.panicked.store(true, Relaxed);
        }
        self.pending.0.fetch_sub(1, AcqRel);
        true
    }

    fn spin_or_park(&self, thread: usize) {
        let mut since = Instant::now();
        let mut turns = 0u32;
        loop {
            if self.run_one(thread) {
                since = Instant::now();
                turns = 0;
                continue;
            }
            if self.stop.load(Relaxed) {
                return;
            }
            std::hint::spin_loop();
            turns = turns.wrapping_add(1);
            let idle = self.regions.load(Relaxed) == 0;
            if idle || (turns.is_multiple_of(64) && since.elapsed() > SPIN) {
                self.parked.fetch_add(1, SeqCst);
                // A step published, or a region opened, before the addition would not unpark this thread.
                if self.unclaimed.0.load(SeqCst) == 0
                    && (!idle || self.regions.load(SeqCst) == 0)
                    && !self.stop.load(SeqCst)
                {
                    std::thread::park();
                }
                self.parked.fetch_sub(1, SeqCst);
                since = Instant::now();
                turns = 0;
            }
        }
    }
}

impl ThreadPool {
    /// A pool of `threads` threads, the caller of [`run`](Self::run) included; 0 counts as 1.
    ///
    /// Where the system refuses a thread, the pool is smaller: ask [`threads`](Self::threads).
    #[must_use]
    pub fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared {
            unclaimed: Line::default(),
            pending: Line::default(),
            call: AtomicPtr::default(),
            data: AtomicPtr::default(),
            chunks: AtomicUsize::new(0),
            busy: AtomicBool::new(false),
            panicked: AtomicBool::new(false),
            regions: AtomicUsize::new(0),
            parked: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            begun: AtomicUsize::new(0),
        });
        let threads: Vec<JoinHandle<()>> = (1..threads)
            .map_while(|index| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new()
                    .name(format!("polychip-cpu-{index}"))
                    .spawn(move || {
                        let _ = std::thread::current();
                        shared.begun.fetch_add(1, Release);
                        shared.spin_or_park(index);
                    })
                    .ok()
            })
            .collect();
        while shared.begun.load(Acquire) < threads.len() {
            std::thread::yield_now();
        }
        Self { shared, threads }
    }

    /// Threads that take part in a step, the caller included.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads.len() + 1
    }

    /// Opens a region: wakes the threads, which then spin between steps until the region is dropped.
    ///
    /// Steps outside a region work too, and pay for waking the threads.
    #[must_use]
    pub fn region(&self) -> Region<'_> {
        if !self.threads.is_empty() {
            self.shared.regions.fetch_add(1, SeqCst);
            self.unpark();
        }
        Region { pool: self }
    }

    fn unpark(&self) {
        if self.shared.parked.load(SeqCst) > 0 {
            for thread in &self.threads {
                thread.thread().unpark();
            }
        }
    }

    /// Runs `f(chunk)` once for each `chunk` in `0..chunks`, on the caller and on the threads of the pool.
    ///
    /// While another thread runs a step on this pool, the caller does all chunks itself.
    ///
    /// # Panics
    /// If `f` panics in any chunk; the other chunks are run first.
    pub fn run<F: Fn(usize) + Sync>(&self, chunks: usize, f: &F) {
        self.run_indexed(chunks, &|_, chunk| f(chunk));
    }

    /// Runs `f(thread, chunk)` as [`run`](Self::run) does; `thread` is below [`threads`](Self::threads), and no two
    /// chunks of this step run at the same time with the same `thread`, so it selects scratch memory.
    ///
    /// # Panics
    /// As [`run`](Self::run).
    pub fn run_indexed<F: Fn(usize, usize) + Sync>(&self, chunks: usize, f: &F) {
        if chunks <= 1 || self.threads.is_empty() || self.shared.busy.swap(true, Acquire) {
            for chunk in 0..chunks {
                f(0, chunk);
            }
            return;
        }
        unsafe fn call<F: Fn(usize, usize) + Sync>(data: *const (), thread: usize, chunk: usize) {
            // SAFETY: `run` stored `f: &F` beside this instantiation, and waits for the chunk to end.
            let f = unsafe { &*data.cast::<F>() };
            f(thread, chunk);
        }
        let shared = &*self.shared;
        shared.call.store(call::<F> as *mut (), Relaxed);
        shared
            .data
            .store(std::ptr::from_ref(f).cast_mut().cast(), Relaxed);
        shared.chunks.store(chunks, Relaxed);
        shared.pending.0.store(chunks, Relaxed);
        shared.unclaimed.0.store(chunks, SeqCst);
        self.unpark();
        while shared.run_one(0) {}
        let mut turns = 0u32;
        while shared.pending.0.load(Acquire) != 0 {
            std::hint::spin_loop();
            turns += 1;
            if turns > 1_000 {
                // some tens of microseconds: the machine is oversubscribed, and the missing thread may need this core
                std::thread::yield_now();
            }
        }
        let panicked = shared.panicked.swap(false, Relaxed);
        shared.busy.store(false, Release);
        assert!(!panicked, "a chunk of a parallel step panicked");
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // the threads catch every panic, so there is nothing to report
            let _ = thread.join();
        }
    }
}

/// An open region of a [`ThreadPool`]; dropping it lets the threads park.
#[derive(Debug)]
pub struct Region<'a> {
    pool: &'a ThreadPool,
}

impl Drop for Region<'_> {
    fn drop(&mut self) {
        if !self.pool.threads.is_empty() {
            self.pool.shared.regions.fetch_sub(1, SeqCst);
        }
    }
}

/// The address of memory that the chunks of a step only read.
pub(crate) struct Address<T = f32>(pub(crate) *const T);

// not derived: a pointer is copied whatever it points to
impl<T> Clone for Address<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Address<T> {}

// SAFETY: an address is a number until it is read, and reading it is the reader's promise.
unsafe impl<T: Sync> Sync for Address<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Send for Address<T> {}

impl<T> Address<T> {
    /// The address of element `index`.
    pub(crate) fn at(self, index: usize) -> *const T {
        self.0.wrapping_add(index)
    }

    /// The address of element `index` of an operand that may be missing.
    pub(crate) fn at_unless_null(self, index: usize) -> *const T {
        if self.0.is_null() { self.0 } else { self.at(index) }
    }
}

/// A mutable slice whose disjoint parts the chunks of a step write.
pub(crate) struct Parts<'a, T> {
    start: *mut T,
    len: usize,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: the parts are reached only through `unsafe` calls whose callers promise that they are disjoint.
unsafe impl<T: Send> Sync for Parts<'_, T> {}
// SAFETY: as a mutable slice.
unsafe impl<T: Send> Send for Parts<'_, T> {}

impl<'a, T> Parts<'a, T> {
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Self {
            start: slice.as_mut_ptr(),
            len: slice.len(),
            slice: PhantomData,
        }
    }

    /// The pointer to the first element.
    pub(crate) fn as_ptr(&self) -> *mut T {
        self.start
    }

    /// `slice[start..start + len]`.
    ///
    /// # Safety
    /// No other part that is alive overlaps this one.
    ///
    /// # Panics
    /// If the range is outside the slice.
    #[allow(clippy::mut_from_ref)] // disjointness is the caller's promise
    pub(crate) unsafe fn part(&self, start: usize, len: usize) -> &mut [T] {
        assert!(
            start <= self.len && len <= self.len - start,
            "part outside its slice"
        );
        // SAFETY: in bounds by the assertion; disjoint by the caller's promise; alive for 'a.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), len) }
    }
}

/// The range of chunk `chunk`, when `len` items are cut into `chunks` parts of nearly equal length that start at
/// multiples of `align`.
pub(crate) fn share(len: usize, chunks: usize, chunk: usize, align: usize) -> std::ops::Range<usize> {
    let blocks = len.div_ceil(align);
    let cut = |i: usize| (blocks * i / chunks * align).min(len);
    cut(chunk)..cut(chunk + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_runs_once() {
        for threads in [1, 2, 3, 5] {
            let pool = ThreadPool::new(threads);
            let _region = pool.region();
            for chunks in [0, 1, 2, 3, 17, 100] {
                let counts: Vec<AtomicUsize> = (0..chunks).map(|_| AtomicUsize::new(0)).collect();
                for _ in 0..50 {
                    pool.run(chunks, &|chunk| {
                        counts[chunk].fetch_add(1, Relaxed);
                    });
                }
                assert!(
                    counts.iter().all(|count| count.load(Relaxed) == 50),
                    "{threads} threads, {chunks}"
                );
            }
        }
    }

    #[test]
    fn steps_outside_a_region_and_after_parking_complete() {
        let pool = ThreadPool::new(3);
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(2));
            let sum = AtomicUsize::new(0);
            pool.run(64, &|chunk| {
                sum.fetch_add(chunk, Relaxed);
            });
            assert_eq!(sum.into_inner(), 2016);
        }
    }

    #[test]
    fn pools_are_shared_and_nested_without_deadlock() {
        let pool = ThreadPool::new(2);
        let total = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let _region = pool.region();
                    for _ in 0..200 {
                        pool.run(4, &|_| {
                            pool.run(2, &|_| {
                                total.fetch_add(1, Relaxed);
                            })
                        });
                    }
                });
            }
        });
        assert_eq!(total.into_inner(), 3 * 200 * 4 * 2);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_survives() {
        let pool = ThreadPool::new(2);
        let result = catch_unwind(AssertUnwindSafe(|| pool.run(8, &|chunk| assert!(chunk != 5))));
        assert!(result.is_err());
        let ran = AtomicUsize::new(0);
        pool.run(8, &|_| {
            ran.fetch_add(1, Relaxed);
        });
        assert_eq!(ran.into_inner(), 8);
    }

    #[test]
    fn shares_cover_everything_in_order() {
        for (len, chunks, align) in [(0, 3, 4), (1, 2, 1), (49, 4, 12), (100, 7, 1), (5, 9, 2)] {
            let mut next = 0;
            for chunk in 0..chunks {
                let range = share(len, chunks, chunk, align);
                assert_eq!(range.start, next);
                next = range.end;
            }
            assert_eq!(next, len);
        }
    }
}
