//! The plugin and its one device: the NPU of this board, or of the connected board.
//!
//! Invariants:
//! 1. Nothing is loaded or probed before `create`; the table query has no side effects.
//! 2. Without a board, `create` reports it and offers no device.
//! 3. A reset ends all runs and invalidates loaded parts. A run that hangs in the library is left
//!    behind with its thread and context: nothing can end it.

use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use polychip_sdk::{
    AlignedBytes, CompileOptions, Cost, Device, DeviceInfo, DeviceKind, Error, GraphView, HostServices,
    LoadSource, LogLevel, Memory, Offers, Plugin, PluginInfo, Preemption, Result, RunQueue, Runner, Support,
};

use crate::buffer::{self, RknnBuffer};
use crate::chip::{CHIPS, Chip};
use crate::driver::Driver;
use crate::exec::{Lanes, RknnExecutable, RknnRun};
use crate::settings::{Caches, Settings};
use crate::shared::Shared;
use crate::toolkit::Toolkit;
use crate::{caps, lower, telemetry};

/// Part of every cache key, beside the toolkit's version.
const BUILD_ID: &str = polychip_sdk::build_id!("rknn");
/// What a board is, in texts that each end with a zero.
const DEVICE_TREE: &str = "/proc/device-tree/compatible";

/// The plugin.
pub struct RknnPlugin {
    shared: Arc<Shared>,
}

impl Plugin for RknnPlugin {
    type Device = RknnDevice;
    const INFO: PluginInfo = PluginInfo {
        name: "rknn",
        version: env!("CARGO_PKG_VERSION"),
        build_id: BUILD_ID,
    };

    fn create(host: HostServices) -> Result<Self> {
        let settings = Settings::of(&host)?;
        let driver = Driver::open(settings.lib_dir.as_deref())?;
        let chip = chip(&settings, driver)?;
        let toolkit = Toolkit::find(&settings);
        if let Err(why) = &toolkit {
            host.log(
                LogLevel::Warn,
                &format!("no part can be compiled for the NPU: {why}"),
            );
        }
        let version = toolkit.as_ref().map_or("none", Toolkit::version);
        let made_by = format!(
            "{BUILD_ID} toolkit {version} {} {}",
            chip.target,
            settings.of_compiler()
        );
        Ok(RknnPlugin {
            shared: Arc::new(Shared {
                host,
                driver,
                chip,
                settings,
                toolkit,
                made_by,
                costs: Mutex::new(None),
            }),
        })
    }

    fn device_count(&self) -> Result<u32> {
        Ok(1)
    }

    fn open(&self, index: u32) -> Result<RknnDevice> {
        if index != 0 {
            return Err(Error::bad_argument(format!("device {index} of 1")));
        }
        RknnDevice::new(&self.shared)
    }
}

/// The chip: of the settings, else of this board; a library that emulates takes the first.
fn chip(settings: &Settings, driver: Driver) -> Result<Chip> {
    if let Some(name) = &settings.target {
        return Chip::find(name).map_err(Error::bad_argument);
    }
    let tree = std::fs::read(DEVICE_TREE).unwrap_or_default();
    let here = Chip::of_device_tree(&tree).filter(|_| !driver.library().forwards());
    let known = here.or_else(|| driver.library().is_emulated().then_some(CHIPS[0]));
    known.ok_or_else(|| {
        let names = CHIPS.map(|chip| chip.target).join(", ");
        Error::bad_argument(format!(
            "which chip the board has is not known here: set target_platform to one of {names}"
        ))
    })
}

/// The device.
pub struct RknnDevice {
    info: DeviceInfo,
    /// First, so that its threads end before the rest does.
    runners: Vec<Runner<RknnRun>>,
    queues: Arc<Lanes>,
    next: Arc<AtomicUsize>,
    shared: Arc<Shared>,
    loaded: Mutex<Vec<Weak<RknnExecutable>>>,
}

