//! Opening of QNN libraries, on small libraries of our own that the C compiler makes of `headers/qnn.h`.

use std::fs;
use std::process::Command;

use super::*;
use crate::ErrorKind;

/// A library with both exports; the versions are set on the compiler's command line.
const SOURCE: &str = r#"
#include "qnn.h"
static polychip_qnn_error no(polychip_qnn_backend backend) { (void)backend; return 1000; }
static const polychip_qnn_provider old = {.library_id = LIBRARY, .name = "old", .core_api = {1, 9, 0}};
static const polychip_qnn_provider now = {.library_id = LIBRARY, .name = "FAKE_HTP", .core_api = {MAJOR, MINOR, 0},
                                          .library_api = {5, 51, 0}, .table = {.backend_free = no}};
static const polychip_qnn_provider *const list[] = {0, &old, &now};
polychip_qnn_error QnnInterface_getProviders(const polychip_qnn_provider *const **out, uint32_t *count) {
  *out = list; *count = COUNT; return CODE;
}
static const polychip_qnn_system_provider system = {.library_id = 0, .name = "FAKE_SYSTEM", .system_api = {SYSTEM, 15, 0}};
static const polychip_qnn_system_provider *const systems[] = {&system};
#if EMULATES
void polychip_emulates_qnn(void) {}
#endif
polychip_qnn_error QnnSystemInterface_getProviders(const polychip_qnn_system_provider *const **out, uint32_t *count) {
  *out = systems; *count = 1; return 0;
}
"#;

/// Compiles `SOURCE` into `folder/name`, with these values in place of the ordinary ones.
fn compile(folder: &Path, name: &str, values: &[(&str, u32)]) {
    let source = folder.join(format!("{name}.c"));
    fs::write(&source, SOURCE).unwrap();
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-I"]);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/headers"));
    for (key, usual) in [
        ("LIBRARY", 6),
        ("MAJOR", 2),
        ("MINOR", 40),
        ("COUNT", 3),
        ("CODE", 0),
        ("SYSTEM", 1),
        ("EMULATES", 0),
    ] {
        let value = values
            .iter()
            .find(|(name, _)| *name == key)
            .map_or(usual, |v| v.1);
        command.arg(format!("-D{key}={value}"));
    }
    command.arg("-o").arg(folder.join(name)).arg(&source);
    assert!(command.status().unwrap().success(), "cc");
}

/// Both libraries with these values, opened.
fn open(values: &[(&str, u32)]) -> Result<Qnn> {
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), HTP, values);
    compile(folder.path(), SYSTEM, values);
    Qnn::open(&[SearchPath::new(folder.path(), "the test")])
}

#[test]
fn the_provider_of_the_right_version_is_chosen() {
    let qnn = open(&[]).unwrap();
    assert_eq!(qnn.provider_name(), "FAKE_HTP");
    assert_eq!(qnn.core_api().to_string(), "2.40.0");
    assert_eq!(qnn.library_api().to_string(), "5.51.0");
    assert_eq!(qnn.system_api().to_string(), "1.15.0");
    assert_eq!(qnn.folder(), qnn.system_path().parent().unwrap());
}

/// A vendor's library for x86 is an emulator, too, and says nothing of it.
#[test]
fn emulating_library_is_detected() {
    let (marked, plain) = (open(&[("EMULATES", 1)]).unwrap(), open(&[]).unwrap());
    assert!(marked.says_it_emulates() && marked.is_emulated());
    assert!(!plain.says_it_emulates());
    assert_eq!(
        plain.is_emulated(),
        cfg!(any(target_arch = "x86", target_arch = "x86_64"))
    );
}

#[test]
fn empty_slots_are_named_and_filled_ones_can_be_called() {
    let qnn = open(&[]).unwrap();
    let error = crate::slot!(qnn.table(), execute).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MissingCall);
    assert_eq!(error.to_string(), "the library does not offer the call `execute`");
    let free = crate::slot!(qnn.table(), backend_free).unwrap();
    // SAFETY: the test's own function, which takes any pointer.
    assert_eq!(unsafe { free(ptr::null_mut()) }, 1000);
}

