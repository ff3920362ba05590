//! The plugin and its one device: the chip that the vendor's library is set to.
//!
//! Invariants:
//! 1. Nothing is loaded or probed before `create`; the table query has no side effects.
//! 2. A library that declares that it emulates, or that is built for x86, drives no chip: its figures are not reported.
//! 3. A reset ends all runs, voids loaded parts and makes a new device. A run that hangs in the library is left
//!    behind with its thread, context and device: nothing can end it.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use polychip_lowering::{Node, Refusal, operands};
use polychip_sdk::{
    AlignedBytes, CompileOptions, Constant, Cost, Device, DeviceInfo, DeviceKind, Error, GraphView,
    HostBuffer, HostServices, LoadSource, LoadedFrom, LogLevel, Memory, Offers, OperatingPoint, Plugin,
    PluginInfo, Precision, Preemption, Result, RunQueue, Runner, Support,
};

use crate::buffer::{QnnBuffer, Reach, Way};
use crate::caps::SupportCache;
use crate::exec::{QnnExecutable, QnnRun};
use crate::lower::{self, Target};
use crate::session::{Mode, Session, Votes};
use crate::soc::{self, Soc};
use crate::{blob, caps, telemetry};

/// Part of every cache key, beside the library's own build.
const BUILD_ID: &str = polychip_sdk::build_id!("qnn");

/// The plugin.
pub struct QnnPlugin {
    host: HostServices,
    session: Arc<Session>,
    mode: Option<&'static Mode>,
    reach: Reach,
    reduced: bool,
}

impl Plugin for QnnPlugin {
    type Device = QnnDevice;
    const INFO: PluginInfo = PluginInfo {
        name: "qnn",
        version: env!("CARGO_PKG_VERSION"),
        build_id: BUILD_ID,
    };

    fn create(host: HostServices) -> Result<Self> {
        let soc = match host.configuration("soc") {
            Some(text) => Soc::find(&text).map_err(Error::bad_argument)?,
            None => soc::DEFAULT,
        };
        let reduced = match host.configuration("precision").as_deref() {
            None | Some("exact") => false,
            Some("reduced") => true,
            Some(other) => {
                let text = format!("precision {other:?} is neither \"exact\" nor \"reduced\"");
                return Err(Error::bad_argument(text));
            }
        };
        let stated = match host.configuration("memory").as_deref() {
            None => None,
            Some("address") => Some(Way::Address),
            Some("registered") => Some(Way::Registered),
            Some(other) => {
                let text = format!("memory {other:?} is neither \"address\" nor \"registered\"");
                return Err(Error::bad_argument(text));
            }
        };
        let mode = telemetry::chosen(&host)?;
        let folder = host.configuration("lib_dir");
        let session = Session::open(folder.as_deref().map(Path::new), soc, &host)?;
        let way = match stated {
            Some(way) => way,
            // an emulator computes on the host's memory as it is; the vendor's registers none
            None if session.registers() && !session.is_emulated() => Way::Registered,
            None => Way::Address,
        };
        Ok(QnnPlugin {
            host,
            mode,
            reach: Reach {
                way,
                emulated: session.is_emulated(),
            },
            session: Arc::new(session),
            reduced,
        })
    }

    fn device_count(&self) -> Result<u32> {
        Ok(1)
    }

    fn open(&self, index: u32) -> Result<QnnDevice> {
        if index != 0 {
            return Err(Error::bad_argument(format!("device {index} of 1")));
        }
        QnnDevice::new(self)
    }
}

/// The device.
pub struct QnnDevice {
    info: DeviceInfo,
    /// Declared first, so that its thread ends before the rest is dropped.
    runner: Runner<QnnRun>,
    queue: Arc<RunQueue<QnnRun>>,
    session: Arc<Session>,
    loaded: Mutex<Vec<Weak<QnnExecutable>>>,
    answers: SupportCache,
    target: Target,
    build_id: String,
    host: HostServices,
    votes: Option<Votes>,
    points: Vec<OperatingPoint>,
    reach: Reach,
}

