//! Device queues: one queue per device orders the ready parts of all sessions.
//!
//! The unit of scheduling is a part: once a device has begun a part, the queue does not interrupt
//! it. A [`Queue`] receives ready parts and selects the next one: the highest [`Class`] first, and
//! within a class the earliest deadline. A lower class goes first once it has waited for its
//! guaranteed share.
//!
//! ```
//! use polychip_device_queue::{Class, Entry, Queue, Settings};
//!
//! let mut queue = Queue::new(Settings::default());
//! let part = |class, deadline_ns, owner| Entry { class, deadline_ns, since_ns: 0, expected_ns: 8_000_000, owner };
//! let background = queue.push(part(Class::Background, None, "background"), 0);
//! assert_eq!(queue.next(0), Some((background, "background")));
//! let camera = queue.push(part(Class::Urgent, Some(33_000_000), "camera"), 1);
//! queue.push(part(Class::Background, None, "background"), 2);
//! assert_eq!(queue.next(2), None); // one part is with the device
//! queue.ended(background, 8_000_000);
//! assert_eq!(queue.next(8_000_000), Some((camera, "camera")));
//! ```
//!
//! Invariants:
//! 1. Pure: no clock, device or thread; times are given, in nanoseconds of one clock.
//! 2. A queue is never idle while a part waits and the device has a free place.
//! 3. Up to [`Settings::capacity`] parts, nothing is allocated after construction.
//!
//! Guarantees can be checked in advance: [`admit`] proves that a [`TaskSet`] misses no deadline, or
//! gives the reasons ([`missing`], [`what_would_fit`]); [`cuts`] limits the length of parts;
//! [`joint`] chooses one of several plans for each session; [`simulate`] runs arriving tasks
//! through the same queue on virtual time.
//!
//! ```
//! use polychip_device_queue::{Class, Device, Part, Task, TaskSet, admit, cuts};
//!
//! let ms = |time: u64| vec![Part { device: 0, time_ns: time * 1_000_000 }];
//! let camera = Task::periodic("camera", 33_000_000, ms(8)).in_class(Class::Urgent);
//! let set = TaskSet::new(vec![Device::new("npu:0")], vec![camera, Task::endless("background", Class::Background, ms(60))]);
//! assert!(admit(&set)?.certificate().is_none());
//! assert!(cuts(&set)?[0].longest_ns.is_some_and(|longest| longest > 10_000_000));
//! # Ok::<(), polychip_device_queue::Error>(())
//! ```
//!
//! Allowed dependencies: none of ours. Deliberately not here: waiting for a turn, and waking the
//! waiter (the scheduler).

#![forbid(unsafe_code)]

mod admit;
mod cuts;
mod demand;
mod error;
mod fit;
mod heap;
mod intermediate;
mod joint;
mod missing;
mod queue;
mod settings;
mod simulate;
mod task;

#[cfg(test)]
mod tests;

pub use admit::{Admission, Certificate, DeviceProof, Milliseconds, Reason, Said, admit, deadlines_of};
pub use cuts::{Cuts, cuts};
pub use demand::Instant;
pub use error::{Error, ErrorKind};
pub use fit::{Fit, what_would_fit};
pub use intermediate::Division;
pub use joint::{Aim, Choice, Joint, Session, joint, value as joint_value};
pub use missing::{Missing, missing};
pub use queue::{Entry, Queue, Ticket};
pub use settings::{Class, Settings};
pub use simulate::{Arrival, Miss, Outcome, Pattern, Ran, Scenario, TaskOutcome, simulate, sporadic};
pub use task::{Arrivals, Device, LONGEST_NS, Part, Task, TaskSet};
