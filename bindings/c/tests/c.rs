//! Programs in C and C++ on the library: the examples, what the header promises, bad input, threads, memory.
//!
//! Invariants:
//! 1. A program is compiled with all warnings as errors, against the committed header and the library as it was built.
//! 2. A compiler or a sanitizer that is missing is reported as skipped; Rust links by a C compiler, so `cc` is there.
//!
//! Not here: that the header is what cbindgen makes of the source (`cargo xtask header`).

#[path = "c/models.rs"]
mod models;
#[path = "c/programs.rs"]
mod programs;

use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Arguments, Failed, Trial};
use polychip_sdk::protobuf;
use polychip_test_requirements::{Need, left_out, skipped};

use programs::{Compiler, Language, Program, sanitizes};

/// The sanitizers of memory.
const SANITIZERS: &str = "address,undefined";

/// What a trial answers.
type Outcome = Result<(), Failed>;

/// Test programs that get a folder with small models, and the model of the demo.
const PROGRAMS: [&str; 6] = ["bad_input", "memory", "callbacks", "threads", "forked", "doors"];

/// The one that gets scripted devices beside them, in the folder `plugins`.
const SCRIPTED: &str = "doors";

fn main() {
    let arguments = Arguments::from_args();
    if !cfg!(all(target_os = "linux", target_pointer_width = "64")) {
        let trial = left_out("c", "the programs are for 64-bit Linux");
        libtest_mimic::run(&arguments, vec![trial]).exit();
    }
    // a harness that runs each test in a process of its own asks for one: whether the others can run is not looked into
    let asked = arguments.filter.clone().filter(|_| arguments.exact);
    let mut trials = Trials {
        asked,
        list: Vec::new(),
    };
    trials.add("the_library_exports_what_is_listed", None, exports);
    trials.add("the_picture_of_the_examples_is_that_of_the_demo", None, picture);
    for compiler in Compiler::ALL {
        let label = compiler.label();
        let missing = &|| compiler.missing().map(|why| (compiler.need(), why));
        trials.add(
            &format!("the_header_stands_alone_{label}"),
            Some(missing),
            move || header_alone(compiler),
        );
        trials.add(
            &format!("the_example_names_the_star_{label}"),
            Some(missing),
            move || star(compiler),
        );
    }
    trials.add(
        "a_callback_that_may_throw_does_not_compile",
        Some(&|| Compiler::GccCpp.missing().map(|why| (Need::Cpp, why))),
        throwing,
    );
    let missing = &|| {
        let missing = (!sanitizes(SANITIZERS)).then(|| format!("no -fsanitize={SANITIZERS} here"));
        missing.map(|why| (Need::Sanitizers, why))
    };
    for name in PROGRAMS {
        trials.add(name, None, move || run(name, None));
        trials.add(&format!("{name}_sanitized"), Some(missing), move || {
            run(name, Some(SANITIZERS))
        });
    }
    libtest_mimic::run(&arguments, trials.list).exit();
}

/// The trials that were asked for.
struct Trials {
    asked: Option<String>,
    list: Vec<Trial>,
}

impl Trials {
    /// Adds one, as skipped where what it needs is missing.
    fn add(
        &mut self,
        name: &str,
        missing: Option<&dyn Fn() -> Option<(Need, String)>>,
        test: impl FnOnce() -> Outcome + Send + 'static,
    ) {
        let is_asked = |asked: &String| asked == name || asked.starts_with(&format!("{name} ("));
        if !self.asked.as_ref().is_none_or(is_asked) {
            return;
        }
        self.list.push(match missing.and_then(|missing| missing()) {
            Some((need, why)) => skipped(name, need, &why),
            None => Trial::test(name, test),
        });
    }
}

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn root() -> &'static Path {
    package()
        .ancestors()
        .nth(2)
        .expect("invariant: the package lies in the repository")
}

fn shapes() -> PathBuf {
    root().join("examples/shapes/shapes.onnx")
}

/// The library exports exactly the symbols that `symbols.txt` lists.
fn exports() -> Outcome {
    let listed = std::fs::read_to_string(package().join("symbols.txt"))?;
    let output = Command::new("nm")
        .args(["--dynamic", "--defined-only", "--format=posix"])
        .arg(programs::library())
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let mut exported: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    exported.sort_unstable();
    let listed: Vec<&str> = listed.lines().collect();
    let lacks: Vec<&&str> = listed.iter().filter(|name| !exported.contains(name)).collect();
    let more: Vec<&&str> = exported.iter().filter(|name| !listed.contains(name)).collect();
    if lacks.is_empty() && more.is_empty() && !exported.is_empty() {
        return Ok(());
    }
    Err(format!(
        "symbols of the library: {more:?} are not listed, {lacks:?} are gone; a new function is a line in \
         bindings/c/symbols.txt, one that goes needs a new version"
    )
    .into())
}

