//! Every class and message that we name to Core ML against bindings that others generate from Apple's headers.
//!
//! The crates objc2-core-ml and objc2-foundation can be built on Apple's systems only; their sources say, of each
//! class, which messages it or its objects answer. Cargo fetches them from the registry; where it cannot, this is skipped.
//!
//! Invariants:
//! 1. Each message has a receiver in the table below, and each class that the library names is one of theirs.
//! 2. A message that Apple does not have, or that is a class's where it is sent to an object, is found: both are tried.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::MetadataCommand;
use libtest_mimic::{Arguments, Failed, Trial};
use polychip_sys::coreml::{CLASSES, MESSAGES};
use polychip_test_requirements::{Need, skipped};

// where they can be built, they are
#[cfg(target_vendor = "apple")]
use {objc2_core_ml as _, objc2_foundation as _};

const TARGET: &str = "aarch64-apple-darwin";
const CRATES: [&str; 2] = ["objc2-core-ml", "objc2-foundation"];

/// Whom a message is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum To {
    Class,
    Object,
}
use To::{Class, Object};

/// Whom each message is sent to, by the class that declares it. What every object has (`alloc`, `new`, `isKindOfClass:`) is
/// objc2's own and in no generated source.
const SENT: &[(&str, To, &str)] = &[
    ("NSString", Class, "stringWithUTF8String:"),
    ("NSString", Object, "UTF8String"),
    ("NSNumber", Class, "numberWithLongLong:"),
    ("NSNumber", Object, "longLongValue"),
    ("NSArray", Class, "arrayWithObjects:count:"),
    ("NSArray", Object, "count"),
    ("NSArray", Object, "objectAtIndex:"),
    ("NSDictionary", Class, "dictionaryWithObjects:forKeys:count:"),
    ("NSDictionary", Object, "objectForKey:"),
    ("NSURL", Class, "fileURLWithPath:"),
    ("NSURL", Object, "path"),
    ("NSError", Object, "domain"),
    ("NSError", Object, "code"),
    ("NSError", Object, "localizedDescription"),
    ("NSProcessInfo", Class, "processInfo"),
    ("NSProcessInfo", Object, "operatingSystemVersionString"),
    ("MLModel", Class, "compileModelAtURL:error:"),
    ("MLModel", Class, "modelWithContentsOfURL:configuration:error:"),
    ("MLModel", Object, "predictionFromFeatures:options:error:"),
    ("MLModel", Class, "availableComputeDevices"),
    ("MLNeuralEngineComputeDevice", Object, "totalCoreCount"),
    ("MLModelConfiguration", Object, "setComputeUnits:"),
    (
        "MLMultiArray",
        Object,
        "initWithDataPointer:shape:dataType:strides:deallocator:error:",
    ),
    ("MLMultiArray", Object, "dataPointer"),
    ("MLMultiArray", Object, "dataType"),
    ("MLMultiArray", Object, "shape"),
    ("MLMultiArray", Object, "strides"),
    ("MLFeatureValue", Class, "featureValueWithMultiArray:"),
    ("MLFeatureValue", Object, "multiArrayValue"),
    ("MLDictionaryFeatureProvider", Object, "initWithDictionary:error:"),
    ("MLFeatureProvider", Object, "featureValueForName:"),
    ("MLPredictionOptions", Object, "setOutputBackings:"),
    (
        "MLComputePlan",
        Class,
        "loadContentsOfURL:configuration:completionHandler:",
    ),
    ("MLComputePlan", Object, "modelStructure"),
    ("MLModelStructure", Object, "program"),
    ("MLModelStructureProgram", Object, "functions"),
    ("MLModelStructureProgramFunction", Object, "block"),
    ("MLModelStructureProgramBlock", Object, "operations"),
    ("MLModelStructureProgramOperation", Object, "operatorName"),
    ("MLModelStructureProgramOperation", Object, "outputs"),
    ("MLModelStructureProgramNamedValueType", Object, "name"),
    (
        "MLComputePlan",
        Object,
        "computeDeviceUsageForMLProgramOperation:",
    ),
    ("MLComputePlan", Object, "estimatedCostOfMLProgramOperation:"),
    ("MLComputePlanCost", Object, "weight"),
    ("MLComputePlanDeviceUsage", Object, "preferredComputeDevice"),
    ("MLComputePlanDeviceUsage", Object, "supportedComputeDevices"),
];

/// What every object has.
const OF_ALL: [&str; 3] = ["alloc", "new", "isKindOfClass:"];

/// Messages by class, as the bindings declare them.
type Declared = BTreeMap<String, BTreeSet<(To, String)>>;

