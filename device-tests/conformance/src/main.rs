//! `polychip-conform PLUGIN.so`: the suite that judges every plugin.

fn main() -> anyhow::Result<()> {
    anyhow::bail!("no test has been written yet")
}
