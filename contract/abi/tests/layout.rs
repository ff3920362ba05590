//! The layout of the contract equals the committed golden file.
//!
//! `POLYCHIP_BLESS=1 cargo test -p polychip-abi --test layout` (or `cargo xtask layout --bless`) rewrites it.

#![cfg(target_pointer_width = "64")]

use std::path::Path;

#[test]
fn layout_equals_the_golden_file() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/layout.golden.64");
    let now = polychip_abi::layout::golden();
    if std::env::var_os("POLYCHIP_BLESS").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    for (line, (was, is)) in golden.lines().zip(now.lines()).enumerate() {
        assert_eq!(was, is, "line {} of {}", line + 1, path.display());
    }
    assert_eq!(golden.lines().count(), now.lines().count(), "{}", path.display());
}
