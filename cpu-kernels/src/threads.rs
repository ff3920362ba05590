//! A pool of spinning threads: one region per inference, chunks claimed from one atomic word.
//!
//! 1. Nothing is allocated after [`ThreadPool::new`].
//! 2. A pool of one thread has no threads and costs a loop.
//! 3. A chunk belongs to the thread whose compare-and-swap took it. A step ends when every chunk
//!    has ended, whether or not every thread took part, so a descheduled thread delays no other.
//!    Cores of different speed also get fair shares this way.
//! 4. The caller claims from the front and the others from the back, so that steps over the same rows, one after the
//!    other, tend to find them in the cache of the same core.
//! 5. A thread without work spins before it parks: for [`IN_REGION`] while a region is open, else
//!    for [`AFTER`].
//!
//! Not here: how a kernel cuts its work into chunks, and any nesting: a chunk that starts a step runs it alone.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a thread spins between two steps of a run: longer than steps that the caller computes alone, so that the
/// step behind them need not wake it (some tens of microseconds on a virtual machine).
const IN_REGION: Duration = Duration::from_millis(1);

/// How long a thread spins after a run, for a next one that follows at once: well below a millisecond, since
/// spinning drains batteries.
const AFTER: Duration = Duration::from_micros(100);

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
    /// What threads and the callers of regions keep to.
    cpus: Option<CpuSet>,
}

/// On a cache line of its own, so that claims do not slow the readers of other fields down.
/// As crossbeam's `CachePadded`, which would be this crate's dependency for these two lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line<T>(T);

/// What is written once per step by the caller, and by every claim.
#[derive(Debug, Default)]
struct Step {
    /// The unclaimed chunks: the first one in the upper half, the end in the lower one.
    open: AtomicU64,
    /// What runs a chunk; written only while no chunk is open or running, read only after a claim.
    call: AtomicPtr<()>,
    data: AtomicPtr<()>,
}

/// What spinning threads read and hardly anybody writes.
#[derive(Debug, Default)]
struct Rest {
    /// Regions that are open.
    regions: AtomicUsize,
    parked: AtomicUsize,
    stop: AtomicBool,
    /// Threads that have begun, and with it allocated what a thread of the standard library allocates.
    begun: AtomicUsize,
}

/// The lock that the caller of a step holds, and whether a chunk of it panicked.
#[derive(Debug, Default)]
struct StepLock {
    busy: AtomicBool,
    panicked: AtomicBool,
}

#[derive(Debug, Default)]
struct Shared {
    step: Line<Step>,
    /// Chunks that others than callers have ended since the pool was made, wrapping.
    ended: Line<AtomicUsize>,
    rest: Line<Rest>,
    step_lock: Line<StepLock>,
}

/// The word of chunks `first..end`.
const fn word(first: u64, end: u64) -> u64 {
    first << 32 | end
}

impl Shared {
    /// Takes a chunk of the current step: the first for a caller, else the last.
    fn claim(&self, caller: bool) -> Option<usize> {
        let mut open = self.step.0.open.load(Acquire);
        loop {
            let (first, end) = (open >> 32, open & u64::from(u32::MAX));
            if first == end {
                return None;
            }
            let (chunk, left) = if caller {
                (first, word(first + 1, end))
            } else {
                (end - 1, word(first, end - 1))
            };
            match self
                .step
                .0
                .open
                .compare_exchange_weak(open, left, AcqRel, Acquire)
            {
                // below 2^32
                Ok(_) => return Some(chunk as usize),
                Err(now) => open = now,
            }
        }
    }

    /// Runs a claimed chunk.
    fn run(&self, thread: usize, chunk: usize) {
        // This thread owns a chunk of the current step, so the step cannot end and its fields cannot change.
        let call = self.step.0.call.load(Relaxed);
        // SAFETY: `call` was made from a `Call` by `step`, before the claim that the swap acquired.
        let call = unsafe { std::mem::transmute::<*mut (), Call>(call) };
        let data = self.step.0.data.load(Relaxed).cast_const();
        // SAFETY: `data` is the closure that `call` was instantiated for; `step` does not return until all
        // chunks have ended.
        if catch_unwind(AssertUnwindSafe(|| unsafe { call(data, thread, chunk) })).is_err() {
            self.step_lock.0.panicked.store(true, Relaxed);
        }
    }

