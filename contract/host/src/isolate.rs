//! Which plugin libraries run in processes of their own.

use std::path::Path;
use std::str::FromStr;

use polychip_isolation::{Confinement, Isolated};

/// Which plugin libraries run in processes of their own. A crash or a hang there ends that process
/// and loses the device, not the app. The CPU plugin and linked plugins always run in the app's
/// process. Linux only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Isolate {
    /// None.
    #[default]
    None,
    /// Those that load a vendor's library or driver.
    Vendors,
    /// All.
    All,
}

impl Isolate {
    /// Whether the library at `path` runs in a process of its own.
    pub(crate) fn includes(self, path: &Path) -> bool {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("");
        let name = stem
            .rsplit_once("polychip_plugin_")
            .map_or(stem, |(_, name)| name);
        match self {
            Isolate::None => false,
            Isolate::Vendors => !matches!(name, "cpu" | "null"),
            Isolate::All => name != "cpu",
        }
    }
}

impl FromStr for Isolate {
    type Err = String;

    fn from_str(text: &str) -> Result<Isolate, String> {
        match text {
            "none" => Ok(Isolate::None),
            "vendors" => Ok(Isolate::Vendors),
            "all" => Ok(Isolate::All),
            _ => Err(format!("{text:?}; expected none, vendors or all")),
        }
    }
}

/// The query function of a proxy for the library, and how the library's process is confined.
pub(crate) fn query(
    path: &Path,
    is_confined: bool,
) -> Result<(polychip_abi::polychip_plugin_query_fn, Confinement), String> {
    let program = Isolated::find_program(path)?;
    let isolated = Isolated {
        is_confined,
        ..Isolated::new(program, path)
    };
    isolated.query()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_is_never_isolated() {
        let library = |name: &str| Path::new("/plugins").join(format!("libpolychip_plugin_{name}.so"));
        for (isolate, chosen) in [
            ("none", [false, false, false]),
            ("vendors", [false, false, true]),
            ("all", [false, true, true]),
        ] {
            let isolate: Isolate = isolate.parse().unwrap();
            let found = ["cpu", "null", "qnn"].map(|name| isolate.includes(&library(name)));
            assert_eq!(found, chosen, "{isolate:?}");
        }
        assert!("some".parse::<Isolate>().unwrap_err().contains("vendors"));
    }
}
