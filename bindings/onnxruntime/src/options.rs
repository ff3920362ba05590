//! Options of the provider, named like those of the command line.
//!
//! Invariant: an unknown name or value is an error that lists the known ones; nothing is ignored
//! silently.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use polychip::{Policy, Runtime, settings};
use polychip_sys::onnxruntime::bindings::{OrtKeyValuePairs, OrtSessionOptions};

use crate::NAME;
use crate::api::{Api, ort, text_at};
use crate::failure::{Failure, Result};

/// The option that names a file for the report.
const REPORT: &str = "report";
/// The option for handling a stale compiled model.
const STALE: &str = "stale-context";
/// The option with sizes to plan for when a model with open sizes is compiled.
const SIZES: &str = "context-sizes";
/// The option for constants that lie in the model's files.
const CONSTANTS: &str = "constants";
/// The options that are the provider's alone.
const OWN: [&str; 4] = [CONSTANTS, REPORT, SIZES, STALE];
/// The session's own settings of compiled models: whether one is made, in which file, and with its content or a file beside it.
const CONTEXT: &str = "ep.context_enable";
const CONTEXT_FILE: &str = "ep.context_file_path";
const CONTEXT_EMBEDS: &str = "ep.context_embed_mode";
/// The setting that requests compiled models whose constants remain in ONNX Runtime.
const WEIGHTLESS: &str = "ep.enable_weightless_ep_context_nodes";
/// Between values of an option that may be set several times.
const SEPARATOR: char = ';';

/// Options of an ONNX Runtime session.
pub(crate) struct Options {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) policy: Policy,
    /// Where the report is written when the session ends.
    pub(crate) report: Option<PathBuf>,
    pub(crate) context: ContextOptions,
}

/// Options for compiled models.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ContextOptions {
    /// A compiled model is made.
    pub(crate) is_made: bool,
    /// Its file, where it is stated; where a compiled model comes from memory, in whose folder the file with its content lies.
    pub(crate) file: Option<PathBuf>,
    /// Compiled content goes into its nodes, not into a file beside it.
    pub(crate) embeds: bool,
    /// A stale model is planned and compiled again with a warning, rather than refused.
    pub(crate) replans: bool,
    /// Constants are copied even if they lie in the model's files.
    pub(crate) copies_constants: bool,
    /// Sizes to plan for, by name, for models that leave sizes open.
    pub(crate) sizes: Vec<BTreeMap<String, usize>>,
}

impl Options {
    /// Reads the options of a session.
    ///
    /// # Safety
    /// `options` are those that ONNX Runtime gave, and live until this returns.
    pub(crate) unsafe fn read(api: Api, options: *const OrtSessionOptions) -> Result<Options> {
        // SAFETY: the caller's promise.
        let entries = unsafe { entries(api, options) }?;
        let prefix = prefix();
        let own = entries
            .iter()
            .filter_map(|(key, value)| Some((key.strip_prefix(&prefix)?, value.as_str())));
        let options = Options::of(own)?;
        let is_on = |name: &str| entries.get(name).is_some_and(|on| on == "1");
        if is_on(CONTEXT) && is_on(WEIGHTLESS) {
            return Err(Failure::argument(format!(
                "{WEIGHTLESS} is not made: what the provider compiles holds its constants, which a plan made anew needs; leave it out"
            )));
        }
        let context = ContextOptions {
            is_made: is_on(CONTEXT),
            file: entries
                .get(CONTEXT_FILE)
                .filter(|file| !file.is_empty())
                .map(PathBuf::from),
            embeds: is_on(CONTEXT_EMBEDS),
            ..options.context
        };
        Ok(Options { context, ..options })
    }

