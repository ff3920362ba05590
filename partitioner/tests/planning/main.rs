//! Plans held to the rules, the checker and each other. One program holds them all, because each test program links the
//! whole library.

#[path = "../plans/mutate.rs"]
mod mutate;
#[path = "../plans/world.rs"]
mod world;

mod counterfactuals;
mod cuts;
mod diff;
mod front;
mod limits;
mod makespan;
mod plans;
mod power;
mod replicas;
