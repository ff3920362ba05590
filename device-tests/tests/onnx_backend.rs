//! The ONNX backend suite against a device: node, simple, pytorch-converted and pytorch-operator cases.
//!
//! `POLYCHIP_SUITE_DEVICE` names the device (default `cpu:0`; `openvino:0`, `gpu:0` and the first of each plugin that has
//! an emulated library are linked here); `POLYCHIP_SUITE_EVERY=N` takes each Nth case only; `POLYCHIP_SUITE_LIST=FILE` also writes each case's result there. Known failures
//! are listed in `expectations/PLUGIN.toml`; one that passes fails here. An emulated chip may compute in 16-bit floats: most
//! NPUs do nothing else.

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Arguments;
use polychip::{Query, Runtime};
use polychip_device_tests::suite::{self, Suite};
use polychip_device_tests::{Need, emulated, gpu, openvino};

/// The plugins whose library is emulated here.
const EMULATED: [(&str, Query); emulated::PLUGINS.len()] = [
    ("ascend", polychip_ascend::query),
    ("coreml", polychip_coreml::query),
    ("neuron", polychip_neuron::query),
    ("nnrt", polychip_nnrt::query),
    ("qnn", polychip_qnn::query),
    ("rknn", polychip_rknn::query),
];

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
    let emulated = EMULATED.iter().find(|(name, _)| *name == plugin);
    if let Some((_, query)) = emulated {
        runtime = runtime
            .only_given_folders()
            .link(*query)
            .configure(plugin, "precision", "reduced");
        for (key, value) in emulated::configuration(plugin)? {
            runtime = runtime.configure(plugin, key, value);
        }
    }
    let runtime = runtime.build()?;
    if let Some(why) = gpu::missing(&runtime).filter(|_| plugin == "gpu") {
        suite::skip(&arguments, Need::Vulkan, &why);
    }
    if emulated.is_some() {
        let found = runtime.devices().iter().find(|found| found.name() == device);
        let found = found.with_context(|| format!("no device {device}: {:?}", runtime.refusals()))?;
        ensure!(found.info().emulated, "{device} is not labelled as emulated");
    }
    let mut suite = Suite::new(runtime, &device, "")?
        .sampled(suite::every()?)
        .listed(list.map(|file| Arc::new(Mutex::new(file))));
    if emulated.is_some() {
        suite = suite.reduced();
    }
    suite::run(&arguments, vec![suite])?.exit()
}
