//! The other layout of the device configuration, of HTP API 5.49; alone in its program, for it is read once.

#[path = "calls/client.rs"]
mod client;

use client::{device, qnn};

#[test]
fn the_soc_stands_at_byte_4_and_versions_say_so() {
    // SAFETY: no other thread runs yet that reads the environment.
    #[allow(unsafe_code)]
    unsafe {
        std::env::set_var("POLYCHIP_QNN_UNION_OFFSET", "4");
    }
    assert_eq!(qnn().core_api().to_string(), "2.38.0");
    assert_eq!(qnn().library_api().to_string(), "5.49.0");
    call!(device_free, device(Some([0, 57, 14, 0, 0, 0, 0, 0])).unwrap());
    assert_eq!(device(Some([0, 14, 57, 0, 0, 0, 0, 0])).err(), Some(14001));
    // written at both, it works with either
    call!(device_free, device(Some([0, 57, 57, 0, 0, 0, 0, 0])).unwrap());
}
