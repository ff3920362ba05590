//! Language models run as apps run them. One program holds them all, because each test program links the whole library.

mod adapter;
mod architectures;
mod batch;
mod checkpoint;
mod forward;
mod generate;
mod grammar;
mod memory;
mod precision;
mod saved;
mod speculation;
mod split;
mod stream;
mod tools;

use std::sync::LazyLock;

use polychip::{Precision, Runtime};
use polychip_llm::Options;

/// Options of a model in exact precision on the CPU alone, whose results are compared bit for bit: plugins that lie beside
/// the test program may offer devices that compute in another order.
fn options() -> Options {
    static CPU: LazyLock<Runtime> = LazyLock::new(|| {
        let cpu = Runtime::builder().only_given_folders();
        cpu.build().expect("the CPU needs no library")
    });
    Options::new().runtime(&CPU).precision(Precision::Exact)
}