/// `star.ppm` holds the pixels of the demo's picture.
fn picture() -> Outcome {
    let file = std::fs::File::open(root().join("examples/shapes/pictures/star.png"))?;
    let mut reader = png::Decoder::new(std::io::BufReader::new(file)).read_info()?;
    let mut pixels = vec![0; reader.output_buffer_size().ok_or("the picture is too large")?];
    let frame = reader.next_frame(&mut pixels)?;
    let mut wanted = format!("P6\n{} {}\n255\n", frame.width, frame.height).into_bytes();
    wanted.extend_from_slice(&pixels);
    let found = std::fs::read(root().join("examples/shapes/star.ppm"))?;
    if found == wanted {
        Ok(())
    } else {
        Err("examples/shapes/star.ppm is not the picture examples/shapes/pictures/star.png".into())
    }
}

/// The header compiles by itself, and beside that of the plugin contract; its structs are laid out as is listed.
fn header_alone(compiler: Compiler) -> Outcome {
    let folder = tempfile::tempdir()?;
    let alone = folder.path().join("alone.c");
    std::fs::write(&alone, "#include <polychip.h>\n")?;
    let tests = package().join("tests/c");
    for source in [alone, tests.join("both_headers.c"), tests.join("layout.c")] {
        for standard in compiler.standards() {
            let mut command = compiler.command(standard);
            command
                .args(["-fsyntax-only", "-x", compiler.language().word(), "-I"])
                .arg(package().join("include"))
                .arg("-I")
                .arg(root().join("contract/abi/include"))
                .arg(&source);
            programs::succeeds(&mut command)?;
        }
    }
    Ok(())
}

/// The example in a compiler's language prints the label that the README's first command prints.
fn star(compiler: Compiler) -> Outcome {
    let source = match compiler.language() {
        Language::C => "examples/c/label.c",
        Language::Cpp => "examples/c/label.cpp",
    };
    let program = Program::made(&root().join(source), compiler, &[])?;
    let said = program.run(&[
        &shapes(),
        &root().join("examples/shapes/star.ppm"),
        &root().join("examples/shapes/labels.txt"),
    ])?;
    let (label, report) = said.split_once("\n\n").ok_or("no report")?;
    if label != "star: probability 0.9747" {
        return Err(format!("it says {label:?}").into());
    }
    match compiler.language() {
        Language::C if report.contains("cpu:0") => Ok(()),
        Language::C => Err(format!("the report names no device: {report}").into()),
        Language::Cpp => fits_the_schema(report),
    }
}

/// The report as JSON is what the command line's schema says.
fn fits_the_schema(report: &str) -> Outcome {
    let schema = std::fs::read_to_string(root().join("apps/cli/schemas/run.schema.json"))?;
    let mut schema: serde_json::Value = serde_json::from_str(&schema)?;
    let part = schema["properties"]["report"].clone();
    if part.is_null() {
        return Err("run.schema.json has no report".into());
    }
    schema["properties"] = serde_json::json!({ "report": part });
    schema["required"] = serde_json::json!(["report"]);
    let report: serde_json::Value = serde_json::from_str(report)?;
    let answer = serde_json::json!({ "report": report });
    let validator = jsonschema::validator_for(&schema).map_err(|error| error.to_string())?;
    let errors: Vec<String> = validator
        .iter_errors(&answer)
        .map(|error| error.to_string())
        .collect();
    let wrong = validator.is_valid(&serde_json::json!({ "report": { "model": 1 } }));
    match (errors.is_empty(), wrong) {
        (true, false) => Ok(()),
        (_, true) => Err("the schema takes anything".into()),
        (false, _) => Err(errors.join("\n").into()),
    }
}

/// The types of callbacks say that they must not throw.
fn throwing() -> Outcome {
    let compile = |define: &[&str]| {
        let mut command = Compiler::GccCpp.command("c++17");
        command
            .args(define)
            .args(["-fsyntax-only", "-I"])
            .arg(package().join("include"))
            .arg(package().join("tests/c/throws.cpp"));
        programs::succeeds(&mut command)
    };
    compile(&[])?;
    match compile(&["-DTHROWS"]) {
        Err(words) if format!("{words:?}").contains("noexcept") => Ok(()),
        Err(words) => Err(format!("it is refused for another reason: {words:?}").into()),
        Ok(()) => Err("a callback that may throw is taken".into()),
    }
}

/// A test program goes well; with sanitizers, its memory too.
fn run(name: &str, sanitizers: Option<&str>) -> Outcome {
    let folder = tempfile::tempdir()?;
    models::write(folder.path())?;
    if name == SCRIPTED {
        let library =
            polychip_test_requirements::libraries::plugin("null").map_err(|error| format!("{error:#}"))?;
        let plugins = folder.path().join("plugins");
        std::fs::create_dir(&plugins)?;
        std::fs::copy(
            &library,
            plugins.join(library.file_name().ok_or("it has no name")?),
        )?;
    }
    let source = package().join(format!("tests/c/{name}.c"));
    let flags: Vec<String> = sanitizers
        .iter()
        .flat_map(|names| {
            [
                format!("-fsanitize={names}"),
                "-fno-sanitize-recover=all".to_owned(),
            ]
        })
        .collect();
    let program = Program::made(&source, Compiler::Gcc, &flags)?;
    program.run(&[folder.path(), &shapes()]).map(drop)
}
