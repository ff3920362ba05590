//! The page of `polychip partition --html`: one file with the plan's graph, timeline, costs and reasons.
//!
//! Invariants:
//! 1. The page needs nothing but itself: no network, no other file; its own policy forbids both.
//! 2. What a model says (names, words of devices) is data: it stands in the page packed, and no `<` of it reaches the
//!    markup.
//! 3. Figures of emulated devices are labelled so, as everywhere.
//! 4. Words that the command line says, too, come from where it has them: certificate, rules, limits, differences.
//!
//! `page/page.html` is made by `npm run build` in `apps/cli/page` and committed, so that building the program takes no
//! Node.js; CI makes it again and compares.
//! Not here: what the page looks like (`apps/cli/page/src`).

mod against;
mod nodes;
mod timeline;
mod usage;

use std::io::Write as _;

use base64::prelude::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use polychip::Planned;
use polychip_partitioner::report::count;
use polychip_partitioner::{
    self as partitioner, DeviceIndex, Energy, Explanation, Plan, Provenance, Report, Time, Unlock,
};
use serde::Serialize;

use against::Against;
use nodes::Nodes;
use timeline::Span;
use usage::Usage;

use crate::per_op::PerOp;

/// The page without data.
const PAGE: &str = include_str!("page/page.html");

/// Most plans of the front: what a chart shows apart.
const FRONT: usize = 24;

/// Where the data go.
const PLACE: &str = "<!--DATA-->";

/// All that the page shows.
#[derive(Debug, Serialize)]
struct Data<'a> {
    title: String,
    program: String,
    /// What a run takes, and where, in one sentence.
    verdict: String,
    report: &'a Report,
    certificate: String,
    /// Rules of other runtimes, and what they would have cost, in words.
    comparisons: Vec<(String, String)>,
    /// Limits that make the plan dearer, and by how much, in words.
    limits: Vec<String>,
    devices: Vec<DeviceLine>,
    nodes: Nodes<'a>,
    /// Which node reads what which node writes.
    edges: Vec<(usize, usize)>,
    timeline: Vec<Span>,
    /// Devices work at once.
    at_once: bool,
    /// When a run ends.
    ends_ps: Time,
    unlocks: &'a [Unlock],
    events: Vec<String>,
    /// Plans that no other plan beats in both time and energy; empty where nobody looked for them.
    front: Vec<FrontPoint>,
    /// The plan that this one is compared with.
    against: Option<Against>,
}

#[derive(Debug, Serialize)]
struct DeviceLine {
    #[serde(flatten)]
    usage: Usage,
    /// Its kind.
    about: String,
    emulated: bool,
    own_launch_ps: Time,
}

/// One plan of a front.
#[derive(Debug, Serialize)]
struct FrontPoint {
    time_ps: Time,
    energy_nj: Energy,
    /// How many nodes are where.
    words: String,
    provenance: Provenance,
    emulated: bool,
    /// It is the plan of this page.
    chosen: bool,
}

/// What a page may show beside the plan.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Beside<'a> {
    /// What the plan's kernels took.
    pub(crate) per_op: Option<&'a PerOp>,
    /// A plan to compare it with, and what it is called.
    pub(crate) against: Option<(&'a str, &'a Plan)>,
}

/// The page of a plan.
pub(crate) fn page(
    title: String,
    planned: &Planned,
    report: &Report,
    explanation: &Explanation,
    beside: Beside<'_>,
) -> anyhow::Result<String> {
    let plan = &Plan {
        device_names: planned.device_names(),
        ..planned.plan().clone()
    };
    let usage = usage::of(plan);
    let limits = report.limits.iter().filter(|line| line.binds);
    let price = report.price.iter().map(|price| {
        format!(
            "cost of the limits: {} relative to the best plan without them",
            price.words
        )
    });
    let data = Data {
        title,
        program: concat!("polychip ", env!("CARGO_PKG_VERSION")).to_owned(),
        verdict: usage::verdict(plan, report, &usage),
        report,
        certificate: plan.certificate.words(plan.schedule.is_some()),
        comparisons: report
            .comparisons
            .iter()
            .map(|line| (in_names(&line.comparison.rule, &usage), line.words.clone()))
            .collect(),
        limits: limits.map(|line| line.words.clone()).chain(price).collect(),
        nodes: Nodes::new(explanation, &plan.devices, planned.graph(), beside.per_op)?,
        devices: usage
            .into_iter()
            .zip(planned.devices().iter().zip(planned.targets()))
            .map(|(usage, (device, target))| DeviceLine {
                usage,
                about: device.info().kind.word().to_owned(),
                emulated: target.emulated,
                own_launch_ps: target.launch,
            })
            .collect(),
        edges: edges(planned),
        timeline: timeline::of(plan, Some(planned.graph())),
        at_once: plan.schedule.is_some(),
        ends_ps: plan.time(),
        unlocks: &explanation.unlocks,
        events: planned.events().iter().map(ToString::to_string).collect(),
        front: front(planned),
        against: beside
            .against
            .map(|(title, old)| against::of(title.to_owned(), old, planned)),
    };
    filled(&serde_json::to_string(&data)?)
}

