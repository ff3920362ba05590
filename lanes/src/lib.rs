//! Whose turn it is on a device: the ready parts of all sessions, in one queue per device.
//!
//! A part is the unit: what a device has begun is not interrupted. A [`Queue`] is told which parts are ready, and says
//! which one goes next: the highest [`Class`] first, inside a class the earliest deadline, and a lower class that has
//! waited without its share before both.
//!
//! ```
//! use polychip_lanes::{Class, Entry, Queue, Settings};
//!
//! let mut queue = Queue::new(Settings::default());
//! let part = |class, deadline_ns, owner| Entry { class, deadline_ns, expected_ns: 8_000_000, owner };
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
//! 2. A queue is never idle while a part waits and it has a place.
//! 3. Up to [`Settings::capacity`] parts, nothing is allocated after construction.
//!
//! Allowed dependencies: none of ours. Deliberately not here: who waits for a turn, and how it is told (the scheduler).

#![forbid(unsafe_code)]

mod heap;
mod queue;
mod settings;

#[cfg(test)]
mod tests;

pub use queue::{Entry, Queue, Ticket};
pub use settings::{Class, Settings};
