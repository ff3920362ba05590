//! A board's opening: a context, a stream, two events for times. A reset makes another opening over
//! the same memory, if the board kept it (memory belongs to the device, whatever context allocated
//! it).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use polychip_sdk::{Error, ErrorKind, Result};
use polychip_sys::ascend::bindings as acl;

use super::Driver;

/// Numbers the memories of the process.
static MADE: AtomicU64 = AtomicU64::new(1);

/// Bytes that crossed the link or were copied on the board.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Copied {
    pub(crate) to_board: u64,
    pub(crate) from_board: u64,
    pub(crate) on_board: u64,
}

/// A board that is open.
pub struct Opening {
    pub(super) driver: Driver,
    number: u64,
    /// Whether the board said that it is lost, its memory with it.
    dead: AtomicBool,
    context: acl::aclrtContext,
    stream: acl::aclrtStream,
    /// Recorded before a run and after it.
    events: [acl::aclrtEvent; 2],
    lost: AtomicBool,
    copied: [AtomicU64; 3],
}

// SAFETY: handles of the library's, whose calls any thread may make that has the context set, which `enter` does.
unsafe impl Send for Opening {}
// SAFETY: as above; the stream and the events are used by one run at a time, which the executables' turn sees to.
unsafe impl Sync for Opening {}

impl Opening {
    /// Opens a board.
    pub(crate) fn new(driver: Driver, board: i32) -> Result<Opening> {
        Opening::over(driver, board, MADE.fetch_add(1, Ordering::Relaxed))
    }

    /// Opens the board anew, after a reset; what lies in its memory stays, unless the board lost it.
    pub(crate) fn anew(&self, board: i32) -> Result<Opening> {
        if self.dead.load(Ordering::Acquire) || self.enter().is_err() {
            Opening::new(self.driver, board)
        } else {
            Opening::over(self.driver, board, self.number)
        }
    }

    fn over(driver: Driver, board: i32, number: u64) -> Result<Opening> {
        let mut opening = Opening {
            driver,
            number,
            dead: AtomicBool::new(false),
            context: std::ptr::null_mut(),
            stream: std::ptr::null_mut(),
            events: [std::ptr::null_mut(); 2],
            lost: AtomicBool::new(false),
            copied: Default::default(),
        };
        let symbols = driver.library.symbols();
        // SAFETY: the handle is writable. What is made so far goes with `opening`.
        let code = unsafe { symbols.aclrtCreateContext(&raw mut opening.context, board) };
        driver.check("aclrtCreateContext", code)?;
        // SAFETY: as above; the new context is the thread's current one.
        let code = unsafe { symbols.aclrtCreateStream(&raw mut opening.stream) };
        driver.check("aclrtCreateStream", code)?;
        for event in &mut opening.events {
            // SAFETY: as above.
            let code = unsafe { symbols.aclrtCreateEvent(event) };
            driver.check("aclrtCreateEvent", code)?;
        }
        Ok(opening)
    }

    /// Which memory it is: openings of a board that kept its memory have the same number.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Makes its context the thread's.
    ///
    /// # Errors
    /// If the board was reset or is lost.
    pub(super) fn enter(&self) -> Result<()> {
        // SAFETY: the context lives as long as `self`.
        let code = unsafe { self.driver.library.symbols().aclrtSetCurrentContext(self.context) };
        self.driver.check("aclrtSetCurrentContext", code)
    }