impl Drop for QnnPlugin {
    fn drop(&mut self) {
        // a thread that a reset has left behind may hold the session for ever, and the host's log ends now
        self.session.hush();
    }
}

impl QnnDevice {
    fn new(plugin: &QnnPlugin) -> Result<QnnDevice> {
        let session = &plugin.session;
        let soc = session.soc();
        let Reach { way, emulated } = plugin.reach;
        let title = if emulated {
            format!("{}, QNN HTP emulator", soc.title())
        } else {
            soc.title()
        };
        let info = DeviceInfo {
            emulated,
            // an emulator computes in place; a chip's library does on what it registers, and copies what it is given by address
            shares_host_memory: emulated || way == Way::Registered,
            serial: true,
            import_kinds: plugin.reach.imports(),
            export_kinds: HostBuffer::KINDS,
            import_alignment: 1,
            vendor: "Qualcomm".to_owned(),
            soc: if soc.name.is_empty() {
                soc.id.to_string()
            } else {
                soc.name.to_owned()
            },
            driver: session.version(),
            // until costs are measured, the planner prices by these rates
            peak_macs_per_s: soc.macs_per_s,
            peak_bytes_per_s: soc.bytes_per_s,
            settings: polychip_sdk::settings([
                (
                    "memory",
                    match way {
                        Way::Address => "address",
                        Way::Registered => "registered",
                    }
                    .to_owned(),
                ),
                (
                    "performance",
                    plugin.mode.map_or("driver", |mode| mode.name).to_owned(),
                ),
                (
                    "precision",
                    if plugin.reduced { "reduced" } else { "exact" }.to_owned(),
                ),
                ("soc", soc.id.to_string()),
            ]),
            // contexts of different priorities could preempt each other by VTCM; all of ours have the same, and runs take turns
            preemption: Preemption::None,
            queue_depth: 1,
            ..DeviceInfo::new(DeviceKind::Npu, title)
        };
        let target = Target {
            soc,
            reduced: plugin.reduced,
            wide_scales: caps::takes_wide_scales(session),
        };
        let queue = Arc::new(RunQueue::new(plugin.host.clone()));
        let votes = Votes::of(session, plugin.mode);
        let points = telemetry::operating_points(votes.as_ref());
        Ok(QnnDevice {
            info,
            runner: Runner::start(&queue, "polychip-qnn-runs")?,
            queue,
            session: Arc::clone(session),
            loaded: Mutex::new(Vec::new()),
            answers: SupportCache::new(Arc::clone(session), plugin.host.clone(), target),
            target,
            build_id: format!("{BUILD_ID} {} soc {}", session.version(), soc.id),
            host: plugin.host.clone(),
            votes,
            points,
            reach: plugin.reach,
        })
    }
}

