//! Runs: outputs from the reference, time from the cost model, faults from the script.
//!
//! Invariant: a run computes when it starts; only its end is in the future. A reader of the outputs
//! waits for the fence first, so it cannot tell the difference.

use std::sync::Arc;

use polychip_ops::DType;
use polychip_reference::{Tensor, element};
use polychip_sdk::{
    Error, ErrorKind, Executable, ExecutableInfo, HostBuffer, Layout, Port, Result, Submit, Timing,
};

use crate::chip::{Gone, RunWork};
use crate::fence::{End, NullFence};
use crate::lower::Lowered;
use crate::script::FaultKind;
use crate::shared::Shared;
use crate::telemetry::Work;

/// A loaded part of a scripted device.
pub struct NullExecutable {
    pub(crate) device: Arc<Shared>,
    pub(crate) part: Lowered,
    /// Its number among the parts that the device has loaded.
    pub(crate) number: u64,
    /// The device's resets when it was loaded.
    pub(crate) generation: u64,
}

impl Drop for NullExecutable {
    fn drop(&mut self) {
        self.device.note("executable_destroy");
        let bytes = self.part.constant_bytes + self.part.arena_bytes;
        let mut state = self.device.state();
        state.meter.memory_used_bytes = state.meter.memory_used_bytes.saturating_sub(bytes);
    }
}

impl Executable for NullExecutable {
    type Buffer = HostBuffer;
    type Fence = NullFence;

    fn info(&self) -> ExecutableInfo {
        ExecutableInfo {
            constant_bytes: self.part.constant_bytes,
            arena_bytes: self.part.arena_bytes,
        }
    }

    fn ports(&self) -> &[Port] {
        &self.part.ports
    }

    fn execute(self: &Arc<Self>, submit: &Submit<'_, HostBuffer, NullFence>) -> Result<Arc<NullFence>> {
        let device = &self.device;
        device.note("execute");
        let now_ns = device.host.now_ns();
        let mut ready_ns = Some(now_ns);
        let mut failed_wait = None;
        for wait in submit.waits() {
            match wait.outcome() {
                Some((end_ns, result)) => {
                    ready_ns = ready_ns.map(|ready_ns| ready_ns.max(end_ns));
                    failed_wait = failed_wait.or(result.err());
                }
                None => ready_ns = None,
            }
        }

        let mut state = device.state();
        if state.lost {
            return Err(Error::new(ErrorKind::DeviceLost, "the device is lost"));
        }
        if state.generation != self.generation {
            let what = "the executable was loaded before the device was reset";
            return Err(Error::new(ErrorKind::Persistent, what));
        }
        let run = state.runs;
        state.runs += 1;
        let fault = |kind: FaultKind| {
            device
                .script
                .fault
                .iter()
                .find(move |fault| fault.kind == kind && fault.strikes(run))
        };
        assert!(fault(FaultKind::Panic).is_none(), "scripted panic of run {run}");
        let slow_permille = fault(FaultKind::Slow).map_or(1000, |fault| fault.time_permille);
        let gone = (device.chip.as_ref()).and_then(|(chip, unit)| chip.gone(*unit, now_ns));
        let stuck = fault(FaultKind::Stuck).is_some() || gone == Some(Gone::Hung);
        let hangs = stuck || fault(FaultKind::Hang).is_some() || ready_ns.is_none();
        let ready_ns = ready_ns.unwrap_or(now_ns);
        let price = self.part.price;
        let spent = match &device.chip {
            Some((chip, unit)) => {
                let slow = f64::from(slow_permille) / 1e3;
                let work = RunWork {
                    executable: self.number,
                    launch_ns: device.script.launch_ns as f64,
                    compute_ns: (price.ns - price.memory_ns) * slow,
                    memory_ns: price.memory_ns * slow,
                    bytes: price.bytes,
                };
                chip.spend(*unit, work, now_ns, ready_ns)
            }
            None => {
                let work = Work {
                    part: self.number,
                    ready_ns,
                    run,
                    slow_permille,
                    instead_from_ns: state.instead_from(&device.script, submit.priority(), ready_ns),
                };
                let spent = state.meter.spend(&device.script, price, &work);
                if work.instead_from_ns.is_some() {
                    let by_ns = spent.end_ns - spent.start_ns;
                    for fence in state.less_urgent(submit.priority()) {
                        fence.give_way(spent.start_ns, by_ns);
                    }
                }
                spent
            }
        };
        let mut result = match failed_wait {
            // this device is not lost where the other is
            Some(error) => Err(Error::new(
                match error.kind() {
                    ErrorKind::DeviceLost => ErrorKind::Transient,
                    kind => kind,
                },
                format!("a run that this one waits for failed: {error}"),
            )),
            None => Ok(()),
        };
        if let Some(fault) = fault(FaultKind::Error) {
            result = Err(Error::new(
                fault.class.kind(),
                format!("scripted error of run {run}"),
            ));
        }
        if fault(FaultKind::Lost).is_some() || gone == Some(Gone::Lost) {
            state.lost = true;
            result = Err(Error::new(
                ErrorKind::DeviceLost,
                format!("scripted loss of the device in run {run}"),
            ));
        }
        drop(state);

        let mut shapes = Vec::new();
        if result.is_ok() && !hangs {
            match self.compute(submit) {
                Ok(computed) => shapes = computed,
                Err(error) => result = Err(error),
            }
        }
        let timing = Timing {
            queued_ns: Some(now_ns),
            span_ns: Some((spent.start_ns, spent.end_ns)),
            energy_uj: (device.script.states_energy && device.script.states_run_energy)
                .then_some(spent.energy_uj),
            // a script does not say how its ports reach the device
            copied_bytes: None,
        };
        let fence = NullFence::new(
            device.host.clone(),
            device.record.clone(),
            End {
                priority: submit.priority(),
                end_ns: (!hangs).then_some(spent.end_ns),
                stuck,
                result,
                timing,
                shapes,
            },
        );
        let mut state = device.state();
        state.in_flight.retain(|fence| !fence.has_ended());
        state.in_flight.push(Arc::clone(&fence));
        drop(state);
        device.wake_timer();
        Ok(fence)
    }
}

