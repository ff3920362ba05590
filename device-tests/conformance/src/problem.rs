//! A graph to compute, with its inputs and expected outputs.
//!
//! Invariants:
//! 1. Expected outputs come from the scalar reference on the same flat graph.
//! 2. Inputs come from a seed, the same on every host.

#![allow(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use polychip_graph::{Graph, fingerprint, infer, verify};
use polychip_host::FlatGraph;
use polychip_ops::{DType, Literal};
use polychip_parts::compare::compare;
use polychip_reference::{Program, tensor_from_literal, tensor_to_literal};
use polychip_sdk::GraphView;

use crate::plugin::{Answer, Buffer, Device, Executable, Fence};
use crate::tolerance::Tolerances;
use crate::value::literal;
use crate::verdict::{Stop, check, fail};

/// A graph with inputs and expected outputs.
#[derive(Clone)]
pub struct Problem {
    /// Name, for messages.
    pub name: String,
    /// The graph in the form that plugins read.
    pub flat: Arc<FlatGraph>,
    /// Values of the inputs, as stored.
    pub inputs: Vec<Literal>,
    /// What should come out, as stored.
    pub expected: Vec<Literal>,
    /// Which outputs are codes of an encoding.
    encoded: Vec<bool>,
}

impl Problem {
    /// Infers types and shapes, checks the graph, and computes what should come out.
    ///
    /// # Errors
    /// The graph is not one, or the reference does not compute it: a mistake in the suite.
    pub fn new(mut graph: Graph, inputs: Vec<Literal>) -> Result<Problem, String> {
        infer(&mut graph).map_err(|error| error.to_string())?;
        verify(&graph).map_err(|error| error.to_string())?;
        let flat = FlatGraph::new(&graph, &[])
            .map_err(|error| error.to_string())?
            .with_fingerprints(fingerprint::structure(&graph), fingerprint::content(&graph));
        let expected = evaluate(&flat, &inputs)?;
        let encoded = graph
            .outputs
            .iter()
            .map(|id| graph.tensor(*id).encoding.is_some())
            .collect();
        Ok(Problem {
            encoded,
            name: graph.name,
            flat: Arc::new(flat),
            inputs,
            expected,
        })
    }

    /// The same graph with other inputs.
    ///
    /// # Errors
    /// As [`Problem::new`].
    pub fn with_inputs(&self, inputs: Vec<Literal>) -> Result<Problem, Stop> {
        let expected = evaluate(&self.flat, &inputs).map_err(Stop::Failed)?;
        Ok(Problem {
            inputs,
            expected,
            ..self.clone()
        })
    }

    /// The same graph with inputs from another seed.
    ///
    /// # Errors
    /// As [`Problem::new`].
    pub fn seeded(&self, seed: u64) -> Result<Problem, Stop> {
        let mut numbers = Numbers::of(&format!("{}/{seed}", self.name));
        let inputs = self
            .inputs
            .iter()
            .map(|input| {
                let (low, high) = if input.dtype.is_float() {
                    (-2.0, 3.0)
                } else {
                    (0.0, 150.0)
                };
                let count = input.shape.iter().product();
                let values: Vec<f64> = (0..count).map(|_| numbers.between(low, high)).collect();
                literal(input.dtype, &input.shape, &values).map_err(Stop::Failed)
            })
            .collect::<Result<_, _>>()?;
        self.with_inputs(inputs)
    }

    /// Compiles and loads.
    ///
    /// # Errors
    /// A call failed.
    pub fn load(&self, device: &Arc<Device>, reduced: bool) -> Result<Arc<Executable>, Stop> {
        Ok(device.compile(&self.flat, reduced)?.load()?)
    }

    /// Makes buffers and writes the inputs.
    ///
    /// # Errors
    /// A call failed, or a port does not fit its tensor.
    pub fn buffers(&self, executable: &Arc<Executable>) -> Result<Vec<Arc<Buffer>>, Stop> {
        let buffers = executable.buffers()?;
        self.write(executable, &buffers)?;
        Ok(buffers)
    }

