//! Loaded parts and their runs.
//!
//! Invariants:
//! 1. Runs of a device execute one at a time, so an executable has one library request however many
//!    runs are in flight.
//! 2. A view of host memory is made once per port and address; a warm run makes none and sets only
//!    changed views.
//! 3. Ports are bound in place. Only a state whose output aliases its input is copied, out of
//!    memory allocated at load.
//!
//! The library's asynchronous call is not used: it passes the run to a thread of its own, its
//! callback does not receive the result, and a third thread must wake the waiter. Here a waiting
//! host computes in place (the library's own threads help), and otherwise the queue's thread does.
//!
//! Not here: runs, their queue and their fences (`polychip_sdk::Run`), compilation (`lower`).

use std::sync::{Arc, Mutex, PoisonError};

use polychip_ops::DType;
use polychip_sdk::{
    AlignedBytes, Compute, Error, Executable, ExecutableInfo, GraphView, HostBuffer, Pace, Port, Result, Run,
    RunContext, RunQueue, Span, Submit,
};

use crate::api::{self, CompiledModel, HostTensor, Request};
use crate::buffer;
use crate::lower::Part;
use crate::shared::Shared;

/// Views kept per port: as many as a session binds in turn. The oldest goes first.
const VIEWS: usize = 64;

/// Alignment of memory that states are written to before they are copied.
const ALIGN: usize = 64;

/// Views of host memory that were bound to one port.
struct Views {
    known: Vec<(usize, HostTensor)>,
    /// Address that the request has now.
    bound: Option<usize>,
    /// Extents as the library takes them.
    dims: Vec<i64>,
    element: polychip_sys::openvino::bindings::ov_element_type_e,
}

/// Resources of a run.
struct Seat {
    views: Vec<Views>,
    /// Per output that is a state: memory of its own.
    spare: Vec<Option<AlignedBytes>>,
}

/// A buffer bound to a port.
type PortBuffer = polychip_sdk::PortBuffer<HostBuffer>;

/// A run, and the fence of its end.
pub type OpenvinoRun = Run<OpenvinoExecutable>;

/// A loaded part.
pub struct OpenvinoExecutable {
    shared: Arc<Shared>,
    queue: Arc<RunQueue<OpenvinoRun>>,
    request: Request,
    /// Held as long as its request.
    _compiled: CompiledModel,
    ports: Vec<Port>,
    inputs: usize,
    seat: Mutex<Seat>,
    info: ExecutableInfo,
    pace: Pace,
}

impl OpenvinoExecutable {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        queue: &Arc<RunQueue<OpenvinoRun>>,
        part: Part,
        graph: &GraphView<'_>,
    ) -> Result<OpenvinoExecutable> {
        let ports = Port::of_graph(graph, buffer::KINDS)?;
        let inputs = graph.inputs().len();
        let mut views = Vec::with_capacity(ports.len());
        let mut spare = Vec::with_capacity(ports.len());
        for port in &ports {
            let element = api::element(port.dtype)
                .ok_or_else(|| Error::unsupported(format!("a port of {}", port.dtype)))?;
            views.push(Views {
                known: Vec::with_capacity(VIEWS),
                bound: None,
                dims: port.dims.iter().map(|&dim| dim as i64).collect(),
                element,
            });
            spare.push(if port.output && port.state_port.is_some() {
                Some(AlignedBytes::zeroed(port.bytes as usize, ALIGN)?)
            } else {
                None
            });
        }
        let constant_bytes = graph
            .tensors()
            .filter_map(|tensor| tensor.constant())
            .map(|constant| constant.bytes().len() as u64)
            .sum();
        Ok(OpenvinoExecutable {
            shared: Arc::clone(shared),
            queue: Arc::clone(queue),
            request: part.compiled.request()?,
            _compiled: part.compiled,
            ports,
            inputs,
            seat: Mutex::new(Seat { views, spare }),
            info: ExecutableInfo {
                constant_bytes,
                // the library does not say what it keeps between layers
                arena_bytes: 0,
            },
            pace: Pace::default(),
        })
    }

    /// Makes the request use an address at a port.
    fn bind(&self, views: &mut Views, number: usize, address: *mut u8) -> Result<()> {
        let key = address as usize;
        if views.bound == Some(key) {
            return Ok(());
        }
        if !views.known.iter().any(|(known, _)| *known == key) {
            if views.known.len() == VIEWS {
                views.known.remove(0);
            }
            let library = self.shared.vendor.library;
            let view = HostTensor::new(library, views.element, &views.dims, address)?;
            views.known.push((key, view));
        }
        let Some((_, view)) = views.known.iter().find(|(known, _)| *known == key) else {
            return Ok(());
        };
        views.bound = None;
        if number < self.inputs {
            self.request.set_input(number, view)?;
        } else {
            self.request.set_output(number - self.inputs, view)?;
        }
        views.bound = Some(key);
        Ok(())
    }
}

