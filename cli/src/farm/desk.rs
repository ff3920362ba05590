//! Which boards take part.

use std::path::PathBuf;

use polychip_farm::inventory::{self, Member};

use crate::exit::{bad_input, usage};

/// Where the boards are described.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Boards")]
pub(crate) struct DeskArguments {
    /// Boards of a desk (docs/farm.md)
    #[arg(long, value_name = "FILE", default_value = "farm.toml")]
    farm: PathBuf,
    /// Only boards with these tags (`soc=rk3588,npu=v2`), or the one with this name
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    only: Vec<String>,
}

impl DeskArguments {
    /// The boards.
    pub(crate) fn members(&self) -> anyhow::Result<Vec<Member>> {
        let mut members = inventory::read(&self.farm).map_err(bad_input)?;
        let names: Vec<String> = members.iter().map(|member| member.place.name.clone()).collect();
        members.retain(|member| inventory::matches(&member.place, &self.only));
        if members.is_empty() {
            return Err(usage(format!(
                "--only {}: {} has no such board; it has {}",
                self.only.join(","),
                self.farm.display(),
                names.join(", ")
            )));
        }
        Ok(members)
    }
}
