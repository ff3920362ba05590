//! Which plugin libraries run in processes of their own.

use std::path::Path;
use std::str::FromStr;

use polychip_isolation::{Isolated, Limits};

/// Which plugin libraries run in processes of their own. A crash or a hang there ends that process
/// and loses the device, not the app. The CPU plugin and linked plugins always run in the app's
/// process. Linux only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Isolate {
    /// None.
    #[default]
    None,
    /// As `Vendors` where the program `polychip-plugin-host` is installed; otherwise none.
    Auto,
    /// None, so that times do not contain the overhead of processes. Where the program is installed,
    /// those of `Vendors` are first loaded and asked for support in a process of their own, and left
    /// out if it dies.
    Probe,
    /// Those that load a vendor's library or driver.
    Vendors,
    /// All.
    All,
}

impl Isolate {
    /// Whether the library at `path` runs in a process of its own, or is tried there.
    pub(crate) fn includes(self, path: &Path) -> bool {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("");
        let name = stem
            .rsplit_once("polychip_plugin_")
            .map_or(stem, |(_, name)| name);
        match self {
            Isolate::None => false,
            Isolate::Auto | Isolate::Probe | Isolate::Vendors => !matches!(name, "cpu" | "null"),
            Isolate::All => name != "cpu",
        }
    }
}

impl FromStr for Isolate {
    type Err = String;

    fn from_str(text: &str) -> Result<Isolate, String> {
        match text {
            "none" => Ok(Isolate::None),
            "auto" => Ok(Isolate::Auto),
            "probe" => Ok(Isolate::Probe),
            "vendors" => Ok(Isolate::Vendors),
            "all" => Ok(Isolate::All),
            _ => Err(format!("{text:?}; expected none, auto, probe, vendors or all")),
        }
    }
}

/// Where a library runs.
pub(crate) enum Placement {
    /// In this process.
    Here,
    /// In a process of its own.
    Isolated(Isolated),
    /// In this process, after a process of its own has tried it.
    Probed(Isolated),
}

impl Isolate {
    /// Where the library at `path` runs.
    ///
    /// # Errors
    /// The program is missing.
    pub(crate) fn placement(self, path: &Path, limits: Limits) -> Result<Placement, String> {
        let is_optional = matches!(self, Isolate::Auto | Isolate::Probe);
        if !self.includes(path) || (is_optional && !cfg!(target_os = "linux")) {
            return Ok(Placement::Here);
        }
        let isolated = match Isolated::find_program(path) {
            Ok(program) => Isolated {
                limits,
                ..Isolated::new(program, path)
            },
            Err(_) if is_optional => return Ok(Placement::Here),
            Err(words) => return Err(words),
        };
        Ok(match self {
            Isolate::Probe => Placement::Probed(isolated),
            _ => Placement::Isolated(isolated),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_is_never_isolated() {
        let library = |name: &str| Path::new("/plugins").join(format!("libpolychip_plugin_{name}.so"));
        for (isolate, chosen) in [
            ("none", [false, false, false]),
            ("auto", [false, false, true]),
            ("probe", [false, false, true]),
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
