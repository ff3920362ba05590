//! Reads the JSON object of a call as it arrives.
//!
//! Invariant: arguments are returned as soon as they are there if the name comes first, and else once the object is whole.

use serde_json::Value;

/// What an object has been found to be.
#[derive(Debug, PartialEq)]
enum Head {
    /// Too short to tell.
    Open,
    /// A call whose arguments begin here.
    Call { at: usize },
    /// Something that shows only once it is whole.
    Other,
}

/// An object in the making.
#[derive(Debug)]
pub(super) struct Object {
    raw: String,
    head: Head,
    /// Bytes that were looked at for brackets.
    scanned: usize,
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// Where the arguments end.
    end: Option<usize>,
    /// Bytes of the arguments that were returned.
    sent: usize,
}

/// What came of more text.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Progress {
    /// The name, once.
    pub(super) name: Option<String>,
    /// The next of the arguments.
    pub(super) arguments: String,
    /// Once the object is whole: what follows it.
    pub(super) rest: Option<String>,
    /// The object if it is not a call.
    pub(super) text: Option<String>,
}

impl Object {
    pub(super) fn new() -> Object {
        Object {
            raw: String::new(),
            head: Head::Open,
            scanned: 0,
            depth: 0,
            in_string: false,
            is_escaped: false,
            end: None,
            sent: 0,
        }
    }

    /// Adds text; the first must begin with `{`. What does not begin like a call is text at once, unless it `may_wait`.
    pub(super) fn push(&mut self, text: &str, may_wait: bool, is_known: impl Fn(&str) -> bool) -> Progress {
        self.raw.push_str(text);
        let mut progress = Progress::default();
        if self.head == Head::Open {
            self.head = match head(&self.raw) {
                Some(Some((name, at))) if is_known(&name) => {
                    progress.name = Some(name);
                    self.sent = at;
                    Head::Call { at }
                }
                Some(_) => Head::Other,
                None => Head::Open,
            };
        }
        if self.head == Head::Other && !may_wait {
            progress.text = Some(std::mem::take(&mut self.raw));
            progress.rest = Some(String::new());
            return progress;
        }
        let close = self.scan();
        if let Head::Call { .. } = self.head {
            let end = self.end.unwrap_or(self.raw.len());
            progress.arguments = self.raw[self.sent..end].to_owned();
            self.sent = end;
        }
        if let Some(close) = close {
            let rest = self.raw.split_off(close);
            if !matches!(self.head, Head::Call { .. }) {
                match whole(&self.raw).filter(|(name, _)| is_known(name)) {
                    Some((name, arguments)) => {
                        progress.name = Some(name);
                        progress.arguments = arguments;
                    }
                    None => progress.text = Some(std::mem::take(&mut self.raw)),
                }
            }
            progress.rest = Some(rest);
        }
        progress
    }

    /// The text of an object that will never be whole, unless it was returned as a call.
    pub(super) fn finish(self) -> Option<String> {
        match self.head {
            Head::Call { .. } => None,
            Head::Open | Head::Other => Some(self.raw),
        }
    }

    /// Looks for the object's end.
    fn scan(&mut self) -> Option<usize> {
        let bytes = self.raw.as_bytes();
        while let Some(&byte) = bytes.get(self.scanned) {
            self.scanned += 1;
            if self.in_string {
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    let is_behind = matches!(self.head, Head::Call { at } if self.scanned > at);
                    if self.depth == 1 && is_behind && self.end.is_none() {
                        self.end = Some(self.scanned);
                    }
                    if self.depth == 0 {
                        return Some(self.scanned);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

/// The name of a call and where its arguments begin; the inner `None` if the text begins otherwise.
fn head(raw: &str) -> Option<Option<(String, usize)>> {
    let mut cursor = Cursor { raw, at: 0 };
    macro_rules! expect {
        ($step:expr) => {
            match $step? {
                Some(value) => value,
                None => return Some(None),
            }
        };
    }
    expect!(cursor.byte(b'{'));
    if expect!(cursor.string()) != "name" {
        return Some(None);
    }
    expect!(cursor.byte(b':'));
    let name = expect!(cursor.string());
    expect!(cursor.byte(b','));
    if !["arguments", "parameters"].contains(&&*expect!(cursor.string())) {
        return Some(None);
    }
    expect!(cursor.byte(b':'));
    cursor.blanks();
    match cursor.next()? {
        b'{' => Some(Some((name, cursor.at))),
        _ => Some(None),
    }
}

/// A place in the text. Steps return nothing where the text ends, and an inner `None` where it has something else.
struct Cursor<'a> {
    raw: &'a str,
    at: usize,
}

impl Cursor<'_> {
    fn next(&self) -> Option<u8> {
        self.raw.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while self.next().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn byte(&mut self, expected: u8) -> Option<Option<()>> {
        self.blanks();
        if self.next()? != expected {
            return Some(None);
        }
        self.at += 1;
        Some(Some(()))
    }

    fn string(&mut self) -> Option<Option<String>> {
        self.blanks();
        if self.next()? != b'"' {
            return Some(None);
        }
        let start = self.at;
        let mut is_escaped = false;
        for (index, byte) in self.raw.bytes().enumerate().skip(start + 1) {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => {
                    self.at = index + 1;
                    return Some(serde_json::from_str(&self.raw[start..self.at]).ok());
                }
                _ => {}
            }
        }
        None
    }
}

/// The name and arguments of a whole object, in any order.
fn whole(raw: &str) -> Option<(String, String)> {
    let object: Value = serde_json::from_str(raw).ok()?;
    let object = object
        .get("function")
        .filter(|inner| inner.is_object())
        .unwrap_or(&object);
    let name = object.get("name")?.as_str()?.to_owned();
    let arguments = object.get("arguments").or_else(|| object.get("parameters"))?;
    let arguments = match arguments {
        Value::Object(_) => arguments.to_string(),
        // some models write JSON within a text
        Value::String(text) if serde_json::from_str::<Value>(text).is_ok_and(|value| value.is_object()) => {
            text.clone()
        }
        _ => return None,
    };
    Some((name, arguments))
}
