//! Memory into which runs write their outputs, and which later runs use again.
//!
//! Invariant: memory that Python has released is written by a later run; Python sees no memory that
//! a run may write.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use polychip::{Access, Memory, Output, TensorSpec};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

use crate::error;

/// So many memories of an output wait for later runs; more are let go.
const KEPT: usize = 16;

/// Memory into which a run writes one output.
pub(crate) struct OutputMemory {
    output: Output,
    address: usize,
    _memory: Memory,
}

impl OutputMemory {
    fn new(session: &polychip::Session, spec: &TensorSpec) -> PyResult<OutputMemory> {
        let memory =
            Memory::new(spec.bytes.max(1)).map_err(|error| PyMemoryError::new_err(error.to_string()))?;
        let open = memory.access(Access::Write);
        let address = open
            .map_err(|error| PyMemoryError::new_err(error.to_string()))?
            .as_ptr() as usize;
        let output = session.output_in_memory(&spec.name, &spec.shape, &memory);
        Ok(OutputMemory {
            output: output.map_err(error::of)?,
            address,
            _memory: memory,
        })
    }

    pub(crate) fn output(&self) -> &Output {
        &self.output
    }

    pub(crate) fn data(&self) -> *mut u8 {
        self.address as *mut u8
    }
}

/// Transfer of an output to Python.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputTransfer {
    /// In place.
    Bound,
    /// By a copy: its size, or its memory, is known after the run only.
    Copied,
    /// Not at all: the next run reads it.
    State,
}

/// Memory for one output of a session.
pub(crate) struct Pool {
    pub(crate) spec: TensorSpec,
    way: AtomicU8,
    free: Mutex<Vec<OutputMemory>>,
}

impl Pool {
    /// The pools of a session, one for each output.
    pub(crate) fn of(session: &polychip::Session) -> Vec<Arc<Pool>> {
        let sizes_known = !session.is_open();
        let pool = |spec: &TensorSpec| {
            let known = sizes_known && spec.open.is_empty() && !spec.upper_bound && !spec.packed;
            // a constant or an input handed through is written by no run
            let bound = known && session.output(&spec.name).is_ok();
            let way = if bound {
                OutputTransfer::Bound
            } else {
                OutputTransfer::Copied
            };
            Arc::new(Pool {
                spec: spec.clone(),
                way: AtomicU8::new(way as u8),
                free: Mutex::default(),
            })
        };
        session.outputs().map(pool).collect()
    }

    pub(crate) fn way(&self) -> OutputTransfer {
        match self.way.load(Ordering::Acquire) {
            way if way == OutputTransfer::Bound as u8 => OutputTransfer::Bound,
            way if way == OutputTransfer::State as u8 => OutputTransfer::State,
            _ => OutputTransfer::Copied,
        }
    }

    pub(crate) fn becomes_state(&self) {
        self.way.store(OutputTransfer::State as u8, Ordering::Release);
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<OutputMemory>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take(&self, session: &polychip::Session) -> PyResult<OutputMemory> {
        let kept = self.free().pop();
        match kept {
            Some(place) => Ok(place),
            None => OutputMemory::new(session, &self.spec),
        }
    }

    pub(crate) fn give_back(&self, place: OutputMemory) {
        let mut free = self.free();
        if free.len() < KEPT {
            free.push(place);
        }
    }
}
