//! Core ML's plan for a compiled model: the unit of each operation, and its share of the total
//! time.

#![allow(unsafe_code, reason = "messages are sent here")]

use std::ffi::c_void;
use std::path::Path;
use std::time::Duration;

use super::block;
use super::foundation::{self as ns, Failure};
use super::library::{Id, Library, send};
use super::model::{self, Units};

/// Longest time that the system may take to plan a model.
const LIMIT: Duration = Duration::from_secs(60);

/// The unit that computes an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preferred {
    /// The processor, or a unit that we do not know.
    Processor,
    /// One of these units.
    Unit(Units),
}

/// The plan for one operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// Op of the operation, such as `ios17.conv`.
    pub op: String,
    /// Name of its first output.
    pub output: String,
    /// The unit that computes it; `None` if Core ML does not report one, as for constants.
    pub preferred: Option<Preferred>,
    /// Units that could compute it.
    pub supported: Vec<Units>,
    /// Its share of the time of the whole model, from 0 to 1; `None` if Core ML does not report it.
    pub weight: Option<f64>,
}

impl Library {
    /// Returns Core ML's plan for each operation of a compiled model's `main` function, in order.
    ///
    /// # Errors
    /// Core ML fails, or does not answer in time.
    pub fn plan(&'static self, compiled: &Path, units: Units) -> Result<Vec<Planned>, Failure> {
        self.pool(|| {
            let address = ns::address(self, compiled)?;
            let configuration = model::configuration(self, units)?;
            let class = self.classes.plan.0;
            let came = block::completed(self, LIMIT, |handler| {
                send!(
                    self,
                    class,
                    load_plan(address => Id, configuration.id() => Id, handler => *mut c_void) -> ()
                );
            });
            let (plan, error) =
                came.ok_or_else(|| Failure::unexplained("Core ML did not plan the model in time"))?;
            let error = error.as_ref().map_or(std::ptr::null_mut(), super::Object::id);
            let plan = plan.ok_or_else(|| Failure::of(self, error, "planning the model"))?;
            Ok(self.operations(plan.id()))
        })
    }

    fn operations(&'static self, plan: Id) -> Vec<Planned> {
        // a message to nothing gives nothing
        let structure = send!(self, plan, structure() -> Id);
        let program = send!(self, structure, program() -> Id);
        let functions = send!(self, program, functions() -> Id);
        let Ok(main) = ns::text(self, "main") else {
            return Vec::new();
        };
        let function = send!(self, functions, object_for_key(main => Id) -> Id);
        let block = send!(self, function, block() -> Id);
        let operations = ns::items(self, send!(self, block, operations() -> Id));
        operations
            .into_iter()
            .map(|operation| self.planned(plan, operation))
            .collect()
    }

    fn planned(&'static self, plan: Id, operation: Id) -> Planned {
        let usage = send!(self, plan, usage(operation => Id) -> Id);
        let cost = send!(self, plan, cost(operation => Id) -> Id);
        let outputs = ns::items(self, send!(self, operation, outputs() -> Id));
        let name = outputs
            .first()
            .and_then(|&output| ns::read(self, send!(self, output, name() -> Id)));
        let (mut preferred, mut supported) = (None, Vec::new());
        if !usage.is_null() {
            let device = send!(self, usage, preferred() -> Id);
            preferred = Some(model::units_of(self, device).map_or(Preferred::Processor, Preferred::Unit));
            let devices = ns::items(self, send!(self, usage, supported() -> Id));
            supported = devices
                .into_iter()
                .filter_map(|device| model::units_of(self, device))
                .collect();
        }
        Planned {
            op: ns::read(self, send!(self, operation, operator_name() -> Id)).unwrap_or_default(),
            output: name.unwrap_or_default(),
            preferred,
            supported,
            weight: (!cost.is_null()).then(|| send!(self, cost, weight() -> f64)),
        }
    }
}
