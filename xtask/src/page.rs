//! `cargo xtask page`: the page of `polychip partition --html`, made again and opened in a real browser; the page of
//! `polychip farm report --html` opened there, too.
//!
//! Invariants:
//! 1. The committed page matches the build of `apps/cli/page` from its source and locked libraries.
//! 2. The opened pages show plans of MobileNetV2 on three emulated devices, or of the shipped model if that one is
//!    missing, with a message.
//! 3. A missing browser or Node.js is *skipped* in CI with the reason; this command fails.
//!
//! Not here: the browser tests (`apps/cli/page/test`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::root::root;

/// Names that the browser goes by, the first one on Debian.
const BROWSERS: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];

/// The oldest Node.js that the libraries for building and testing take.
const NODE: u32 = 18;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only compare the committed page with the built one
    #[arg(long)]
    check: bool,
    /// Use the test build of program and plugin in target/debug, without building
    #[arg(long)]
    built: bool,
    /// Take the guide's screenshots again, into docs/pictures
    #[arg(long)]
    pictures: bool,
}

/// Why the page cannot be tested here, if so.
pub(crate) fn missing() -> Option<String> {
    no_node().or_else(|| {
        let none = browser().is_none();
        none.then(|| "Chromium is not installed, and POLYCHIP_CHROMIUM names no program".to_owned())
    })
}

/// Why the page cannot be made here, if so.
fn no_node() -> Option<String> {
    let version = |program: &str| {
        let output = Command::new(program).arg("--version").output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let major = text
            .trim()
            .trim_start_matches('v')
            .split('.')
            .next()?
            .parse::<u32>();
        major.ok().filter(|_| output.status.success())
    };
    match (version("node"), version("npm")) {
        (None, _) => Some("Node.js is not installed".to_owned()),
        (Some(found), _) if found < NODE => {
            Some(format!("Node.js {found} is too old: version {NODE} is required"))
        }
        (_, None) => Some("npm is not installed".to_owned()),
        _ => None,
    }
}

/// The browser's program.
fn browser() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("POLYCHIP_CHROMIUM") {
        return Some(PathBuf::from(named)).filter(|path| path.is_file());
    }
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let all = BROWSERS
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    all.into_iter().find(|program| program.is_file())
}

/// Makes the page again, and opens one in a browser.
pub(crate) fn run(options: &Options) -> Result<()> {
    if let Some(why) = no_node() {
        bail!("{why}");
    }
    let source = root().join("apps/cli/page");
    let npm = |arguments: &[&str]| call(Command::new("npm").args(arguments).current_dir(&source));
    npm(&["ci", "--no-audit", "--no-fund", "--loglevel=error"])?;
    npm(&["run", "--silent", "check"])?;
    eprintln!("apps/cli/src/page/page.html matches apps/cli/page");
    if options.check {
        return Ok(());
    }
    let browser = browser().context("Chromium is not installed, and POLYCHIP_CHROMIUM names no program")?;
    let out = root().join("target/page");
    fs::create_dir_all(&out)?;
    let pages = reports(&out, options.built)?;
    let farm = farm(&out)?;
    let mut tests = Command::new("node");
    tests
        .args(["--test", "test/page.test.js", "test/farm.test.js"])
        .current_dir(&source)
        .env("PAGE", &pages.plan)
        .env("COMPARED", &pages.compared)
        .env("AT_ONCE", &pages.at_once)
        .env("FARM", &farm)
        .env("CHROMIUM", browser)
        .env("OUT", &out);
    if options.pictures {
        let pictures = root().join("docs/pictures");
        fs::create_dir_all(&pictures)?;
        tests.env("PICTURES", pictures);
    }
    call(&mut tests)?;
    eprintln!("screenshots: {}", out.display());
    Ok(())
}

/// Opens the report of `cargo xtask farm-desk`, which lies in this folder with what it must show.
pub(crate) fn open_farm_desk(work: &Path) -> Result<()> {
    let browser = browser().context("Chromium is not installed, and POLYCHIP_CHROMIUM names no program")?;
    let source = root().join("apps/cli/page");
    call(
        Command::new("npm")
            .args(["ci", "--no-audit", "--no-fund", "--loglevel=error"])
            .current_dir(&source),
    )?;
    call(
        Command::new("node")
            .args(["--test", "test/farm-desk.test.js"])
            .current_dir(&source)
            .env("FARM", work.join("report.html"))
            .env("EXPECTATIONS", work.join("expectations.json"))
            .env("CHROMIUM", browser)
            .env("OUT", work),
    )
}

/// The pages that are opened.
struct Pages {
    plan: PathBuf,
    /// The same plan beside the one of least energy.
    compared: PathBuf,
    /// One for devices at once.
    at_once: PathBuf,
}

/// The pages of plans on three emulated devices.
fn reports(out: &Path, is_built: bool) -> Result<Pages> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // one by one, as tests build them: together their dependencies would have other features, and be built anew
    for (package, features) in [("polychip-cli", "full"), ("polychip-plugin-null", "")] {
        if !is_built {
            call(
                Command::new(&cargo)
                    .args(["build", "--quiet", "--package", package, "--features", features])
                    .current_dir(root()),
            )?;
        }
    }
    let built = root().join("target/debug");
    let library = format!(
        "{}polychip_plugin_null{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    let plugins = out.join("plugins");
    fs::create_dir_all(&plugins)?;
    fs::copy(built.join(&library), plugins.join(&library)).context(library)?;
    let mut model = root().join("device-tests/generated/models/mobilenet_v2.onnx");
    if !model.is_file() {
        eprintln!(
            "{} is missing (create it with `cargo xtask models`): using the shipped model instead",
            model.display()
        );
        model = root().join("examples/shapes/shapes.onnx");
    }
    let partition = |arguments: &[&str]| {
        call(
            Command::new(built.join("polychip"))
                .arg("partition")
                .arg(&model)
                .arg("--plugins")
                .arg(&plugins)
                .args(["--devices", "null"])
                .args(arguments)
                .current_dir(out)
                .env(
                    "POLYCHIP_NULL_SCRIPT",
                    root().join("apps/cli/page/test/devices.toml"),
                )
                .stdout(std::process::Stdio::null()),
        )
    };
    partition(&["--html", "report.html"])?;
    partition(&["--policy", "energy", "-o", "energy.json"])?;
    partition(&["--html", "compared.html", "--against", "energy.json"])?;
    partition(&["--policy", "makespan", "--html", "at-once.html"])?;
    Ok(Pages {
        plan: out.join("report.html"),
        compared: out.join("compared.html"),
        at_once: out.join("at-once.html"),
    })
}

/// The page of a farm whose three snapshots are made up, by the program that the other page was made by.
fn farm(out: &Path) -> Result<PathBuf> {
    let page = out.join("farm.html");
    let runs = root().join("apps/cli/page/test/farm");
    call(
        Command::new(root().join("target/debug/polychip"))
            .args(["farm", "report"])
            .args(["night-1", "night-2", "pull"].map(|name| runs.join(name)))
            .arg("--against")
            .arg(runs.join("night-2"))
            .arg("--html")
            .arg(&page)
            .stdout(std::process::Stdio::null()),
    )?;
    Ok(page)
}

fn call(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("starting {command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed ({status})");
    }
    Ok(())
}
