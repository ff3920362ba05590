//! `new-plugin`: what it writes, and what it refuses.

use std::process::Command;

use crate::tool::{polychip, repository};

#[test]
fn plugin_in_a_folder_of_its_own_has_every_file() {
    let folder = tempfile::tempdir().unwrap();
    for (template, file) in [("basic", "src/exec.rs"), ("driver", "driver/my_npu_driver.c")] {
        let out = folder.path().join(template);
        let text = polychip(&[
            "new-plugin",
            "my_npu",
            "--template",
            template,
            "--out",
            out.to_str().unwrap(),
        ])
        .ok();
        assert!(out.join("plugins/my_npu").join(file).is_file(), "{template}");
        let manifest = std::fs::read_to_string(out.join("Cargo.toml")).unwrap();
        assert!(
            manifest.contains(&format!("version = \"{}\"", env!("CARGO_PKG_VERSION"))),
            "{manifest}"
        );
        assert!(!manifest.contains("path ="), "{manifest}");
        for words in [
            "--package polychip-plugin-my_npu",
            "polychip devices --plugins",
            "--repository DIR",
        ] {
            assert!(text.contains(words), "{words:?} is not in {text}");
        }
        let sets_driver = text.contains("--set my_npu.lib_dir=");
        assert_eq!(sets_driver, template == "driver", "{text}");
    }
}

#[test]
fn plugin_uses_a_clone_by_path() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("mine");
    let (clone, out_name) = (repository(), out.display().to_string());
    let clone = clone.to_str().unwrap();
    let arguments = ["new-plugin", "my_npu", "--out", &out_name, "--repository", clone];
    polychip(&arguments).ok();
    // what is not of this platform may not have been downloaded
    let resolved = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--offline",
            "--filter-platform",
            "host-tuple",
        ])
        .current_dir(&out)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&resolved.stderr);
    assert!(resolved.status.success(), "{said}");
    polychip(&arguments).fails(2, &["must be empty"]);
}

#[test]
fn bad_names_and_folders_are_usage_errors() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("mine");
    let out_name = out.to_str().unwrap();
    polychip(&["new-plugin", "My-NPU", "--out", out_name]).fails(2, &["lower-case letters"]);
    polychip(&["new-plugin", "plugin_x", "--out", out_name]).fails(2, &["reserved"]);
    let empty = tempfile::tempdir().unwrap();
    let none = empty.path().to_str().unwrap();
    let arguments = ["new-plugin", "x", "--out", out_name, "--repository", none];
    polychip(&arguments).fails(2, &["is no clone of"]);
    assert!(!out.exists());
}
