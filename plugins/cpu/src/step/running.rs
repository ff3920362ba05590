//! Runs the steps of a program, in order; a region whose sizes are lowered runs as one program in their stead.
//!
//! Invariants:
//! 1. Regions are in order and do not overlap.
//! 2. A region that computes nothing leaves memory as it was, and its steps run one by one.
//!
//! Not here: which steps form a region (`lower/regions`), how a region is lowered (`lower/dynamic_shapes`).
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use polychip_cpu_kernels::ThreadPool;
use polychip_sdk::{Error, ErrorKind, Result};

use super::operands::{Memory, OperandTable, Operands, Slots};
use super::{Program, Step, ValueId};

/// Computes the results of a region; `false` where nothing was computed.
pub(crate) type RunRegion = Box<dyn Fn(&mut Operands<'_>, &Context<'_>) -> Result<bool> + Send + Sync>;

/// Consecutive steps on tensors of unknown size, which can run as one program once a run tells the sizes.
pub(crate) struct Region {
    /// Its steps.
    pub(crate) steps: Range<usize>,
    /// What they read of what is made before them.
    pub(crate) reads: Vec<ValueId>,
    /// What is read of them behind them.
    pub(crate) writes: Vec<ValueId>,
    /// The program for the sizes of a run.
    pub(crate) run: RunRegion,
}

/// What the run of a program belongs to.
pub(crate) struct Context<'a> {
    /// The node of the part that an error in this node of the program is of, if that is known.
    pub(crate) node: &'a dyn Fn(u32) -> Option<u32>,
    /// Measures the steps, if the host asked for their times.
    pub(crate) clock: Option<&'a RefCell<Clock>>,
    /// Whether this is the part itself or a region of it, not a body that may run many times.
    pub(crate) once: bool,
}

impl Context<'_> {
    /// A body inside a step.
    pub(crate) const BODY: Context<'static> = Context {
        node: &|_| None,
        clock: None,
        once: false,
    };
}

/// Times of the steps of a run.
pub(crate) struct Clock {
    /// The end of a step is the start of the next: what the loop takes beside the kernels is a part of them.
    last: Instant,
    steps: Vec<polychip_sdk::Step>,
}

impl Clock {
    pub(crate) fn start(steps: usize) -> RefCell<Self> {
        RefCell::new(Self {
            last: Instant::now(),
            steps: Vec::with_capacity(steps),
        })
    }

    pub(crate) fn steps(self) -> Vec<polychip_sdk::Step> {
        self.steps
    }

    fn ended(&mut self, step: &Step, by_kernel: bool, node: &dyn Fn(u32) -> Option<u32>) {
        let now = Instant::now();
        let class = step.work.class;
        let nodes: Option<Arc<[u32]>> = step.nodes.iter().map(|&inner| node(inner)).collect();
        let is_reference = class.is_reference() && !by_kernel;
        self.steps.push(polychip_sdk::Step {
            name: step.name.into(),
            nodes: nodes.unwrap_or_default(),
            time_ns: u64::try_from((now - self.last).as_nanos()).unwrap_or(u64::MAX),
            operations: class.multiplies().then(|| step.work.units.saturating_mul(2)),
            moved_bytes: (!class.is_reference()).then_some(step.work.bytes),
            is_reference,
        });
        self.last = now;
    }
}

impl Program {
    /// Runs all steps.
    ///
    /// # Safety
    /// As of [`Operands::new`], for each step; nothing else uses `slots`.
    ///
    /// # Errors
    /// A step fails, or `stop` says so between two steps.
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
                clock.borrow_mut().ended(step, operands.by_kernel, context.node);
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
