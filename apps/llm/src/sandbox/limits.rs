//! Limits of a sandbox process.

use std::time::Duration;

/// Memory that a job may take beside the vocabulary, in bytes.
pub(super) const MEMORY: u64 = 256 << 20;
/// Stack of the thread that does the jobs, in bytes.
pub(super) const STACK: usize = 64 << 20;
/// Processor time of a job in seconds: of reading a template or grammar, or of one token's mask. The system counts whole
/// seconds, so a job may get up to one more.
pub(super) const CPU_SECONDS: u64 = 1;
/// Longest time of a job, on a machine that has no processor time for it.
pub(super) const LONGEST: Duration = Duration::from_secs(10);
/// A sandbox whose job took longer is not used again: its memory may be large or in pieces.
pub(crate) const CHEAP: Duration = Duration::from_millis(250);
/// Most bytes of a message.
pub(super) const MAX_FRAME: usize = 64 << 20;
/// Most bytes of messages that a sandbox has not read yet: a vocabulary and a job.
pub(super) const MAX_UNWRITTEN: usize = MAX_FRAME;
/// Sandboxes without a job that are kept for the next one.
pub(super) const MAX_IDLE: usize = 4;
