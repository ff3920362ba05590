//! Compilers, and programs that they make on the library.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::Failed;
use polychip_test_requirements::Need;

/// A compiler of a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compiler {
    Gcc,
    Clang,
    GccCpp,
    ClangCpp,
}

/// What a compiler reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    C,
    Cpp,
}

impl Language {
    /// The word for `-x`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Language::C => "c",
            Language::Cpp => "c++",
        }
    }
}

impl Compiler {
    pub(crate) const ALL: [Compiler; 4] = [
        Compiler::Gcc,
        Compiler::Clang,
        Compiler::GccCpp,
        Compiler::ClangCpp,
    ];

    fn program(self) -> &'static str {
        match self {
            Compiler::Gcc => "cc",
            Compiler::Clang => "clang",
            Compiler::GccCpp => "c++",
            Compiler::ClangCpp => "clang++",
        }
    }

    pub(crate) fn label(self) -> &'static str {
        match self {
            Compiler::Gcc => "cc",
            Compiler::Clang => "clang",
            Compiler::GccCpp => "cpp",
            Compiler::ClangCpp => "clang_cpp",
        }
    }

    pub(crate) fn language(self) -> Language {
        match self {
            Compiler::Gcc | Compiler::Clang => Language::C,
            Compiler::GccCpp | Compiler::ClangCpp => Language::Cpp,
        }
    }

    pub(crate) fn need(self) -> Need {
        match self {
            Compiler::Gcc | Compiler::GccCpp => Need::Cpp,
            Compiler::Clang | Compiler::ClangCpp => Need::Clang,
        }
    }

    /// The standards that the header is held to, the one of the examples first.
    pub(crate) fn standards(self) -> &'static [&'static str] {
        match self.language() {
            Language::C => &["c11", "c17"],
            Language::Cpp => &["c++17", "c++11", "c++20"],
        }
    }

    /// Why it cannot be used here; `cc` always can.
    pub(crate) fn missing(self) -> Option<String> {
        if self == Compiler::Gcc {
            return None;
        }
        let program = self.program();
        // clang++ without a C++ library is of no use
        let folder = tempfile::tempdir().ok()?;
        let source = folder.path().join("probe");
        let text = match self.language() {
            Language::C => "#include <stdio.h>\nint main(void) { return 0; }\n",
            Language::Cpp => "#include <string>\nint main() { return 0; }\n",
        };
        std::fs::write(&source, text).ok()?;
        let made = Command::new(program)
            .args(["-x", self.language().word()])
            .arg(&source)
            .arg("-o")
            .arg(folder.path().join("out"))
            .output();
        match made {
            Ok(output) if output.status.success() => None,
            Ok(_) => Some(format!("{program} makes no program")),
            Err(error) => Some(format!("{program}: {error}")),
        }
    }

    /// The compiler with all warnings as errors.
    pub(crate) fn command(self, standard: &str) -> Command {
        let mut command = Command::new(self.program());
        command
            .arg(format!("-std={standard}"))
            .args(["-Wall", "-Wextra", "-Werror", "-pedantic"]);
        command
    }
}

/// Whether the C compiler has these sanitizers, and what it makes with them runs.
pub(crate) fn sanitizes(names: &str) -> bool {
    let Ok(folder) = tempfile::tempdir() else {
        return false;
    };
    let (source, made) = (folder.path().join("probe.c"), folder.path().join("probe"));
    let written = std::fs::write(&source, "int main(void) { return 0; }\n").is_ok();
    let built = Command::new("cc")
        .arg(format!("-fsanitize={names}"))
        .arg(&source)
        .arg("-o")
        .arg(&made)
        .output();
    let ran = || Command::new(&made).output();
    written
        && built.is_ok_and(|output| output.status.success())
        && ran().is_ok_and(|output| output.status.success())
}

/// The command goes well, or its words.
pub(crate) fn succeeds(command: &mut Command) -> Result<(), Failed> {
    let output = command
        .output()
        .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("{command:?}: {}: {words}", output.status).into())
}

/// The library, which cargo has built for this test beside it.
pub(crate) fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this program");
    let folder = test.parent().expect("a program lies in a folder");
    let name = format!(
        "{}polychip_capi{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    folder.join(name)
}

/// A program, with the library where it finds it.
pub(crate) struct Program {
    folder: tempfile::TempDir,
}

impl Program {
    /// Compiles a source and links it with the library, as a user does.
    pub(crate) fn made(source: &Path, compiler: Compiler, flags: &[String]) -> Result<Program, Failed> {
        let folder = tempfile::tempdir()?;
        let library = library();
        if !library.is_file() {
            return Err(format!("cargo has built no {}", library.display()).into());
        }
        let version = concat!(
            env!("CARGO_PKG_VERSION_MAJOR"),
            ".",
            env!("CARGO_PKG_VERSION_MINOR")
        );
        for name in ["libpolychip.so".to_owned(), format!("libpolychip.so.{version}")] {
            std::os::unix::fs::symlink(&library, folder.path().join(name))?;
        }
        let standard = compiler.standards()[0];
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = compiler.command(standard);
        command
            .args(["-g", "-I"])
            .arg(package.join("include"))
            .args(flags)
            .arg(source)
            .arg("-L")
            .arg(folder.path())
            .args(["-lpolychip", "-pthread"])
            .arg(format!("-Wl,-rpath,{}", folder.path().display()))
            .arg("-o")
            .arg(folder.path().join("program"));
        succeeds(&mut command)?;
        Ok(Program { folder })
    }

    /// Runs it; what it prints.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<String, Failed> {
        let output = Command::new(self.folder.path().join("program"))
            .args(arguments)
            // no plugin of this machine takes part
            .env_remove("POLYCHIP_PLUGINS")
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(text);
        }
        let words = String::from_utf8_lossy(&output.stderr);
        Err(format!("{}: {text}{words}", output.status).into())
    }
}
