//! (to be written)
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Name
    name: String,
}
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let _ = &options.name;
    Ok(())
}
