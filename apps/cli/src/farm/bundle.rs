//! `polychip farm keygen` and `polychip farm bundle`: farm measurements as a signed bundle that ships with apps.
//!
//! Invariant: a secret key is written once, readable only by its owner, and never printed.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use polychip::bundle::{Bundle, Manifest, SecretKey};
use polychip_farm_results::bundle::{Family, families};
use polychip_farm_results::{Kind, Selection};
use schemars::JsonSchema;
use serde::Serialize;

use super::compare::all;
use crate::exit::{bad_input, usage};
use crate::file;
use crate::output::Output;

#[derive(Debug, clap::Args)]
pub(crate) struct KeygenArguments {
    /// File to write the secret key to; must not exist
    file: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Run folders
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// File with the secret key, written by `polychip farm keygen`
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Bundle version; must exceed every earlier version of the family
    #[arg(long, value_name = "N")]
    version: u64,
    /// File to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// SoC of the bundle, or a tag or name of its boards; required if the runs cover several SoCs
    #[arg(long, value_name = "NAME")]
    family: Option<String>,
    /// Percentage of devices that may load the bundle
    #[arg(long, value_name = "PERCENT", default_value_t = 100.0, value_parser = share)]
    share: f64,
    /// Fail if a board's profile cannot be read, instead of skipping it with a warning
    #[arg(long)]
    strict: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=100.0).contains(&value) => Ok(value),
        _ => Err(format!(
            "invalid percentage {text:?}: expected a number from 0 to 100"
        )),
    }
}

/// Output of `farm bundle --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FarmBundleOutput {
    /// The file.
    file: String,
    /// Its size.
    bytes: usize,
    /// SoC that it is for.
    family: String,
    /// Its version.
    version: u64,
    /// Thousandths of the devices that may load it.
    share_permille: u32,
    /// Key that an app has to trust.
    public_key: String,
    /// Measured parts.
    parts: usize,
    /// Runs of nodes that devices refused.
    refusals: usize,
    /// Models with a plan.
    plans: usize,
    /// Profiles that could not be read and are not in it, with the reason.
    left_out: Vec<String>,
}

/// Runs `farm keygen`.
pub(crate) fn keygen(arguments: &KeygenArguments, out: &mut Output) -> anyhow::Result<()> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("the system provides no random numbers: {error}"))?;
    let key = SecretKey::from_bytes(&bytes);
    let path = &arguments.file;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let text = hex(&key.to_bytes()) + "\n";
    let written = options.open(path).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| usage(format!("{}: cannot be written: {error}", path.display())))?;
    out.text(&key.public().to_string())
}

/// Runs `farm bundle`.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let key = secret(&arguments.key)?;
    let mut selection = Selection::new();
    for folder in &arguments.runs {
        for run in all(folder)? {
            selection.add(run, None).map_err(bad_input)?;
        }
    }
    let families = families(&selection).map_err(bad_input)?;
    let (name, family) = chosen(families.into_iter().collect(), arguments.family.as_deref())?;
    for words in &family.left_out {
        if arguments.strict {
            return Err(bad_input(format!("{words} (without --strict it is skipped)")));
        }
        crate::exit::warn(format!("skipped: {}", polychip_farm_record::printable(words)));
    }
    let manifest = Manifest {
        measured_s: family.measured_s,
        share_permille: (arguments.share * 10.0).round() as u32,
        ..Manifest::new(&name, arguments.version)
    };
    let bytes = Bundle::sign(&family.content, &manifest, &key).map_err(usage)?;
    file::write(&arguments.out, &bytes)?;
    let answer = FarmBundleOutput {
        file: arguments.out.display().to_string(),
        bytes: bytes.len(),
        family: name,
        version: arguments.version,
        share_permille: manifest.share_permille,
        public_key: key.public().to_string(),
        parts: family.content.profile.parts.len(),
        refusals: family.content.profile.refusals.len(),
        plans: family.content.plans.len(),
        left_out: family.left_out,
    };
    if arguments.json {
        out.json(&answer)
    } else {
        out.text(&answer.to_string())
    }
}

/// The family that was asked for, or the only one.
fn chosen(mut families: Vec<(Kind, Family)>, asked: Option<&str>) -> anyhow::Result<(String, Family)> {
    let names: Vec<String> = families.iter().map(|(kind, _)| kind.to_string()).collect();
    let at = match asked {
        Some(asked) => names.iter().position(|name| name == asked).or_else(|| {
            // by a tag or a board, where one family alone has it
            let mut called = (0..families.len()).filter(|at| families[*at].1.is_called(asked));
            called.next().filter(|_| called.next().is_none())
        }),
        None => (names.len() == 1).then_some(0),
    };
    let listed = || {
        let families = families.iter().map(|(kind, family)| {
            let mut words: Vec<&str> = family.boards.keys().map(String::as_str).collect();
            words.extend(family.boards.values().flatten().map(String::as_str));
            words.dedup();
            format!("{kind} ({})", words.join(", "))
        });
        polychip_farm_record::printable(&families.collect::<Vec<_>>().join("; ")).into_owned()
    };
    let Some(at) = at else {
        return Err(match (asked, names.is_empty()) {
            (_, true) => bad_input("nothing to bundle: the runs hold no records"),
            (Some(asked), _) => usage(format!(
                "no single family is called {asked:?}; the families, with their boards and tags, are {}",
                listed()
            )),
            (None, _) => usage(format!(
                "the runs cover several SoCs, but a bundle covers one: choose with --family NAME among {}",
                listed()
            )),
        });
    };
    let (kind, family) = families.swap_remove(at);
    Ok((kind.to_string(), family))
}

fn secret(path: &Path) -> anyhow::Result<SecretKey> {
    let key = file::read_text(path)?.trim().parse();
    key.map_err(|words| bad_input(format!("{}: {words}", path.display())))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl std::fmt::Display for FarmBundleOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "{}: {} version {}, {}: {} parts, {} refusals, {} plans",
            self.file,
            self.family,
            self.version,
            polychip_partitioner::report::size(self.bytes as u64),
            self.parts,
            self.refusals,
            self.plans
        )?;
        if self.share_permille < 1_000 {
            writeln!(f, "for {} % of devices", f64::from(self.share_permille) / 10.0)?;
        }
        write!(f, "apps that trust this key load it: {}", self.public_key)
    }
}