impl NullExecutable {
    /// Computes the outputs and returns their actual extents.
    fn compute(&self, submit: &Submit<'_, HostBuffer, NullFence>) -> Result<Vec<(u32, Vec<i64>)>> {
        let Some(program) = &self.part.program else {
            return Ok(Vec::new());
        };
        let mut inputs = Vec::with_capacity(program.input_count());
        for (number, port) in self.part.ports.iter().enumerate() {
            if port.output {
                continue;
            }
            let binding = submit.binding(number as u32);
            let shape: Vec<usize> = match binding.dims {
                Some(dims) => dims.iter().map(|&dim| dim as usize).collect(),
                None => port.dims.clone(),
            };
            let mut bytes = vec![0; byte_len(port.dtype, &shape)?];
            binding.buffer.copy_out(binding.offset, &mut bytes)?;
            if port.layout == Layout::ChannelsLast {
                bytes = permute(&bytes, &shape, width(port)?, Order::FromChannelsLast);
            }
            let tensor = Tensor::from_bytes(element(port.dtype), shape, &bytes)
                .map_err(|error| Error::bad_argument(format!("input {number}: {error}")))?;
            inputs.push(tensor);
        }
        let outputs = program
            .run(inputs)
            .map_err(|error| Error::new(ErrorKind::Persistent, error.to_string()))?;
        let ports = self.part.ports.iter().enumerate().filter(|(_, port)| port.output);
        let mut shapes = Vec::new();
        for ((number, port), tensor) in ports.zip(outputs) {
            let binding = submit.binding(number as u32);
            let mut bytes = tensor.to_bytes();
            if self.part.is_half && port.dtype == DType::F32 {
                for value in bytes.as_chunks_mut::<4>().0 {
                    let rounded = half::f16::from_f32(f32::from_le_bytes(*value)).to_f32();
                    *value = rounded.to_le_bytes();
                }
            }
            let fits = if port.upper_bound {
                tensor.rank() == port.dims.len()
                    && tensor
                        .shape()
                        .iter()
                        .zip(&port.dims)
                        .all(|(have, most)| have <= most)
            } else {
                tensor.shape() == port.dims
            };
            if !fits || tensor.element() != element(port.dtype) || bytes.len() > binding.bytes {
                let what = format!(
                    "output {number} came out as {:?} {:?}, {} bytes; its port is {} {:?}, bound to {}",
                    tensor.element(),
                    tensor.shape(),
                    bytes.len(),
                    port.dtype,
                    port.dims,
                    binding.bytes
                );
                return Err(Error::new(ErrorKind::Persistent, what).at_tensor(number as u32));
            }
            if port.layout == Layout::ChannelsLast {
                bytes = permute(&bytes, tensor.shape(), width(port)?, Order::ToChannelsLast);
            }
            binding.buffer.copy_in(binding.offset, &bytes)?;
            let dims = tensor.shape().iter().map(|&dim| dim as i64).collect();
            shapes.push((number as u32, dims));
        }
        Ok(shapes)
    }
}

fn width(port: &Port) -> Result<usize> {
    port.dtype
        .byte_width()
        .ok_or_else(|| Error::unsupported(format!("{} has no layout but row-major", port.dtype)))
}

fn byte_len(dtype: DType, shape: &[usize]) -> Result<usize> {
    shape
        .iter()
        .try_fold(1usize, |product, &dim| product.checked_mul(dim))
        .and_then(|elements| dtype.byte_len(elements))
        .ok_or_else(|| Error::bad_argument(format!("shape {shape:?} is too large")))
}

#[derive(Clone, Copy, PartialEq)]
enum Order {
    ToChannelsLast,
    FromChannelsLast,
}

/// Moves elements of shape `[n, c, …]` between row-major and channels last.
fn permute(bytes: &[u8], shape: &[usize], width: usize, order: Order) -> Vec<u8> {
    let [batch, channels, ..] = *shape else {
        return bytes.to_vec();
    };
    let pixels: usize = shape[2..].iter().product();
    let mut moved = vec![0; bytes.len()];
    for n in 0..batch {
        for c in 0..channels {
            for p in 0..pixels {
                let first = ((n * channels + c) * pixels + p) * width;
                let last = ((n * pixels + p) * channels + c) * width;
                let (from, to) = match order {
                    Order::ToChannelsLast => (first, last),
                    Order::FromChannelsLast => (last, first),
                };
                moved[to..to + width].copy_from_slice(&bytes[from..from + width]);
            }
        }
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_last_conversion_round_trips() {
        let bytes: Vec<u8> = (0..12).collect();
        let shape = [1, 3, 2, 2];
        let last = permute(&bytes, &shape, 1, Order::ToChannelsLast);
        assert_eq!(last, [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]);
        assert_eq!(permute(&last, &shape, 1, Order::FromChannelsLast), bytes);
    }
}
