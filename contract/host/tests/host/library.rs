//! The null plugin as a library that the system loads: the same answers as when it is linked.

use std::path::PathBuf;
use std::process::Command;

use crate::bench::{Bench, add_relu, floats};
use polychip_host::{Clock, Host};

/// Builds the library beside this test, as cargo builds no `cdylib` for a test to load.
fn library() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // target/<profile>/deps/<this test>
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().unwrap().parent().unwrap();
    let target = profile.parent().unwrap();
    let mut build = Command::new(cargo);
    build
        .args([
            "build",
            "--quiet",
            "--package",
            "polychip-plugin-null",
            "--target-dir",
        ])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    if profile.ends_with("release") {
        build.arg("--release");
    }
    let output = build.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    profile.join(format!("{prefix}polychip_plugin_null{suffix}"))
}

#[test]
fn a_loaded_library_gives_what_the_linked_plugin_gives() {
    let script = "[[device]]\nnoise_permille = 300\nseed = 5";
    let loaded = Host::builder()
        .file(library())
        .clock(Clock::virtual_time())
        .configure("null", "script", script)
        .build();
    assert_eq!(loaded.refusals(), []);
    let linked = crate::bench::host(script);
    let inputs = [floats(&[1.0, -2.0, 3.0, -4.0]), floats(&[0.5, 0.5, 0.5, 5.0])];
    let mut seen = Vec::new();
    for host in [&loaded, &linked] {
        let mut bench = Bench::new(&host.devices()[0], &add_relu()).unwrap();
        let timing = bench.run(&inputs).unwrap().timing().unwrap();
        seen.push((bench.read(2), timing));
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(
        loaded.plugins()[0].info().build_id,
        linked.plugins()[0].info().build_id
    );
    assert!(loaded.plugins()[0].info().path.is_some());
}
