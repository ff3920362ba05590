//! `polychip farm boards`: lists the boards and whether each can be reached.

use std::fmt;

use polychip_farm_record::printable;
use schemars::JsonSchema;
use serde::Serialize;

use super::desk::DeskArguments;
use crate::exit::{Code, failure};
use crate::output::Output;
use crate::progress::Progress;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    desk: DeskArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Output of `farm boards --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FarmBoardsOutput {
    /// In the order of the inventory.
    boards: Vec<BoardLine>,
}

/// A board.
#[derive(Debug, Serialize, JsonSchema)]
struct BoardLine {
    /// Its name.
    name: String,
    /// How it is reached: `local`, `ssh`, `adb`.
    transport: String,
    /// Its tags, `key=value`.
    tags: Vec<String>,
    /// Whether the inventory marks it as emulated.
    emulated: bool,
    /// System and processor from `uname -sm`; null if unreachable.
    system: Option<String>,
    /// Why it is not reached.
    trouble: Option<String>,
}

/// Runs the command. Code 4 where no board can be reached.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let members = arguments.desk.members()?;
    let progress = Progress::steps("asking boards", members.len() as u64);
    let probed: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = members
            .iter()
            .map(|member| {
                let progress = &progress;
                scope.spawn(move || {
                    let said = member.transport.probe();
                    progress.step();
                    said
                })
            })
            .collect();
        threads
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join)
            .collect()
    });
    drop(progress);
    let mut boards = Vec::with_capacity(members.len());
    for (member, said) in members.into_iter().zip(probed) {
        let said = said.map_err(|_| anyhow::anyhow!("the check of board {} panicked", member.place.name))?;
        let (system, trouble) = match said {
            Ok(system) => (Some(system), None),
            Err(error) => (None, Some(error.to_string())),
        };
        boards.push(BoardLine {
            name: member.place.name,
            transport: member.place.transport,
            tags: member.place.tags,
            emulated: member.emulated,
            system,
            trouble,
        });
    }
    let is_reached = boards.iter().any(|board| board.system.is_some());
    let answer = FarmBoardsOutput { boards };
    if arguments.json {
        out.json(&answer)?
    } else {
        out.text(&answer.to_string())?
    }
    if is_reached {
        Ok(())
    } else {
        Err(failure(Code::NoDevice, "no board can be reached"))
    }
}

impl fmt::Display for FarmBoardsOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for board in &self.boards {
            write!(f, "{} ({})", board.name, board.transport)?;
            if !board.tags.is_empty() {
                write!(f, " {}", printable(&board.tags.join(" ")))?;
            }
            match (&board.system, &board.trouble) {
                (Some(system), _) => write!(f, ": {}", printable(system))?,
                (None, Some(trouble)) => write!(f, ": {}", printable(trouble))?,
                (None, None) => {}
            }
            f.write_str(if board.emulated { ", emulated\n" } else { "\n" })?;
        }
        Ok(())
    }
}
