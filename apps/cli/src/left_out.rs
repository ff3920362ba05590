//! Commands that a feature of this package brings: what is said of one that this build leaves out.
//!
//! Invariant: a command that some build has is never an unknown word; who calls it learns the feature.

use std::ffi::OsString;

use crate::exit::usage;

/// A command, the feature that brings it, and whether this build has it.
type Row = (&'static str, &'static str, bool);

/// All commands that a feature brings.
const COMMANDS: [Row; 8] = [
    ("farm", "farm", cfg!(feature = "farm")),
    ("generate", "llm", cfg!(feature = "llm")),
    ("chat", "llm", cfg!(feature = "llm")),
    ("serve", "serve", cfg!(feature = "serve")),
    ("bench-llm", "llm", cfg!(feature = "llm")),
    ("phases", "llm", cfg!(feature = "llm")),
    ("logits", "llm", cfg!(feature = "llm")),
    ("monitor", "monitor", cfg!(feature = "monitor")),
];

/// The error of a command line whose command this build leaves out; any other error as it is.
pub(crate) fn named(line: &[OsString], error: anyhow::Error) -> anyhow::Error {
    match words(line, &COMMANDS) {
        Some(words) => usage(words),
        None => error,
    }
}

/// What stands below the help: the commands that are left out.
pub(crate) fn help() -> Option<String> {
    listed(&COMMANDS)
}

/// What is said of a command line, the program's name first, whose command is left out.
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
            "`polychip {name}` is not in this build: `cargo install --path cli --features {feature}` makes one with it, \
             `--features full` one with all commands"
        )
    })
}

fn listed(commands: &[Row]) -> Option<String> {
    let out = commands.iter().filter(|(_, _, is_here)| !is_here);
    let names: Vec<&str> = out.map(|(name, ..)| *name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "not in this build: {} (`cargo install --path cli --features full`)",
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
    fn a_command_that_is_left_out_names_its_feature() {
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
    fn each_row_is_a_command_of_the_build_with_all_features() {
        let command = crate::Arguments::command();
        for (name, _, is_here) in COMMANDS {
            assert!(is_here, "tests are built with all features");
            assert!(command.find_subcommand(name).is_some(), "{name}");
        }
        assert_eq!(help(), None);
    }
}
