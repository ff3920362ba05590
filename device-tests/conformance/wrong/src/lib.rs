//! A plugin with one fault, to prove that the suite detects it: the null plugin behind a table in which
//! `POLYCHIP_WRONG` selects the faulty call.
//!
//! Invariants:
//! 1. Without the variable it behaves like the null plugin.
//! 2. Each fault is one function here and one line of the suite's test.
//!
//! Not here: device faults (from the script of `plugins/null`).

#![allow(unsafe_code)]

mod call;

use std::sync::LazyLock;

use polychip_abi as abi;

/// A table of function pointers.
struct Table(abi::polychip_plugin_table);

// SAFETY: function pointers and numbers.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = *polychip_null::table();
    call::make_wrong(&way(), &mut table);
    Table(table)
});

/// What is wrong.
fn way() -> String {
    std::env::var("POLYCHIP_WRONG").unwrap_or_default()
}

/// The export of a plugin.
///
/// # Safety
/// It takes any two numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_plugin_query(major: u32, _minor: u32) -> *const abi::polychip_plugin_table {
    if major == abi::POLYCHIP_ABI_MAJOR || way() == "serves-any-major" {
        &raw const TABLE.0
    } else {
        std::ptr::null()
    }
}