    fn spin_or_park(&self, thread: usize) {
        let rest = &self.rest.0;
        let mut since = None;
        let mut turns = 0u32;
        loop {
            let mut ran = 0;
            while let Some(chunk) = self.claim(false) {
                self.run(thread, chunk);
                ran += 1;
            }
            if ran > 0 {
                // the step cannot have ended before, so all of them were of one step
                self.ended.0.fetch_add(ran, Release);
                (since, turns) = (None, 0);
                continue;
            }
            if rest.stop.load(Relaxed) {
                return;
            }
            std::hint::spin_loop();
            turns = turns.wrapping_add(1);
            if !turns.is_multiple_of(64) {
                continue;
            }
            let most = if rest.regions.load(Relaxed) > 0 {
                IN_REGION
            } else {
                AFTER
            };
            if since.get_or_insert_with(Instant::now).elapsed() < most {
                continue;
            }
            rest.parked.fetch_add(1, SeqCst);
            // a step published before the addition would not unpark this thread
            let open = self.step.0.open.load(SeqCst);
            if open >> 32 == open & u64::from(u32::MAX) && !rest.stop.load(SeqCst) {
                std::thread::park();
            }
            rest.parked.fetch_sub(1, SeqCst);
            (since, turns) = (None, 0);
        }
    }
}

impl ThreadPool {
    /// A pool of `threads` threads, the caller of [`run`](Self::run) included; 0 counts as 1.
    ///
    /// If the system refuses a thread, the pool is smaller; [`threads`](Self::threads) returns the
    /// actual number.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self::pinned(threads, &[])
    }

    /// Like [`new`](Self::new), with threads that run only on the processors `cpus`; so does the
    /// caller while a [`region`](Self::region) is open. An empty list means all processors.
    /// Processors that the system does not allow are left out.
    #[must_use]
    pub fn pinned(threads: usize, cpus: &[usize]) -> Self {
        let cpus = (!cpus.is_empty()).then(|| CpuSet::new(cpus));
        let shared = Arc::new(Shared::default());
        let threads: Vec<JoinHandle<()>> = (1..threads)
            .map_while(|index| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new()
                    .name(format!("polychip-cpu-{index}"))
                    .spawn(move || {
                        let _ = std::thread::current();
                        if let Some(cpus) = cpus {
                            cpus.apply();
                        }
                        shared.rest.0.begun.fetch_add(1, Release);
                        shared.spin_or_park(index);
                    })
                    .ok()
            })
            .collect();
        while shared.rest.0.begun.load(Acquire) < threads.len() {
            std::thread::yield_now();
        }
        Self {
            shared,
            threads,
            cpus,
        }
    }

    /// Threads that take part in a step, the caller included.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads.len() + 1
    }

    /// Opens a region: wakes the threads, which then spin between steps until the region is dropped, and a little longer.
    ///
    /// Steps outside a region work, too, but may have to wake the threads first.
    #[must_use]
    pub fn region(&self) -> Region<'_> {
        if !self.threads.is_empty() {
            self.shared.rest.0.regions.fetch_add(1, SeqCst);
            self.unpark();
        }
        let before = self.cpus.map(|cpus| {
            let before = CpuSet::of_this_thread();
            cpus.apply();
            before
        });
        Region { pool: self, before }
    }

    fn unpark(&self) {
        if self.shared.rest.0.parked.load(SeqCst) > 0 {
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
        unsafe fn call<F: Fn(usize, usize) + Sync>(data: *const (), thread: usize, chunk: usize) {
            // SAFETY: `run_indexed` passes `f: &F` beside this instantiation, and ends when its chunks have.
            let f = unsafe { &*data.cast::<F>() };
            f(thread, chunk);
        }
        // SAFETY: `f` is what `call` was instantiated for.
        unsafe { self.step(chunks, call::<F>, std::ptr::from_ref(f).cast()) };
    }

    /// The one form of [`run_indexed`](Self::run_indexed): a chunk is called in one place, so that a kernel is in the program
    /// once.
    ///
    /// # Safety
    /// `run` may be called with `given` by any thread until this returns.
    unsafe fn step(&self, chunks: usize, run: Call, given: *const ()) {
        let step_lock = &self.shared.step_lock.0;
        let alone = chunks <= 1 || self.threads.is_empty() || u32::try_from(chunks).is_err();
        if alone || step_lock.busy.swap(true, Acquire) {
            for chunk in 0..chunks {
                // SAFETY: as the caller promises.
                unsafe { run(given, 0, chunk) };
            }
            return;
        }
        let shared = &*self.shared;
        let Step { open, call: to, data } = &shared.step.0;
        to.store(run as *mut (), Relaxed);
        data.store(given.cast_mut(), Relaxed);
        // no chunk is running, so no thread adds to it now
        let ended = shared.ended.0.load(Relaxed);
        // the first chunk is the caller's
        open.store(word(1, chunks as u64), SeqCst);
        self.unpark();
        shared.run(0, 0);
        let mut own = 1;
        while let Some(chunk) = shared.claim(true) {
            shared.run(0, chunk);
            own += 1;
        }
        let all = ended.wrapping_add(chunks - own);
        let mut turns = 0u32;
        while shared.ended.0.load(Acquire) != all {
            std::hint::spin_loop();
            turns += 1;
            if turns > 1_000 {
                // some tens of microseconds: the machine is oversubscribed, and the missing thread may need this core
                std::thread::yield_now();
            }
        }
        let panicked = step_lock.panicked.swap(false, Relaxed);
        step_lock.busy.store(false, Release);
        assert!(!panicked, "a chunk of a parallel step panicked");
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.rest.0.stop.store(true, SeqCst);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // the threads catch every panic, so there is nothing to report
            let _ = thread.join();
        }
    }
}

