//! Sequences whose codes were measured on the vendor's x86 library (core API 2.36 to 2.40).
//!
//! Invariant: each sequence shows one fact, which its name states.

use polychip_sys::qnn::{
    POLYCHIP_QNN_ERROR_BINARY_TRUNCATED, POLYCHIP_QNN_ERROR_BINARY_ZEROED, POLYCHIP_QNN_ERROR_DEVICE_CONFIG,
    POLYCHIP_QNN_ERROR_GRAPH_NOT_ENABLED, POLYCHIP_QNN_ERROR_MEMORY, POLYCHIP_QNN_ERROR_NOT_SUPPORTED,
    POLYCHIP_QNN_ERROR_OP_REJECTED, POLYCHIP_QNN_ERROR_TENSOR_ID, POLYCHIP_QNN_MEMORY_CUSTOM,
    POLYCHIP_QNN_MEMORY_DMA_BUF, POLYCHIP_QNN_MEMORY_ION,
};

use crate::model::{Model, Types};
use crate::sequence::{Damage, Expect, Fault, Sequence, Step, Target};

const fn code(code: u32) -> Expect {
    Expect::Is(code as u64)
}

const NOT_SUPPORTED: Expect = code(POLYCHIP_QNN_ERROR_NOT_SUPPORTED);
const MEMORY: Expect = code(POLYCHIP_QNN_ERROR_MEMORY);
const NOT_ENABLED: Expect = code(POLYCHIP_QNN_ERROR_GRAPH_NOT_ENABLED);
const REJECTED: Expect = code(POLYCHIP_QNN_ERROR_OP_REJECTED);
const TENSOR_ID: Expect = code(POLYCHIP_QNN_ERROR_TENSOR_ID);
const DEVICE_CONFIG: Expect = code(POLYCHIP_QNN_ERROR_DEVICE_CONFIG);
const ZEROED: Expect = code(POLYCHIP_QNN_ERROR_BINARY_ZEROED);
const TRUNCATED: Expect = code(POLYCHIP_QNN_ERROR_BINARY_TRUNCATED);

/// SoCs of the architectures v68, v73, v75, v79, v81.
pub(crate) const SOCS: [u32; 5] = [30, 43, 57, 69, 87];
/// Ids for which no device can be created.
pub(crate) const NO_SOCS: [u32; 9] = [14, 22, 24, 44, 79, 81, 98, 121, 124];

/// All of them.
pub(crate) fn sequences() -> Vec<Sequence> {
    let mut all = building();
    all.extend(validating());
    all.extend(executing());
    all.extend(binaries());
    all.extend(devices());
    all
}

fn building() -> Vec<Sequence> {
    let mut all = Vec::new();
    for target in SOCS.map(Target::Soc).into_iter().chain([Target::None]) {
        for types in [Types::U8, Types::U8S8] {
            all.push(
                Sequence::new(format!("conv and relu of {types:?} run on {target:?}"))
                    .on(target)
                    .ok(&[Step::Validate(Model::ConvRelu, types), Step::ContextCreate])
                    .built("g", Model::ConvRelu, types)
                    .ok(&[
                        Step::Execute(Fault::None),
                        Step::Execute(Fault::None),
                        Step::SameOutput,
                    ])
                    .freed(),
            );
        }
    }
    for (name, model) in [
        ("an unknown op", Model::Unknown),
        ("a wrong output shape", Model::WrongShape),
    ] {
        all.push(
            Sequence::new(format!("{name} is refused at finalize, not before"))
                .on(Target::Soc(43))
                .gives(Step::Validate(model, Types::U8), Expect::Refused)
                .ok(&[
                    Step::ContextCreate,
                    Step::GraphCreate("g"),
                    Step::Tensors(model, Types::U8),
                    Step::Nodes(model, Types::U8),
                ])
                .gives(Step::Finalize, Expect::Refused),
        );
    }
    all.push(
        Sequence::new("an unknown HTP graph option is ignored")
            .on(Target::Soc(43))
            .ok(&[Step::ContextCreate, Step::GraphCreateJunk("g")]),
    );
    for model in [Model::Gelu, Model::Elu, Model::RmsNorm] {
        all.push(
            Sequence::new(format!(
                "{model:?} of f32 validates and cannot be finalized on SoC 30"
            ))
            .on(Target::Soc(30))
            .ok(&[
                Step::Validate(model, Types::F32),
                Step::ContextCreate,
                Step::GraphCreate("g"),
                Step::Tensors(model, Types::F32),
                Step::Nodes(model, Types::F32),
            ])
            .gives(Step::Finalize, MEMORY),
        );
        all.push(
            Sequence::new(format!("{model:?} of f32 can be finalized on SoC 57"))
                .on(Target::Soc(57))
                .ok(&[Step::Validate(model, Types::F32), Step::ContextCreate])
                .built("g", model, Types::F32)
                .ok(&[Step::Execute(Fault::None)]),
        );
    }
    all.push(
        Sequence::new("a graph is profiled")
            .on(Target::Soc(43))
            .ok(&[
                Step::ContextCreate,
                Step::GraphCreate("g"),
                Step::Tensors(Model::ConvRelu, Types::U8),
                Step::Nodes(Model::ConvRelu, Types::U8),
                Step::FinalizeProfiled,
                Step::Execute(Fault::None),
            ])
            .freed(),
    );
    all
}

