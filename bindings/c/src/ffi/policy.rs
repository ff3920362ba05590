//! Policies.

#![allow(unsafe_code)]

use std::ffi::c_char;

use crate::entry::entry;
use crate::failure::polychip_failure;
use crate::handle::Object;
use crate::read::{Out, text};
use crate::runtime::PolicyObject;
use crate::status::polychip_status_t;

/// What an app asks of a session: the aim, the limits, the devices, the threads.
pub type polychip_policy_t = u64;

/// Makes a policy whose aim is the shortest time of a run. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_policy_create(
    out_policy: *mut polychip_policy_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_policy, "out_policy") }?;
        place.put(PolicyObject::new().into_handle()?);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Sets what is asked, in the words of the command line's options, without their dashes: `policy` (`latency`, `energy`,
/// `balanced`, `makespan`, `throughput`), `devices` (`cpu:0,gpu`), `threads`, `deadline` (`33ms`), `in-flight` and others;
/// docs/c.md lists them, and so does the failure of a name that is none. A balanced plan is predicted to take at most 1.5
/// times as long as the fastest one, unless `energy-price` is set. Sessions that were made before do not change.
/// Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_policy_set(
    policy: polychip_policy_t,
    name: *const c_char,
    value: *const c_char,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rule 3 of the header.
        let name = unsafe { text(name, "name") }?;
        // SAFETY: as above.
        let value = unsafe { text(value, "value") }?;
        PolicyObject::of(policy)?.set(name, value)
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Destroys a policy; 0 is none, and allowed. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_policy_destroy(
    policy: polychip_policy_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { super::destroy::<PolicyObject>(policy, failure) }
}
