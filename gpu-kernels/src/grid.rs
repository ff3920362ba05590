//! Launch arithmetic: a row of workgroups or of threads laid over the axes of a dispatch.
//!
//! Invariant: every number below the count is met once; numbers beyond it are met too and must be refused by
//! the kernel's text.

use crate::{Error, Limits, Result};

/// Workgroups for `count` of them in a row, and the text of a workgroup's number.
///
/// # Errors
/// Where the device's axes do not hold as many.
pub(crate) fn row(count: u64, limits: &Limits) -> Result<([u32; 3], String)> {
    let most = u64::from(limits.groups.max(1));
    let y = count.div_ceil(most).max(1);
    if y > most {
        return Err(Error::new(format!(
            "{count} workgroups, the device's limit is {}",
            most.saturating_mul(most)
        )));
    }
    let x = count.div_ceil(y).max(1);
    let groups = [x as u32, y as u32, 1];
    let number = if y == 1 {
        "group.x".to_owned()
    } else {
        format!("(group.y * {x}u + group.x)")
    };
    Ok((groups, number))
}

/// The largest power of two up to `most` that does not leave more than half of the threads without work.
pub(crate) fn threads(count: u64, most: u32, limits: &Limits) -> u32 {
    let most = most.min(limits.invocations).min(limits.workgroup[0]).max(1);
    let most = 1 << most.ilog2();
    let wanted = u32::try_from(count.next_power_of_two()).unwrap_or(most);
    wanted.clamp(1, most)
}
