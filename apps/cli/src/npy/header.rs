//! The header of NumPy's array files: a version, and a Python dictionary of the type, the order and the shape
//! (`numpy.lib.format`; NEP 1).
//!
//! Invariant: only a file's length determines how much is allocated.
//!
//! By hand: a parser of Python's literals is fifteen packages of a first build.

use anyhow::{Context as _, bail, ensure};

/// What a file begins with.
const MAGIC: &[u8] = b"\x93NUMPY";
/// What a header and what stands before it are padded to, together.
const ALIGNMENT: usize = 64;

/// What a header says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    /// Whether the first axis changes fastest.
    pub(super) is_fortran: bool,
    pub(super) shape: Vec<u64>,
}

/// A type of elements, as NumPy's array interface writes it: `<f4`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kind {
    text: String,
    pub(super) is_big: bool,
    /// `b` for truth values, `i`, `u`, `f`, `c`, `U` and `S` for texts, and others that no tensor has.
    pub(super) letter: char,
    /// Size of an element; characters, of four bytes each, for `U`.
    pub(super) bytes: usize,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Kind {
    fn read(text: &str) -> Option<Kind> {
        let rest = text.strip_prefix(['<', '>', '|', '=']).unwrap_or(text);
        let letter = rest.chars().next()?;
        // dates have a unit behind the size, which no tensor has
        let digits = rest.get(letter.len_utf8()..)?.split('[').next()?;
        // references to objects have no size
        let bytes = match (letter, digits) {
            ('O', "") => 0,
            _ => digits.parse().ok()?,
        };
        Some(Kind {
            text: text.to_owned(),
            is_big: text.starts_with('>') || (cfg!(target_endian = "big") && !text.starts_with('<')),
            letter,
            bytes,
        })
    }
}

/// The header, and the data behind it.
pub(super) fn read(file: &[u8]) -> anyhow::Result<(Header, &[u8])> {
    let rest = file.strip_prefix(MAGIC).context("has no .npy signature")?;
    let (&[major, _], rest) = rest.split_first_chunk().context("ends within its version")?;
    let (length, rest) = match major {
        1 => {
            let (length, rest) = rest.split_first_chunk().context("ends within its header")?;
            (usize::from(u16::from_le_bytes(*length)), rest)
        }
        2 | 3 => {
            let (length, rest) = rest.split_first_chunk().context("ends within its header")?;
            (usize::try_from(u32::from_le_bytes(*length))?, rest)
        }
        _ => bail!("has version {major}; the latest known version is 3"),
    };
    let (text, data) = rest.split_at_checked(length).context("ends within its header")?;
    let text = std::str::from_utf8(text).context("has a header that is not text")?;
    Ok((dictionary(text)?, data))
}

/// All that stands before the data.
pub(super) fn write(kind: &str, shape: &[u64]) -> Vec<u8> {
    let sizes: Vec<String> = shape.iter().map(u64::to_string).collect();
    let comma = if shape.len() == 1 { "," } else { "" };
    let mut text = format!(
        "{{'descr': '{kind}', 'fortran_order': False, 'shape': ({}{comma}), }}",
        sizes.join(", ")
    );
    // magic, version, length, text, end of line
    let short = MAGIC.len() + 2 + 2;
    let padded = |before: usize| (before + text.len() + 1).next_multiple_of(ALIGNMENT) - before;
    let (version, before) = match u16::try_from(padded(short)) {
        Ok(_) => (1, short),
        Err(_) => (2, short + 2),
    };
    let length = padded(before);
    text.push_str(&" ".repeat(length - 1 - text.len()));
    text.push('\n');
    let mut file = MAGIC.to_vec();
    file.extend([version, 0]);
    // of two bytes or four, little endian
    file.extend_from_slice(&(length as u64).to_le_bytes()[..before - MAGIC.len() - 2]);
    file.extend(text.into_bytes());
    file
}

/// Reads `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`, the keys in any order.
fn dictionary(text: &str) -> anyhow::Result<Header> {
    let mut words = Words { rest: text };
    let (mut kind, mut is_fortran, mut shape) = (None, None, None);
    words.expect('{')?;
    while !words.take('}') {
        let key = words.string()?;
        words.expect(':')?;
        match key {
            "descr" => {
                ensure!(!words.is_next('['), "holds records, not numbers");
                let text = words.string()?;
                kind = Some(Kind::read(text).with_context(|| format!("has elements of type {text:?}"))?);
            }
            "fortran_order" => is_fortran = Some(words.truth()?),
            "shape" => shape = Some(words.tuple()?),
            other => bail!("has a header with {other:?}"),
        }
        if !words.take(',') {
            words.expect('}')?;
            break;
        }
    }
    ensure!(
        words.rest.trim().is_empty(),
        "has data after the dictionary in its header"
    );
    Ok(Header {
        kind: kind.context("has a header without 'descr'")?,
        is_fortran: is_fortran.context("has a header without 'fortran_order'")?,
        shape: shape.context("has a header without 'shape'")?,
    })
}

