//! Packages as Core ML reads them: a manifest, the model as an ML Program in protobuf's wire format, and weights.
//!
//! Invariants:
//! 1. The same program gives the same bytes.
//! 2. Weights of [`model::SMALL`] bytes or fewer are in the model, larger ones in the weight file.
//!
//! Not here: what a program is (`program`), compiling a package (`prepare`).

mod model;
mod weights;

use std::io;
use std::path::Path;

use crate::program::Program;

/// The bytes of a package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Package {
    /// `model.mlmodel`.
    pub(crate) model: Vec<u8>,
    /// `weights/weight.bin`; empty without weights.
    pub(crate) weights: Vec<u8>,
}

/// Identifiers of the two items: they name entries of one manifest, and need to differ there only.
const MODEL: &str = "6E5B2A3C-2F0D-4A7B-9C61-0B7D5F1E8A01";
const WEIGHTS: &str = "6E5B2A3C-2F0D-4A7B-9C61-0B7D5F1E8A02";

impl Package {
    /// The package of a program.
    pub(crate) fn of(program: &Program) -> Package {
        let mut weights = weights::Writer::default();
        let model = model::bytes(program, &mut weights);
        Package {
            model,
            weights: weights.finish(),
        }
    }

    /// Writes the package into a folder that is there.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        let data = folder.join("Data/com.apple.CoreML");
        std::fs::create_dir_all(data.join("weights"))?;
        std::fs::write(data.join("model.mlmodel"), &self.model)?;
        if !self.weights.is_empty() {
            std::fs::write(data.join("weights/weight.bin"), &self.weights)?;
        }
        std::fs::write(folder.join("Manifest.json"), manifest())
    }
}

fn manifest() -> String {
    let item = |id: &str, description: &str, name: &str| {
        format!(
            "    \"{id}\": {{\n      \"author\": \"com.apple.CoreML\",\n      \"description\": \"{description}\",\n      \
             \"name\": \"{name}\",\n      \"path\": \"com.apple.CoreML/{name}\"\n    }}"
        )
    };
    format!(
        "{{\n  \"fileFormatVersion\": \"1.0.0\",\n  \"itemInfoEntries\": {{\n{},\n{}\n  }},\n  \"rootModelIdentifier\": \
         \"{MODEL}\"\n}}\n",
        item(MODEL, "CoreML Model Specification", "model.mlmodel"),
        item(WEIGHTS, "CoreML Model Weights", "weights"),
    )
}
