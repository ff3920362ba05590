//! Sequences from a seed: a build of a model, right or with a step left out, doubled, moved or spoilt.
//!
//! Invariants:
//! 1. A seed gives the same sequence on every machine.
//! 2. Where nothing is spoilt, codes follow from the facts: a model that is known to build does, and validation
//!    answers 0 or 3110. After the first spoilt step nothing is known but that both libraries answer alike.

use polychip_sys::qnn::POLYCHIP_QNN_ERROR_OP_REJECTED;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::facts::{NO_SOCS, SOCS};
use crate::model::{Model, Types};
use crate::sequence::{Damage, Expect, Fault, Sequence, Step, Target};

const MODELS: [Model; 14] = [
    Model::Conv,
    Model::ConvRelu,
    Model::Relu,
    Model::Add,
    Model::MaxPool,
    Model::FullyConnected,
    Model::MatMul,
    Model::Softmax,
    Model::Gelu,
    Model::RmsNorm,
    Model::Transpose,
    Model::Reshape,
    Model::Unknown,
    Model::WrongShape,
];
const TYPES: [Types; 6] = [
    Types::U8,
    Types::U8S8,
    Types::S8,
    Types::U16S8,
    Types::F16,
    Types::F32,
];
/// What a spoilt sequence may hold somewhere.
const STRAY: [Step; 18] = [
    Step::BackendCreate,
    Step::DeviceCreate(Target::Soc(44)),
    Step::ContextCreate,
    Step::ContextCreateJunk,
    Step::GraphCreate("g"),
    Step::Finalize,
    Step::Execute(Fault::None),
    Step::Execute(Fault::IdUnknown),
    Step::Execute(Fault::NoInputs),
    Step::Execute(Fault::IdZero),
    Step::BinarySize,
    Step::BinaryGetShort,
    Step::Retrieve("absent"),
    Step::Retrieve("g"),
    Step::ContextFromBinary(Damage::Truncated),
    Step::Metadata(Damage::Zeroed),
    Step::ContextFree,
    Step::ErrorMessage,
];

/// The sequence of a seed.
pub(crate) fn sequence(seed: u64) -> Sequence {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut pick = |count: usize| random.random_range(0..count);
    let model = MODELS[pick(MODELS.len())];
    let types = TYPES[pick(TYPES.len())];
    // one target in eight is none
    let target = if pick(8) == 0 {
        Target::Soc(NO_SOCS[pick(NO_SOCS.len())])
    } else {
        Target::Soc(SOCS[pick(SOCS.len())])
    };
    let steps = [
        Step::LogCreate,
        Step::BackendCreate,
        Step::DeviceCreate(target),
        Step::Validate(model, types),
        Step::ContextCreate,
        Step::GraphCreate("g"),
        Step::Tensors(model, types),
        Step::Nodes(model, types),
        Step::Finalize,
        Step::Execute(Fault::None),
        Step::BinarySize,
        Step::BinaryGet,
        Step::ContextFree,
        Step::ContextFromBinary(Damage::None),
        Step::Metadata(Damage::None),
        Step::Retrieve("g"),
        Step::Execute(Fault::None),
        Step::SameOutput,
        Step::ContextFree,
        Step::DeviceFree,
        Step::BackendFree,
        Step::LogFree,
    ];
    let builds = matches!(model, Model::Conv | Model::ConvRelu)
        && matches!(types, Types::U8 | Types::U8S8)
        && !refused(target);
    let mut sequence = Sequence::new(format!("seed {seed}: {model:?} of {types:?} on {target:?}"));
    let mut known = true;
    for step in steps {
        let expect = match step {
            _ if !known => Expect::Any,
            Step::LogCreate | Step::BackendCreate => Expect::Is(0),
            Step::DeviceCreate(target) if refused(target) => {
                known = false;
                Expect::Refused
            }
            Step::DeviceCreate(_) | Step::ContextCreate | Step::GraphCreate(_) => Expect::Is(0),
            _ if builds => Expect::Is(0),
            Step::Validate(Model::Unknown | Model::WrongShape, _) => Expect::Refused,
            Step::Validate(..) => Expect::Either(0, POLYCHIP_QNN_ERROR_OP_REJECTED.into()),
            _ => {
                known = false;
                Expect::Any
            }
        };
        sequence.steps.push((step, expect));
    }
    // one in four is left as it is
    for _ in 0..pick(4) {
        spoil(&mut sequence, &mut pick);
    }
    sequence
}

fn refused(target: Target) -> bool {
    matches!(target, Target::Soc(soc) if NO_SOCS.contains(&soc))
}

/// Spoils one place and forgets what is known from there on.
fn spoil(sequence: &mut Sequence, pick: &mut impl FnMut(usize) -> usize) {
    let steps = &mut sequence.steps;
    let at = pick(steps.len());
    let how = match pick(4) {
        0 => {
            let (step, _) = steps.remove(at);
            format!("without {step:?}")
        }
        1 => {
            let (step, _) = steps[at];
            steps.insert(at, (step, Expect::Any));
            format!("with {step:?} twice")
        }
        2 => {
            let to = pick(steps.len());
            let (step, _) = steps.remove(at);
            steps.insert(to.min(steps.len()), (step, Expect::Any));
            format!("with {step:?} elsewhere")
        }
        _ => {
            let step = STRAY[pick(STRAY.len())];
            steps.insert(at, (step, Expect::Any));
            format!("with a stray {step:?}")
        }
    };
    let first = steps
        .iter()
        .position(|(_, expect)| *expect == Expect::Any)
        .unwrap_or(at)
        .min(at);
    for (_, expect) in &mut steps[first..] {
        *expect = Expect::Any;
    }
    sequence.name += &format!(", {how}");
}
