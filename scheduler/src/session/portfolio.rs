//! The ready plans of a governed session: the policy's own, the fastest, the most frugal and some
//! between, each device alone, and the best without each device.
//!
//! Invariants:
//! 1. Every plan is for the same model, devices and inputs; they differ only in placement and
//!    precision.
//! 2. No two are equal, and there are at most [`MOST`].
//! 3. A precision that the policy does not allow is not used.

use polychip_governor::{Candidate, Load};
use polychip_partitioner::{DeviceIndex, Objective};

use crate::planned::Planned;
use crate::policy::{Aim, Policy, Precision};
use crate::shared::Shared;

/// Plans that are kept ready; each has memory of its own for every run in flight.
const MOST: usize = 8;
/// Plans of the front between time and energy that are considered.
const FRONT: usize = 4;

/// A plan to keep ready.
#[derive(Debug, Clone)]
pub(crate) struct Variant {
    pub(crate) name: String,
    pub(crate) planned: Planned,
    pub(crate) policy: Policy,
}

impl Variant {
    /// What a governor needs to know of it.
    pub(crate) fn candidate(&self) -> Candidate {
        candidate(&self.name, &self.planned)
    }
}

/// What a governor needs to know of a plan.
pub(crate) fn candidate(name: &str, planned: &Planned) -> Candidate {
    let plan = planned.plan();
    let mut loads: Vec<Load> = Vec::new();
    for part in &plan.parts {
        let device = part.device.index();
        let busy_ns = part
            .cost
            .time
            .nanoseconds()
            .saturating_add(part.launch.nanoseconds());
        // what is expected, also of a plan whose limits count the most: candidates are compared by it
        let energy = part
            .cost
            .expected_energy()
            .and_then(|energy| energy.checked_add(part.launch_energy));
        let energy_uj = energy.map(|energy| energy.microjoules());
        match loads.iter_mut().find(|load| load.device == device) {
            Some(load) => {
                load.busy_ns = load.busy_ns.saturating_add(busy_ns);
                load.energy_uj = load.energy_uj.zip(energy_uj).map(|(a, b)| a.saturating_add(b));
            }
            None => loads.push(Load {
                device,
                busy_ns,
                energy_uj,
            }),
        }
    }
    let made = Candidate::new(name, plan.time().nanoseconds(), loads);
    match plan.totals.expected_energy() {
        Some(energy) => made.energy(energy.microjoules()),
        None => made,
    }
}

/// The plans of a portfolio, the policy's own first. A plan that cannot be made is left out.
pub(crate) fn variants(shared: &Shared, first: &Planned, policy: &Policy) -> Vec<Variant> {
    let names: Vec<String> = first
        .devices()
        .iter()
        .map(|device| device.name().to_owned())
        .collect();
    let own = policy.settings().precision;
    let mut found = Found {
        variants: Vec::new(),
        several: own == Precision::Reduced,
    };
    let of = |precision| policy.for_devices(names.clone(), precision);
    // what is too hot now may be cool later: the governor knows how hot it is
    let hot = first.hot_devices();
    let (name, all) = if hot.is_empty() {
        (word(policy.aim()).to_owned(), first.clone())
    } else {
        let name = format!("{} without {}", word(policy.aim()), hot.join(", "));
        let every: Vec<usize> = (0..names.len()).collect();
        let all = first.with_hot(shared, policy.settings(), &every);
        (name, all.unwrap_or_else(|_| first.clone()))
    };
    found.add(&name, first.clone(), of(own));
    let precisions: &[Precision] = match own {
        Precision::Exact => &[Precision::Exact],
        Precision::Reduced => &[Precision::Reduced, Precision::Exact],
    };
    let bases: Vec<(Planned, Policy)> = precisions
        .iter()
        .filter_map(|&precision| {
            let policy = of(precision);
            let planned = if precision == own {
                Some(all.clone())
            } else {
                Planned::new(shared, first.model(), &policy, &|_| {}).ok()
            };
            Some((planned?, policy))
        })
        .collect();
    // what a loss needs comes first, in every precision; what only saves energy comes after
    for (base, policy) in &bases {
        let settings = policy.settings();
        let toward = |objective: Objective, keep: &dyn Fn(usize) -> bool| {
            let plan = base.toward(shared, settings, objective, |targets| {
                for (index, target) in targets.iter_mut().enumerate() {
                    if !keep(index) {
                        target
                            .quarantined
                            .get_or_insert_with(|| "left out of this plan".to_owned());
                    }
                }
            });
            plan.ok()
        };
        if let Some(planned) = toward(policy.objective_for(Aim::Latency), &|_| true) {
            found.add("fastest", planned, policy.clone());
        }
        for (index, name) in names.iter().enumerate() {
            if let Some(planned) = toward(Objective::latency(), &|other| other == index) {
                found.add(&format!("only {name}"), planned, policy.clone());
            }
        }
        if names.len() > 2 {
            for index in base.used_devices().into_iter().map(DeviceIndex::index) {
                if let Some(planned) = toward(Objective::latency(), &|other| other != index) {
                    found.add(&format!("without {}", names[index]), planned, policy.clone());
                }
            }
        }
    }
    for (base, policy) in &bases {
        // without figures of energy there is no front
        let front = base.front(FRONT).unwrap_or_default();
        let last = front.len().saturating_sub(1);
        for (index, planned) in front.into_iter().enumerate().rev() {
            let name = match index {
                0 => "fastest".to_owned(),
                index if index == last => "frugal".to_owned(),
                index => format!("between {index}"),
            };
            found.add(&name, planned, policy.clone());
        }
        let objective = policy.objective_for(Aim::Makespan);
        if names.len() > 1
            && let Ok(planned) = base.toward(shared, policy.settings(), objective, |_| {})
        {
            found.add("makespan", planned, policy.clone());
        }
    }
    found.variants
}

/// What the policy's own plan is called.
pub(crate) fn word(aim: Aim) -> &'static str {
    match aim {
        Aim::Latency => "fastest",
        Aim::Energy => "frugal",
        Aim::Balanced => "balanced",
        Aim::Makespan => "makespan",
        Aim::Throughput => "throughput",
    }
}

struct Found {
    variants: Vec<Variant>,
    /// Plans differ in precision, so their names state it.
    several: bool,
}

impl Found {
    fn add(&mut self, name: &str, planned: Planned, policy: Policy) {
        let nodes = planned.graph().node_count();
        let placement = |planned: &Planned| planned.plan().devices_of_nodes(nodes);
        let precision = policy.settings().precision;
        let alike = |other: &Variant| {
            other.policy.settings().precision == precision && placement(&other.planned) == placement(&planned)
        };
        if self.variants.len() >= MOST || self.variants.iter().any(alike) {
            return;
        }
        let name = match (self.several, precision) {
            (false, _) => name.to_owned(),
            (true, Precision::Exact) => format!("{name}, exact"),
            (true, Precision::Reduced) => format!("{name}, reduced"),
        };
        let is_taken = |name: &str| self.variants.iter().any(|other| other.name == name);
        let name = if is_taken(&name) {
            (2..)
                .map(|count| format!("{name} {count}"))
                .find(|name| !is_taken(name))
                .expect("invariant: finitely many names are taken")
        } else {
            name
        };
        self.variants.push(Variant {
            name,
            planned,
            policy,
        });
    }
}
