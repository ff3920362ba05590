//! Commands behind package features, and the message for a command that this build omits.
//!
//! Invariant: a command of any build is never unknown; the message names its feature.

use std::ffi::OsString;

use crate::exit::usage;

/// A command, its feature, and whether this build includes it.
type Row = (&'static str, &'static str, bool);

/// All commands behind features.
const COMMANDS: [Row; 9] = [
    ("farm", "farm", cfg!(feature = "farm")),
    ("generate", "llm", cfg!(feature = "llm")),
    ("chat", "llm", cfg!(feature = "llm")),
    ("serve", "serve", cfg!(feature = "serve")),
    ("bench-llm", "llm", cfg!(feature = "llm")),
    ("phases", "llm", cfg!(feature = "llm")),
    ("logits", "llm", cfg!(feature = "llm")),
    ("monitor", "monitor", cfg!(feature = "monitor")),
    ("new-plugin", "new-plugin", cfg!(feature = "new-plugin")),
];

/// Replaces the error of a command line whose command this build omits.
pub(crate) fn named(line: &[OsString], error: anyhow::Error) -> anyhow::Error {
    match words(line, &COMMANDS) {
        Some(words) => usage(words),
        None => error,
    }
}

/// The list of omitted commands below the help.
pub(crate) fn help() -> Option<String> {
    listed(&COMMANDS)
}

/// The message for a command line, with the program's name first, whose command is omitted.
fn words(line: &[OsString], commands: &[Row]) -> Option<String> {
    let mut words = line.iter().skip(1).filter_map(|word| word.to_str());
    let mut next = || words.find(|word| !word.starts_with('-'));
    let command = match next()? {
        "help" => next()?,
        command => command,
    };
    let row = commands.iter().find(|(name, ..)| *name == command)?;
    let (name, feature, is_here) = *row;
    (!is_here).then(|| {
        format!(
            "`polychip {name}` is not in this build: install it with `cargo install --path apps/cli --features {feature}`, \
             or all commands with `--features full`"
        )
    })
}

fn listed(commands: &[Row]) -> Option<String> {
    let out = commands.iter().filter(|(_, _, is_here)| !is_here);
    let names: Vec<&str> = out.map(|(name, ..)| *name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "not in this build: {} (`cargo install --path apps/cli --features full`)",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    const ROWS: [Row; 2] = [("farm", "farm", false), ("monitor", "monitor", true)];

    fn said(line: &str) -> Option<String> {
        let line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        words(&line, &ROWS)
    }

    #[test]
    fn omitted_command_names_its_feature() {
        for line in [
            "polychip farm",
            "polychip -v farm run --board a",
            "polychip help farm",
        ] {
            let words = said(line).unwrap();
            assert!(
                words.contains("`polychip farm` is not in this build") && words.contains("--features farm"),
                "{line}: {words}"
            );
        }
        for line in [
            "polychip",
            "polychip help",
            "polychip monitor",
            "polychip farmer",
            "polychip plan farm",
        ] {
            assert_eq!(said(line), None, "{line}");
        }
        let help = listed(&ROWS).unwrap();
        assert!(help.contains("farm") && !help.contains("monitor"), "{help}");
    }

    #[test]
    fn feature_table_matches_the_full_build() {
        let command = crate::Arguments::command();
        for (name, _, is_here) in COMMANDS {
            assert!(is_here, "tests are built with all features");
            assert!(command.find_subcommand(name).is_some(), "{name}");
        }
        assert_eq!(help(), None);
    }
}
