//! `polychip completions`: shell completion scripts.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::output::Output;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
bash: polychip completions bash > ~/.local/share/bash-completion/completions/polychip
zsh:  polychip completions zsh > _polychip, in a folder of $fpath
fish: polychip completions fish > ~/.config/fish/completions/polychip.fish")]
pub(crate) struct Arguments {
    /// Shell to print completions for
    shell: Shell,
}

/// Runs the command for the command line of `C`.
pub(crate) fn run<C: CommandFactory>(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut C::command(), "polychip", &mut script);
    out.text(&String::from_utf8(script)?)
}
