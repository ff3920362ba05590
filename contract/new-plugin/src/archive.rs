//! The packed templates.
//!
//! Invariant: the archive is what `build.rs` wrote, so a file that the code names is in it.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::OnceLock;

use flate2::read::DeflateDecoder;

const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/templates.deflate"));

/// The text of a file, by its path in the folder of templates, or `workspace/NAME`.
pub(crate) fn text(name: &str) -> &'static str {
    static FILES: OnceLock<BTreeMap<String, String>> = OnceLock::new();
    FILES
        .get_or_init(files)
        .get(name)
        .unwrap_or_else(|| panic!("invariant: the archive has {name}"))
}

fn files() -> BTreeMap<String, String> {
    let mut all = String::new();
    DeflateDecoder::new(PACKED)
        .read_to_string(&mut all)
        .expect("invariant: the archive is text");
    let mut rest = &all[..];
    let mut files = BTreeMap::new();
    while let Some((head, body)) = rest.split_once('\n') {
        let found = head.split_once(' ').and_then(|(name, length)| {
            let (text, behind) = body.split_at_checked(length.parse().ok()?)?;
            Some((name, text, behind))
        });
        let (name, text, behind) = found.expect("invariant: a file has a name and a length");
        files.insert(name.to_owned(), text.to_owned());
        rest = behind;
    }
    files
}
