//! Profiles as C sees them.
//!
//! Invariant: an event's number is known as long as its profile lives and holds it.

#![allow(unsafe_code)]

use polychip_sys::qnn as sys;

use super::guard::{give, guard, handle, number};
use crate::code::Code;
use crate::world;

pub(super) unsafe extern "C" fn create(
    backend: sys::Backend,
    level: u32,
    out: *mut sys::Profile,
) -> sys::Code {
    guard(|| {
        world::backend(number(backend))?;
        let at = world::create_profile(level);
        // SAFETY: the client gives a place for the handle.
        unsafe { give(out, handle(at)) }
    })
}

pub(super) unsafe extern "C" fn events(
    profile: sys::Profile,
    out: *mut *const sys::Event,
    out_count: *mut u32,
) -> sys::Code {
    guard(|| {
        let profile = world::profile(number(profile))?;
        let (ids, count) = profile.hand_out();
        // SAFETY: the client gives places for both.
        unsafe {
            give(out, ids)?;
            give(out_count, count as u32)
        }
    })
}

/// No event has parts.
pub(super) unsafe extern "C" fn sub_events(
    event: sys::Event,
    out: *mut *const sys::Event,
    out_count: *mut u32,
) -> sys::Code {
    guard(|| {
        find(event)?;
        // SAFETY: the client gives places for both.
        unsafe {
            give(out, std::ptr::null())?;
            give(out_count, 0)
        }
    })
}

pub(super) unsafe extern "C" fn event_data(event: sys::Event, out: *mut sys::EventData) -> sys::Code {
    guard(|| {
        let event = find(event)?;
        let data = sys::EventData {
            kind: event.kind,
            unit: event.unit,
            value: event.value,
            identifier: event.name.as_ptr(),
        };
        // SAFETY: the client gives a place for it.
        unsafe { give(out, data) }
    })
}

pub(super) unsafe extern "C" fn free(profile: sys::Profile) -> sys::Code {
    guard(|| world::free_profile(number(profile)))
}

fn find(id: u64) -> Result<crate::profile::Event, Code> {
    world::profiles()
        .iter()
        .find_map(|profile| profile.event(id))
        .ok_or(Code::PROFILE)
}
