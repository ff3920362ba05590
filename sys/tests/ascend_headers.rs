//! Our declarations of AscendCL against the vendor's own headers, where a person has them: CANN's `include` folder, or that of
//! the Python package `torch-npu`, both under a licence that a person accepts. Nothing is fetched, copied or compiled.
//!
//! Invariants:
//! 1. Names of parameters do not count; types do, with the vendor's enums and `aclError` as `int`.
//! 2. The comparison is itself tested on our header, whole and with one word changed.
//!
//! `ASCEND_INCLUDE_DIR` names the folder; else it is `include` below `ASCEND_HOME_PATH`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use libtest_mimic::{Arguments, Failed, Trial};
use polychip_sys::ascend::bindings as acl;
use polychip_test_requirements::{Need, skipped};

const OURS: &str = include_str!("../headers/ascend.h");
/// Types that are an `int` where they cross the boundary.
const INTS: [&str; 6] = [
    "aclError",
    "aclrtMemMallocPolicy",
    "aclrtMemcpyKind",
    "aclrtMemAttr",
    "aclDataType",
    "int32_t",
];
/// Folders in folders that are looked through.
const DEEPEST: usize = 4;

/// The vendor's names of what our header calls otherwise.
const CODES: [(&str, u32); 18] = [
    ("ACL_ERROR_INVALID_PARAM", acl::ACL_BAD_PARAMETER),
    ("ACL_ERROR_UNINITIALIZE", acl::ACL_NOT_INITIALISED),
    ("ACL_ERROR_REPEAT_INITIALIZE", acl::ACL_INITIALISED_BEFORE),
    ("ACL_ERROR_INVALID_MODEL_ID", acl::ACL_BAD_MODEL_ID),
    ("ACL_ERROR_BAD_ALLOC", acl::ACL_NO_HOST_MEMORY),
    ("ACL_ERROR_API_NOT_SUPPORT", acl::ACL_NOT_OFFERED),
    ("ACL_ERROR_INTERNAL_ERROR", acl::ACL_INTERNAL),
    ("ACL_ERROR_GE_FAILURE", acl::ACL_GE_FAILED),
    ("ACL_MAX_DIM_CNT", acl::ACL_MAX_AXES),
    ("ACL_MAX_TENSOR_NAME_LEN", acl::ACL_MAX_NAME),
    ("ACL_ERROR_RT_PARAM_INVALID", acl::ACL_RT_BAD_PARAMETER),
    ("ACL_ERROR_RT_CONTEXT_NULL", acl::ACL_RT_NO_CONTEXT),
    ("ACL_ERROR_RT_MEMORY_ALLOCATION", acl::ACL_RT_NO_MEMORY),
    ("ACL_ERROR_RT_NO_DEVICE", acl::ACL_RT_NO_DEVICE),
    ("ACL_ERROR_RT_LOST_HEARTBEAT", acl::ACL_RT_LOST_HEARTBEAT),
    ("ACL_ERROR_RT_MODEL_EXECUTE", acl::ACL_RT_MODEL_FAILED),
    ("ACL_ERROR_RT_AICORE_TIMEOUT", acl::ACL_RT_CORE_TIMEOUT),
    ("ACL_BF16", acl::ACL_TYPE_BF16),
];