    /// Writes the inputs.
    ///
    /// # Errors
    /// A call failed, or a port does not fit its tensor.
    pub fn write(&self, executable: &Executable, buffers: &[Arc<Buffer>]) -> Result<(), Stop> {
        for (index, input) in self.inputs.iter().enumerate() {
            let port = &executable.ports()[index];
            check!(
                port.bytes >= input.bytes.len() as u64,
                "port {index} holds {} bytes, but its tensor {}",
                port.bytes,
                input.bytes.len()
            );
            check!(
                port.dtype == input.dtype.code(),
                "port {index} has data type {} instead of {}",
                port.dtype,
                input.dtype.name()
            );
            buffers[index].write(0, &input.bytes)?;
        }
        Ok(())
    }

    /// Compares what a run that has ended left in the buffers.
    ///
    /// # Errors
    /// The first difference.
    pub fn judge(
        &self,
        fence: &Fence,
        executable: &Executable,
        buffers: &[Arc<Buffer>],
        tolerances: &Tolerances,
    ) -> Result<(), Stop> {
        for (index, wanted) in self.expected.iter().enumerate() {
            let number = executable.inputs() + index;
            let port = &executable.ports()[number];
            let found = read_output(fence, number, port, &buffers[number], wanted)?;
            let same = if self.encoded[index] {
                steps(&found, wanted, tolerances.steps(wanted.dtype))
            } else {
                compare(&found, wanted, tolerances.allowed(wanted))
            };
            if let Err(words) = same {
                return fail(format!("output {index}: {words}"));
            }
        }
        Ok(())
    }

    /// Compiles, loads, runs once and compares.
    ///
    /// # Errors
    /// Whatever does not hold.
    pub fn solve(&self, device: &Arc<Device>, reduced: bool, tolerances: &Tolerances) -> Result<(), Stop> {
        let executable = self.load(device, reduced)?;
        self.run(&executable, tolerances)
    }

    /// Runs once on new buffers and compares.
    ///
    /// # Errors
    /// Whatever does not hold.
    pub fn run(&self, executable: &Arc<Executable>, tolerances: &Tolerances) -> Result<(), Stop> {
        let buffers = self.buffers(executable)?;
        let fence = executable.execute(&buffers, &[])?;
        fence.wait()?;
        self.judge(&fence, executable, &buffers, tolerances)
    }
}

fn read_output(
    fence: &Fence,
    number: usize,
    port: &crate::plugin::Port,
    buffer: &Buffer,
    wanted: &Literal,
) -> Result<Literal, Stop> {
    let Some(dtype) = DType::from_code(port.dtype) else {
        return fail(format!("port {number} has unknown data type {}", port.dtype));
    };
    let dims = if port.is_bound() {
        match fence.output_dims(number as u32, 16)? {
            Some((dims, _)) => dims,
            None => return fail("a port states upper bounds, but fence_output_shape is not offered"),
        }
    } else {
        port.dims.clone()
    };
    let sizes: Option<Vec<usize>> = dims.iter().map(|dim| usize::try_from(*dim).ok()).collect();
    let Some(shape) = sizes else {
        return fail(format!("port {number} has shape {dims:?}"));
    };
    // a stranger's shape must not make the suite allocate
    check!(
        shape == wanted.shape,
        "port {number} has shape {shape:?} instead of {:?}",
        wanted.shape
    );
    let bytes = wanted.bytes.len() as u64;
    check!(
        port.bytes >= bytes,
        "port {number} holds {} bytes, but its tensor {bytes}",
        port.bytes
    );
    let bytes = buffer.read(0, bytes)?;
    Literal::new(dtype, shape, bytes).ok_or_else(|| Stop::Failed("an output is truncated".into()))
}

