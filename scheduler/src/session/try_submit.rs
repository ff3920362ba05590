//! Submitting without waiting, and the thread that makes ready what such a run lacks.
//!
//! Invariants:
//! 1. [`Session::try_submit`] waits for no run, plans nothing, compiles nothing and resets no device.
//! 2. One thread of the session makes ready what was missing. It starts with the refusal and holds the session
//!    while it works.
//! 3. If it fails, the next call for the same shapes returns its error once, and a later one starts anew.

use std::sync::Arc;

use super::Session;
use super::ahead::{NamedShapes, Waits};
use super::specializations::Shapes;
use crate::error::{Error, ErrorKind, Result};
use crate::run::{Run, RunOptions};
use crate::tensor::{Input, Output};

/// Ends the thread's work, also by a panic.
struct Busy(Arc<Shapes>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.ahead.lock().is_busy = false;
    }
}

impl Session {
    /// Like [`Session::submit`], but never waits and never plans. If as many runs are in flight as the
    /// policy allows, or the plan for these sizes is not ready, it fails with
    /// [`ErrorKind::WouldBlock`]. A missing plan is then made on a thread of the session; submit
    /// again later. An app that does so each frame runs as soon as the plan is ready.
    ///
    /// The call still copies inputs for devices that cannot import their memory, and hands the run to
    /// the devices' drivers. A run whose start fails is not retried.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`], which names the reason; the error of the plan that was made for an
    /// earlier call, once; otherwise as for [`Session::submit`].
    pub fn try_submit(&self, inputs: &[&Input]) -> Result<Run> {
        self.try_submit_with(inputs, &[], RunOptions::new())
    }

    /// Like [`Session::try_submit`], with outputs as for [`Session::submit_into`] and options for this run
    /// alone. [`RunOptions::queue_timeout`] has no effect.
    ///
    /// # Errors
    /// As for [`Session::try_submit`] and [`Session::submit_into`].
    pub fn try_submit_with(
        &self,
        inputs: &[&Input],
        outputs: &[&Output],
        options: RunOptions,
    ) -> Result<Run> {
        self.submit_and(inputs, outputs, options, Waits::Never, &|| self.0.reap_variants())
    }

    /// Starts to make ready what a run on these inputs lacks.
    pub(super) fn make_ahead(&self, inputs: &[&Input], lacks: &str) -> Error {
        self.begin_ahead(inputs).err().unwrap_or_else(|| {
            let words =
                format!("{lacks}; it is made on another thread (Session::try_submit): submit again later");
            Error::new(ErrorKind::WouldBlock, words)
        })
    }

    fn begin_ahead(&self, inputs: &[&Input]) -> Result<()> {
        let sized: Vec<&Input> = inputs.iter().copied().filter(|input| input.sized).collect();
        let shapes = self.0.shapes_of(&sized)?;
        let name = |(index, shape): (usize, Vec<usize>)| (self.0.input_spec(index).name.clone(), shape);
        let shapes: NamedShapes = shapes.into_iter().map(name).collect();
        {
            let mut ahead = self.0.ahead.lock();
            if let Some((_, error)) = ahead.failed.take_if(|(failed, _)| *failed == shapes) {
                return Err(error);
            }
            if ahead.is_busy {
                return Ok(());
            }
            ahead.is_busy = true;
        }
        let busy = Busy(Arc::clone(&self.0));
        let make = move || {
            let session = Session(Arc::clone(&busy.0));
            if let Err(error) = session.make_ready(&shapes) {
                session.0.ahead.lock().failed = Some((shapes, error));
            }
        };
        let thread = std::thread::Builder::new()
            .name("polychip-ahead".into())
            .spawn(make);
        let failed = |error| Error::caused(ErrorKind::Io, "starting a thread", error);
        thread.map(drop).map_err(failed)
    }

    /// Makes the plan for inputs of these shapes ready.
    fn make_ready(&self, shapes: &[(String, Vec<usize>)]) -> Result<()> {
        let mut indices = Vec::with_capacity(shapes.len());
        for (name, shape) in shapes {
            indices.push((self.input_index(name)?, &**shape));
        }
        match self.variant_for(&indices)? {
            Some(variant) => variant.make_ready(shapes),
            None => self.0.make_ready(&indices),
        }
    }
}
