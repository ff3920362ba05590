//! Placement of nodes on devices: costs, links, an exact solver, plans, an independent checker,
//! explanations.
//!
//! Invariants: pure (no clock, file or sensor), and the same inputs give the same plan byte for
//! byte on every host; all sums are integers; every figure keeps its provenance. Deliberately not
//! here: asking devices, measuring, compiling and running (the scheduler does).
#![forbid(unsafe_code)]

mod assemble;
pub mod check;
pub mod compare;
pub mod cost;
mod crossing;
mod cut;
pub mod diff;
pub mod error;
pub mod explain;
mod fewer;
mod fingerprint;
pub mod front;
pub mod index;
mod instance;
mod limit;
pub mod limit_report;
pub mod link;
pub mod lock;
mod makespan;
mod measured;
mod merge;
pub mod objective;
pub mod options;
pub mod part;
mod partition;
mod placed;
pub mod plan;
mod power;
mod pricing;
pub mod problem;
pub mod record;
mod replicas;
pub mod report;
pub mod request;
mod restate;
pub mod schedule;
pub mod solve;
mod subset;
pub mod target;
pub mod unit;

pub use check::{Violation, ViolationKind, check, check_placement};
pub use compare::{Comparison, cheapest_per_node, greedy_by_priority};
pub use cost::{Cost, CostTable, Provenance};
pub use crossing::Crossing;
pub use diff::{Because, Compared, Figures, MovedNode, PlanDiff, Source, Sources, diff};
pub use error::{Error, ErrorKind};
pub use explain::{Alternative, Counterfactual, Explanation, NodeExplanation, Reason, Unlock, explain};
pub use fingerprint::{model_fingerprint, model_fingerprint_of};
pub use front::{Front, front};
pub use index::{DeviceIndex, PartIndex};
pub use limit_report::{Limit, LimitReport};
pub use link::{Link, LinkMode, LinkTable};
pub use lock::replan_locked;
pub use objective::{Goal, Objective};
pub use options::Options;
pub use part::{Part, part_id};
pub use partition::partition;
pub use plan::{Certificate, PLAN_VERSION, Plan, Totals};
pub use power::{EnergyProvenance, EnergyRange, Power};
pub use pricing::{DevicePricing, LinkPricing, PartPricing, Pricing};
pub use record::{NodeRecord, Offer, record};
pub use report::{
    ComparisonLine, CrossingLine, DeviceLine, LimitLine, MemoryLine, PartLine, Price, ReplicaLine, Report,
};
pub use request::Request;
pub use restate::restate;
pub use schedule::Schedule;
pub use target::{Heat, Refusal, Target};
pub use unit::{Energy, MilliCelsius, Milliwatts, Time};