#[test]
fn other_versions_are_refused_with_both_named() {
    for values in [[("MAJOR", 3)], [("MINOR", 26)], [("LIBRARY", 9)]] {
        let error = open(&values).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongVersion, "{values:?}: {error}");
    }
    let text = open(&[("MINOR", 26)]).unwrap_err().to_string();
    for part in [HTP, "1.9.0, 2.26.0", "2.27 or a later 2.x", "QNN_LIB_DIR"] {
        assert!(text.contains(part), "{part} in: {text}");
    }
    let text = open(&[("SYSTEM", 2)]).unwrap_err().to_string();
    assert!(
        text.contains(SYSTEM) && text.contains("2.15.0") && text.contains("1.x"),
        "{text}"
    );
}

#[test]
fn inconsistent_list_is_refused() {
    for (values, part) in [
        ([("COUNT", 0)], "0 providers"),
        ([("COUNT", 65)], "65 providers"),
        ([("CODE", 7)], "code 7"),
    ] {
        let error = open(&values).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongInterface);
        assert!(error.to_string().contains(part), "{error}");
    }
    // only the null entry is listed
    let error = open(&[("COUNT", 1)]).unwrap_err();
    assert!(error.to_string().contains("version none"), "{error}");
}

#[test]
fn incomplete_installation_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), HTP, &[]);
    let error = Qnn::open(&[SearchPath::new(folder.path(), "the test")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::HalfInstalled);
    let text = error.to_string();
    assert!(
        text.starts_with("libQnnSystem.so is missing beside ") && text.contains(HTP),
        "{text}"
    );
}

#[test]
fn a_library_without_the_export_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("empty.c"), "int nothing;\n").unwrap();
    for name in [HTP, SYSTEM] {
        let mut command = Command::new("cc");
        command
            .args(["-shared", "-fPIC", "-o"])
            .arg(folder.path().join(name));
        assert!(
            command
                .arg(folder.path().join("empty.c"))
                .status()
                .unwrap()
                .success()
        );
    }
    let error = Qnn::open(&[SearchPath::new(folder.path(), "the test")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongInterface);
    assert!(error.to_string().contains("QnnInterface_getProviders"), "{error}");
}

#[test]
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn search_paths_are_the_setting_or_the_variables_in_order() {
    let set = |name: &str| match name {
        LIB_DIR => Some(OsString::from("/libs")),
        SDK_ROOT => Some(OsString::from("/sdk")),
        _ => None,
    };
    let folders = |search_paths: Vec<SearchPath>| -> Vec<String> {
        search_paths
            .iter()
            .map(|place| format!("{} {}", place.folder.display(), place.named_by))
            .collect()
    };
    assert_eq!(
        folders(search_paths(Some(Path::new("/mine")), &set)),
        ["/mine the plugin's setting"]
    );
    assert_eq!(
        folders(search_paths(None, &set)),
        ["/libs QNN_LIB_DIR", "/sdk/lib/x86_64-linux-clang QNN_SDK_ROOT"]
    );
    assert_eq!(search_paths(None, &|_| Some(OsString::new())), []);
}

#[test]
fn process_loads_one_set_of_libraries() {
    let one = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    for folder in [&one, &other] {
        compile(folder.path(), HTP, &[]);
        compile(folder.path(), SYSTEM, &[]);
    }
    // a failure is not remembered
    let missing = Qnn::load(Some(Path::new("/nowhere"))).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Missing);
    let held = Qnn::load(Some(one.path())).unwrap();
    assert!(ptr::eq(held, Qnn::load(None).unwrap()));
    assert!(ptr::eq(held, Qnn::load(Some(&one.path().join("."))).unwrap()));
    let error = Qnn::load(Some(other.path())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LoadedElsewhere);
    assert!(
        error.to_string().contains(&other.path().display().to_string()),
        "{error}"
    );
}
