//! A device of the plugin's process.
//!
//! Invariants:
//! 1. The description is that of the first opening; a restarted process with another device at its
//!    index is refused.
//! 2. What was made before a restart is not used after it.

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use polychip_sdk::{
    CompileOptions, Cost, Device, DeviceInfo, Error, GraphView, LoadSource, Memory, Offers, OperatingPoint,
    Result, Support, Telemetry,
};

use super::buffer::ProxyBuffer;
use super::convert;
use super::fence::ProxyFence;
use super::link::Link;
use super::opened::Opened;
use super::part::{ProxyBlob, ProxyExecutable};
use crate::graph_record::{GraphFiles, GraphRecord};
use crate::message::{OptionsRecord, Reply, Request};

/// A device in another process.
pub(crate) struct ProxyDevice(Arc<Opened>);

impl ProxyDevice {
    pub(super) fn open(link: &Arc<Link>, index: u32) -> Result<ProxyDevice> {
        Opened::new(link, index).map(|opened| ProxyDevice(Arc::new(opened)))
    }
}

/// A graph ready to be sent.
struct Parcel {
    record: GraphRecord,
    files: GraphFiles,
    copied: OwnedFd,
}

impl Parcel {
    fn new(graph: &GraphView<'_>) -> Result<Parcel> {
        let mut files = GraphFiles::default();
        let record = GraphRecord::new(graph, &mut files);
        let copied = files.copied()?;
        Ok(Parcel {
            record,
            files,
            copied,
        })
    }
}

/// The descriptors of a graph: that of copied constants, then the files.
fn descriptors<'a>(copied: &'a OwnedFd, files: &'a GraphFiles) -> Vec<BorrowedFd<'a>> {
    std::iter::once(copied.as_fd()).chain(files.files()).collect()
}

impl Device for ProxyDevice {
    type Blob = ProxyBlob;
    type Executable = ProxyExecutable;
    type Buffer = ProxyBuffer;
    type Fence = ProxyFence;
    // what the plugin lacks is taken out of the table
    const OFFERS: Offers = Offers {
        operating_points: true,
        set_operating_point: true,
        estimate: true,
        buffer_export: true,
        cancel: true,
        device_reset: true,
        fence_on_signal: true,
        fence_import_fd: true,
        fence_export_fd: true,
        fence_timing: true,
        fence_output_shape: true,
        fence_steps: true,
        telemetry: true,
    };

    fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    fn operating_points(&self) -> &[OperatingPoint] {
        &self.0.points
    }

    fn set_operating_point(&self, index: u32) -> Result<()> {
        let (process, device) = self.0.place()?;
        let request = Request::SetOperatingPoint { device, index };
        process.call("set_operating_point", None, &request, &[]).map(drop)
    }

    fn query_support(&self, graph: &GraphView<'_>) -> Result<Vec<Support>> {
        let (process, device) = self.0.place()?;
        let Parcel {
            record,
            files,
            copied,
        } = Parcel::new(graph)?;
        let request = Request::QuerySupport {
            device,
            graph: record,
        };
        let part = Arc::from(graph.name());
        let sent = descriptors(&copied, &files);
        match process.call("query_support", Some(&part), &request, &sent)?.0 {
            Reply::Support(answers) if answers.len() == graph.node_count() => {
                Ok(answers.into_iter().map(convert::support).collect())
            }
            Reply::Support(answers) => Err(process.lied(format!(
                "query_support answered for {} of {} nodes",
                answers.len(),
                graph.node_count()
            ))),
            other => Err(process.wrong("query_support", &other)),
        }
    }

    fn estimate_parts(&self, graph: &GraphView<'_>, parts: &[&[u32]]) -> Result<Vec<Cost>> {
        let (process, device) = self.0.place()?;
        let Parcel {
            record,
            files,
            copied,
        } = Parcel::new(graph)?;
        let mut end = 0;
        let request = Request::Estimate {
            device,
            graph: record,
            nodes: parts.concat(),
            part_ends: parts
                .iter()
                .map(|part| {
                    end += part.len() as u64;
                    end
                })
                .collect(),
        };
        let sent = descriptors(&copied, &files);
        match process.call("estimate", None, &request, &sent)?.0 {
            Reply::Costs(costs) if costs.len() == parts.len() => {
                Ok(costs.iter().map(convert::cost).collect())
            }
            other => Err(process.wrong(&format!("estimate of {} parts", parts.len()), &other)),
        }
    }

