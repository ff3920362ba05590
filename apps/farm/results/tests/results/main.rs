//! Judges made-up farm runs with all the effects that make times on real boards hard to compare.

mod bundles;
mod folders;
mod made;
mod noise;
mod reports;
mod verdicts;
