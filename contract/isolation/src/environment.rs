//! Variables of the environment that name code to load.

use std::ffi::OsString;

/// Value of an environment variable that names code to load, such as `POLYCHIP_PLUGINS`. `None` if
/// it is unset. Also `None` in a program with more privileges than its caller (set-user-ID,
/// set-group-ID or file capabilities), because the caller chose the environment.
#[must_use]
pub fn trusted_variable(name: &str) -> Option<OsString> {
    let value = std::env::var_os(name)?;
    if is_privileged() {
        tracing::warn!("{name} is ignored: the program has more privileges than its caller");
        return None;
    }
    Some(value)
}

/// Whether the program has more privileges than its caller.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[allow(unsafe_code, reason = "the C library is asked for a value of the kernel")]
fn is_privileged() -> bool {
    // SAFETY: it reads a value that the kernel gave to the process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Other systems do not tell.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn is_privileged() -> bool {
    false
}

#[cfg(test)]
mod tests {
    #[test]
    fn variables_of_a_program_without_more_privileges_count() {
        assert!(super::trusted_variable("PATH").is_some());
        assert!(super::trusted_variable("POLYCHIP_NO_SUCH_VARIABLE").is_none());
    }
}
