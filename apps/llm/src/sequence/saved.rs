//! Saved sequences, so that another process need not read the same text again.
//!
//! The file has a line of JSON ([`Header`]), the tokens as 32-bit integers, the KV cache of
//! each layer as f16 `[kv_heads, tokens, head_size]`, all little-endian, and the BLAKE3 hash of all
//! before.
//!
//! Invariants:
//! 1. A file appears complete or not at all.
//! 2. A file of another model, or of the same model with other weights, adapters or precision, is
//!    refused, and so is an incomplete file; nothing of it is used.
//! 3. Only the user may read a file: it holds prompts and answers.
//! 4. Memory is allocated for what the model's own sizes need, never for what the file states.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

use polychip::Access;
use serde::{Deserialize, Serialize};

use super::{HALF, Sequence};
use crate::{Error, LanguageModel, Result, TokenId};

/// First words of a file's first line.
const KIND: &str = "polychip sequence 1";

/// Longest first line in bytes.
const LINE: u64 = 1024;

const HASH: usize = blake3::OUT_LEN;

/// The first line of a file.
#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Header {
    kind: String,
    /// [`LanguageModel::identity`] in hexadecimal.
    model: String,
    tokens: usize,
}

/// A reader that hashes what it reads.
struct Hashed<R> {
    inner: R,
    hasher: blake3::Hasher,
}

impl<R: Read> Hashed<R> {
    fn fill(&mut self, out: &mut [u8]) -> std::io::Result<()> {
        self.inner.read_exact(out)?;
        self.hasher.update(out);
        Ok(())
    }
}

/// A writer that hashes what it writes.
impl<W: Write> Hashed<W> {
    fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.hasher.update(bytes);
        self.inner.write_all(bytes)
    }
}

/// Creates a file that only the user may read.
fn create(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(path)
}

/// Opens a file; a pipe without a writer is not waited for.
fn open(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    options.open(path)
}

