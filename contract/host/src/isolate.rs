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
            Isolate::Auto | Isolate::Vendors => !matches!(name, "cpu" | "null"),
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
            "vendors" => Ok(Isolate::Vendors),
            "all" => Ok(Isolate::All),
            _ => Err(format!("{text:?}; expected none, auto, vendors or all")),
        }
    }
}

impl Isolate {
    /// The library at `path` with its program, if it runs in a process of its own.
    ///
    /// # Errors
    /// The program is missing.
    pub(crate) fn isolated(self, path: &Path, limits: Limits) -> Result<Option<Isolated>, String> {
        if !self.includes(path) || (self == Isolate::Auto && !cfg!(target_os = "linux")) {
            return Ok(None);
        }
        match Isolated::find_program(path) {
            Ok(program) => Ok(Some(Isolated {
                limits,
                ..Isolated::new(program, path)
            })),
            Err(_) if self == Isolate::Auto => Ok(None),
            Err(words) => Err(words),
        }
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
