//! The QNN plugin without a library that it can use: each refusal names library, place, finding and remedy.
//!
//! Invariant: no library is opened in this program, so that each refusal is the first word on its folder.

use std::fs;
use std::path::Path;

use polychip_device_tests::libraries;
use polychip_host::Host;

/// Why the plugin is refused with this folder.
fn refusal(folder: &Path) -> String {
    let host = Host::builder()
        .linked(polychip_qnn::query)
        .configure("qnn", "lib_dir", folder.to_str().unwrap())
        .build();
    assert!(host.devices().is_empty());
    host.refusals()[0].reason.to_string()
}

#[test]
fn a_missing_library_is_named_with_its_place_and_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let words = refusal(folder.path());
    for word in [
        "libQnnHtp.so",
        folder.path().to_str().unwrap(),
        "QNN_LIB_DIR",
        "install",
    ] {
        assert!(words.contains(word), "{words}");
    }
}

#[test]
fn a_library_for_another_processor_is_named_as_such() {
    let folder = tempfile::tempdir().unwrap();
    // the header of a 64-bit library for Hexagon, and nothing behind it
    let mut header = vec![0u8; 64];
    header[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
    header[16] = 3;
    header[18] = 164;
    fs::write(folder.path().join("libQnnHtp.so"), header).unwrap();
    let words = refusal(folder.path());
    assert!(
        words.contains("libQnnHtp.so") && words.contains("cannot be used"),
        "{words}"
    );
}

#[test]
fn half_an_installation_is_named_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let htp = libraries::library("polychip-emulator-qnn", "QnnHtp").unwrap();
    fs::copy(htp, folder.path().join("libQnnHtp.so")).unwrap();
    let words = refusal(folder.path());
    for word in ["libQnnSystem.so", "missing beside", "incomplete"] {
        assert!(words.contains(word), "{words}");
    }
}

#[test]
fn meaningless_settings_are_refused_before_opening() {
    for (key, value) in [("soc", "SM0"), ("precision", "sloppy")] {
        let host = Host::builder()
            .linked(polychip_qnn::query)
            .configure("qnn", "lib_dir", "/nowhere")
            .configure("qnn", key, value)
            .build();
        let words = host.refusals()[0].reason.to_string();
        assert!(words.contains(value), "{words}");
    }
}
