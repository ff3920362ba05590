//! LiteRT's compiler plugins as witnesses: clients of vendors' libraries that nobody here wrote, which drive our emulators.
//!
//! Not here: finding and running LiteRT (`polychip_device_tests::litert`), the models of one op (`device-tests/witness/litert`).
//! Start reading at `tests/qnn/main.rs`.

#![forbid(unsafe_code)]
