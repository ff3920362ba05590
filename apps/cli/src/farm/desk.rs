//! Which boards take part.

use std::path::PathBuf;

use polychip_farm::inventory::{self, Member};
use polychip_farm::labgrid::Coordinator;

use crate::exit::{Code, bad_input, failure, usage};

/// Where the boards are described.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Boards")]
pub(crate) struct DeskArguments {
    /// Boards of a desk (docs/farm.md)
    #[arg(long, value_name = "FILE", default_value = "farm.toml")]
    farm: PathBuf,
    /// The places of a labgrid coordinator instead; without an address, that of labgrid's own settings
    #[arg(long, value_name = "HOST:PORT", num_args = 0..=1, default_missing_value = "", conflicts_with = "farm")]
    labgrid: Option<String>,
    /// Private key for labgrid's places over ssh
    #[arg(long, value_name = "FILE", requires = "labgrid")]
    key: Option<PathBuf>,
    /// Option of ssh for labgrid's places, as `ssh -o` takes it; may be given several times
    #[arg(long = "ssh-option", value_name = "OPTION", requires = "labgrid")]
    ssh_options: Vec<String>,
    /// Only boards with these tags (`soc=rk3588,npu=v2`), or the one with this name
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
                    crate::exit::warn(format!("labgrid place {place} is not used: {reason}"));
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
