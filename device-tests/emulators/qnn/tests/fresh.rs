//! What a process sees before it creates a device; alone in its program, for that state is global.

#[path = "calls/client.rs"]
mod client;

use client::{IN, OUT, S16, T, validate};

#[test]
fn without_a_device_validation_answers_as_v68() {
    let backend = client::backend();
    let a = T::new("a", IN, S16, &[2, 2]).scale(0.1, 0);
    let b = T::new("b", IN, S16, &[2, 2]).scale(0.1, 0);
    let y = T::new("y", OUT, S16, &[2, 2]).scale(0.1, 0);
    let product = || validate(backend, "MatMul", &[], &[&a, &b], &[&y]);
    assert_eq!(product(), 3110);
    let device = client::device_for(43).unwrap();
    assert_eq!(product(), 0);
    call!(device_free, device);
    call!(backend_free, backend);
}
