//! The order of the locks of device queues, run states, retries and notifications: a thread that
//! holds one takes only those below it in this list. Debug builds check that, and that none is held
//! while a device or a task's waker is called (`polychip_host::CheckedMutex`).
//!
//! Not here: locks that serialise long work and are held across device calls (repair, resets, the
//! making of plans), and all other locks of this crate.

/// A session's run states that are free or given up.
pub(crate) const SLOTS: u8 = 0;
/// What a task and the thread that retries its run share.
pub(crate) const RETRY: u8 = 1;
/// What a run and the thread that drives it exchange.
pub(crate) const MAIL: u8 = 2;
/// The task that awaits a driven run.
pub(crate) const AWAITS: u8 = 3;
/// The sessions that use a device.
pub(crate) const MEMBERS: u8 = 4;
/// The queue of a device.
pub(crate) const QUEUE: u8 = 5;
/// The queue grant of a part.
pub(crate) const GRANT: u8 = 6;
/// The notifications of a run.
pub(crate) const NOTIFICATIONS: u8 = 7;