/// A rule with devices by what people call them.
fn in_names(rule: &str, usage: &[Usage]) -> String {
    let words = rule.split(' ').map(|word| {
        let device = usage.iter().find(|device| device.name == word);
        device.map_or(word, |device| device.label.as_str())
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Plans between fastest and most frugal; none where an energy is not known.
fn front(planned: &Planned) -> Vec<FrontPoint> {
    let nodes = planned.graph().node_count();
    let found = partitioner::front(planned.request(), FRONT);
    let ours = planned.plan().devices_of_nodes(nodes);
    let ours_named = Plan {
        device_names: planned.device_names(),
        ..planned.plan().clone()
    };
    let names: Vec<String> = (0..ours_named.devices.len())
        .map(|index| ours_named.device_label(DeviceIndex::new(index)))
        .collect();
    let plans = found.map(|front| front.plans).unwrap_or_default();
    let point = |plan: &Plan| {
        let places = plan.devices_of_nodes(nodes);
        let devices = names.iter().enumerate();
        let counts = devices.filter_map(|(index, name)| {
            let here = places
                .iter()
                .filter(|place| **place == Some(DeviceIndex::new(index)))
                .count();
            (here > 0).then(|| format!("{} on {name}", count(here, "node")))
        });
        Some(FrontPoint {
            time_ps: plan.totals.time,
            energy_nj: plan.totals.energy?,
            words: counts.collect::<Vec<_>>().join(", "),
            provenance: plan.totals.provenance,
            emulated: plan.totals.emulated,
            chosen: places == ours,
        })
    };
    plans.iter().filter_map(point).collect()
}

/// The page with data in it: JSON, packed, so that ten thousand nodes stay small and nothing in it ends or opens an
/// element.
fn filled(json: &str) -> anyhow::Result<String> {
    let (before, after) = PAGE
        .split_once(PLACE)
        .ok_or_else(|| anyhow::anyhow!("invariant: the page has a place for its data"))?;
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(json.as_bytes())?;
    Ok([before, &BASE64_STANDARD.encode(packed.finish()?), after].concat())
}

/// Which node reads what which node writes, each pair once, ascending.
fn edges(planned: &Planned) -> Vec<(usize, usize)> {
    let graph = planned.graph();
    let mut edges: Vec<(usize, usize)> = graph
        .nodes()
        .flat_map(|(id, node)| {
            let writers = node.reads().filter_map(|tensor| graph.producer(tensor));
            writers.map(move |from| (from.index(), id.index()))
        })
        .collect();
    edges.sort_unstable();
    edges.dedup();
    edges
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn embedded_data_cannot_escape_its_element() {
        let name = "</script><script>alert(1)</script><!--<b>&\u{2028}\"";
        let json = serde_json::to_string(&[name]).unwrap();
        let page = filled(&json).unwrap();
        let start = page.find("id=\"data\">").unwrap() + "id=\"data\">".len();
        let end = start + page[start..].find("</script>").unwrap();
        let packed = BASE64_STANDARD.decode(&page[start..end]).unwrap();
        let mut read = String::new();
        GzDecoder::new(packed.as_slice())
            .read_to_string(&mut read)
            .unwrap();
        assert_eq!(read, json);
        assert!(!page[start..end].contains('<'));
    }

    #[test]
    fn page_is_self_contained_and_includes_licences() {
        assert_eq!(PAGE.matches(PLACE).count(), 1);
        for open in [
            "<script src",
            "<link rel=\"stylesheet",
            "@import",
            "<!--SCRIPT-->",
            "<!--NOTICES-->",
        ] {
            assert!(!PAGE.contains(open), "{open}");
        }
        assert!(PAGE.contains("default-src 'none'"));
        for library in ["d3-dag 1", "d3-zoom 3"] {
            assert!(PAGE.contains(library), "{library}");
        }
        assert!(PAGE.contains("Permission is hereby granted"));
    }

    #[test]
    fn sensor_rules_accept_device_names() {
        let device = |name: &str, label: &str| Usage::unused(name, label);
        let devices = [device("null:0", "big core (null:0)"), device("cpu:0", "cpu:0")];
        assert_eq!(
            in_names("priority null:0 > cpu:0", &devices),
            "priority big core (null:0) > cpu:0"
        );
    }
}
