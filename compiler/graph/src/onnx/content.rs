//! What a file that should hold a model or weights holds instead, by its first bytes.
//!
//! Invariant: a file whose mark is short may hold anything else by chance (`is_certain` is false): it is judged only where
//! something else is wrong with it.

/// Something that is often found in place of a model or weights.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Content {
    /// Description that follows "is" in a message.
    pub words: String,
    /// What to do.
    pub remedy: &'static str,
    /// Whether the mark is too long to be there by chance.
    pub is_certain: bool,
}

/// Most bytes that are looked at.
const HEAD: usize = 1024;

const LFS: &[u8] = b"version https://git-lfs.github.com/spec/";

/// Marks at the beginning of a file: the mark, the words, the remedy.
const MARKS: &[(&[u8], &str, &str)] = &[
    (b"PK\x03\x04", "a zip archive", UNPACK),
    (b"PK\x05\x06", "a zip archive", UNPACK),
    (
        b"\x1f\x8b",
        "a gzip file",
        "unpack it first (`gzip -d`, `tar -xzf`)",
    ),
    (b"BZh", "a bzip2 file", "unpack it first (`bzip2 -d`, `tar -xjf`)"),
    (
        b"\xfd7zXZ\0",
        "an xz file",
        "unpack it first (`xz -d`, `tar -xJf`)",
    ),
    (b"\x28\xb5\x2f\xfd", "a zstd file", "unpack it first (`zstd -d`)"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it first (`7z x`)"),
    (b"Rar!\x1a\x07", "a rar archive", "unpack it first"),
    (
        b"\x89HDF\r\n\x1a\n",
        "an HDF5 file",
        "export the model inside it to ONNX",
    ),
    (b"\x89PNG\r\n\x1a\n", "a PNG picture", OTHER),
    (b"\xff\xd8\xff", "a JPEG picture", OTHER),
    (b"%PDF-", "a PDF document", OTHER),
    (
        b"\x93NUMPY",
        "a NumPy array",
        "give it as an input; the model is another file",
    ),
    (b"\x7fELF", "a program or library", OTHER),
];

const UNPACK: &str = "unpack it first (`unzip`); the model is one of the files in it";
const OTHER: &str = "give the model's own file";
const AGAIN: &str = "the download went wrong or needs a login; download the file itself";

/// What these bytes are, if they are a known kind of file other than a model.
#[must_use]
pub fn of(bytes: &[u8]) -> Option<Content> {
    let found = |words: &str, remedy: &'static str, is_certain: bool| {
        Some(Content {
            words: words.to_owned(),
            remedy,
            is_certain,
        })
    };
    if bytes.starts_with(LFS) {
        return Some(lfs(bytes));
    }
    if bytes.starts_with(b"/annex/objects/") {
        return found(
            "a git-annex pointer, not the file itself",
            "`git annex get` fetches the file",
            true,
        );
    }
    if let Some((_, words, remedy)) = MARKS.iter().find(|(mark, ..)| bytes.starts_with(mark)) {
        return found(words, remedy, false);
    }
    if bytes.get(257..262) == Some(b"ustar") {
        return found("a tar archive", "unpack it first (`tar -xf`)", true);
    }
    let head = text(&bytes[..bytes.len().min(HEAD)], bytes.len() > HEAD)?;
    let start = head
        .trim_start_matches('\u{feff}')
        .trim_start()
        .to_ascii_lowercase();
    if ["<!doctype html", "<html", "<head"]
        .iter()
        .any(|mark| start.starts_with(mark))
    {
        return found("an HTML page", AGAIN, true);
    }
    if start.starts_with("<?xml") || start.starts_with('<') {
        return found("an XML text", AGAIN, start.starts_with("<?xml"));
    }
    if start.starts_with(['{', '[']) {
        return found("a JSON text", "give the model's own file (.onnx)", false);
    }
    if start.is_empty() {
        return None;
    }
    let line = head.trim().lines().next().unwrap_or_default();
    let line: String = line.chars().take(60).collect();
    found(&format!("a text that begins with {line:?}"), OTHER, false)
}

/// A pointer that Git LFS puts in place of a file.
fn lfs(bytes: &[u8]) -> Content {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD)]);
    let size = text.lines().find_map(|line| line.strip_prefix("size "));
    let size = size.and_then(|size| size.trim().parse::<u64>().ok());
    let of = size.map_or_else(String::new, |size| format!(" of {size} bytes"));
    Content {
        words: format!("a Git LFS pointer, not the file{of} itself"),
        remedy: "`git lfs pull` fetches the file",
        is_certain: true,
    }
}

/// The bytes as text, if they are UTF-8 without control characters; `is_cut` if more text follows.
fn text(head: &[u8], is_cut: bool) -> Option<&str> {
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        // the last character may be cut
        Err(error) if is_cut && error.error_len().is_none() => {
            std::str::from_utf8(&head[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let is_control = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\u{c}');
    (!text.chars().any(is_control)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_no_model_are_named_with_the_remedy() {
        let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0a\nsize 4711\n";
        for (bytes, words, remedy) in [
            (
                &pointer[..],
                "a Git LFS pointer, not the file of 4711 bytes itself",
                "git lfs pull",
            ),
            (b"\n <!DOCTYPE html><title>Sign in", "an HTML page", "download"),
            (b"\xef\xbb\xbf<HTML>", "an HTML page", "download"),
            (b"PK\x03\x04\x14\0", "a zip archive", "unpack"),
            (b"\x1f\x8b\x08\0", "a gzip file", "unpack"),
            (b"{\"error\": \"not found\"}", "a JSON text", "model's own file"),
            (
                b"Entry not found",
                "a text that begins with \"Entry not found\"",
                "model's own file",
            ),
            (b"<?xml version='1.0'?><Error/>", "an XML text", "download"),
        ] {
            let found = of(bytes).unwrap();
            assert_eq!(found.words, words);
            assert!(found.remedy.contains(remedy), "{found:?}");
        }
        for bytes in [&b""[..], b"\x08\x08\x12\x07pytorch", b"\0\0\x80\x3f", b"  \n"] {
            assert_eq!(of(bytes), None, "{bytes:?}");
        }
        let long = "é".repeat(HEAD);
        assert!(of(long.as_bytes()).unwrap().words.starts_with("a text"));
    }
}
