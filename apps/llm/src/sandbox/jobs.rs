//! A sandbox's own side: jobs from standard input, replies to standard output.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, channel};

use serde::{Deserialize, Serialize};

use super::limits::{MAX_FRAME, STACK};
use super::vocabulary::TokenTable;
use super::{frame, kind};
use crate::grammar::local::{self, LocalGrammar, LocalState};
use crate::template::renderer::{Chat, Renderer};

/// What a chat template is rendered with, or without messages that it is compiled.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TemplateJob<'a> {
    pub(crate) source: std::borrow::Cow<'a, str>,
    pub(crate) chat: Option<Chat<'a>>,
}

/// Does the jobs of the process that started this one, over standard input and output, until that one closes them.
/// Returns an exit code.
pub fn serve() -> u8 {
    limits::begin();
    let (sender, jobs) = channel();
    let sandbox = std::thread::Builder::new()
        .name("polychip-sandbox".to_owned())
        .stack_size(STACK)
        .spawn(move || work(&jobs));
    if sandbox.is_err() {
        return 1;
    }
    let mut input = io::stdin().lock();
    // the process ends with this thread, also in the middle of a job
    while let Ok(Some(message)) = frame::read(&mut input, MAX_FRAME) {
        if sender.send(message).is_err() {
            break;
        }
    }
    0
}

fn work(jobs: &Receiver<Vec<u8>>) {
    limits::memory();
    let mut sandbox = Sandbox::default();
    for message in jobs {
        if message.first() != Some(&kind::VOCABULARY) {
            limits::time();
        }
        let done = catch_unwind(AssertUnwindSafe(|| sandbox.handle(&message)));
        let done =
            done.unwrap_or_else(|_| sandbox.reply(&[&[kind::REFUSED], b"it is too large or too complex"]));
        if done.is_err() {
            return;
        }
    }
}

#[derive(Default)]
struct Sandbox {
    /// The last template that was compiled, and its source.
    template: Option<(String, Renderer)>,
    compiler: Option<local::Compiler>,
    grammar: Option<LocalGrammar>,
    answers: BTreeMap<u32, LocalState>,
}

impl Sandbox {
    fn reply(&self, parts: &[&[u8]]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        frame::write(&mut out, parts)?;
        out.flush()
    }

    fn result(&self, result: Result<Vec<u8>, String>) -> io::Result<()> {
        match result {
            Ok(bytes) => self.reply(&[&[kind::DONE], &bytes]),
            Err(words) => self.reply(&[&[kind::REFUSED], words.as_bytes()]),
        }
    }

    fn handle(&mut self, message: &[u8]) -> io::Result<()> {
        let Some((of, rest)) = message.split_first() else {
            return Ok(());
        };
        match *of {
            kind::TEMPLATE => {
                let done = self.template(rest);
                self.result(done)
            }
            kind::VOCABULARY => {
                let made = TokenTable::of_bytes(rest).ok_or_else(|| "no vocabulary".to_owned());
                let made = made.and_then(|table| local::Compiler::new(&table));
                limits::memory();
                let made = made.map(|compiler| {
                    self.compiler = Some(compiler);
                    Vec::new()
                });
                self.result(made)
            }
            kind::SCHEMA | kind::LARK => {
                let done = self.compile(*of, rest);
                self.result(done)
            }
            kind::BEGIN | kind::TOKEN | kind::END => self.answer(*of, rest),
            _ => {
                self.answers.clear();
                self.grammar = None;
                Ok(())
            }
        }
    }

    fn template(&mut self, job: &[u8]) -> Result<Vec<u8>, String> {
        let job: TemplateJob<'_> = serde_json::from_slice(job).map_err(|error| error.to_string())?;
        let renderer = match &self.template {
            Some((source, renderer)) if *source == job.source => renderer,
            _ => {
                self.template = None;
                let renderer = Renderer::new(&job.source).map_err(|error| error.to_string())?;
                &self.template.insert((job.source.into_owned(), renderer)).1
            }
        };
        match &job.chat {
            None => Ok(Vec::new()),
            Some(chat) => renderer
                .render(chat)
                .map(String::into_bytes)
                .map_err(|error| error.to_string()),
        }
    }