    /// The options of these names.
    fn of<'a>(own: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Options> {
        let mut policy = Policy::latency();
        let mut report = None;
        let mut context = ContextOptions::default();
        let mut of_runtime = Vec::new();
        for (name, value) in own {
            if name == REPORT {
                report = Some(PathBuf::from(value));
            } else if name == STALE {
                context.replans = match value {
                    "refuse" => false,
                    "replan" => true,
                    _ => {
                        let words =
                            format!("option {STALE:?} is {value:?}; expected \"refuse\" or \"replan\"");
                        return Err(Failure::argument(words));
                    }
                };
            } else if name == CONSTANTS {
                context.copies_constants = match value {
                    "mapped" => false,
                    "copied" => true,
                    _ => {
                        let words =
                            format!("option {CONSTANTS:?} is {value:?}; expected \"mapped\" or \"copied\"");
                        return Err(Failure::argument(words));
                    }
                };
            } else if name == SIZES {
                context.sizes = sizes(value)?;
            } else if settings::of_runtime().any(|known| known == name) {
                of_runtime.push((name.to_owned(), value.to_owned()));
            } else if settings::of_policy().any(|known| known == name) {
                for value in values(name, value) {
                    policy = policy.with_setting(name, value)?;
                }
            } else if let Some(new) = settings::renamed(name) {
                return Err(Failure::argument(format!("option {name:?} is now {new:?}")));
            } else {
                let mut known: Vec<&str> = settings::of_policy()
                    .chain(settings::of_runtime())
                    .chain(OWN)
                    .collect();
                known.sort_unstable();
                return Err(Failure::argument(format!(
                    "the provider has no option {name:?}; its options are: {}",
                    known.join(", ")
                )));
            }
        }
        let runtime = runtime(of_runtime)?;
        // report a missing device now, and not once per node
        let nothing = runtime.load_graph("the options", polychip_graph::Graph::new("options"));
        runtime.support(&nothing, &policy)?;
        Ok(Options {
            runtime,
            policy,
            report,
            context,
        })
    }
}

/// How the session's own names of the provider's options begin.
fn prefix() -> String {
    let name = NAME.to_str().unwrap_or_default().to_lowercase();
    format!("ep.{name}.")
}

/// The name of an option set while a session runs; `None` if it is meant for other providers.
pub(crate) fn of_ours(key: &str) -> Option<&str> {
    match key.strip_prefix(&prefix()) {
        Some(name) => Some(name),
        None => Some(key).filter(|key| !key.starts_with("ep.")),
    }
}

/// Lists of sizes by name: `n=1,width=192; n=4,width=192`.
fn sizes(value: &str) -> Result<Vec<BTreeMap<String, usize>>> {
    let wrong = |list: &str| {
        Failure::argument(format!(
            "option {SIZES:?} has {list:?}, which is not a list of sizes; expected e.g. n=1,width=192, with several lists separated by ;"
        ))
    };
    let one = |list: &str| -> Result<BTreeMap<String, usize>> {
        let mut named = BTreeMap::new();
        for pair in list.split(',') {
            let (name, size) = pair.split_once('=').ok_or_else(|| wrong(list))?;
            let size = size.trim().parse().map_err(|_| wrong(list))?;
            if name.trim().is_empty() || named.insert(name.trim().to_owned(), size).is_some() {
                return Err(wrong(list));
            }
        }
        Ok(named)
    };
    let lists = value
        .split(SEPARATOR)
        .map(str::trim)
        .filter(|list| !list.is_empty());
    lists.map(one).collect()
}

/// The values of an option: several if it may be repeated.
fn values<'a>(name: &str, value: &'a str) -> Vec<&'a str> {
    if settings::is_repeated(name) {
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
        // SAFETY: the texts are as many as `count`, and live as long as the pairs.
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
    fn sessions_with_equal_settings_share_a_runtime_until_unused() {
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
    fn options_of_other_providers_are_ignored() {
        assert_eq!(of_ours("learn"), Some("learn"));
        assert_eq!(of_ours("ep.polychipexecutionprovider.learn"), Some("learn"));
        assert_eq!(of_ours("ep.dynamic.workload_type"), None);
    }

    #[test]
    fn options_are_named_like_the_command_line() {
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
        assert!(unknown.contains("context-sizes") && unknown.contains("stale-context"));
        assert!(words(&[("stale-context", "keep")]).contains("\"refuse\" or \"replan\""));
        for wrong in ["n", "n=x", "n=1,n=2", "=1"] {
            assert!(words(&[("context-sizes", wrong)]).contains("not a list of sizes"));
        }
        let options = read(&[
            ("context-sizes", "n=1, m=2; n=4,m=2;"),
            ("stale-context", "replan"),
            ("only-given-folders", "yes"),
        ])
        .unwrap();
        let named = |n: usize| BTreeMap::from([("n".to_owned(), n), ("m".to_owned(), 2)]);
        assert_eq!(options.context.sizes, [named(1), named(4)]);
        assert!(options.context.replans && !options.context.is_made);
        assert!(words(&[("deadline", "soon")]).contains("deadline"));
        let limited = read(&[("memory-limit", "512MiB"), ("only-given-folders", "yes")]).unwrap();
        assert_eq!(limited.runtime.memory().limit_bytes, Some(512 << 20));
        assert!(words(&[("plugins", " ; "), ("set", "x")]).contains("set"));
        let device = words(&[("devices", "npu:7"), ("only-given-folders", "yes")]);
        assert!(device.contains("there is no device npu:7"), "{device}");
    }
}