/// The words of a dictionary.
struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    fn is_next(&self, wanted: char) -> bool {
        self.rest.trim_start().starts_with(wanted)
    }

    fn take(&mut self, wanted: char) -> bool {
        let rest = self.rest.trim_start().strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, wanted: char) -> anyhow::Result<()> {
        ensure!(self.take(wanted), "has a header without the expected {wanted:?}");
        Ok(())
    }

    /// A text in quotes, without escapes: types and keys have none.
    fn string(&mut self) -> anyhow::Result<&'a str> {
        let rest = self.rest.trim_start();
        let quote = rest.chars().next().filter(|first| matches!(first, '\'' | '"'));
        let quote = quote.context("has a header without an expected string")?;
        let (text, rest) = rest[1..]
            .split_once(quote)
            .context("has an unterminated string in its header")?;
        self.rest = rest;
        Ok(text)
    }

    fn truth(&mut self) -> anyhow::Result<bool> {
        let rest = self.rest.trim_start();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(value);
            }
        }
        bail!("has a header without an expected True or False")
    }

    fn tuple(&mut self) -> anyhow::Result<Vec<u64>> {
        let mut sizes = Vec::new();
        self.expect('(')?;
        while !self.take(')') {
            let rest = self.rest.trim_start();
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let (digits, rest) = rest.split_at(end);
            sizes.push(
                digits
                    .parse()
                    .context("has no shape, or one too large for memory")?,
            );
            // Python 2 wrote long integers so
            self.rest = rest.strip_prefix('L').unwrap_or(rest);
            if !self.take(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(sizes)
    }
}

#[cfg(test)]
mod tests {
    use npyz::{DType, NpyFile, Order, WriteOptions, WriterBuilder as _};

    use super::*;

    #[test]
    fn written_files_match_numpy() {
        for shape in [&[][..], &[7], &[2, 3], &[1, 0, 4], &[10_000_000_000, 1, 1, 1]] {
            for kind in ["<f4", "|b1", "<c16", "<u2"] {
                let theirs = WriteOptions::new_header_only()
                    .dtype(DType::new_scalar(kind.parse().unwrap()))
                    .shape(shape)
                    .writer(Vec::new())
                    .write_header_only()
                    .unwrap();
                let ours = write(kind, shape);
                let of = |file: &[u8]| {
                    let (header, data) = read(file).unwrap();
                    assert!(data.is_empty());
                    (header.kind.to_string(), header.is_fortran, header.shape)
                };
                assert_eq!(of(&ours), (kind.to_owned(), false, shape.to_vec()));
                assert_eq!(of(&theirs), of(&ours));
                assert_eq!(ours.len() % ALIGNMENT, 0);
                let file = NpyFile::new(&*ours).unwrap();
                assert_eq!((file.shape(), file.order()), (shape, Order::C));
                assert_eq!(file.dtype(), DType::new_scalar(kind.parse().unwrap()));
            }
        }
    }

    #[test]
    fn a_header_of_64_kilobytes_has_the_second_version() {
        let shape = vec![1; 30_000];
        let file = write("<f4", &shape);
        assert_eq!(file[MAGIC.len()], 2);
        assert_eq!(read(&file).unwrap().0.shape, shape);
        assert_eq!(NpyFile::new(&*file).unwrap().shape(), shape);
    }

    #[test]
    fn reads_python_header_dictionaries() {
        let shape = |text: &str| dictionary(text).map(|header| header.shape);
        let text = "{\"shape\": (3L, 4), 'fortran_order': True, 'descr': '>i2'}\n";
        let header = dictionary(text).unwrap();
        assert!(header.is_fortran && header.kind.is_big);
        assert_eq!((header.kind.letter, header.kind.bytes), ('i', 2));
        assert_eq!(header.shape, [3, 4]);
        let of = |shape: &str| format!("{{'descr':'<M8[ns]','fortran_order':False,'shape':{shape}}}  \n");
        assert_eq!(shape(&of("()")).unwrap(), [0u64; 0]);
        assert_eq!(shape(&of("(5,)")).unwrap(), [5]);
        for bad in [
            "(5",
            "5",
            "(,)",
            "(-1,)",
            "(a)",
            "(1 2)",
            "(1,,)",
            "(1.5,)",
            "(99999999999999999999,)",
        ] {
            assert!(shape(&of(bad)).is_err(), "{bad}");
        }
        for (text, part) in [
            ("", "without the expected '{'"),
            ("{}", "without 'descr'"),
            ("{'descr': [('a', '<f4')]}", "records"),
            ("{'descr': '<'}", "type"),
            ("{'descr': '<f4', 'shape': ()}", "fortran_order"),
            ("{'fortran_order': 1}", "True or False"),
            ("{'depth': 1}", "depth"),
            ("{'descr': '<f4", "unterminated"),
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': ()} x",
                "after the dictionary",
            ),
        ] {
            let said = dictionary(text).unwrap_err().to_string();
            assert!(said.contains(part), "{text}: {said}");
        }
    }
}
