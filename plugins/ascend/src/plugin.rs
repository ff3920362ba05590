//! The plugin and its devices: the Ascend boards of this machine.
//!
//! Invariants:
//! 1. Nothing is loaded or probed before `create`; the table query has no side effects.
//! 2. Without a board, `create` reports it and offers no device.
//! 3. A reset ends all runs and invalidates loaded parts; the board is opened again. A run that
//!    hangs in the library is left behind with its thread and its opening: nothing can end it.

use std::sync::Arc;

use polychip_sdk::{
    AlignedBytes, CompileOptions, Cost, Device, DeviceInfo, DeviceKind, Error, GraphView, HostServices,
    LoadSource, LogLevel, Memory, MemoryKinds, Offers, Plugin, PluginInfo, Preemption, Result, RunQueue,
    Runner, Support, Telemetry,
};

use crate::atc::Atc;
use crate::buffer::{self, AscendBuffer};
use crate::driver::{Driver, Opening};
use crate::exec::{AscendExecutable, AscendRun};
use crate::settings::{Settings, is_word};
use crate::shared::{Common, Shared};
use crate::soc::Rates;
use crate::{caps, lower, telemetry};

/// Part of every cache key, beside the toolkit's release.
const BUILD_ID: &str = polychip_sdk::build_id!("ascend");

/// The plugin.
pub struct AscendPlugin {
    common: Arc<Common>,
}

impl Plugin for AscendPlugin {
    type Device = AscendDevice;
    const INFO: PluginInfo = PluginInfo {
        name: "ascend",
        version: env!("CARGO_PKG_VERSION"),
        build_id: BUILD_ID,
    };

    fn create(host: HostServices) -> Result<Self> {
        let settings = Settings::of(&host)?;
        let driver = Driver::open(settings.lib_dir.as_deref())?;
        let soc = settings.soc_version.clone().or_else(|| driver.soc());
        let soc = soc.filter(|soc| is_word(soc)).ok_or_else(|| {
            Error::bad_argument(
                "AscendCL does not say which chip this is: set soc_version to its name for atc",
            )
        })?;
        let atc = Atc::find(&settings);
        if let Err(why) = &atc {
            host.log(
                LogLevel::Warn,
                &format!("no part can be compiled for the board: {why}"),
            );
        }
        let release = atc.as_ref().map_or("none", Atc::release);
        let made_by = format!("{BUILD_ID} cann {release} {soc} {}", settings.precision_mode);
        Ok(AscendPlugin {
            common: Arc::new(Common {
                host,
                driver,
                settings,
                soc,
                atc,
                made_by,
            }),
        })
    }

    fn device_count(&self) -> Result<u32> {
        Ok(self.common.driver.boards())
    }

    fn open(&self, index: u32) -> Result<AscendDevice> {
        let boards = self.common.driver.boards();
        match i32::try_from(index) {
            Ok(board) if index < boards => AscendDevice::new(&self.common, board),
            _ => Err(Error::bad_argument(format!("device {index} of {boards}"))),
        }
    }
}

/// A device.
pub struct AscendDevice {
    info: DeviceInfo,
    /// Declared first, so that its thread ends before the rest is dropped.
    runner: Runner<AscendRun>,
    queue: Arc<RunQueue<AscendRun>>,
    shared: Arc<Shared>,
    board: i32,
}

impl AscendDevice {
    fn new(common: &Arc<Common>, board: i32) -> Result<AscendDevice> {
        let opening = Opening::new(common.driver, board)?;
        let memory_bytes = opening.memory()?.map_or(0, |(_, total)| total);
        let emulated = common.driver.library().is_emulated();
        let rates = Rates::of(&common.soc);
        let version = common
            .driver
            .version()
            .unwrap_or_else(|| "of unknown version".to_owned());
        let toolkit = match &common.atc {
            Ok(atc) => format!("CANN {}", atc.release()),
            Err(_) => "no atc".to_owned(),
        };
        let settings = &common.settings;
        let info = DeviceInfo {
            emulated,
            // the board has memory of its own, behind a link
            shares_host_memory: false,
            serial: true,
            import_kinds: MemoryKinds::of(&[]),
            export_kinds: MemoryKinds::of(&[]),
            vendor: "Huawei".to_owned(),
            soc: common.soc.clone(),
            driver: format!("AscendCL {version}, {toolkit}"),
            memory_bytes,
            // until costs are known, the planner prices by these rates
            peak_macs_per_s: rates.map_or(0, |rates| rates.macs_per_s as u64),
            peak_bytes_per_s: rates.map_or(0, |rates| rates.bytes_per_s as u64),
            link_bytes_per_s: Rates::link(&common.soc) as u64,
            settings: polychip_sdk::settings([
                (
                    "precision",
                    if settings.reduced { "reduced" } else { "exact" }.to_owned(),
                ),
                ("precision_mode", settings.precision_mode.to_owned()),
            ]),
            // one stream, whose tasks go in order
            preemption: Preemption::None,
            queue_depth: 1,
            ..DeviceInfo::new(
                DeviceKind::Npu,
                if emulated {
                    format!("{} board {board}, emulated", common.soc)
                } else {
                    format!("{} board {board}", common.soc)
                },
            )
        };
        let queue = Arc::new(RunQueue::with_index(common.host.clone(), 0));
        Ok(AscendDevice {
            info,
            runner: Runner::start(&queue, "polychip-ascend-runs")?,
            queue,
            shared: Arc::new(Shared::new(common, opening)),
            board,
        })
    }
}

impl Device for AscendDevice {
    type Blob = AlignedBytes;
    type Executable = AscendExecutable;
    type Buffer = AscendBuffer;
    type Fence = AscendRun;
    const OFFERS: Offers = Offers {
        cancel: true,
        device_reset: true,
        estimate: true,
        fence_on_signal: true,
        fence_timing: true,
        telemetry: true,
        ..Offers::NONE
    };

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn query_support(&self, graph: &GraphView<'_>) -> Result<Vec<Support>> {
        Ok(caps::support(&self.shared.common, graph))
    }

    fn estimate(&self, graph: &GraphView<'_>, nodes: &[u32]) -> Result<Cost> {
        telemetry::estimate(&self.shared.common, graph, nodes)
    }

    fn compile(&self, graph: &GraphView<'_>, options: &CompileOptions) -> Result<AlignedBytes> {
        lower::compile(&self.shared.common, graph, options)
    }

    fn load(&self, source: LoadSource<'_, AlignedBytes>) -> Result<Arc<AscendExecutable>> {
        let opening = self.shared.opening();
        let part = lower::load(&self.shared.common, &opening, source)?;
        Ok(Arc::new(AscendExecutable::new(
            &self.shared,
            &self.queue,
            opening,
            part,
        )))
    }

    fn buffer_create(&self, wanted: &Memory) -> Result<Arc<AscendBuffer>> {
        buffer::create(&self.shared, wanted)
    }

    fn buffer_import(&self, memory: &Memory) -> Result<Arc<AscendBuffer>> {
        Err(Error::unsupported(format!(
            "memory of kind {:?} is none that the board computes on",
            memory.kind()
        )))
    }

    fn reset(&self) -> Result<()> {
        let old = self.shared.opening();
        old.lose();
        self.queue.abandon();
        let copied = old.copied();
        let words = format!("reset of {} after copies of {copied:?} bytes", self.info.name);
        self.shared.common.host.log(LogLevel::Debug, &words);
        self.shared.reopened(old.anew(self.board)?);
        self.runner.keep_serving()
    }

    fn telemetry(&self) -> Result<Telemetry> {
        telemetry::read(&self.shared.common, &self.shared.opening())
    }
}