impl Device for QnnDevice {
    type Blob = AlignedBytes;
    type Executable = QnnExecutable;
    type Buffer = QnnBuffer;
    type Fence = QnnRun;
    const OFFERS: Offers = Offers {
        operating_points: true,
        set_operating_point: true,
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

    fn operating_points(&self) -> &[OperatingPoint] {
        &self.points
    }

    fn set_operating_point(&self, index: u32) -> Result<()> {
        telemetry::set_operating_point(self.votes.as_ref(), index)
    }

    fn query_support(&self, graph: &GraphView<'_>) -> Result<Vec<Support>> {
        Ok(self.answers.support(&lower::read(graph)))
    }

    /// A roofline over the operations that the nodes become. What the library counts while a graph runs is no
    /// figure of the chip's in its x86 build, so nothing of that is used.
    fn estimate_parts(&self, graph: &GraphView<'_>, parts: &[&[u32]]) -> Result<Vec<Cost>> {
        let part = lower::read(graph);
        let infos = operands::infos(&part, &self.target);
        let estimate = |nodes: &&[u32]| {
            let (mut macs, mut bytes) = (0u64, 0u64);
            for &node in *nodes {
                let node = &part.nodes[node as usize];
                let programs = lower::alone(&part, &infos, node, self.target, false)
                    .map_err(|refusal| error(refusal, node))?;
                let (more_macs, more_bytes) = programs[0].work();
                macs = macs.saturating_add(more_macs);
                bytes = bytes.saturating_add(more_bytes);
            }
            let time = |count: u64, per_s: u64| {
                let ns = u128::from(count) * 1_000_000_000 / u128::from(per_s.max(1));
                u64::try_from(ns).unwrap_or(u64::MAX)
            };
            let soc = self.target.soc;
            Ok(Cost {
                time_ns: Some(time(macs, soc.macs_per_s).max(time(bytes, soc.bytes_per_s))),
                emulated: self.info.emulated,
                ..Cost::default()
            })
        };
        let known = |nodes: &&[u32]| estimate(nodes).or_else(Cost::unknown);
        parts.iter().map(known).collect()
    }

    fn compile(&self, graph: &GraphView<'_>, options: &CompileOptions) -> Result<AlignedBytes> {
        if let Some(point) = options.operating_point
            && point as usize >= self.points.len()
        {
            return Err(Error::bad_argument(format!(
                "operating point {point} of {}",
                self.points.len()
            )));
        }
        let target = Target {
            reduced: self.target.reduced || options.precision == Precision::Reduced,
            ..self.target
        };
        let part = lower::read(graph);
        let program = lower::whole(&part, target).map_err(|refusal| {
            let at = refusal.node().or(part.nodes.last().map(|node| node.index));
            match at.and_then(|at| part.nodes.get(at as usize)) {
                Some(node) => error(refusal, node),
                None => refusal.into(),
            }
        })?;
        let compiled = self.session.compile(&program)?;
        blob::write(&self.build_id, graph, &program, &compiled)
    }

    fn load(&self, source: LoadSource<'_, AlignedBytes>) -> Result<Arc<QnnExecutable>> {
        let part = match source.from {
            LoadedFrom::Blob(bytes) => blob::read(&self.build_id, &bytes, source.graph.as_ref())?,
            LoadedFrom::Bytes(bytes) => {
                blob::read(&self.build_id, Constant::bytes(&bytes), source.graph.as_ref())?
            }
        };
        let vote = self.votes.as_ref().map(Votes::stand).transpose();
        let vote = vote.map(Option::flatten).unwrap_or_else(|error| {
            // slower clocks are no reason not to run
            let words = format!("no vote for the NPU's clocks: {error}");
            self.host.log(LogLevel::Warn, &words);
            None
        });
        // locked while the context is made, so that no reset takes the device from under it unseen
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let executable = Arc::new(QnnExecutable::new(
            &self.session,
            Arc::clone(&self.queue),
            part,
            vote,
        )?);
        loaded.retain(|weak| weak.strong_count() > 0);
        loaded.push(Arc::downgrade(&executable));
        Ok(executable)
    }

    fn buffer_create(&self, wanted: &Memory) -> Result<Arc<QnnBuffer>> {
        QnnBuffer::create(self.reach, wanted)
    }

    fn buffer_import(&self, memory: &Memory) -> Result<Arc<QnnBuffer>> {
        QnnBuffer::import(self.reach, memory)
    }

    fn reset(&self) -> Result<()> {
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = self.queue.abandon();
        for executable in loaded.iter().filter_map(Weak::upgrade) {
            // one that an earlier reset has left behind may still run
            left |= executable.forget();
        }
        // before the device, which may not come: runs that are queued then still end, with an error
        self.runner.keep_serving()?;
        self.session.renew_device(left)
    }
}

/// The error of a compilation, at a node.
fn error(refusal: Refusal, node: &Node) -> Error {
    let words = format!("{}: {:?}: {}", node.op_name, refusal.reason(), refusal.words());
    Error::unsupported(words).at_node(node.index)
}