/// A header without comments and the preprocessor's lines, as words.
fn words(text: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("/*") {
        plain.push_str(before);
        plain.push(' ');
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    plain.push_str(rest);
    let lines = plain.lines().filter(|line| !line.trim_start().starts_with('#'));
    let lines = lines.map(|line| line.split("//").next().unwrap_or(""));
    let text: Vec<&str> = lines.collect();
    let mut words = vec![String::new()];
    for c in text.join("\n").chars() {
        let last = words.last_mut().expect("invariant: never empty");
        if c.is_alphanumeric() || c == '_' {
            last.push(c);
        } else {
            words.extend([c.to_string(), String::new()]);
        }
    }
    words.retain(|word| !word.trim().is_empty());
    words
}

/// A type without the name of what is of it.
fn kind(words: &[String]) -> String {
    let is_name = |word: &&String| word.starts_with(|c: char| c.is_alphabetic()) && *word != "const";
    let mut kept: Vec<&str> = words.iter().map(String::as_str).collect();
    let named = words.last().is_some_and(|last| is_name(&last)) && words.iter().filter(is_name).count() > 1;
    if named {
        kept.pop();
    }
    let kept = kept
        .into_iter()
        .filter(|word| !["ACL_FUNC_VISIBILITY", "extern", "struct"].contains(word));
    let kept = kept.map(|word| if INTS.contains(&word) { "int" } else { word });
    kept.collect::<Vec<_>>().join(" ")
}

/// Calls that a header declares: what they give, then what they take.
fn calls(text: &str) -> BTreeMap<String, Vec<String>> {
    let words = words(text);
    let mut calls = BTreeMap::new();
    for statement in words.split(|word| [";", "{", "}"].contains(&&**word)) {
        let open = statement.iter().position(|word| word == "(");
        let Some(open) = open.filter(|&open| open > 1 && statement.last().is_some_and(|last| last == ")"))
        else {
            continue;
        };
        let name = &statement[open - 1];
        if !name.starts_with("acl") {
            continue;
        }
        let inside = &statement[open + 1..statement.len() - 1];
        let takes = inside
            .split(|word| word == ",")
            .map(kind)
            .filter(|taken| !taken.is_empty() && taken != "void");
        // a word before the first name is the export's mark
        let gives = statement[..open - 1].to_vec();
        let gives = kind(&[gives, vec!["name".to_owned()]].concat());
        calls.insert(name.clone(), std::iter::once(gives).chain(takes).collect());
    }
    calls
}

/// A number that a header names, by `=` or `#define`.
fn number(text: &str, name: &str) -> Option<u32> {
    text.match_indices(name).find_map(|(at, _)| {
        let whole = !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let rest = text[at + name.len()..].trim_start_matches([' ', '\t', '=', '(']);
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits
            .parse()
            .ok()
            .filter(|_| whole && rest.len() < text[at + name.len()..].len())
    })
}

/// What of ours is otherwise in the vendor's text, or not there.
fn differences(theirs: &str) -> Vec<String> {
    let found = calls(theirs);
    let mut differ = Vec::new();
    for (name, ours) in calls(OURS) {
        match found.get(&name) {
            None => differ.push(format!("{name} is not declared")),
            Some(other) if *other != ours => differ.push(format!("{name} is {other:?}, ours {ours:?}")),
            Some(_) => {}
        }
    }
    differ
}

fn texts(folder: &Path, deep: usize, into: &mut String) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && deep < DEEPEST {
            texts(&path, deep + 1, into);
        } else if path.extension().is_some_and(|extension| extension == "h") {
            into.push_str(&std::fs::read_to_string(&path).unwrap_or_default());
            into.push('\n');
        }
    }
}

fn judged(folder: &Path) -> Result<(), Failed> {
    let mut text = String::new();
    texts(folder, 0, &mut text);
    let mut differ = differences(&text);
    for (name, ours) in CODES {
        if number(&text, name) != Some(ours) {
            differ.push(format!("{name} is {:?}, ours {ours}", number(&text, name)));
        }
    }
    if differ.is_empty() {
        Ok(())
    } else {
        Err(format!("{}: {}", folder.display(), differ.join("; ")).into())
    }
}

/// Our own header has no differences, and one word changed in it is found.
fn the_comparison_finds_one_word() -> Result<(), Failed> {
    assert_eq!(differences(OURS), Vec::<String>::new());
    assert_eq!(calls(OURS).len(), 41);
    let vendors = OURS
        .replace("int aclrtMalloc(", "ACL_FUNC_VISIBILITY aclError aclrtMalloc(")
        .replace("int policy)", "aclrtMemMallocPolicy other)");
    assert_eq!(differences(&vendors), Vec::<String>::new());
    for (from, to, name) in [
        (
            "size_t bytes, int policy",
            "uint32_t bytes, int policy",
            "aclrtMalloc",
        ),
        (
            "const aclmdlDesc *description, size_t index, aclmdlIODims",
            "size_t index, aclmdlIODims",
            "aclmdlGetInputDims",
        ),
        ("int aclmdlUnload", "void aclmdlUnload", "aclmdlUnload"),
        (
            "aclDestroyDataBuffer",
            "aclRemoveDataBuffer",
            "aclDestroyDataBuffer",
        ),
    ] {
        let found = differences(&OURS.replacen(from, to, 1));
        assert!(found.len() == 1 && found[0].contains(name), "{name}: {found:?}");
    }
    assert_eq!(number("static const int A_B = 12;\n#define A 7", "A"), Some(7));
    assert_eq!(number("enum { A_B = 12 }", "A"), None);
    Ok(())
}

fn main() {
    let arguments = Arguments::from_args();
    let of = |variable: &str| {
        std::env::var_os(variable)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let folder = of("ASCEND_INCLUDE_DIR").or_else(|| Some(of("ASCEND_HOME_PATH")?.join("include")));
    let mut trials = vec![Trial::test("comparison", the_comparison_finds_one_word)];
    trials.push(match folder.filter(|folder| folder.is_dir()) {
        Some(folder) => Trial::test("headers", move || judged(&folder)),
        None => {
            let why =
                "neither ASCEND_INCLUDE_DIR nor ASCEND_HOME_PATH names a folder with AscendCL's headers";
            skipped("headers", Need::AscendHeaders, why)
        }
    });
    libtest_mimic::run(&arguments, trials).exit();
}
