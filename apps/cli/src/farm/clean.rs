//! `polychip farm clean`: deletes what the farm keeps on boards.

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

/// Output of `farm clean --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FarmCleanOutput {
    /// In the order of the inventory.
    boards: Vec<Cleaned>,
}

/// A board.
#[derive(Debug, Serialize, JsonSchema)]
struct Cleaned {
    /// Its name.
    name: String,
    /// Bytes that are free again; null if the board does not tell.
    freed_bytes: Option<u64>,
    /// Why it was not cleaned; null if it was.
    trouble: Option<String>,
}

/// Runs the command. Code 4 where a board was not cleaned.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let members = arguments.desk.members()?;
    let progress = Progress::steps("cleaning boards", members.len() as u64);
    let boards: Vec<Cleaned> = std::thread::scope(|scope| {
        let threads: Vec<_> = members
            .iter()
            .map(|member| {
                let progress = &progress;
                scope.spawn(move || {
                    let done = polychip_farm::clean(member);
                    progress.step();
                    done
                })
            })
            .collect();
        let ended = threads.into_iter().zip(&members).map(|(thread, member)| {
            let done = thread
                .join()
                .unwrap_or_else(|_| Err("the cleaning panicked".to_owned()));
            Cleaned {
                name: member.place.name.clone(),
                freed_bytes: done.as_ref().ok().copied().flatten(),
                trouble: done.err(),
            }
        });
        ended.collect()
    });
    drop(progress);
    let failed = boards.iter().filter(|board| board.trouble.is_some()).count();
    let all = boards.len();
    let answer = FarmCleanOutput { boards };
    if arguments.json {
        out.json(&answer)?
    } else {
        out.text(&answer.to_string())?
    }
    match failed {
        0 => Ok(()),
        _ => Err(failure(
            Code::NoDevice,
            format!("{failed} of {all} boards were not cleaned"),
        )),
    }
}

impl fmt::Display for FarmCleanOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for board in &self.boards {
            match (&board.trouble, board.freed_bytes) {
                (Some(trouble), _) => writeln!(f, "{}: {}", board.name, printable(trouble))?,
                (None, Some(bytes)) => writeln!(
                    f,
                    "{}: {} deleted",
                    board.name,
                    polychip_partitioner::report::size(bytes)
                )?,
                (None, None) => writeln!(f, "{}: deleted", board.name)?,
            }
        }
        Ok(())
    }
}
