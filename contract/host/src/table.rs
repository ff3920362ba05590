//! Reading a plugin's function table: the common prefix, after its version, size and calls are
//! checked.
//!
//! Invariants:
//! 1. Only as many bytes are read as the table states.
//! 2. A size that ends inside a field is refused, and so is a missing required call.

#![allow(unsafe_code)]

use std::ptr::addr_of;

use polychip_abi as abi;
use polychip_abi::Sized;

/// Bytes of the four numbers in front of the calls.
const NUMBERS: usize = 4 * size_of::<u32>();
/// Bytes of one call.
const CALL: usize = size_of::<usize>();

/// Copies the table that a plugin's export returns, or returns the reason for its refusal.
pub(crate) fn of_query(
    query: abi::polychip_plugin_query_fn,
) -> std::result::Result<abi::polychip_plugin_table, String> {
    // SAFETY: the export is pure and takes any two numbers.
    let found = unsafe { query(abi::POLYCHIP_ABI_MAJOR, abi::POLYCHIP_ABI_MINOR) };
    // SAFETY: the export returns null or a static table, by the contract.
    unsafe { read(found) }
}

/// Copies the table at `table`, or returns the reason for its refusal.
///
/// # Safety
/// `table` is null or points to a static table whose first field states its size in bytes.
pub(crate) unsafe fn read(
    table: *const abi::polychip_plugin_table,
) -> std::result::Result<abi::polychip_plugin_table, String> {
    if table.is_null() {
        return Err(format!(
            "the plugin does not serve version {}.{} of the contract (it returned no table)",
            abi::POLYCHIP_ABI_MAJOR,
            abi::POLYCHIP_ABI_MINOR
        ));
    }
    if !table.is_aligned() {
        return Err("its table is not aligned".into());
    }
    // SAFETY: a table begins with its size, by the caller's promise.
    let size = unsafe { addr_of!((*table).struct_size).read() } as usize;
    if size < NUMBERS {
        return Err(format!(
            "its table of {size} bytes is smaller than the table's numbers ({NUMBERS} bytes)"
        ));
    }
    // SAFETY: the table is at least as long as its numbers, checked above.
    let major = unsafe { addr_of!((*table).abi_major).read() };
    if major != abi::POLYCHIP_ABI_MAJOR {
        return Err(format!(
            "it is built for version {major} of the contract, this host serves {}",
            abi::POLYCHIP_ABI_MAJOR
        ));
    }
    if !(size - NUMBERS).is_multiple_of(CALL) {
        return Err(format!("its table of {size} bytes ends inside a field"));
    }
    let mut copy = abi::polychip_plugin_table::sized();
    let ours = size_of::<abi::polychip_plugin_table>();
    // SAFETY: both tables have at least the smaller number of bytes, which ends at a field's end; every
    // bit pattern that a plugin wrote there is a number, a null or a call, as in our own table.
    unsafe {
        std::ptr::copy_nonoverlapping(table.cast::<u8>(), (&raw mut copy).cast::<u8>(), size.min(ours));
    }
    copy.struct_size = u32::try_from(ours).expect("invariant: a table is small");
    let missing = copy.missing_calls();
    if missing.is_empty() {
        Ok(copy)
    } else {
        Err(format!("its table lacks required calls: {}", missing.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(table: &abi::polychip_plugin_table) -> String {
        // SAFETY: the table is a whole table of this build.
        unsafe { read(table) }.unwrap_err()
    }

    #[test]
    fn table_of_older_or_later_build_is_read() {
        let mut table = *polychip_null::table();
        let whole = table.struct_size;
        table.struct_size = std::mem::offset_of!(abi::polychip_plugin_table, telemetry) as u32;
        // SAFETY: a whole table of this build, which claims to be shorter.
        let older = unsafe { read(&raw const table) }.unwrap();
        assert!(older.telemetry.is_none() && older.fence_destroy.is_some());
        assert_eq!(older.struct_size, whole);

        #[repr(C)]
        struct Later(abi::polychip_plugin_table, [usize; 2]);
        let mut later = Later(*polychip_null::table(), [0; 2]);
        later.0.struct_size = size_of::<Later>() as u32;
        // SAFETY: as long as it claims to be.
        let read = unsafe { read((&raw const later).cast()) }.unwrap();
        assert!(read.telemetry.is_some());
    }

    #[test]
    fn every_violation_is_named() {
        // SAFETY: null is allowed.
        let nothing = unsafe { read(std::ptr::null()) };
        assert!(nothing.unwrap_err().contains("no table"));
        let table = abi::polychip_plugin_table {
            abi_major: abi::POLYCHIP_ABI_MAJOR,
            ..Sized::sized()
        };
        assert!(refusal(&table).contains("plugin_info, create, destroy"));
        assert!(
            refusal(&abi::polychip_plugin_table {
                abi_major: 99,
                ..table
            })
            .contains("version 99")
        );
        assert!(
            refusal(&abi::polychip_plugin_table {
                struct_size: 8,
                ..table
            })
            .contains("8 bytes")
        );
        assert!(
            refusal(&abi::polychip_plugin_table {
                struct_size: 45,
                ..table
            })
            .contains("ends inside a field")
        );
        // a short table of the right version lacks what stands behind its end
        let short = abi::polychip_plugin_table {
            struct_size: (NUMBERS + CALL) as u32,
            ..table
        };
        assert!(refusal(&short).contains("create"));
    }
}
