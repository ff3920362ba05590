//! The grammar compiler of a vocabulary, in sandboxes or in this process.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::local::Compiler;
use crate::sandbox::{Failure, Idle, Process, TokenTable, kind};
use crate::{Error, Result, TokenId};

/// Longest token in an answer with a grammar, in bytes: the depth of the tree of tokens.
const MAX_TOKEN: usize = 512;

/// Byte before a control token's name, which no text begins with.
const SPECIAL: u8 = llguidance::toktrie::TokTrie::SPECIAL_TOKEN_MARKER;

/// Compiles grammars for a vocabulary.
pub(crate) struct Compilers {
    table: TokenTable,
    /// For sandboxes.
    bytes: OnceLock<Vec<u8>>,
    idle: Idle,
    /// Without sandboxes.
    own: OnceLock<Compiler>,
}

impl Compilers {
    /// Of a vocabulary: each token's bytes and whether it is a control token, and the tokens that end an answer.
    pub(crate) fn new(
        tokens: impl Iterator<Item = Result<(Vec<u8>, bool)>>,
        ends: Vec<TokenId>,
    ) -> Result<Arc<Compilers>> {
        let bytes = |token: Result<(Vec<u8>, bool)>| {
            let (mut bytes, is_control) = token?;
            if is_control {
                // never text
                bytes.insert(0, SPECIAL);
            }
            if bytes.len() > MAX_TOKEN {
                bytes.clear();
            }
            Ok(bytes)
        };
        let tokens = tokens.map(bytes).collect::<Result<_>>()?;
        let table = TokenTable { ends, tokens };
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

    /// A sandbox that knows the vocabulary, or that will before its next job; `None` where there are no sandboxes.
    pub(super) fn sandbox(&self) -> Option<Result<Process, Failure>> {
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
                None => Err(Failure::Ended("a sandbox gave an empty reply".to_owned())),
            }
        }))
    }

    /// Takes a sandbox back that has forgotten its grammar.
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
