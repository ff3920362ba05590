//! A sequence of calls, and what is known of their codes.
//!
//! Invariants:
//! 1. An expectation other than [`Expect::Any`] is a fact measured on the vendor's library, or follows from one.
//! 2. A step names what is done, never a handle: the client keeps the handles, and passes null for what was not made.

use serde::Serialize;

use crate::model::{Model, Types};

/// What the SoC fields of a device configuration hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Target {
    /// No configuration at all.
    None,
    /// The id at both offsets.
    Soc(u32),
    /// Different ids at bytes 4 and 8.
    Split(u32, u32),
}

/// What is done to a context binary before it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Damage {
    None,
    /// The first half alone.
    Truncated,
    /// All bytes zero.
    Zeroed,
    /// One bit in the last quarter.
    Flipped,
}

/// What is wrong with an execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Fault {
    None,
    /// Tensors of version 1, whatever the graph was built with.
    Version1,
    /// The first input's id is 0.
    IdZero,
    /// The graph has no tensor with the first input's id.
    IdUnknown,
    /// The first input's buffer is declared a byte too small.
    Short,
    /// The first input's buffer is declared a byte too large.
    Long,
    /// No inputs are given.
    NoInputs,
}

/// One thing done; most are one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Step {
    LogCreate,
    LogLevel,
    LogFree,
    BuildId,
    Operations,
    PlatformInfo,
    ErrorMessage,
    BackendCreate,
    BackendFree,
    /// A second backend and device, freed again.
    SecondSession,
    DeviceCreate(Target),
    DeviceFree,
    /// Power configuration: create, set, destroy.
    Power,
    /// Every node of the model.
    Validate(Model, Types),
    ContextCreate,
    /// With an option that no library has.
    ContextCreateJunk,
    ContextFree,
    /// A graph of this name in the context; later steps use it.
    GraphCreate(&'static str),
    /// With an HTP option that no library has.
    GraphCreateJunk(&'static str),
    /// Every tensor of the model.
    Tensors(Model, Types),
    /// Every node of the model.
    Nodes(Model, Types),
    Finalize,
    /// Finalize under a profile, whose events are then read.
    FinalizeProfiled,
    Execute(Fault),
    ExecuteAsync,
    /// Code 0 where the last two executes gave the same bytes.
    SameOutput,
    BinarySize,
    BinaryGet,
    /// Into a buffer of 16 bytes.
    BinaryGetShort,
    /// The context is made anew from the binary.
    ContextFromBinary(Damage),
    /// The same, with this graph alone enabled.
    ContextFromBinaryOnly(&'static str),
    /// The graph of this name; later steps use it.
    Retrieve(&'static str),
    /// The System library reads the binary.
    Metadata(Damage),
    ValidateBinary,
    SignalCreate,
    /// Memory by file descriptor, in this kind.
    MemoryRegister(u32),
}

impl Step {
    /// The call that a step of several calls is about; the others are expected to succeed.
    pub(crate) fn about(self) -> Option<&'static str> {
        match self {
            Self::Metadata(_) => Some("get_metadata"),
            Self::BinaryGet => Some("get_binary"),
            Self::FinalizeProfiled => Some("finalize"),
            _ => None,
        }
    }
}

/// What is known of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expect {
    /// Nothing: only that both libraries say the same.
    Any,
    /// This code.
    Is(u64),
    /// One of two.
    Either(u64, u64),
    /// Any code but success.
    Refused,
}

impl Expect {
    pub(crate) fn holds(self, code: u64) -> bool {
        match self {
            Self::Any => true,
            Self::Is(wanted) => code == wanted,
            Self::Either(one, other) => code == one || code == other,
            Self::Refused => code != 0,
        }
    }
}

/// Steps in order, each with what is known of the codes of its calls.
#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    pub(crate) name: String,
    pub(crate) steps: Vec<(Step, Expect)>,
}

impl Sequence {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            steps: Vec::new(),
        }
    }

    /// Steps that succeed.
    pub(crate) fn ok(mut self, steps: &[Step]) -> Self {
        self.steps.extend(steps.iter().map(|step| (*step, Expect::Is(0))));
        self
    }

    /// A step with this code.
    pub(crate) fn gives(mut self, step: Step, expect: Expect) -> Self {
        self.steps.push((step, expect));
        self
    }

    /// Steps of whose codes nothing is known.
    pub(crate) fn then(mut self, steps: &[Step]) -> Self {
        self.steps.extend(steps.iter().map(|step| (*step, Expect::Any)));
        self
    }

    /// A backend and a device of this target.
    pub(crate) fn on(self, target: Target) -> Self {
        self.ok(&[Step::LogCreate, Step::BackendCreate, Step::DeviceCreate(target)])
    }

    /// A finalized graph of the model.
    pub(crate) fn built(self, name: &'static str, model: Model, types: Types) -> Self {
        self.ok(&[
            Step::GraphCreate(name),
            Step::Tensors(model, types),
            Step::Nodes(model, types),
            Step::Finalize,
        ])
    }

    /// Everything freed in the right order.
    pub(crate) fn freed(self) -> Self {
        self.ok(&[
            Step::ContextFree,
            Step::DeviceFree,
            Step::BackendFree,
            Step::LogFree,
        ])
    }
}
