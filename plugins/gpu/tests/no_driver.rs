//! A machine whose Vulkan loader finds no driver: the plugin says so, and what to do.

#![cfg(target_os = "linux")]

use std::process::Command;

use polychip_host::Host;

/// Set in the child process.
const CHILD: &str = "POLYCHIP_TEST_WITHOUT_DRIVER";

#[test]
fn plugin_without_a_driver_is_refused_with_a_remedy() {
    if std::env::var_os(CHILD).is_some() {
        let host = Host::builder().linked(polychip_gpu::query).build();
        assert!(host.devices().is_empty());
        let message = host.refusals()[0].to_string();
        assert!(message.contains("no GPU: Vulkan offers no device"), "{message}");
        assert!(message.contains("mesa-vulkan-drivers"), "{message}");
        eprintln!("refused as it should be");
        return;
    }
    // the loader reads its environment once, so it is another process's
    let child = Command::new(std::env::current_exe().unwrap())
        .arg("--nocapture")
        .env(CHILD, "1")
        .env("VK_DRIVER_FILES", "/nowhere/driver.json")
        .env("VK_ICD_FILENAMES", "/nowhere/driver.json")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{said}");
    assert!(said.contains("refused as it should be"), "{said}");
}