    /// Marks it as replaced by a reset.
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Release);
    }

    /// Whether it is still the board's.
    ///
    /// # Errors
    /// If a reset put another in its place.
    pub(crate) fn alive(&self) -> Result<()> {
        if self.lost.load(Ordering::Acquire) {
            return Err(Error::new(
                ErrorKind::DeviceLost,
                "the device was reset since the part was loaded",
            ));
        }
        Ok(())
    }

    /// What was copied since it was opened.
    pub(crate) fn copied(&self) -> Copied {
        let [to_board, from_board, on_board] = [0, 1, 2].map(|at| self.copied[at].load(Ordering::Relaxed));
        Copied {
            to_board,
            from_board,
            on_board,
        }
    }

    /// Counts a copy, by its direction.
    pub(super) fn count(&self, kind: u32, bytes: usize) {
        let at = (kind - acl::ACL_COPY_HOST_TO_DEVICE) as usize;
        self.copied[at].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The stream of runs and of the copies in them.
    pub(super) fn stream(&self) -> acl::aclrtStream {
        self.stream
    }

    /// Enqueues what `enqueue` does between two events, waits for it, and gives the board's own nanoseconds.
    ///
    /// # Errors
    /// What was enqueued failed, or the board is lost.
    pub(crate) fn timed(&self, enqueue: impl FnOnce() -> Result<()>) -> Result<u64> {
        self.alive()?;
        self.run(enqueue).inspect_err(|error| {
            if error.kind() == ErrorKind::DeviceLost {
                self.dead.store(true, Ordering::Release);
            }
        })
    }

    fn run(&self, enqueue: impl FnOnce() -> Result<()>) -> Result<u64> {
        self.enter()?;
        let [start, end] = self.events;
        self.record(start)?;
        let done = enqueue().and_then(|()| self.record(end));
        let symbols = self.driver.library.symbols();
        // also where enqueuing failed half way: what was enqueued names memory that must outlive it
        // SAFETY: the stream lives as long as `self`.
        let code = unsafe { symbols.aclrtSynchronizeStream(self.stream) };
        done?;
        self.driver.check("aclrtSynchronizeStream", code)?;
        let mut milliseconds = 0f32;
        // SAFETY: both events were recorded and have happened; the number is writable.
        let code = unsafe { symbols.aclrtEventElapsedTime(&raw mut milliseconds, start, end) };
        self.driver.check("aclrtEventElapsedTime", code)?;
        // a cast saturates, and makes 0 of NaN
        Ok((f64::from(milliseconds) * 1e6) as u64)
    }

    fn record(&self, event: acl::aclrtEvent) -> Result<()> {
        // SAFETY: event and stream live as long as `self`.
        let code = unsafe { self.driver.library.symbols().aclrtRecordEvent(event, self.stream) };
        self.driver.check("aclrtRecordEvent", code)
    }

    /// Free and all bytes of the board's memory, where the library reports them.
    ///
    /// # Errors
    /// If the board is lost.
    pub(crate) fn memory(&self) -> Result<Option<(u64, u64)>> {
        let symbols = self.driver.library.symbols();
        if symbols.aclrtGetMemInfo.is_err() {
            return Ok(None);
        }
        self.enter()?;
        let (mut free, mut total) = (0usize, 0usize);
        // boards have one or the other; the one that a board lacks counts nothing
        for kind in [acl::ACL_MEMORY_HBM, acl::ACL_MEMORY_DDR] {
            // SAFETY: the call is there, and both numbers are writable.
            let code = unsafe { symbols.aclrtGetMemInfo(kind as i32, &raw mut free, &raw mut total) };
            if code as u32 == acl::ACL_OK && total > 0 {
                return Ok(Some((free as u64, total as u64)));
            }
        }
        Ok(None)
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if self.context.is_null() {
            return;
        }
        let symbols = self.driver.library.symbols();
        // what a lost board does not let go of is gone with it
        let _ = self.enter();
        for event in self.events.into_iter().filter(|event| !event.is_null()) {
            // SAFETY: made by this context, and let go of once.
            unsafe { symbols.aclrtDestroyEvent(event) };
        }
        if !self.stream.is_null() {
            // SAFETY: as above.
            unsafe { symbols.aclrtDestroyStream(self.stream) };
        }
        // SAFETY: all that was made of it holds it, and is gone.
        unsafe { symbols.aclrtDestroyContext(self.context) };
    }
}
