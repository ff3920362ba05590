//! Compiled and loaded parts in the plugin's process.
//!
//! Invariants:
//! 1. A blob or executable of a dead process is an error when used, and nothing when dropped.
//! 2. A warm run allocates nothing on this side.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use polychip_abi as abi;
use polychip_sdk::{Blob, Error, ErrorKind, Executable, ExecutableInfo, LoadedFrom, Port, Result, Submit};

use super::buffer::ProxyBuffer;
use super::fence::ProxyFence;
use super::opened::Opened;
use super::process::Process;
use crate::message::{BindingRecord, ExecutableRecord, ExecuteRecord, Reply, Request, SourceRecord};
use crate::shared_file;

/// Largest accepted blob, in bytes.
const MOST_BLOB_BYTES: u64 = 16 << 30;

/// A compiled part.
pub(crate) struct ProxyBlob {
    device: Arc<Opened>,
    generation: u64,
    blob: u64,
    bytes: OnceLock<Vec<u8>>,
}

impl ProxyBlob {
    pub(super) fn new(device: &Arc<Opened>, generation: u64, blob: u64) -> ProxyBlob {
        ProxyBlob {
            device: Arc::clone(device),
            generation,
            blob,
            bytes: OnceLock::new(),
        }
    }

    /// The source to load. If it is not a blob of the process, also the file with its bytes.
    pub(super) fn source(
        process: &Arc<Process>,
        from: &LoadedFrom<ProxyBlob>,
    ) -> Result<(SourceRecord, Option<OwnedFd>)> {
        match from {
            LoadedFrom::Blob(blob) if blob.generation == process.generation => {
                Ok((SourceRecord::Blob(blob.blob), None))
            }
            LoadedFrom::Blob(_) => Err(Error::bad_blob(
                "the blob was compiled before the plugin's process was restarted",
            )),
            LoadedFrom::Bytes(constant) => {
                let bytes = constant.bytes();
                let file = shared_file::filled([bytes])?;
                Ok((SourceRecord::Bytes(bytes.len() as u64), Some(file)))
            }
        }
    }
}

impl Blob for ProxyBlob {
    fn bytes(&self) -> Result<&[u8]> {
        if let Some(bytes) = self.bytes.get() {
            return Ok(bytes);
        }
        let process = self.device.place_of(self.generation)?;
        let request = Request::BlobBytes { blob: self.blob };
        let (reply, descriptors) = process.call("blob_bytes", None, &request, &[])?;
        let bytes = match (reply, descriptors.first()) {
            (Reply::Bytes(bytes), _) if bytes > MOST_BLOB_BYTES => {
                return Err(process.lied(format!("a blob of {bytes} bytes; the limit is {MOST_BLOB_BYTES}")));
            }
            (Reply::Bytes(_), Some(file)) if !shared_file::is_sealed(file.as_fd()) => {
                return Err(process.lied("blob_bytes: a file that is not sealed"));
            }
            (Reply::Bytes(bytes), Some(file)) => shared_file::read(file.as_fd(), bytes)
                .map_err(|error| process.lied(format!("blob_bytes: {error}")))?,
            (other, _) => return Err(process.wrong("blob_bytes", &other)),
        };
        Ok(self.bytes.get_or_init(|| bytes))
    }
}

impl Drop for ProxyBlob {
    fn drop(&mut self) {
        if let Ok(process) = self.device.place_of(self.generation) {
            let _ = process.call(
                "blob_destroy",
                None,
                &Request::BlobDestroy { blob: self.blob },
                &[],
            );
        }
    }
}

/// A loaded part.
pub(crate) struct ProxyExecutable {
    device: Arc<Opened>,
    generation: u64,
    executable: u64,
    info: ExecutableInfo,
    ports: Vec<Port>,
    /// Name of the part, for messages.
    part: Arc<str>,
}

impl ProxyExecutable {
    pub(super) fn new(
        device: &Arc<Opened>,
        generation: u64,
        executable: u64,
        info: ExecutableRecord,
        ports: Vec<Port>,
        part: Arc<str>,
    ) -> Arc<ProxyExecutable> {
        Arc::new(ProxyExecutable {
            device: Arc::clone(device),
            generation,
            executable,
            info: ExecutableInfo {
                constant_bytes: info.constant_bytes,
                arena_bytes: info.arena_bytes,
            },
            ports,
            part,
        })
    }
}

