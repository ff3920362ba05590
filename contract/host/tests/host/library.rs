//! The null plugin as a library that the system loads: the same answers as when it is linked.

use crate::bench::{Bench, add_relu, floats};
use polychip_host::{Clock, Host};
use polychip_test_requirements::libraries;

#[test]
fn loaded_library_equals_the_linked_plugin() {
    let script = "[[device]]\nnoise_permille = 300\nseed = 5";
    let loaded = Host::builder()
        .file(libraries::plugin("null").unwrap())
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
