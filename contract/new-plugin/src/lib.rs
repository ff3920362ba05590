//! Writes a new plugin: a working one, as a starting point. `polychip new-plugin` and `cargo xtask new-plugin` call it.
//!
//! Invariants:
//! 1. A plugin is one folder. In this repository no other file changes: the workspace takes members by pattern, and
//!    `tidy` derives their edges. Outside it is the same folder in a workspace of its own ([`workspace`]), so that it
//!    can move in.
//! 2. Nothing is overwritten: a taken name is refused, and a failed attempt leaves no folder.
//! 3. The templates (`templates`) are the plugin `xyz`; its name in them is the only placeholder.
//!
//! Not here: the command lines, and what they print. Start reading at [`workspace`].

#![forbid(unsafe_code)]

mod archive;
mod plugin;
mod template;
mod workspace;

pub use plugin::{check_name, format, packages, write};
pub use template::Template;
pub use workspace::{Polychip, workspace};