impl Executable for ProxyExecutable {
    type Buffer = ProxyBuffer;
    type Fence = ProxyFence;

    fn info(&self) -> ExecutableInfo {
        self.info
    }

    fn ports(&self) -> &[Port] {
        &self.ports
    }

    fn execute(self: &Arc<Self>, submit: &Submit<'_, ProxyBuffer, ProxyFence>) -> Result<Arc<ProxyFence>> {
        let process = self.device.place_of(self.generation)?;
        for binding in submit.bindings() {
            binding.buffer.place_in(&process)?;
        }
        let is_pending = || {
            submit
                .bindings()
                .any(|binding| binding.buffer.pending().is_some())
        };
        // another run that needs the same bytes begins after this one has copied them
        let copying = is_pending().then(|| self.device.copying());
        let mut connection = process.connection()?;
        let mut run = std::mem::take(&mut connection.execute);
        if let Err(error) = self.fill(&process, submit, &mut run) {
            connection.execute = run;
            process.put_back(connection);
            return Err(error);
        }
        // the fence first: one that is used again gives its old number back
        let fence = self.device.link.fence(&process, run.fence, run.slot);
        process.take_destroyed(&mut run.destroyed);
        let request = Request::Execute(run);
        let answer = process.exchange(&mut connection, "execute", Some(&self.part), &request, &[]);
        if let Request::Execute(run) = request {
            connection.execute = run;
        }
        process.put_back(connection);
        match answer {
            Ok((Reply::Done, _)) => {
                if copying.is_some() {
                    submit
                        .bindings()
                        .for_each(|binding| binding.buffer.no_longer_pending());
                }
                Ok(fence)
            }
            Ok((other, _)) => {
                fence.not_started();
                Err(process.wrong("execute", &other))
            }
            Err(error) => {
                fence.not_started();
                Err(error)
            }
        }
    }
}

impl ProxyExecutable {
    /// Writes the run to `run`.
    fn fill(
        &self,
        process: &Arc<Process>,
        submit: &Submit<'_, ProxyBuffer, ProxyFence>,
        run: &mut ExecuteRecord,
    ) -> Result<()> {
        run.executable = self.executable;
        run.priority = submit.priority() as u32;
        run.flags = if submit.measures_steps() {
            abi::POLYCHIP_SUBMIT_STEPS
        } else {
            0
        };
        run.deadline_ns = submit.deadline_ns().unwrap_or(abi::POLYCHIP_NO_DEADLINE);
        run.bindings.clear();
        run.waits.clear();
        run.destroyed.clear();
        for binding in submit.bindings() {
            let port = self.ports.get(binding.port as usize);
            run.bindings.push(BindingRecord {
                port: binding.port,
                buffer: binding.buffer.place_in(process)?,
                offset: binding.offset as u64,
                bytes: binding.bytes as u64,
                is_output: port.is_some_and(|port| port.output),
                written: binding.buffer.pending(),
                dims: binding.dims.map(extents).transpose()?,
            });
        }
        for wait in submit.waits() {
            if let Some(fence) = wait.number_in(process)? {
                run.waits.push(fence);
            }
        }
        run.fence = process.next_fence();
        run.slot = process.take_slot(&self.part)?;
        Ok(())
    }
}

fn extents(dims: &[i64]) -> Result<(u8, [i64; abi::POLYCHIP_MAX_RANK])> {
    let mut all = [0; abi::POLYCHIP_MAX_RANK];
    let room = all
        .get_mut(..dims.len())
        .ok_or_else(|| Error::new(ErrorKind::BadArgument, format!("a tensor of rank {}", dims.len())))?;
    room.copy_from_slice(dims);
    Ok((dims.len() as u8, all))
}

impl Drop for ProxyExecutable {
    fn drop(&mut self) {
        if let Ok(process) = self.device.place_of(self.generation) {
            self.device.link.forget_fences();
            let executable = self.executable;
            let request = Request::ExecutableDestroy { executable };
            let _ = process.call("executable_destroy", None, &request, &[]);
        }
    }
}
