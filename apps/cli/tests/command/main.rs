//! The real binary, run as a person or a script runs it: what it prints, its exit codes, its files.

mod bad_input;
mod cadence;
mod compare;
mod deadlines;
mod defaults;
mod devices;
mod everyday;
#[cfg(unix)]
mod farm_boards;
mod farm_results;
#[cfg(target_os = "linux")]
mod faulty;
mod files;
mod given;
mod help;
#[cfg(unix)]
mod killed;
mod language;
mod model;
#[cfg(feature = "new-plugin")]
mod new_plugin;
mod per_op;
mod place;
mod plans;
mod profiles;
mod sensors;
#[cfg(all(unix, feature = "serve"))]
mod serve;
mod several;
mod shapes;
mod small;
mod stable;
mod strings;
mod tool;
