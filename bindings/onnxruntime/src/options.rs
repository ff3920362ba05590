//! What an app chooses: options of the provider, in the words of the command line.
//!
//! Invariant: a name or a value that is not known is an error that lists what is; nothing is left out in silence.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use polychip::{Policy, Runtime, words};
use polychip_sys::onnxruntime::bindings::{OrtKeyValuePairs, OrtSessionOptions};

use crate::NAME;
use crate::api::{Api, ort, text_at};
use crate::failure::{Failure, Result};

/// The option that names a file for the report.
const REPORT: &str = "report";
/// The session's own setting that asks for a compiled model.
const CONTEXT: &str = "ep.context_enable";
/// Between values of an option that may be set several times.
const SEPARATOR: char = ';';

/// What a session of ONNX Runtime's is run with.
pub(crate) struct Options {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) policy: Policy,
    /// Where the report is written when the session ends.
    pub(crate) report: Option<PathBuf>,
}

impl Options {
    /// Reads the options of a session.
    ///
    /// # Safety
    /// `options` are those that ONNX Runtime gave, and live until this returns.
    pub(crate) unsafe fn read(api: Api, options: *const OrtSessionOptions) -> Result<Options> {
        // SAFETY: the caller's promise.
        let entries = unsafe { entries(api, options) }?;
        if entries.get(CONTEXT).is_some_and(|on| on == "1") {
            return Err(Failure::argument(
                "compiled models (ep.context_enable) are not made: a graph with its constants has no form yet in which a node could \
                 hold it beside its plan and compiled parts. The option `cache` names a folder that keeps compiled parts, so that \
                 the next session loads them",
            ));
        }
        let name = NAME.to_str().unwrap_or_default().to_lowercase();
        let prefix = format!("ep.{name}.");
        let own = entries
            .iter()
            .filter_map(|(key, value)| Some((key.strip_prefix(&prefix)?, value.as_str())));
        Options::of(own)
    }

    /// The options of these names.
    fn of<'a>(own: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Options> {
        let mut policy = Policy::latency();
        let mut report = None;
        let mut of_runtime = Vec::new();
        for (name, value) in own {
            if name == REPORT {
                report = Some(PathBuf::from(value));
            } else if words::of_runtime().any(|known| known == name) {
                of_runtime.push((name.to_owned(), value.to_owned()));
            } else if words::of_policy().any(|known| known == name) {
                for value in values(name, value) {
                    policy = policy.with_setting(name, value)?;
                }
            } else {
                let mut known: Vec<&str> = words::of_policy()
                    .chain(words::of_runtime())
                    .chain([REPORT])
                    .collect();
                known.sort_unstable();
                return Err(Failure::argument(format!(
                    "the provider has no option {name:?}; its options are: {}",
                    known.join(", ")
                )));
            }
        }
        let runtime = runtime(of_runtime)?;
        // a device that is not there is told now, and not once for each node
        let nothing = runtime.load_graph("the options", polychip_graph::Graph::new("options"));
        runtime.support(&nothing, &policy)?;
        Ok(Options {
            runtime,
            policy,
            report,
        })
    }
}

/// The values of an option: several where it may be set several times.
fn values<'a>(name: &str, value: &'a str) -> Vec<&'a str> {
    if words::is_repeated(name) {
        value
            .split(SEPARATOR)
            .map(str::trim)
            .filter(|value| !value.is_empty())
            .collect()
    } else {
        vec![value]
    }
}

/// Settings of a runtime: names and values.
type Settings = Vec<(String, String)>;

/// A runtime that sessions share, and its settings.
type Known = (Settings, Weak<Runtime>);

/// The runtime with these settings: one for all sessions that have the same, since plugins open devices. It lives as long as
/// one of them, or as the factory, which has that without settings.
pub(crate) fn runtime(settings: Settings) -> Result<Arc<Runtime>> {
    static RUNTIMES: Mutex<Vec<Known>> = Mutex::new(Vec::new());
    let mut runtimes = RUNTIMES.lock().unwrap_or_else(PoisonError::into_inner);
    runtimes.retain(|(_, runtime)| runtime.strong_count() > 0);
    let mut same = runtimes.iter().filter(|(known, _)| *known == settings);
    if let Some(runtime) = same.find_map(|(_, runtime)| runtime.upgrade()) {
        return Ok(runtime);
    }
    let mut builder = Runtime::builder();
    for (name, value) in &settings {
        for value in values(name, value) {
            builder = builder.with_setting(name, value)?;
        }
    }
    let runtime = Arc::new(builder.build()?);
    runtimes.push((settings, Arc::downgrade(&runtime)));
    Ok(runtime)
}

/// All settings of a session, by name.
///
/// # Safety
/// As [`Options::read`].
unsafe fn entries(api: Api, options: *const OrtSessionOptions) -> Result<BTreeMap<String, String>> {
    let mut pairs: *mut OrtKeyValuePairs = ptr::null_mut();
    let get = ort!(api, GetSessionOptionsConfigEntries)?;
    // SAFETY: the caller's promise; the place is ours.
    unsafe { api.check(get(options, &raw mut pairs)) }?;
    let (mut keys, mut texts, mut count) = (ptr::null(), ptr::null(), 0);
    let get = ort!(api, GetKeyValuePairs)?;
    // SAFETY: the pairs were made for us; the places are ours.
    unsafe { get(pairs, &raw mut keys, &raw mut texts, &raw mut count) };
    let mut entries = BTreeMap::new();
    for index in 0..count {
        // SAFETY: so many texts stand there, as long as the pairs.
        let (key, text) = unsafe { (text_at(*keys.add(index)), text_at(*texts.add(index))) };
        entries.insert(key.to_owned(), text.to_owned());
    }
    let release = ort!(api, ReleaseKeyValuePairs)?;
    // SAFETY: as above; they are not used after this.
    unsafe { release(pairs) };
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_of_the_same_settings_share_a_runtime_and_none_is_kept_for_ever() {
        let settings = || {
            ["only-given-folders", "measure-rates"]
                .map(|name| (name.to_owned(), "yes".to_owned()))
                .to_vec()
        };
        let (first, second) = (runtime(settings()).unwrap(), runtime(settings()).unwrap());
        assert!(Arc::ptr_eq(&first, &second));
        let left = Arc::downgrade(&first);
        drop((first, second));
        assert!(left.upgrade().is_none(), "the last session has ended");
    }

    #[test]
    fn options_are_words_of_the_command_line() {
        let read = |pairs: &[(&str, &str)]| Options::of(pairs.iter().copied());
        let options = read(&[
            ("threads", "1"),
            ("only-given-folders", "yes"),
            ("report", "r.json"),
        ])
        .unwrap();
        assert_eq!(options.report, Some(PathBuf::from("r.json")));
        assert!(!options.runtime.devices().is_empty());
        read(&[
            ("heat", "cpu:0=30C+9K/W; cpu:0=31C+9K/W"),
            ("only-given-folders", "yes"),
        ])
        .unwrap();
        let words = |pairs: &[(&str, &str)]| read(pairs).err().unwrap().words;
        let unknown = words(&[("thread", "1")]);
        assert!(
            unknown.contains("no option \"thread\"")
                && unknown.contains("report, ")
                && unknown.contains("threads")
        );
        assert!(words(&[("deadline", "soon")]).contains("deadline"));
        assert!(words(&[("plugins", " ; "), ("set", "x")]).contains("set"));
        let device = words(&[("devices", "npu:7"), ("only-given-folders", "yes")]);
        assert!(device.contains("there is no device npu:7"), "{device}");
    }
}
