//! Plugins that cannot be used are listed with their reason: broken files and broken C plugins.

use std::path::{Path, PathBuf};
use std::process::Command;

use polychip_abi as abi;
use polychip_host::Host;
use polychip_test_requirements::libraries;

/// Compiles a C file to a plugin library, by the compiler that Rust links with.
fn compile(folder: &Path, name: &str, source: &str) -> PathBuf {
    let file = folder.join(format!("{name}.c"));
    std::fs::write(&file, source).unwrap();
    let library = folder.join(format!("libpolychip_plugin_{name}.so"));
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &file])
        .output()
        .expect("a C compiler (cc)");
    assert!(
        built.status.success(),
        "cc failed: {}",
        String::from_utf8_lossy(&built.stderr)
    );
    library
}

fn reason(path: &Path) -> String {
    let host = Host::builder().file(path).build();
    assert!(host.plugins().is_empty() && host.devices().is_empty());
    let [refusal] = host.refusals() else {
        panic!("one refusal: {:?}", host.refusals())
    };
    assert_eq!(refusal.subject, path.display().to_string());
    refusal.reason.clone()
}

#[test]
#[cfg(target_os = "linux")]
fn broken_c_plugins_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let size = size_of::<abi::polychip_plugin_table>();
    let calls = (size - 16) / size_of::<usize>();
    // a table of this many bytes and version, whose calls are all set or all null
    let table = |struct_size: usize, major: u32, call: &str| {
        format!(
            "#include <stdint.h>\n\
             static void call(void) {{}}\n\
             static struct {{ uint32_t numbers[4]; void (*calls[{calls}])(void); }} table =\n\
               {{ {{ {struct_size}, {major}, 0, 0 }}, {{ [0 ... {}] = {call} }} }};\n\
             const void *polychip_plugin_query(uint32_t major, uint32_t minor)\n\
             {{ (void)major; (void)minor; (void)call; return &table; }}\n",
            calls - 1
        )
    };
    let major = abi::POLYCHIP_ABI_MAJOR;
    let null = "#include <stdint.h>\n\
         const void *polychip_plugin_query(uint32_t a, uint32_t b) { (void)a; (void)b; return 0; }\n";
    let mut short = table(16 + 3 * size_of::<usize>(), major, "call");
    short.push_str("/* only the first three calls */\n");
    for (name, source, words) in [
        ("nothing", "int unrelated;\n".to_owned(), abi::QUERY_SYMBOL),
        ("null", null.to_owned(), "does not serve version"),
        ("old", table(size, 0, "call"), "version 0"),
        ("torn", table(size - 3, major, "call"), "ends inside a field"),
        ("tiny", table(8, major, "call"), "smaller"),
        ("short", short, "device_count"),
        ("empty", table(size, major, "0"), "plugin_info"),
    ] {
        let library = compile(folder.path(), name, &source);
        let reason = reason(&library);
        assert!(reason.contains(words), "{name}: {reason}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn broken_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(format!("libpolychip_plugin_{name}.so"));
        std::fs::write(&path, bytes).unwrap();
        path
    };
    assert!(
        reason(&file("garbage", b"this is no library at all, just text")).contains("not a shared library")
    );
    assert!(reason(&file("nil", b"")).contains("not a shared library"));
    let mut elf = vec![0u8; 4096];
    elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    let foreign = if cfg!(target_arch = "s390x") { 62 } else { 22 };
    elf[18] = foreign;
    assert!(reason(&file("foreign", &elf)).contains("it is built for"));
    // the right processor, but nothing behind the header
    let own = std::fs::read("/proc/self/exe").unwrap();
    elf[..20].copy_from_slice(&own[..20]);
    assert!(!reason(&file("hollow", &elf)).is_empty());
    assert!(reason(&folder.path().join("libpolychip_plugin_none.so")).contains("cannot be read"));
}

#[test]
fn folder_lists_refusals_by_name_and_ignores_other_files() {
    let folder = tempfile::tempdir().unwrap();
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    for name in ["b", "a"] {
        let path = folder
            .path()
            .join(format!("{prefix}polychip_plugin_{name}{suffix}"));
        std::fs::write(path, b"garbage").unwrap();
    }
    std::fs::write(folder.path().join("readme.txt"), b"not a plugin").unwrap();
    let missing = folder.path().join("nowhere");
    let host = Host::builder().folder(folder.path()).folder(&missing).build();
    let subjects: Vec<_> = host.refusals().iter().map(|refusal| &refusal.subject).collect();
    assert_eq!(subjects.len(), 3, "{subjects:?}");
    assert!(subjects[0].ends_with(&format!("a{suffix}")) && subjects[1].ends_with(&format!("b{suffix}")));
    assert_eq!(subjects[2], &missing.display().to_string());
}

#[test]
fn second_plugin_of_the_same_name_is_refused() {
    let query = polychip_sdk::plugin_query::<polychip_null::NullPlugin>;
    let host = Host::builder()
        .linked(query)
        .linked(query)
        .configure("null", "script", "[[device]]")
        .build();
    assert_eq!(host.plugins().len(), 1);
    assert!(
        host.refusals()[0].reason.contains("a plugin named null"),
        "{:?}",
        host.refusals()
    );
}

#[test]
fn plugin_that_fails_to_start_reports_the_reason() {
    let host = Host::builder()
        .linked(polychip_sdk::plugin_query::<polychip_null::NullPlugin>)
        .configure("null", "script", "[[device]]\nspeed = 9")
        .build();
    assert!(host.plugins().is_empty());
    assert!(
        host.refusals()[0].reason.contains("speed"),
        "{:?}",
        host.refusals()
    );
}

#[test]
fn linked_plugin_found_again_as_a_file_is_not_a_refusal() {
    let host = Host::builder()
        .linked(polychip_sdk::plugin_query::<polychip_null::NullPlugin>)
        .file(libraries::plugin("null").unwrap())
        .configure("null", "script", "[[device]]")
        .build();
    assert_eq!(host.refusals(), []);
    assert_eq!((host.plugins().len(), host.devices().len()), (1, 1));
    assert!(host.plugins()[0].info().path.is_none());
    // two files are two builds of somebody's, and one of them is not used
    let copy = tempfile::tempdir().unwrap();
    let file = libraries::plugin("null").unwrap();
    let other = copy.path().join(file.file_name().unwrap());
    std::fs::copy(&file, &other).unwrap();
    let host = Host::builder()
        .file(&file)
        .file(&other)
        .configure("null", "script", "[[device]]")
        .build();
    assert_eq!(host.plugins().len(), 1);
    assert_eq!(host.refusals()[0].subject, other.display().to_string());
}