impl RknnDevice {
    fn new(shared: &Arc<Shared>) -> Result<RknnDevice> {
        let (library, chip, settings) = (shared.driver.library(), &shared.chip, &shared.settings);
        let lanes = if library.has_lanes() {
            settings.lanes.unwrap_or(chip.cores).min(chip.cores)
        } else {
            1
        };
        let lane = |lane| Arc::new(RunQueue::with_index(shared.host.clone(), lane));
        let queues: Lanes = (0..lanes).map(lane).collect();
        let runners = queues
            .iter()
            .map(|queue| Runner::start(queue, "polychip-rknn-runs"));
        let runners = runners.collect::<Result<Vec<_>>>()?;
        let file = library.path().file_name().unwrap_or(library.path().as_os_str());
        let toolkit = match &shared.toolkit {
            Ok(toolkit) => format!("rknn-toolkit2 {}", toolkit.version()),
            Err(_) => "no rknn-toolkit2".to_owned(),
        };
        let emulated = library.is_emulated();
        let rate = |per_s: f64| (per_s / chip.calibration) as u64;
        let info = DeviceInfo {
            emulated,
            // host memory as such is none that the chip sees; dma-bufs are
            shares_host_memory: library.imports(),
            serial: lanes == 1,
            import_kinds: buffer::imports(shared.driver),
            export_kinds: buffer::exports(shared.driver),
            import_alignment: 1,
            vendor: "Rockchip".to_owned(),
            soc: chip.title.to_owned(),
            driver: format!("{}, {toolkit}", Path::new(file).display()),
            // until costs are known, the planner prices by these rates, of one core
            peak_macs_per_s: rate(chip.macs_per_s),
            peak_bytes_per_s: rate(chip.bytes_per_s),
            settings: polychip_sdk::settings([
                (
                    "caches",
                    match settings.caches {
                        Caches::Run => "run",
                        Caches::Access => "access",
                    }
                    .to_owned(),
                ),
                ("compiler", settings.of_compiler()),
                ("lanes", lanes.to_string()),
                (
                    "precision",
                    if settings.reduced { "reduced" } else { "exact" }.to_owned(),
                ),
                ("target", chip.target.to_owned()),
            ]),
            // a priority belongs to a context and only orders the waiting runs; each core executes one run
            preemption: Preemption::None,
            queue_depth: u32::try_from(lanes).unwrap_or(u32::MAX),
            ..DeviceInfo::new(
                DeviceKind::Npu,
                match (emulated, library.forwards()) {
                    (true, _) => format!("{} NPU, emulated", chip.title),
                    (_, true) => format!("{} NPU of a connected board", chip.title),
                    _ => format!("{} NPU", chip.title),
                },
            )
        };
        Ok(RknnDevice {
            info,
            runners,
            queues: Arc::new(queues),
            next: Arc::new(AtomicUsize::new(0)),
            shared: Arc::clone(shared),
            loaded: Mutex::new(Vec::new()),
        })
    }
}

impl Device for RknnDevice {
    type Blob = AlignedBytes;
    type Executable = RknnExecutable;
    type Buffer = RknnBuffer;
    type Fence = RknnRun;
    const OFFERS: Offers = Offers {
        estimate: true,
        buffer_export: true,
        cancel: true,
        device_reset: true,
        fence_on_signal: true,
        fence_timing: true,
        ..Offers::NONE
    };

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn query_support(&self, graph: &GraphView<'_>) -> Result<Vec<Support>> {
        Ok(caps::support(&self.shared, graph))
    }

    fn estimate(&self, graph: &GraphView<'_>, nodes: &[u32]) -> Result<Cost> {
        telemetry::estimate(&self.shared, graph, nodes)
    }

    fn compile(&self, graph: &GraphView<'_>, options: &CompileOptions) -> Result<AlignedBytes> {
        lower::compile(&self.shared, graph, options)
    }

    fn load(&self, source: LoadSource<'_, AlignedBytes>) -> Result<Arc<RknnExecutable>> {
        let part = lower::load(&self.shared, source)?;
        // locked while contexts are made, so that no reset passes them by
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let made = RknnExecutable::new(&self.shared, &self.queues, &self.next, part)?;
        let executable = Arc::new(made);
        loaded.retain(|other| other.strong_count() > 0);
        loaded.push(Arc::downgrade(&executable));
        Ok(executable)
    }

    fn buffer_create(&self, wanted: &Memory) -> Result<Arc<RknnBuffer>> {
        buffer::create(self.shared.driver, wanted)
    }

    fn buffer_import(&self, memory: &Memory) -> Result<Arc<RknnBuffer>> {
        buffer::import(self.shared.driver, memory)
    }

    fn reset(&self) -> Result<()> {
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        for queue in self.queues.iter() {
            queue.abandon();
        }
        loaded
            .iter()
            .filter_map(Weak::upgrade)
            .for_each(|part| part.forget());
        self.runners.iter().try_for_each(Runner::keep_serving)
    }
}
