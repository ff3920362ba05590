//! Selection of boards.

use std::path::PathBuf;

use polychip_farm::inventory::{self, Member};
use polychip_farm::labgrid::Coordinator;
use polychip_farm_record::printable;

use crate::exit::{Code, bad_input, failure, usage};

/// Where the boards are described.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Boards")]
pub(crate) struct DeskArguments {
    /// File that lists the boards (docs/farm.md)
    #[arg(long, value_name = "FILE", default_value = "farm.toml")]
    farm: PathBuf,
    /// Use the places of a labgrid coordinator instead; default address: from labgrid's settings
    #[arg(long, value_name = "HOST:PORT", num_args = 0..=1, default_missing_value = "", conflicts_with = "farm")]
    labgrid: Option<String>,
    /// SSH private key for labgrid places
    #[arg(long, value_name = "FILE", requires = "labgrid")]
    key: Option<PathBuf>,
    /// SSH option for labgrid places, as for `ssh -o`; repeatable
    #[arg(long = "ssh-option", value_name = "OPTION", requires = "labgrid")]
    ssh_options: Vec<String>,
    /// Use only boards with these tags (`soc=rk3588,npu=v2`), or the board with this name
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    only: Vec<String>,
}

impl DeskArguments {
    /// The boards.
    pub(crate) fn members(&self) -> anyhow::Result<Vec<Member>> {
        let (members, names, from) = match &self.labgrid {
            Some(address) => {
                let coordinator = Coordinator {
                    address: (!address.is_empty()).then(|| address.clone()),
                    key: self.key.clone(),
                    options: self.ssh_options.clone(),
                };
                let found = coordinator
                    .boards(&self.only)
                    .map_err(|words| failure(Code::NoDevice, words))?;
                for (place, reason) in &found.left_out {
                    crate::exit::warn(format!(
                        "labgrid place {} is not used: {reason}",
                        printable(place)
                    ));
                }
                (found.members, Vec::new(), "the coordinator".to_owned())
            }
            None => {
                let mut members = inventory::read(&self.farm).map_err(bad_input)?;
                let names: Vec<String> = members.iter().map(|member| member.place.name.clone()).collect();
                members.retain(|member| inventory::matches(&member.place, &self.only));
                (members, names, self.farm.display().to_string())
            }
        };
        if members.is_empty() {
            let mut words = format!("{from} has no such board");
            if !self.only.is_empty() {
                words = format!("--only {}: {words}", self.only.join(","));
            }
            if !names.is_empty() {
                words.push_str(&format!("; it has {}", names.join(", ")));
            }
            return Err(usage(words));
        }
        Ok(members)
    }
}
