//! `docs/qnn-support.md`: the kinds of node that the library accepts, by number format and chip.
//!
//! Invariant: the committed page matches the emulator's answers through the plugin. Otherwise the test fails and names the
//! command that rewrites the page.

use std::fmt::Write as _;

use polychip_device_tests::paths;
use polychip_host::FlatGraph;

use super::cases::CASES;
use super::device::device;
use super::net::{Kind, Net};

const KINDS: [Kind; 5] = [Kind::U8, Kind::I8, Kind::U16, Kind::I16, Kind::F16];
const CHIPS: [&str; 3] = ["30", "43", "57"];

/// The page.
fn page() -> String {
    let devices = CHIPS.map(device);
    let mut page = String::from(
        "# Node support on Qualcomm NPUs\n\n\
         Each row is a kind of node, and each column a number format. A cell lists the chips that support it, by SoC\n\
         number: 30 is SM8350, 43 is SM8550, 57 is SM8650. A chip supports a node if the library accepts every operation\n\
         that the `qnn` plugin makes of it. For the nodes of your network, with their own shapes and encodings,\n\
         `polychip explain` shows the same answer and the reason for each refusal.\n\n",
    );
    let _ = writeln!(
        page,
        "The answers come from our emulator, {},\nwhich copies the behaviour of the vendor's library that we \
         observed. The columns u16 and s16 use 8-bit weights.\n",
        devices[0].info().driver
    );
    page.push_str("| node | u8 | s8 | u16 | s16 | f16 |\n|---|---|---|---|---|---|\n");
    for (name, _, make) in CASES {
        let _ = write!(page, "| {name} |");
        for kind in KINDS {
            let mut net = Net::new(kind);
            let outputs = make(&mut net);
            let graph = net.out(&outputs);
            let flat = FlatGraph::new(&graph, &[]).unwrap();
            let yes: Vec<&str> = devices
                .iter()
                .zip(CHIPS)
                .filter(|(device, _)| {
                    let support = device.query_support(&flat).unwrap();
                    support[0].reason == polychip_abi::POLYCHIP_SUPPORT_YES
                })
                .map(|(_, chip)| chip)
                .collect();
            let cell = if yes.is_empty() {
                "–".to_owned()
            } else {
                yes.join(" ")
            };
            let _ = write!(page, " {cell} |");
        }
        page.push('\n');
    }
    page
}

#[test]
fn the_page_of_supported_nodes_is_current() {
    let path = paths::root().join("docs/qnn-support.md");
    let page = page();
    if std::env::var_os("POLYCHIP_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let line = kept.lines().zip(page.lines()).find(|(kept, page)| kept != page);
    assert!(
        kept == page,
        "docs/qnn-support.md differs from the emulator's answers (first different line: {line:?}); run this test with \
         POLYCHIP_BLESS=1"
    );
}
