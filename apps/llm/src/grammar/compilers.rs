//! The grammar compiler of a vocabulary, in workers or in this process.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::local::Compiler;
use crate::worker::{Failure, Idle, Process, TokenTable, kind};
use crate::{Error, Result, TokenId, Tokenizer};

/// Longest token in an answer with a grammar, in bytes: the depth of the tree of tokens.
const MAX_TOKEN: usize = 512;

/// Byte before a control token's name, which no text begins with.
const SPECIAL: u8 = llguidance::toktrie::TokTrie::SPECIAL_TOKEN_MARKER;

/// Compiles grammars for a vocabulary.
pub(crate) struct Compilers {
    table: TokenTable,
    /// For workers.
    bytes: OnceLock<Vec<u8>>,
    idle: Idle,
    /// Without workers.
    own: OnceLock<Compiler>,
}

impl Compilers {
    pub(crate) fn new(tokenizer: &Tokenizer) -> Result<Arc<Compilers>> {
        let table = TokenTable::new(tokenizer, |token: TokenId| {
            let mut bytes = Vec::new();
            tokenizer.append_bytes(token, &mut bytes)?;
            if tokenizer.is_control(token) {
                // never text
                bytes.insert(0, SPECIAL);
            }
            if bytes.len() > MAX_TOKEN {
                bytes.clear();
            }
            Ok(bytes)
        })?;
        if table.ends.is_empty() {
            return Err(Error::grammar(
                "the vocabulary has no end-of-answer token, which a constrained answer needs",
            ));
        }
        Ok(Arc::new(Compilers {
            table,
            bytes: OnceLock::new(),
            idle: Idle::new(),
            own: OnceLock::new(),
        }))
    }

    /// A worker that knows the vocabulary, or that will before its next job; `None` where there are no workers.
    pub(super) fn worker(&self) -> Option<Result<Process, Failure>> {
        if let Some(idle) = self.idle.take() {
            return Some(Ok(idle));
        }
        let started = Process::start()?;
        Some(started.and_then(|mut process| {
            let bytes = self.bytes.get_or_init(|| self.table.to_bytes());
            process.send(&[&[kind::VOCABULARY], bytes], 1)?;
            let reply = process.receive(&mut || true)?;
            match reply.split_first() {
                Some((&kind::DONE, _)) => Ok(process),
                Some((_, words)) => Err(Failure::Ended(String::from_utf8_lossy(words).into_owned())),
                None => Err(Failure::Ended("a worker gave an empty reply".to_owned())),
            }
        }))
    }

    /// Takes a worker back that has forgotten its grammar.
    pub(super) fn give_back(&self, process: Process) {
        self.idle.give_back(process);
    }

    /// The compiler of this process.
    pub(super) fn own(&self) -> Result<&Compiler, String> {
        if let Some(own) = self.own.get() {
            return Ok(own);
        }
        let made = Compiler::new(&self.table)?;
        Ok(self.own.get_or_init(|| made))
    }
}

impl fmt::Debug for Compilers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compilers").finish_non_exhaustive()
    }
}
