//! Regions of a program, and what the run of a program belongs to.
//!
//! Not here: how steps and regions run (`running`), which steps form a region (`lower/regions`).

use std::cell::RefCell;
use std::ops::Range;
use std::time::{Duration, Instant};

use polychip_sdk::Result;

use super::operands::Operands;
use super::values::ValueId;

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

    /// Adds a step that ends now.
    pub(super) fn add(&mut self, step: impl FnOnce(Duration) -> polychip_sdk::Step) {
        let now = Instant::now();
        self.steps.push(step(now - self.last));
        self.last = now;
    }
}
