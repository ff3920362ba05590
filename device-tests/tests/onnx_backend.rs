//! The ONNX backend suite against a device: node, simple, pytorch-converted and pytorch-operator cases.
//!
//! `POLYCHIP_SUITE_DEVICE` names the device (default `cpu:0`; `openvino:0` and `gpu:0` are linked here);
//! `POLYCHIP_SUITE_LIST=FILE` also writes each case's result there. Known failures stand in `expectations/PLUGIN.toml`; one that passes fails here.

use std::sync::{Arc, Mutex};

use anyhow::Result;
use libtest_mimic::Arguments;
use polychip::Runtime;
use polychip_device_tests::suite::{self, Suite};
use polychip_device_tests::{Need, gpu, openvino};

fn main() -> Result<()> {
    let arguments = Arguments::from_args();
    suite::skip_without_data(&arguments);
    let device = std::env::var("POLYCHIP_SUITE_DEVICE").unwrap_or_else(|_| "cpu:0".into());
    let plugin = device.split(':').next().unwrap_or_default();
    let list = std::env::var_os("POLYCHIP_SUITE_LIST")
        .map(std::fs::File::create)
        .transpose()?;
    let mut runtime = Runtime::builder();
    if plugin == "openvino" {
        match openvino::library() {
            Ok(folder) => {
                let folder = folder.display().to_string();
                runtime = runtime
                    .link(polychip_openvino::query)
                    .configure("openvino", "lib_dir", folder);
            }
            Err(why) => suite::skip(&arguments, Need::Openvino, &why),
        }
    }
    if plugin == "gpu" {
        runtime = runtime.link(polychip_gpu::query);
    }
    let runtime = runtime.build()?;
    if let Some(why) = gpu::missing(&runtime).filter(|_| plugin == "gpu") {
        suite::skip(&arguments, Need::Vulkan, &why);
    }
    let suite = Suite::new(runtime, &device, "")?.listed(list.map(|file| Arc::new(Mutex::new(file))));
    suite::run(&arguments, vec![suite])?.exit()
}
