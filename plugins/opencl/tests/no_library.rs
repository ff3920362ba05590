//! A machine without OpenCL's library, and one with it and no driver: the plugin says so, and what to do.

#![cfg(target_os = "linux")]

use std::process::Command;

use polychip_host::Host;

/// Set in the child process.
const CHILD: &str = "POLYCHIP_TEST_WITHOUT_OPENCL";

#[test]
fn plugin_without_a_driver_is_refused_with_a_reason() {
    if std::env::var_os(CHILD).is_some() {
        let host = Host::builder().linked(polychip_opencl::query).build();
        assert!(host.devices().is_empty());
        let message = host.refusals()[0].to_string();
        // either the library is missing here, or it finds no driver
        assert!(message.contains("OpenCL"), "{message}");
        assert!(message.contains("install"), "{message}");
        eprintln!("refused as it should be");
        return;
    }
    // the loader reads its environment once, so it is another process's
    let child = Command::new(std::env::current_exe().unwrap())
        .arg("--nocapture")
        .env(CHILD, "1")
        .env("OCL_ICD_VENDORS", "/nowhere")
        .env("OCL_ICD_FILENAMES", "")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{said}");
    assert!(said.contains("refused as it should be"), "{said}");
}
