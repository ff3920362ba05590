//! Runs the binary and looks at what came out.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use polychip_test_requirements::libraries;
use serde_json::Value;

/// The repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The model that ships.
pub(crate) fn shapes() -> String {
    repository()
        .join("examples/shapes/shapes.onnx")
        .display()
        .to_string()
}

/// A file of the model that ships.
pub(crate) fn shapes_file(name: &str) -> String {
    repository()
        .join("examples/shapes")
        .join(name)
        .display()
        .to_string()
}

/// `profile` of that model and what it consists of, on one thread of the CPU, into a file.
pub(crate) fn profiling(profile: &str) -> Vec<String> {
    let shapes = shapes();
    let arguments = [
        "profile",
        &shapes,
        "--ops",
        "--devices",
        "cpu",
        "--threads",
        "1",
        "--profile",
        profile,
    ];
    arguments.map(str::to_owned).to_vec()
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The binary in a folder of its own: plugins beside the one that cargo built, which depend on what else was
/// built there, are not found.
pub(crate) fn alone() -> &'static Path {
    static ALONE: OnceLock<PathBuf> = OnceLock::new();
    ALONE.get_or_init(|| {
        let built = Path::new(env!("CARGO_BIN_EXE_polychip"));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("alone");
        std::fs::create_dir_all(&folder).unwrap();
        let program = folder.join(built.file_name().unwrap());
        // tests run in processes of their own: each puts it there whole
        let aside = folder.join(format!("{}.part", std::process::id()));
        if std::fs::hard_link(built, &aside).is_err() {
            std::fs::copy(built, &aside).unwrap();
        }
        std::fs::rename(&aside, &program).unwrap();
        // a second name of the same file stays behind a rename
        let _ = std::fs::remove_file(&aside);
        program
    })
}

/// Where the binary keeps the key of the user who runs the tests.
pub(crate) fn data_folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("data")
}

/// Runs the binary, with these variables in its environment.
pub(crate) fn polychip_with(variables: &[(&str, &str)], arguments: &[&str]) -> Done {
    let output = Command::new(alone())
        .args(arguments)
        .env_remove("POLYCHIP_PLUGINS")
        .env_remove("POLYCHIP_NULL_SCRIPT")
        .env_remove("POLYCHIP_LOG")
        .env("XDG_DATA_HOME", data_folder())
        // what the person who runs the tests likes is no matter of theirs
        .env("POLYCHIP_CONFIG", "")
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    Done {
        code: output.status.code().expect("it ended by itself"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs the binary.
pub(crate) fn polychip(arguments: &[&str]) -> Done {
    polychip_with(&[], arguments)
}

impl Done {
    /// What it printed, where it went well.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self.stdout
    }

    /// The JSON that it printed, held to the committed schema of the command.
    #[track_caller]
    pub(crate) fn json(self, command: &str) -> Value {
        let text = self.ok();
        let value: Value = serde_json::from_str(&text).unwrap();
        let path = repository().join(format!("apps/cli/schemas/{command}.schema.json"));
        let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&value)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{errors:#?}\n{text}");
        value
    }

    /// What it printed, where it ended with the code of what differs, and said all of this.
    #[track_caller]
    pub(crate) fn differs(self, words: &[&str]) -> String {
        assert_eq!(self.code, 1, "{}", self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} is not in: {}", self.stderr);
        }
        self.stdout
    }

    /// It failed with this code, printed no answer, and its message says all of this.
    #[track_caller]
    pub(crate) fn fails(self, code: i32, words: &[&str]) {
        assert_eq!((self.code, &*self.stdout), (code, ""), "{}", self.stderr);
        assert!(
            self.stderr.starts_with("error: ") || self.stderr.contains("\nerror: "),
            "{}",
            self.stderr
        );
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} is not in: {}", self.stderr);
        }
    }
}

/// Name of a plugin's library.
pub(crate) fn library_name(name: &str) -> String {
    format!(
        "{}polychip_plugin_{name}{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    )
}

/// A folder with the null plugin.
pub(crate) fn null_plugin() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(
        libraries::plugin("null").unwrap(),
        folder.path().join(library_name("null")),
    )
    .unwrap();
    folder
}
