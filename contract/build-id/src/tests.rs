//! Each thing that a build is made of changes its id, and nothing else does.

use super::*;

/// A workspace of a plugin, a crate below it, and one that only its tests use.
fn workspace() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (file, text) in [
        (
            "Cargo.toml",
            "[workspace]\nmembers = [\"plugin\"]\n[workspace.dependencies]\nbelow = { path = \"below\" }\nonly-tests = { path = \"only-tests\" }\nfar = \"1\"\n",
        ),
        (
            "plugin/Cargo.toml",
            "[package]\nname = \"plugin\"\n[dependencies]\nbelow.workspace = true\nfar.workspace = true\n[dev-dependencies]\nonly-tests.workspace = true\n",
        ),
        ("plugin/src/lib.rs", "mod a;\n"),
        ("plugin/src/a/b.rs", "// b\n"),
        ("plugin/tests/host.rs", "// a test\n"),
        (
            "below/Cargo.toml",
            "[package]\nname = \"below\"\n[dependencies.beside]\npath = \"../beside\"\n",
        ),
        ("below/src/lib.rs", "// below\n"),
        ("beside/Cargo.toml", "[package]\nname = \"beside\"\n"),
        ("beside/src/lib.rs", "// beside\n"),
        ("only-tests/Cargo.toml", "[package]\nname = \"only-tests\"\n"),
        ("only-tests/src/lib.rs", "// only tests\n"),
        (
            "Cargo.lock",
            "version = 4\n\n[[package]]\nname = \"far\"\nversion = \"1.0.0\"\nchecksum = \"aa\"\ndependencies = [\n \"farther 2.0.0\",\n]\n\n[[package]]\nname = \"farther\"\nversion = \"2.0.0\"\nchecksum = \"bb\"\n\n[[package]]\nname = \"farther\"\nversion = \"1.0.0\"\nchecksum = \"cc\"\n\n[[package]]\nname = \"plugin\"\nversion = \"0.1.0\"\ndependencies = [\n \"below\",\n \"far\",\n \"only-tests\",\n]\n\n[[package]]\nname = \"only-tests\"\nversion = \"0.1.0\"\ndependencies = [\n \"tests-far\",\n]\n\n[[package]]\nname = \"tests-far\"\nversion = \"1.0.0\"\nchecksum = \"dd\"\n",
        ),
    ] {
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

fn id(root: &tempfile::TempDir) -> String {
    let mut hash = Hash::new();
    Sources::of(&root.path().join("plugin")).unwrap().add(&mut hash);
    hash.finish()
}

#[test]
fn id_does_not_depend_on_the_location() {
    assert_eq!(id(&workspace()), id(&workspace()));
}

#[test]
fn each_source_changes_the_id() {
    let before = id(&workspace());
    for file in [
        "Cargo.toml",
        "plugin/Cargo.toml",
        "plugin/src/lib.rs",
        "plugin/src/a/b.rs",
        "below/src/lib.rs",
        "below/Cargo.toml",
        "beside/src/lib.rs",
    ] {
        let root = workspace();
        let path = root.path().join(file);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text + "\n").unwrap();
        assert_ne!(id(&root), before, "{file}");
    }
    let root = workspace();
    fs::write(root.path().join("plugin/src/new.rs"), "").unwrap();
    assert_ne!(id(&root), before, "a new file");
    let root = workspace();
    fs::rename(root.path().join("plugin/src/a"), root.path().join("plugin/src/c")).unwrap();
    assert_ne!(id(&root), before, "a file that moved");
}

#[test]
fn each_locked_version_changes_the_id_and_tests_do_not() {
    let before = id(&workspace());
    let relocked = |from: &str, to: &str| {
        let root = workspace();
        let path = root.path().join("Cargo.lock");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace(from, to)).unwrap();
        id(&root)
    };
    assert_ne!(relocked("\"aa\"", "\"ab\""), before);
    assert_ne!(relocked("\"bb\"", "\"bc\""), before);
    assert_eq!(
        relocked("\"cc\"", "\"cd\""),
        before,
        "another version of the same name"
    );
    assert_eq!(relocked("\"dd\"", "\"de\""), before, "below tests only");
    for file in ["plugin/tests/host.rs", "only-tests/src/lib.rs"] {
        let root = workspace();
        fs::write(root.path().join(file), "// changed\n").unwrap();
        assert_eq!(id(&root), before, "{file}");
    }
}

#[test]
fn every_hashed_file_is_watched() {
    let root = workspace();
    let sources = Sources::of(&root.path().join("plugin")).unwrap();
    let watched = sources.watched();
    for file in ["plugin/src", "below/Cargo.toml", "beside/src", "Cargo.lock"] {
        let path = root.path().join(file).canonicalize().unwrap();
        assert!(
            watched.iter().any(|other| other.canonicalize().unwrap() == path),
            "{file}"
        );
    }
    assert_eq!(
        sources.packages.keys().collect::<Vec<_>>(),
        ["below", "beside", "plugin"]
    );
}

#[test]
fn plugins_of_this_workspace_are_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sources = Sources::of(&root.join("plugins/cpu")).unwrap();
    for name in [
        "polychip-cpu",
        "polychip-sdk",
        "polychip-abi",
        "polychip-cpu-kernels",
    ] {
        assert!(sources.packages.contains_key(name), "{name}");
    }
    assert!(!sources.packages.contains_key("polychip-host"), "tests only");
    assert!(
        sources
            .locked
            .iter()
            .any(|version| version.starts_with("blake3 "))
    );
}