/// Refuses what the library would cut: it computes i64 in 32 bits.
fn fits_32_bits(number: usize, place: &PortBuffer, bytes: usize) -> Result<()> {
    let mut chunk = [0u8; 8 * 128];
    let mut done = 0;
    while done + 8 <= bytes {
        let step = (bytes - done).min(chunk.len()) / 8 * 8;
        let chunk = &mut chunk[..step];
        place.copy_out(done, chunk)?;
        for &word in chunk.as_chunks::<8>().0 {
            let value = i64::from_le_bytes(word);
            if i32::try_from(value).is_err() {
                let what = format!(
                    "input {number} holds {value}, and OpenVINO computes i64 in 32 bits: give this input to another device"
                );
                return Err(Error::unsupported(what).at_tensor(number as u32));
            }
        }
        done += step;
    }
    Ok(())
}

/// Whether a binding lies on one of others.
fn overlaps(one: &PortBuffer, others: &[PortBuffer]) -> bool {
    let range = |bound: &PortBuffer| {
        let start = bound.address() as usize;
        start..start.saturating_add(bound.bytes())
    };
    let one = range(one);
    others.iter().any(|other| {
        let other = range(other);
        one.start < other.end && other.start < one.end
    })
}

impl Compute for OpenvinoExecutable {
    type Buffer = HostBuffer;
    const INTERRUPTS: bool = true;

    fn admit(&self, port: u32, bound: &PortBuffer) -> Result<()> {
        bound.check_aligned(port, self.ports[port as usize].dtype)
    }

    /// A chip behind a driver may hang: no wait that may run out calls it in place.
    fn pace(&self) -> Option<&Pace> {
        self.shared.is_cpu.then_some(&self.pace)
    }

    fn compute(&self, bound: &[PortBuffer], run: &RunContext<'_>) -> Result<Span> {
        let mut seat = self.seat.lock().unwrap_or_else(PoisonError::into_inner);
        let seat = &mut *seat;
        for (number, place) in bound[..self.inputs].iter().enumerate() {
            if self.ports[number].dtype == DType::I64 {
                fits_32_bits(number, place, self.ports[number].bytes as usize)?;
            }
        }
        let mut copies = false;
        for (number, place) in bound.iter().enumerate() {
            let mut address = place.address();
            if number >= self.inputs
                && let Some(spare) = &mut seat.spare[number]
                && overlaps(place, &bound[..self.inputs])
            {
                copies = true;
                address = spare.as_mut_ptr();
            }
            self.bind(&mut seat.views[number], number, address)?;
        }
        // the library forgets who cancels before it runs
        run.check_cancelled()?;
        let kept = self.shared.cores.keep();
        self.request.infer()?;
        drop(kept);
        if copies {
            for (number, place) in bound.iter().enumerate().skip(self.inputs) {
                if let Some(spare) = &seat.spare[number]
                    && overlaps(place, &bound[..self.inputs])
                {
                    place.copy_in(spare)?;
                    run.add_copied_bytes(spare.len());
                }
            }
        }
        Ok(Span::Call)
    }

    fn interrupt(&self) -> Result<()> {
        self.request.cancel()
    }
}

impl Executable for OpenvinoExecutable {
    type Buffer = HostBuffer;
    type Fence = OpenvinoRun;

    fn info(&self) -> ExecutableInfo {
        self.info
    }

    fn ports(&self) -> &[Port] {
        &self.ports
    }

    fn execute(self: &Arc<Self>, submit: &Submit<'_, HostBuffer, OpenvinoRun>) -> Result<Arc<OpenvinoRun>> {
        Run::start(self, &self.queue, submit)
    }
}
