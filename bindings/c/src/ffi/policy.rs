//! Policies.

#![allow(unsafe_code)]

use std::ffi::c_char;

use crate::entry::entry;
use crate::failure::polychip_failure;
use crate::handle::Object;
use crate::read::{Out, text};
use crate::runtime::PolicyObject;
use crate::status::polychip_status_t;

/// Requirements of a session: objective, limits, devices, threads.
pub type polychip_policy_t = u64;

/// Makes a policy with the objective of the shortest run time. Thread-safe.
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

/// Sets a requirement. Existing sessions do not change. Thread-safe.
///
/// Names are the command line's options without their dashes: `policy` (`latency`, `energy`,
/// `balanced`, `makespan`, `throughput`), `devices` (`cpu:0,gpu`), `threads`, `deadline` (`33ms`),
/// `in-flight` and others. docs/c.md lists them all, and so does the failure for an unknown name. A
/// balanced plan is predicted to take at most 1.5 times as long as the fastest one, unless
/// `energy-price` is set.
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

/// Destroys a policy. Accepts 0. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_policy_destroy(
    policy: polychip_policy_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { super::destroy::<PolicyObject>(policy, failure) }
}
