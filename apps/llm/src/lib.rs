//! Language models from GGUF files, safetensors folders and ONNX Runtime GenAI folders:
//! tokenization, chat templates and text generation.
//!
//! Invariants:
//! 1. Weights stay in the mapped file: a tensor is a view of blocks, and the caller that
//!    dequantizes provides the memory.
//! 2. A file that is truncated, contradictory or unsupported is an [`Error`] that names the cause,
//!    never a panic. Memory allocated for it is bounded by a small multiple of its size.
//! 3. There are no fallbacks: an unknown architecture, block type, pre-tokenizer, position scaling
//!    or template function is refused.
//!
//! From the bottom up:
//! - files: `gguf`, `checkpoint`, `genai`, `config`, `adapter`
//! - text: `tokenizer`, `detokenizer`, `stop`, `template`
//! - graphs: `build`
//! - execution: `model`, `sequence`, and `batch` for several sequences at once
//! - placement: `prefill_decode`, `measure`, `placement`
//! - processes of their own for templates and grammars: [`sandbox`]
//! - answers: `sampler`, `scores`, `grammar`, `tools`, `speculation`, `generation`, `generate`, `stream`, `embedding`
//!
//! Start with [`LanguageModel::open`] and [`Sequence::generate`].

#![forbid(unsafe_code)]

mod adapter;
mod batch;
pub mod build;
mod checkpoint;
mod chunk;
mod config;
mod detokenizer;
mod embedding;
mod error;
mod genai;
mod generate;
mod generation;
pub mod gguf;
mod grammar;
mod kv_cache;
mod measure;
mod model;
mod park;
mod placement;
mod precision;
pub mod prefill_decode;
mod sampler;
pub mod sandbox;
mod scores;
mod sequence;
mod sizes;
mod speculation;
mod stop;
mod stream;
mod template;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tokenizer;
mod tools;

pub use adapter::Adapter;
pub use batch::Batch;
pub use config::{
    Activation, Architecture, Config, ExpectedTensor, Experts, Norms, QkNorm, RopePairing, RopeScaling,
    Routing, Window, Yarn,
};
pub use detokenizer::Detokenizer;
pub use error::{Error, ErrorKind};
pub use generate::{Completion, Finish, Generate, Trigger};
pub use generation::{Generation, Step};
pub use gguf::Gguf;
pub use grammar::Grammar;
pub use model::{LanguageModel, Options};
pub use polychip_host::trim_heap;
pub use precision::PrecisionChoice;
pub use sampler::{Sampler, Sampling};
pub use scores::TokenScore;
pub use sequence::Sequence;
pub use sizes::Sizes;
pub use speculation::{Draft, Speculated, Speculation};
pub use stop::{StopStrings, Stopped};
pub use stream::CompletionStream;
pub use template::{ChatTemplate, Message};
pub use tokenizer::{Specials, TokenId, Tokenizer};
pub use tools::{CallParser, CallPart, CallStyle, Tool};

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;
