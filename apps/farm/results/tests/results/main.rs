//! Runs of a farm, made up with all that makes times on real boards hard to compare, and what is said of them.

mod bundles;
mod folders;
mod made;
mod noise;
mod reports;
mod verdicts;
