//! Runs the steps of a program, in order; a region whose sizes are lowered runs as one program in their stead.
//!
//! Invariants:
//! 1. Regions are in order and do not overlap.
//! 2. A region that computes nothing leaves memory as it was, and its steps run one by one.
//!
//! Not here: how a region is lowered (`lower/dynamic_shapes`).
#![allow(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use polychip_cpu_kernels::ThreadPool;
use polychip_sdk::{Error, ErrorKind, Result};

use super::operands::{Memory, OperandTable, Operands, Slots};
use super::region::{Context, Region};
use super::{Program, Step};

impl Step {
    /// A step's measurement, as reported to the host. `node` gives the node of the part.
    fn measured(
        &self,
        time: Duration,
        by_kernel: bool,
        node: &dyn Fn(u32) -> Option<u32>,
    ) -> polychip_sdk::Step {
        let class = self.work.class;
        let nodes: Option<Arc<[u32]>> = self.nodes.iter().map(|&inner| node(inner)).collect();
        polychip_sdk::Step {
            name: self.name.into(),
            nodes: nodes.unwrap_or_default(),
            time_ns: u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
            operations: class.multiplies().then(|| self.work.units.saturating_mul(2)),
            moved_bytes: (!class.is_reference()).then_some(self.work.bytes),
            is_reference: class.is_reference() && !by_kernel,
        }
    }
}

impl Program {
    /// Runs all steps.
    ///
    /// # Safety
    /// As of [`Operands::new`], for each step; nothing else uses `slots`.
    ///
    /// # Errors
    /// A step fails, or `stop` is true between two steps.
    pub(crate) unsafe fn run_steps(
        &self,
        memory: &Memory,
        slots: &mut Slots,
        pool: &ThreadPool,
        stop: &dyn Fn() -> bool,
        context: &Context<'_>,
    ) -> Result<()> {
        let mut regions = self.regions.iter().peekable();
        let mut next = 0;
        while let Some(step) = self.steps.get(next) {
            if stop() {
                return Err(Error::new(ErrorKind::Cancelled, "the run was cancelled"));
            }
            if let Some(region) = regions.next_if(|region| region.steps.start == next) {
                // SAFETY: a region reads and writes values of this program, as its steps do.
                let mut operands =
                    unsafe { Operands::new(self.region_operands(region), memory, slots, pool, stop) };
                if (region.run)(&mut operands, context)? {
                    next = region.steps.end;
                    continue;
                }
            }
            // SAFETY: the caller's promise.
            let mut operands = unsafe { Operands::new(self.operands(step), memory, slots, pool, stop) };
            let done = (step.run)(&mut operands);
            done.map_err(|error| match (error.node(), (context.node)(step.node)) {
                (None, Some(node)) => error.at_node(node),
                _ => error,
            })?;
            if let Some(clock) = context.clock {
                let by_kernel = operands.by_kernel;
                clock
                    .borrow_mut()
                    .add(|time| step.measured(time, by_kernel, context.node));
            }
            next += 1;
        }
        Ok(())
    }

    fn region_operands<'a>(&'a self, region: &'a Region) -> OperandTable<'a> {
        OperandTable {
            values: &self.values,
            allocations: &self.allocations,
            copies: &self.copies,
            name: "a region",
            reads: &region.reads,
            writes: &region.writes,
            shared: None,
            last_reads: 0,
        }
    }
}
