//! Option defaults from the user's file, added to the command line.
//!
//! Invariants:
//! 1. The file holds only options with the same meaning in every command: those under the headings [`HEADINGS`].
//! 2. The command line takes precedence: an option that it sets or excludes is not taken from the file.
//! 3. A value of the file is parsed like one on the command line, and its errors name the file.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, CommandFactory, FromArgMatches};

use crate::exit::{said, usage};

/// The variable that names the file.
const VARIABLE: &str = "POLYCHIP_CONFIG";
/// Headings of the options that the file may set.
const HEADINGS: &[&str] = &["Devices", "Limits"];

/// Reads a command line, the program's name first, with the defaults of the person's file.
///
/// # Errors
/// The command line is invalid or asks for help, or the file is unusable.
pub(crate) fn parse<C: CommandFactory + FromArgMatches>(mut line: Vec<OsString>) -> anyhow::Result<C> {
    let command = C::command();
    let ended = |matches: Result<ArgMatches, clap::Error>| {
        let read = matches.and_then(|matches| C::from_arg_matches(&matches));
        read.map_err(said)
    };
    let is_short = |error: &clap::Error| error.kind() == ErrorKind::MissingRequiredArgument;
    let alone = command.clone().try_get_matches_from(&line);
    if alone.as_ref().is_err_and(|error| !is_short(error)) {
        return ended(alone);
    }
    let Some(file) = file() else {
        return ended(alone);
    };
    let values = values(&command, &file)?;
    // missing options may be set in the file
    let seen = command.clone().ignore_errors(true).try_get_matches_from(&line);
    let added = added(&command, &seen.map_err(said)?, &values);
    if added.is_empty() {
        return ended(alone);
    }
    // behind `--` nothing is an option
    let end = line.iter().position(|word| word == "--").unwrap_or(line.len());
    line.splice(end..end, added.into_iter().map(OsString::from));
    let both = command.try_get_matches_from(&line);
    let read = both.and_then(|matches| C::from_arg_matches(&matches));
    read.map_err(|error| {
        if is_short(&error) {
            said(error)
        } else {
            usage(format!("{}: {}", file.display(), words(&error)))
        }
    })
}

/// What is wrong with a value, without clap's own title and usage.
fn words(error: &clap::Error) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    first.trim_start_matches("error: ").to_owned()
}

/// The person's file, where there is one.
fn file() -> Option<PathBuf> {
    match std::env::var_os(VARIABLE) {
        Some(path) if path.is_empty() => None,
        // one that is named has to be there
        Some(path) => Some(PathBuf::from(path)),
        None => {
            let folders = directories::ProjectDirs::from("", "", "polychip")?;
            Some(folders.config_dir().join("config.toml")).filter(|path| path.is_file())
        }
    }
}

/// An option of the file, and its values as text.
type Value = (String, Vec<String>);

/// The options that the file holds.
fn values(command: &Command, file: &Path) -> anyhow::Result<Vec<Value>> {
    let bad = |what: String| usage(format!("{}: {what}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| {
        bad(format!(
            "{error}; set {VARIABLE} to another file, or to nothing for no file"
        ))
    })?;
    let table: toml::Table = text.parse().map_err(|error| bad(format!("{error}")))?;
    let known = known(command);
    let one = |(key, value): (&String, &toml::Value)| {
        if !known.contains(key) {
            let former = former(command);
            let known: Vec<&str> = known.difference(&former).map(String::as_str).collect();
            return Err(bad(format!(
                "unknown option {key:?}; options with a default are {}",
                known.join(", ")
            )));
        }
        let values = match value {
            toml::Value::Array(values) => values.iter().map(word).collect(),
            value => word(value).map(|word| vec![word]),
        };
        let values: Option<Vec<String>> = values;
        let values = values.ok_or_else(|| {
            bad(format!(
                "{key}: expected a string, a number, a boolean, or a list of them"
            ))
        })?;
        Ok((key.clone(), values))
    };
    table.iter().map(one).collect()
}

/// A value as written in a command line.
fn word(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(value) => Some(value.to_string()),
        _ => None,
    }
}

fn is_common(option: &Arg) -> bool {
    option
        .get_help_heading()
        .is_some_and(|heading| HEADINGS.contains(&heading))
}