impl Sequence {
    /// Saves the tokens and their KV cache to a file for [`LanguageModel::load_sequence`], so that
    /// an app can continue after a restart or in another process. Only the user may read the file (mode
    /// 0600): it holds prompts and answers.
    ///
    /// ```no_run
    /// # use polychip_llm::{Generate, LanguageModel, Options};
    /// # let model = LanguageModel::open("model.gguf", Options::new())?;
    /// # let (prompt, longer) = ([1], [1, 2]);
    /// let mut sequence = model.sequence()?;
    /// sequence.append(&prompt)?;
    /// sequence.save("prompt.kv")?;
    /// // another day
    /// let mut sequence = model.load_sequence("prompt.kv")?;
    /// // only what is new is read
    /// sequence.generate(&longer, &Generate::greedy(50), &mut |_| std::ops::ControlFlow::Continue(()))?;
    /// # Ok::<(), polychip_llm::Error>(())
    /// ```
    ///
    /// # Errors
    /// The file cannot be written, a run uses the memory, or the sequence rests and its KV cache was released.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let identity = self.model.identity()?;
        // beside it, so that it can take its place at once
        let mut beside = path.as_os_str().to_owned();
        // random: what an ended process has left may have any number, and in a container every process has the same
        beside.push(format!(".{:016x}.tmp", rand::random::<u64>()));
        let beside = Path::new(&beside);
        let file = create(beside).map_err(|source| Error::file(path, source))?;
        let done = self.write(path, file, &identity);
        let done =
            done.and_then(|()| std::fs::rename(beside, path).map_err(|source| Error::file(path, source)));
        if done.is_err() {
            // what is left of it is of no use
            let _ = std::fs::remove_file(beside);
        }
        done
    }

    /// Writes the file; error messages name the requested path.
    fn write(&self, path: &Path, file: File, identity: &blake3::Hash) -> Result<()> {
        let wrong = |source| Error::file(path, source);
        let mut out = Hashed {
            inner: BufWriter::new(file),
            hasher: blake3::Hasher::new(),
        };
        let header = Header {
            kind: KIND.to_owned(),
            model: identity.to_hex().to_string(),
            tokens: self.len(),
        };
        let line = serde_json::to_string(&header).expect("invariant: texts and a number are JSON");
        out.put(line.as_bytes())
            .and_then(|()| out.put(b"\n"))
            .map_err(wrong)?;
        for token in &self.tokens {
            out.put(&token.to_le_bytes()).map_err(wrong)?;
        }
        let (heads, row) = self.rows();
        let written = self.with_memories(|memories| -> Result<()> {
            for memory in memories {
                let bytes = memory.access(Access::Read).map_err(Error::memory)?;
                for head in 0..heads {
                    let start = head * self.model.capacity() * row;
                    out.put(&bytes[start..start + self.len() * row]).map_err(wrong)?;
                }
            }
            Ok(())
        });
        written.unwrap_or_else(|| {
            Err(Error::config(format!(
                "{}: the KV cache was released while the sequence rested; wake it first (Sequence::wake)",
                path.display()
            )))
        })?;
        let hash = out.hasher.finalize();
        out.inner.write_all(hash.as_bytes()).map_err(wrong)?;
        let file = out
            .inner
            .into_inner()
            .map_err(|error| wrong(error.into_error()))?;
        file.sync_all().map_err(wrong)
    }

    /// Number of heads of a cache, and bytes of a position in one of them.
    fn rows(&self) -> (usize, usize) {
        let sizes = self.model.sizes();
        (sizes.kv_heads as usize, sizes.head_size as usize * HALF)
    }

    fn read(&mut self, path: &Path) -> Result<()> {
        let wrong = |source| Error::file(path, source);
        let malformed = |words: String| Error::malformed(format!("{}: {words}", path.display()));
        let file = open(path).map_err(wrong)?;
        let metadata = file.metadata().map_err(wrong)?;
        if !metadata.is_file() {
            return Err(malformed(
                "not a regular file, which a saved sequence is".to_owned(),
            ));
        }
        let bytes = metadata.len();
        let mut inner = BufReader::new(file);
        let mut line = Vec::new();
        inner
            .by_ref()
            .take(LINE)
            .read_until(b'\n', &mut line)
            .map_err(wrong)?;
        let header: Header = serde_json::from_slice(&line)
            .map_err(|_| malformed("not a sequence file: its first line has no header".to_owned()))?;
        if header.kind != KIND {
            return Err(malformed(format!(
                "it has format {:?}; the supported format is {KIND:?}",
                header.kind
            )));
        }
        if header.model != self.model.identity()?.to_hex().as_str() {
            return Err(Error::config(format!(
                "{}: written by another model, or by {} with other weights, adapters or precision",
                path.display(),
                self.model.path().display()
            )));
        }
        if header.tokens > self.model.capacity() {
            let words = format!("{}: {} tokens do", path.display(), header.tokens);
            return Err(Error::room(words, self.model.capacity()));
        }
        let (heads, row) = self.rows();
        let per_token = size_of::<TokenId>() + self.memories.len() * heads * row;
        let needed = (line.len() + header.tokens * per_token + HASH) as u64;
        if bytes != needed {
            return Err(malformed(format!("it has {bytes} bytes; expected {needed}")));
        }
        let mut file = Hashed {
            inner,
            hasher: blake3::Hasher::new(),
        };
        file.hasher.update(&line);
        let mut tokens = vec![0; header.tokens];
        file.fill(bytemuck::cast_slice_mut(&mut tokens)).map_err(wrong)?;
        tokens
            .iter_mut()
            .for_each(|token| *token = TokenId::from_le(*token));
        let capacity = self.model.capacity();
        self.charge(tokens.len())?;
        for memory in &self.memories {
            let mut bytes = memory.access(Access::Write).map_err(Error::memory)?;
            for head in 0..heads {
                let start = head * capacity * row;
                file.fill(&mut bytes[start..start + tokens.len() * row])
                    .map_err(wrong)?;
            }
        }
        let mut hash = [0; HASH];
        file.inner.read_exact(&mut hash).map_err(wrong)?;
        if file.hasher.finalize() != hash {
            return Err(malformed(
                "it has changed since it was written: its hash differs".to_owned(),
            ));
        }
        let vocabulary = self.model.sizes().vocabulary;
        if let Some(token) = tokens.iter().find(|token| **token >= vocabulary) {
            return Err(malformed(format!(
                "token {token} is beyond the vocabulary of {vocabulary}"
            )));
        }
        self.tokens = tokens;
        Ok(())
    }
}

impl LanguageModel {
    /// Loads a sequence that [`Sequence::save`] wrote. It has no logits yet: the last token of a
    /// text is read again for them.
    ///
    /// # Errors
    /// The file cannot be read, is not a saved sequence, is incomplete, belongs to another model,
    /// or does not fit the capacity.
    pub fn load_sequence(&self, path: impl AsRef<Path>) -> Result<Sequence> {
        let mut sequence = self.sequence()?;
        sequence.read(path.as_ref())?;
        Ok(sequence)
    }
}