fn validating() -> Vec<Sequence> {
    let both = Step::Validate(Model::MatMul, Types::S16S8);
    let mut all = vec![
        Sequence::new("validation answers for the device created last, even after it is freed")
            .on(Target::Soc(57))
            .ok(&[both, Step::DeviceFree, Step::DeviceCreate(Target::Soc(30))])
            .gives(both, REJECTED)
            .ok(&[Step::DeviceFree])
            .gives(both, REJECTED)
            .ok(&[Step::DeviceCreate(Target::Soc(43)), both, Step::DeviceFree, both]),
        Sequence::new("without a device validation answers as v68")
            .ok(&[Step::LogCreate, Step::BackendCreate])
            .gives(both, REJECTED),
        Sequence::new("4-bit weights in 8 bits validate and run")
            .on(Target::Soc(43))
            .ok(&[
                Step::Validate(Model::FullyConnected4, Types::U8),
                Step::ContextCreate,
            ])
            .built("g", Model::FullyConnected4, Types::U8)
            .ok(&[Step::Execute(Fault::None)]),
        Sequence::new("packed 4-bit weights are rejected")
            .on(Target::Soc(43))
            .gives(Step::Validate(Model::FullyConnectedPacked, Types::U8), REJECTED),
        Sequence::new("s8 softmax with another zero point validates")
            .on(Target::Soc(57))
            .ok(&[Step::Validate(Model::Softmax, Types::S8)]),
    ];
    for soc in [43, 57, 69, 87] {
        all.push(
            Sequence::new(format!("matmul of two s16 inputs validates on SoC {soc}"))
                .on(Target::Soc(soc))
                .ok(&[both]),
        );
    }
    for soc in [30, 36] {
        all.push(
            Sequence::new(format!("matmul of two s16 inputs is rejected on SoC {soc}"))
                .on(Target::Soc(soc))
                .gives(both, REJECTED),
        );
    }
    for soc in [1, 95] {
        all.push(
            Sequence::new(format!("SoC {soc} rejects f16"))
                .on(Target::Soc(soc))
                .gives(Step::Validate(Model::Relu, Types::F16), REJECTED),
        );
    }
    for model in [Model::Conv, Model::FullyConnected] {
        all.push(
            Sequence::new(format!("{model:?} of u16 with s8 weights validates on SoC 57"))
                .on(Target::Soc(57))
                .ok(&[Step::Validate(model, Types::U16S8)]),
        );
    }
    all
}

/// A finalized convolution on SoC 43.
fn conv(name: &str) -> Sequence {
    Sequence::new(name)
        .on(Target::Soc(43))
        .ok(&[Step::ContextCreate])
        .built("g", Model::ConvRelu, Types::U8)
}

fn executing() -> Vec<Sequence> {
    vec![
        conv("tensor id 0 is refused")
            .gives(Step::Execute(Fault::IdZero), TENSOR_ID)
            .ok(&[Step::Execute(Fault::None)]),
        conv("a buffer a byte too small is accepted").ok(&[Step::Execute(Fault::Short)]),
        conv("a buffer a byte too large is accepted").ok(&[Step::Execute(Fault::Long)]),
        conv("tensors of version 1 execute a graph of version 2").ok(&[
            Step::Execute(Fault::None),
            Step::Execute(Fault::Version1),
            Step::SameOutput,
        ]),
        conv("asynchronous execute is not supported").gives(Step::ExecuteAsync, NOT_SUPPORTED),
        conv("signals are not supported").gives(Step::SignalCreate, NOT_SUPPORTED),
        conv("memory cannot be registered")
            .gives(Step::MemoryRegister(POLYCHIP_QNN_MEMORY_ION), NOT_SUPPORTED)
            .gives(Step::MemoryRegister(POLYCHIP_QNN_MEMORY_DMA_BUF), NOT_SUPPORTED)
            .gives(Step::MemoryRegister(POLYCHIP_QNN_MEMORY_CUSTOM), NOT_SUPPORTED),
    ]
}