/// The options that the file may set.
fn known(command: &Command) -> BTreeSet<String> {
    options(command, &is_common)
}

/// Former names of options, which answer with the current one.
fn former(command: &Command) -> BTreeSet<String> {
    options(command, &Arg::is_hide_set)
}

/// The options of a command and its subcommands that `chosen` accepts.
fn options(command: &Command, chosen: &dyn Fn(&Arg) -> bool) -> BTreeSet<String> {
    let own = command.get_arguments().filter(|option| chosen(option));
    let own = own.filter_map(|option| option.get_long().map(str::to_owned));
    let below = command
        .get_subcommands()
        .flat_map(|command| options(command, chosen));
    own.chain(below).collect()
}

/// The words that the file adds to a command line.
fn added(command: &Command, matches: &ArgMatches, values: &[Value]) -> Vec<String> {
    let (mut command, mut matches) = (command, matches);
    while let Some((name, below)) = matches.subcommand() {
        let Some(found) = command.find_subcommand(name) else {
            break;
        };
        (command, matches) = (found, below);
    }
    let is_given =
        |option: &Arg| matches.value_source(option.get_id().as_str()) == Some(ValueSource::CommandLine);
    let is_excluded = |option: &Arg| {
        // either may say that it excludes the other
        let by = |one: &Arg, other: &Arg| {
            let conflicts = command.get_arg_conflicts_with(one);
            conflicts
                .iter()
                .any(|conflict| conflict.get_id() == other.get_id())
        };
        let mut given = command.get_arguments().filter(|other| is_given(other));
        given.any(|other| by(option, other) || by(other, option))
    };
    let mut added = Vec::new();
    for (key, values) in values {
        let mut options = command.get_arguments().filter(|option| is_common(option));
        let Some(option) = options.find(|option| option.get_long() == Some(key)) else {
            continue;
        };
        if is_given(option) || is_excluded(option) {
            continue;
        }
        for value in values {
            if option.get_action().takes_values() {
                added.push(format!("--{key}={value}"));
            } else if value == "true" {
                added.push(format!("--{key}"));
            }
        }
    }
    added
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: Sub,
    }

    #[derive(clap::Subcommand)]
    enum Sub {
        Run(Run),
        Other,
    }

    #[derive(clap::Args)]
    struct Run {
        #[arg(long, help_heading = "Devices")]
        devices: Vec<String>,
        #[arg(long, help_heading = "Devices")]
        threads: Option<u32>,
        #[arg(long, help_heading = "Devices", conflicts_with = "devices")]
        plan: Option<String>,
        #[arg(long, help_heading = "Devices")]
        locked: bool,
        #[arg(long)]
        json: bool,
    }

    fn of(line: &[&str], file: &str) -> Result<Vec<String>, String> {
        let command = Line::command();
        let matches = command.clone().try_get_matches_from(line).unwrap();
        let path = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(path.path(), file).unwrap();
        let values = values(&command, path.path()).map_err(|error| error.to_string())?;
        Ok(added(&command, &matches, &values))
    }

    #[test]
    fn defaults_file_adds_only_known_absent_options() {
        let file = "threads = 4\ndevices = [\"cpu\", \"gpu:0\"]\nlocked = true\n";
        let all = ["--devices=cpu", "--devices=gpu:0", "--locked", "--threads=4"];
        assert_eq!(of(&["x", "run"], file).unwrap(), all);
        assert_eq!(of(&["x", "other"], file).unwrap(), Vec::<String>::new());
        assert_eq!(of(&["x", "run", "--threads", "2"], file).unwrap(), all[..3]);
        assert_eq!(of(&["x", "run", "--plan", "p"], file).unwrap(), all[2..]);
        assert_eq!(of(&["x", "run"], "locked = false").unwrap(), Vec::<String>::new());
    }

    #[test]
    fn unusable_defaults_file_is_reported_with_a_remedy() {
        for (file, part) in [
            (
                "json = true",
                "unknown option \"json\"; options with a default are devices, locked, plan, threads",
            ),
            ("threads = { a = 1 }", "threads: expected a string"),
            ("threads =", "TOML"),
        ] {
            let words = of(&["x", "run"], file).unwrap_err();
            assert!(words.contains(part), "{words}");
        }
    }
}