    fn compile(&mut self, of: u8, text: &[u8]) -> Result<Vec<u8>, String> {
        self.answers.clear();
        self.grammar = None;
        let compiler = self.compiler.as_ref().ok_or("there is no vocabulary")?;
        let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
        let grammar = match of {
            kind::SCHEMA => {
                let schema = serde_json::from_str(text).map_err(|error| error.to_string())?;
                compiler.json_schema(&schema)
            }
            _ => compiler.lark(text),
        };
        let (grammar, mask) = grammar?;
        self.grammar = Some(grammar);
        Ok(mask.to_bytes())
    }

    fn answer(&mut self, of: u8, rest: &[u8]) -> io::Result<()> {
        let number = |at: usize| {
            let bytes = rest.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u32::from_le_bytes)
        };
        let id = number(0);
        let name = id.to_le_bytes();
        match of {
            kind::BEGIN => {
                if let Some(grammar) = &self.grammar {
                    self.answers.insert(id, grammar.begin());
                }
                Ok(())
            }
            kind::END => {
                self.answers.remove(&id);
                Ok(())
            }
            _ => {
                let Some(answer) = self.answers.get_mut(&id) else {
                    return self.reply(&[&[kind::FAILED], &name, b"it has not begun"]);
                };
                let taken = answer.take(number(4));
                match taken {
                    Err(words) => self.reply(&[&[kind::FAILED], &name, words.as_bytes()]),
                    Ok(is_complete) => {
                        self.reply(&[&[kind::TAKEN], &name, &[u8::from(is_complete)]])?;
                        if is_complete {
                            return Ok(());
                        }
                        // ahead of the logits that it is for
                        let mask = self.answers.get_mut(&id).map(LocalState::mask);
                        match mask {
                            Some(Ok(mask)) => self.reply(&[&[kind::MASK], &name, &mask.to_bytes()]),
                            Some(Err(words)) => self.reply(&[&[kind::FAILED], &name, words.as_bytes()]),
                            None => Ok(()),
                        }
                    }
                }
            }
        }
    }
}

/// What the system holds this process to.
#[cfg(unix)]
mod limits {
    use rustix::process::{Resource, Rlimit, getrlimit, setpriority_process, setrlimit};

    use crate::sandbox::limits::{CPU_SECONDS, MEMORY};

    /// How much later than the app's own threads a sandbox gets the processor.
    const NICE: i32 = 5;

    /// Where a limit cannot be set, the process is without it; its starter's clock holds.
    fn set(resource: Resource, current: u64) {
        let maximum = getrlimit(resource).maximum;
        let current = Some(maximum.map_or(current, |maximum| current.min(maximum)));
        let _ = setrlimit(resource, Rlimit { current, maximum });
    }

    pub(super) fn begin() {
        // a crash is expected, and of no interest
        set(Resource::Core, 0);
        // beyond those that the app passed on by mistake, so that files of the system can be read
        set(Resource::Nofile, 64);
        let _ = setpriority_process(None, NICE);
    }

    /// Limits what is taken from now on.
    pub(super) fn memory() {
        if let Some(bytes) = taken() {
            set(Resource::As, bytes.saturating_add(MEMORY));
        }
    }

    /// Bytes of the address space that this process takes; `None` where the system does not tell.
    fn taken() -> Option<u64> {
        let sizes = std::fs::read_to_string("/proc/self/statm").ok()?;
        let pages: u64 = sizes.split(' ').next()?.parse().ok()?;
        Some(pages * rustix::param::page_size() as u64)
    }

    /// Limits the processor time from now on.
    pub(super) fn time() {
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let whole = u64::try_from(used.tv_sec).unwrap_or(0) + 1;
        set(Resource::Cpu, whole + CPU_SECONDS);
    }
}

/// Other systems have no limits of this kind: the starter's clock holds.
#[cfg(not(unix))]
mod limits {
    pub(super) fn begin() {}
    pub(super) fn memory() {}
    pub(super) fn time() {}
}