fn binaries() -> Vec<Sequence> {
    let saved = |name: &str| conv(name).ok(&[Step::Execute(Fault::None), Step::BinarySize, Step::BinaryGet]);
    vec![
        saved("a binary gives the same outputs").ok(&[
            Step::ContextFree,
            Step::ContextFromBinary(Damage::None),
            Step::Metadata(Damage::None),
            Step::Retrieve("g"),
            Step::Execute(Fault::None),
            Step::SameOutput,
        ]),
        saved("a binary with a flipped bit loads").ok(&[
            Step::ContextFree,
            Step::ContextFromBinary(Damage::Flipped),
            Step::Retrieve("g"),
        ]),
        saved("a binary cut short is refused")
            .ok(&[Step::ContextFree])
            .gives(Step::ContextFromBinary(Damage::Truncated), TRUNCATED),
        saved("a binary of zeros is refused")
            .ok(&[Step::ContextFree])
            .gives(Step::ContextFromBinary(Damage::Zeroed), ZEROED),
        saved("the System library refuses damaged binaries")
            .gives(Step::Metadata(Damage::Truncated), Expect::Refused)
            .gives(Step::Metadata(Damage::Zeroed), Expect::Refused)
            .ok(&[Step::Metadata(Damage::None)]),
        saved("whether a binary fits is not answered").gives(Step::ValidateBinary, NOT_SUPPORTED),
        saved("a binary of one SoC loads on another").ok(&[
            Step::ContextFree,
            Step::DeviceFree,
            Step::DeviceCreate(Target::Soc(69)),
            Step::ContextFromBinary(Damage::None),
            Step::Retrieve("g"),
            Step::Metadata(Damage::None),
            Step::Execute(Fault::None),
        ]),
        conv("a graph left out is found and does not execute")
            .built("h", Model::ConvRelu, Types::U8)
            .ok(&[
                Step::BinaryGet,
                Step::ContextFree,
                Step::ContextFromBinaryOnly("g"),
                Step::Metadata(Damage::None),
                Step::Retrieve("g"),
                Step::Execute(Fault::None),
                Step::Retrieve("h"),
            ])
            .gives(Step::Execute(Fault::None), NOT_ENABLED),
    ]
}

fn devices() -> Vec<Sequence> {
    let mut all = vec![
        Sequence::new("what the library reports about itself").ok(&[
            Step::LogCreate,
            Step::LogLevel,
            Step::BuildId,
            Step::BackendCreate,
            Step::Operations,
            Step::PlatformInfo,
            Step::ErrorMessage,
            Step::BackendFree,
            Step::LogFree,
        ]),
        conv("a second session leaves the first alone")
            .ok(&[Step::SecondSession, Step::Execute(Fault::None)]),
        conv("device and backend can be freed under a context").ok(&[Step::DeviceFree, Step::BackendFree]),
        Sequence::new("power can be asked for")
            .on(Target::Soc(43))
            .ok(&[Step::Power]),
        Sequence::new("SoC 1 takes integers")
            .on(Target::Soc(1))
            .ok(&[Step::Validate(Model::ConvRelu, Types::U8)]),
        Sequence::new("SoC 122 is accepted and finalizes nothing")
            .on(Target::Soc(122))
            .ok(&[
                Step::ContextCreate,
                Step::GraphCreate("g"),
                Step::Tensors(Model::Conv, Types::U8),
                Step::Nodes(Model::Conv, Types::U8),
            ])
            .gives(Step::Finalize, Expect::Refused),
    ];
    for soc in NO_SOCS {
        all.push(
            Sequence::new(format!("there is no device for SoC {soc}"))
                .ok(&[Step::LogCreate, Step::BackendCreate])
                .gives(Step::DeviceCreate(Target::Soc(soc)), DEVICE_CONFIG)
                .ok(&[Step::DeviceCreate(Target::Soc(43)), Step::DeviceFree]),
        );
    }
    let one_side = Expect::Either(0, POLYCHIP_QNN_ERROR_DEVICE_CONFIG.into());
    all.push(
        Sequence::new("one of the two offsets of the SoC counts")
            .ok(&[Step::LogCreate, Step::BackendCreate])
            .gives(Step::DeviceCreate(Target::Split(43, 14)), one_side)
            .then(&[Step::DeviceFree])
            .gives(Step::DeviceCreate(Target::Split(14, 43)), one_side),
    );
    all
}