/// An open region of a [`ThreadPool`]. After it is dropped, idle threads park soon.
#[derive(Debug)]
pub struct Region<'a> {
    pool: &'a ThreadPool,
    /// What the caller kept to before.
    before: Option<CpuSet>,
}

impl Drop for Region<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            before.apply();
        }
        if !self.pool.threads.is_empty() {
            self.pool.shared.rest.0.regions.fetch_sub(1, SeqCst);
        }
    }
}

/// A set of processors that a thread may be kept to, where the system knows such a thing.
#[derive(Debug, Clone, Copy)]
struct CpuSet {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    mask: [u64; CpuSet::WORDS],
}

impl CpuSet {
    /// As many processors as the system's own set holds: 1024.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const WORDS: usize = 16;

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn new(cpus: &[usize]) -> Self {
        let mut mask = [0; Self::WORDS];
        for cpu in cpus {
            if let Some(word) = mask.get_mut(cpu / 64) {
                *word |= 1 << (cpu % 64);
            }
        }
        Self { mask }
    }

    /// Keeps this thread to the set; a refusal leaves it where it is.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn apply(self) {
        // SAFETY: 0 is this thread, and the mask is as long as said.
        unsafe { libc::sched_setaffinity(0, size_of_val(&self.mask), self.mask.as_ptr().cast()) };
    }

    /// What this thread is kept to.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn of_this_thread() -> Self {
        let mut mask = [0; Self::WORDS];
        // SAFETY: 0 is this thread, and the mask is as long as said. Where the call fails the set is empty, which the
        // system refuses to apply.
        unsafe { libc::sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr().cast()) };
        Self { mask }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn new(_: &[usize]) -> Self {
        Self {}
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn apply(self) {}

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn of_this_thread() -> Self {
        Self {}
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

    /// All but the first `n` elements.
    ///
    /// # Panics
    /// If there are fewer.
    pub(crate) fn after(self, n: usize) -> Self {
        assert!(n <= self.len, "part outside its slice");
        Self {
            start: self.start.wrapping_add(n),
            len: self.len - n,
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

/// Elements that one chunk of an elementwise step handles: some microseconds of arithmetic.
pub(crate) const CHUNK: usize = 16 * 1024;

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

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn pinned_threads_stay_on_their_processors() {
        let all = CpuSet::of_this_thread().mask;
        let word = all.iter().position(|&word| word != 0).unwrap();
        let cpu = word * 64 + all[word].trailing_zeros() as usize;
        let pool = ThreadPool::pinned(3, &[cpu]);
        let wanted = CpuSet::new(&[cpu]).mask;
        {
            let _region = pool.region();
            let seen = std::sync::Mutex::new(Vec::new());
            pool.run(8, &|_| seen.lock().unwrap().push(CpuSet::of_this_thread().mask));
            assert_eq!(seen.into_inner().unwrap(), vec![wanted; 8]);
        }
        assert_eq!(CpuSet::of_this_thread().mask, all, "the caller is let go");
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
    fn panic_propagates_and_pool_survives() {
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
    fn shares_cover_the_range_in_order() {
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