/// Reads a generated source: blocks of `impl CLASS`, `unsafe trait PROTOCOL` or `extern_class` hold attributes
/// `method(MESSAGE)`, each before the function that sends it.
fn read(source: &str, all: &mut Declared) {
    let mut class = String::new();
    let mut message: Option<String> = None;
    let mut signature = String::new();
    for line in source.lines().map(str::trim) {
        if line.starts_with("//") {
            continue;
        }
        let start = ["impl<", "impl ", "pub unsafe trait ", "pub struct "]
            .iter()
            .find_map(|word| line.strip_prefix(word).map(|rest| (*word, rest)));
        if let Some((word, rest)) = start {
            // parameters of the class stand before its name in `impl<...> NAME`
            let rest = if word == "impl<" {
                rest.split_once("> ").map_or("", |(_, rest)| rest)
            } else {
                rest
            };
            let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
            if end > 0 {
                rest[..end].clone_into(&mut class);
                all.entry(class.clone()).or_default();
            }
        }
        if let Some(name) = line
            .strip_prefix("#[unsafe(method(")
            .and_then(|rest| rest.split_once(')'))
            .map(|(name, _)| name)
        {
            // `:_` stands for the place of an error
            message = Some(
                name.strip_suffix(":_")
                    .map_or(name.to_owned(), |name| format!("{name}:")),
            );
            signature.clear();
            continue;
        }
        let Some(sent) = &message else { continue };
        if line.starts_with("#[") {
            continue;
        }
        signature.push_str(line);
        signature.push(' ');
        if line.ends_with(';') {
            let object = signature.contains("&self") || signature.contains("this: ");
            let to = if object { Object } else { Class };
            all.entry(class.clone()).or_default().insert((to, sent.clone()));
            message = None;
        }
    }
}

/// The folder of a crate's sources, fetched where it is not there.
fn sources() -> Result<Vec<PathBuf>, String> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let fetched = Command::new(cargo)
        .args([
            "fetch",
            "--quiet",
            "--locked",
            "--target",
            TARGET,
            "--manifest-path",
            manifest,
        ])
        .output()
        .map_err(|error| error.to_string())?;
    if !fetched.status.success() {
        return Err(String::from_utf8_lossy(&fetched.stderr).into_owned());
    }
    let metadata = MetadataCommand::new()
        .manifest_path(manifest)
        .other_options(["--locked", "--filter-platform", TARGET].map(str::to_owned))
        .exec()
        .map_err(|error| error.to_string())?;
    CRATES
        .iter()
        .map(|name| {
            let package = metadata
                .packages
                .iter()
                .find(|package| package.name.as_str() == *name);
            let package = package.ok_or_else(|| format!("{name} is no dependency of this package"))?;
            let folder = package.manifest_path.parent().ok_or("a manifest has no folder")?;
            Ok(folder.join("src").into_std_path_buf())
        })
        .collect()
}

fn read_all(folder: &Path, all: &mut Declared) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read_all(&path, all)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            read(&std::fs::read_to_string(path)?, all);
        }
    }
    Ok(())
}

/// What is wrong with a list of messages.
fn wrong(declared: &Declared, sent: &[(&str, To, &str)]) -> Vec<String> {
    let has = |class: &str, to: To, message: &str| {
        let all = declared.get(class);
        all.is_some_and(|all| all.contains(&(to, message.to_owned())))
    };
    sent.iter()
        .filter(|(class, to, message)| !has(class, *to, message))
        .map(|(class, to, message)| format!("{class} has no {message} of its {to:?}"))
        .collect()
}

fn fail(words: Vec<String>) -> Result<(), Failed> {
    if words.is_empty() {
        Ok(())
    } else {
        Err(words.join("\n").into())
    }
}

fn main() {
    let arguments = Arguments::from_args();
    let named = Trial::test("every message has a receiver in the table", || {
        let sent: BTreeSet<&str> = SENT
            .iter()
            .map(|(_, _, message)| *message)
            .chain(OF_ALL)
            .collect();
        let ours: BTreeSet<&str> = MESSAGES
            .iter()
            .filter_map(|message| message.to_str().ok())
            .collect();
        fail(
            sent.symmetric_difference(&ours)
                .map(|&message| message.to_owned())
                .collect(),
        )
    });
    let mut trials = vec![named];
    match sources() {
        Err(why) => trials.push(skipped(
            "messages and classes are Apple's",
            Need::CrateRegistry,
            &why,
        )),
        Ok(folders) => trials.push(Trial::test("messages and classes are Apple's", move || {
            let mut declared = Declared::new();
            for folder in &folders {
                read_all(folder, &mut declared)?;
            }
            let mut words = wrong(&declared, SENT);
            words.extend(
                CLASSES
                    .iter()
                    .filter(|class| !declared.contains_key(**class))
                    .map(|&class| class.to_owned()),
            );
            // what must be found
            let planted = [
                ("MLModel", Object, "compileModelAtURL:error:"),
                ("MLModel", Class, "compileModelAtURL:"),
                (
                    "MLMultiArray",
                    Class,
                    "initWithDataPointer:shape:dataType:strides:deallocator:error:",
                ),
            ];
            if wrong(&declared, &planted).len() != planted.len() {
                words.push("a planted mistake was not found".to_owned());
            }
            fail(words)
        })),
    }
    libtest_mimic::run(&arguments, trials).exit()
}