/// Compares codes; the error describes the difference.
fn steps(found: &Literal, wanted: &Literal, allowed: f64) -> Result<(), String> {
    let (Some(a), Some(b)) = (found.as_i64s(), wanted.as_i64s()) else {
        return Err(format!("codes of {} are not integers", wanted.dtype.name()));
    };
    if found.dtype != wanted.dtype {
        return Err(format!(
            "data type {} instead of {}",
            found.dtype.name(),
            wanted.dtype.name()
        ));
    }
    let differs = a
        .iter()
        .zip(&b)
        .position(|(a, b)| a.abs_diff(*b) as f64 > allowed);
    differs.map_or(Ok(()), |index| {
        Err(format!(
            "code {index} is {} instead of {} ({allowed} steps allowed)",
            a[index], b[index]
        ))
    })
}

/// What the reference computes.
fn evaluate(flat: &FlatGraph, inputs: &[Literal]) -> Result<Vec<Literal>, String> {
    // SAFETY: the flat graph lives through this function, and so do its constants.
    let view = unsafe { GraphView::new(flat.raw()) }.map_err(|error| error.to_string())?;
    let program = Program::new(&view).map_err(|error| error.to_string())?;
    let inputs = inputs
        .iter()
        .map(|input| tensor_from_literal(input).map_err(|error| error.to_string()))
        .collect::<Result<_, _>>()?;
    program
        .run(inputs)
        .map_err(|error| error.to_string())?
        .iter()
        .map(|output| tensor_to_literal(output).map_err(|error| error.to_string()))
        .collect()
}

/// Stops as refused where the device refuses a graph, after checking that the refusal says why.
///
/// # Errors
/// The refusal, or what is wrong with it.
pub fn supported(device: &Device, flat: &FlatGraph) -> Result<(), Stop> {
    match device.refusal(flat)? {
        None => Ok(()),
        Some(refusal) => {
            reasoned(&refusal)?;
            Err(Stop::Refused(reason_words(&refusal)))
        }
    }
}

/// Checks that a refusal says why.
///
/// # Errors
/// Its code is unknown, or it has no words.
pub fn reasoned(refusal: &Answer) -> Result<(), Stop> {
    check!(
        (1..=polychip_abi::POLYCHIP_SUPPORT_VENDOR).contains(&refusal.reason),
        "a node is refused with unknown reason {}",
        refusal.reason
    );
    check!(
        !refusal.detail.trim().is_empty(),
        "a node is refused with reason {}, but without a message",
        refusal.reason
    );
    Ok(())
}

/// Code and words of a refusal.
#[must_use]
pub fn reason_words(refusal: &Answer) -> String {
    let name = match refusal.reason {
        1 => "op",
        2 => "dtype",
        3 => "shape",
        4 => "rank",
        5 => "attribute",
        6 => "layout",
        7 => "not constant",
        8 => "dynamic shape",
        9 => "body",
        10 => "encoding",
        11 => "memory",
        12 => "quarantined",
        13 => "vendor",
        _ => "unknown",
    };
    format!("{name}: {}", refusal.detail)
}

/// Numbers from a seed: splitmix64, the same on every host. Not `rand`: inputs of every case, and so
/// verdicts on plugins that were judged before, depend on these values.
#[derive(Debug, Clone)]
pub struct Numbers(u64);

impl Numbers {
    /// Numbers for a name.
    #[must_use]
    pub fn of(name: &str) -> Numbers {
        // FNV-1a
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Numbers(hash)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `[low, high)`, on a grid of 1/1024 of the range.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * ((self.draw() >> 40) % 1024) as f64 / 1024.0
    }

    /// An integer in `[low, high)`.
    pub fn int(&mut self, low: i64, high: i64) -> i64 {
        let range = (high - low).max(1) as u64;
        low + (self.draw() % range) as i64
    }
}

/// Time until which a case that polls gives up.
#[must_use]
pub fn deadline(seconds: u64) -> std::time::Instant {
    std::time::Instant::now() + Duration::from_secs(seconds)
}
