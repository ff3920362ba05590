//! The ONNX backend suite through the CPU plugin on every instruction set that this machine has, the scalar one
//! included: `NAME/KIND/CASE`, as `avx2/node/test_add`.
//!
//! `POLYCHIP_SUITE_EVERY=N` takes each Nth case only, for a processor that is emulated; `POLYCHIP_SUITE_NARROW` set
//! leaves the widest instruction set out, on which `onnx_backend` runs; `POLYCHIP_SUITE_LIST=FILE` also writes each case's
//! result there.

use std::sync::{Arc, Mutex};

use anyhow::Result;
use libtest_mimic::Arguments;
use polychip::Runtime;
use polychip_cpu_kernels::Isa;
use polychip_device_tests::suite::{self, Suite};

fn main() -> Result<()> {
    let arguments = Arguments::from_args();
    suite::skip_without_data(&arguments);
    let every = suite::every()?;
    let list = std::env::var_os("POLYCHIP_SUITE_LIST")
        .map(std::fs::File::create)
        .transpose()?
        .map(|file| Arc::new(Mutex::new(file)));
    let mut sets = Isa::available();
    if std::env::var_os("POLYCHIP_SUITE_NARROW").is_some() {
        sets.retain(|isa| *isa != Isa::detect());
    }
    let mut suites = Vec::new();
    for isa in sets {
        let runtime = Runtime::builder().configure("cpu", "isa", isa.name()).build()?;
        suites.push(
            Suite::new(runtime, "cpu:0", isa.name())?
                .sampled(every)
                .listed(list.clone()),
        );
    }
    suite::run(&arguments, suites)?.exit()
}