    fn compile(&self, graph: &GraphView<'_>, options: &CompileOptions) -> Result<ProxyBlob> {
        let (process, device) = self.0.place()?;
        let Parcel {
            record,
            files,
            copied,
        } = Parcel::new(graph)?;
        let request = Request::Compile {
            device,
            graph: record,
            options: OptionsRecord {
                precision: options.precision as u32,
                threads: options.threads,
                operating_point: options.operating_point.unwrap_or(polychip_abi::POLYCHIP_NO_INDEX),
                ports: options
                    .ports
                    .iter()
                    .map(|port| (port.port, port.layout as u32))
                    .collect(),
            },
        };
        let part = Arc::from(graph.name());
        let sent = descriptors(&copied, &files);
        match process.call("compile", Some(&part), &request, &sent)?.0 {
            Reply::Blob(blob) => Ok(ProxyBlob::new(&self.0, process.generation, blob)),
            other => Err(process.wrong("compile", &other)),
        }
    }

    fn load(&self, source: LoadSource<'_, ProxyBlob>) -> Result<Arc<ProxyExecutable>> {
        let (process, device) = self.0.place()?;
        let parcel = source.graph.as_ref().map(Parcel::new).transpose()?;
        let part: Arc<str> = Arc::from(source.graph.as_ref().map_or("", |graph| graph.name()));
        let (from, bytes) = ProxyBlob::source(&process, &source.from)?;
        let (graph, kept) = match parcel {
            Some(Parcel {
                record,
                files,
                copied,
            }) => (Some(record), Some((files, copied))),
            None => (None, None),
        };
        let request = Request::Load {
            device,
            threads: source.threads,
            source: from,
            graph,
        };
        let mut sent: Vec<BorrowedFd<'_>> = bytes.iter().map(AsFd::as_fd).collect();
        if let Some((files, copied)) = &kept {
            sent.extend(descriptors(copied, files));
        }
        match process.call("load", Some(&part), &request, &sent)?.0 {
            Reply::Executable {
                executable,
                info,
                ports,
            } => {
                let inputs = info.input_count as usize;
                if inputs > ports.len() {
                    return Err(process.lied(format!("load: {inputs} inputs among {} ports", ports.len())));
                }
                let ports = ports
                    .iter()
                    .enumerate()
                    .map(|(number, port)| convert::port(port, number >= inputs))
                    .collect::<convert::Checked<Vec<_>>>();
                match ports {
                    Ok(ports) => Ok(ProxyExecutable::new(
                        &self.0,
                        process.generation,
                        executable,
                        info,
                        ports,
                        part,
                    )),
                    Err(words) => Err(process.lied(format!("load: {words}"))),
                }
            }
            other => Err(process.wrong("load", &other)),
        }
    }

    fn buffer_create(&self, wanted: &Memory) -> Result<Arc<ProxyBuffer>> {
        ProxyBuffer::create(&self.0, wanted).map(Arc::new)
    }

    fn buffer_import(&self, memory: &Memory) -> Result<Arc<ProxyBuffer>> {
        ProxyBuffer::import(&self.0, memory).map(Arc::new)
    }

    fn reset(&self) -> Result<()> {
        self.0.reset()
    }

    #[allow(unsafe_code, reason = "the contract lends a descriptor as a number")]
    fn fence_import(&self, fd: i64) -> Result<Arc<ProxyFence>> {
        let (process, device) = self.0.place()?;
        let raw = i32::try_from(fd).ok().filter(|fd| *fd >= 0);
        let raw = raw.ok_or_else(|| Error::bad_argument(format!("descriptor {fd}")))?;
        // SAFETY: the host keeps the descriptor open during the call; it is not closed here.
        let lent = std::mem::ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(raw) });
        let slot = process.take_slot(&Arc::from("an imported fence"))?;
        let fence = process.next_fence();
        let request = Request::FenceImport { device, fence, slot };
        match process.call("fence_import_fd", None, &request, &[lent.as_fd()]) {
            Ok(_) => Ok(self.0.link.fence(&process, fence, slot)),
            Err(error) => {
                process.cancel_slot(slot);
                Err(error)
            }
        }
    }

    fn telemetry(&self) -> Result<Telemetry> {
        let (process, device) = self.0.place()?;
        match process
            .call("telemetry", None, &Request::Telemetry { device }, &[])?
            .0
        {
            Reply::Telemetry(record) => Ok(convert::telemetry(&record)),
            other => Err(process.wrong("telemetry", &other)),
        }
    }
}
