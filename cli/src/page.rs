//! The page of `polychip partition --html`: one file with the plan's graph, timeline, costs and reasons.
//!
//! Invariants:
//! 1. The page needs nothing but itself: no network, no other file; its own policy forbids both.
//! 2. What a model says (names, words of devices) is data: no `<` of it reaches the markup.
//! 3. Figures of emulated devices are labelled so, as everywhere.
//!
//! `page/page.html` is made by `npm run build` in `cli/page` and committed, so that building the program takes no
//! Node.js; CI makes it again and compares.
//! Not here: what the page looks like (`cli/page/src`).

mod timeline;

use polychip::Planned;
use polychip_partitioner::{
    self as partitioner, Alternative, Certificate, Cost, DeviceIndex, Explanation, Microjoules, Nanos,
    NodeExplanation, PartIndex, Plan, Provenance, Report, Unlock,
};
use serde::Serialize;

use timeline::Span;

use crate::per_op::{NodeSteps, PerOp, name_in};

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
    report: &'a Report,
    certificate: String,
    /// Rules of other runtimes, and what they would have cost, in words.
    comparisons: Vec<(String, String)>,
    devices: Vec<DeviceLine>,
    nodes: Vec<NodeLine<'a>>,
    /// Which node reads what which node writes.
    edges: Vec<(usize, usize)>,
    timeline: Vec<Span>,
    /// Devices work at once.
    at_once: bool,
    unlocks: &'a [Unlock],
    events: Vec<String>,
    /// Plans that no other plan beats in both time and energy; empty where nobody looked for them.
    front: Vec<FrontPoint>,
}

#[derive(Debug, Serialize)]
struct DeviceLine {
    name: String,
    about: String,
    emulated: bool,
    launch_ps: Nanos,
    nodes: usize,
}

#[derive(Debug, Serialize)]
struct NodeLine<'a> {
    node: u32,
    name: &'a str,
    op: &'a str,
    part: PartIndex,
    device: &'a str,
    cost: Option<Cost>,
    alternatives: Vec<AlternativeLine<'a>>,
    /// What was measured of it; none where nothing was.
    measured: Option<NodeSteps>,
}

#[derive(Debug, Serialize)]
struct AlternativeLine<'a> {
    #[serde(flatten)]
    alternative: &'a Alternative,
    /// The reason in words.
    words: String,
}

/// One plan of a front.
#[derive(Debug, Serialize)]
struct FrontPoint {
    time_ps: Nanos,
    energy_nj: Microjoules,
    /// How many nodes are where.
    words: String,
    provenance: Provenance,
    emulated: bool,
    /// It is the plan of this page.
    chosen: bool,
}

/// The page of a plan, with what its kernels took where that was measured.
pub(crate) fn page(
    title: String,
    planned: &Planned,
    report: &Report,
    explanation: &Explanation,
    per_op: Option<&PerOp>,
) -> anyhow::Result<String> {
    let plan = planned.plan();
    let devices = planned.devices().iter().zip(planned.targets()).enumerate();
    let devices = devices.map(|(index, (device, target))| {
        let here = plan.parts.iter().filter(|part| part.device.index() == index);
        let info = device.info();
        DeviceLine {
            name: target.name.clone(),
            about: format!("{} ({})", info.name, info.kind.word()),
            emulated: target.emulated,
            launch_ps: target.launch,
            nodes: here.map(|part| part.nodes.len()).sum(),
        }
    });
    let data = Data {
        title,
        program: concat!("polychip ", env!("CARGO_PKG_VERSION")).to_owned(),
        report,
        certificate: certificate(&plan.certificate),
        comparisons: comparisons(report),
        devices: devices.collect(),
        nodes: explanation
            .nodes
            .iter()
            .map(|node| {
                let name = name_in(planned.graph(), node.node);
                NodeLine::new(node, per_op.and_then(|per_op| per_op.of_node(&node.device, name)))
            })
            .collect(),
        edges: edges(planned),
        timeline: timeline::of(plan, planned.graph()),
        at_once: plan.schedule.is_some(),
        unlocks: &explanation.unlocks,
        events: planned.events().iter().map(ToString::to_string).collect(),
        front: front(planned),
    };
    filled(&serde_json::to_string(&data)?)
}

/// Plans between fastest and most frugal; none where an energy is not known.
fn front(planned: &Planned) -> Vec<FrontPoint> {
    let nodes = planned.graph().node_count();
    let found = partitioner::front(planned.request(), FRONT);
    let ours = planned.plan().devices_of_nodes(nodes);
    let plans = found.map(|front| front.plans).unwrap_or_default();
    let point = |plan: &Plan| {
        let places = plan.devices_of_nodes(nodes);
        let devices = plan.devices.iter().enumerate();
        let counts = devices.filter_map(|(index, name)| {
            let here = places
                .iter()
                .filter(|place| **place == Some(DeviceIndex::new(index)))
                .count();
            (here > 0).then(|| format!("{here} on {name}"))
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

/// The page with data in it: JSON in which no `<` stands, so that nothing in it ends or opens an element.
fn filled(json: &str) -> anyhow::Result<String> {
    let (before, after) = PAGE
        .split_once(PLACE)
        .ok_or_else(|| anyhow::anyhow!("invariant: the page has a place for its data"))?;
    // in JSON a `<` stands in strings only, where this means the same
    let json = json.replace('<', "\\u003c");
    Ok([before, &json, after].concat())
}

impl<'a> NodeLine<'a> {
    fn new(node: &'a NodeExplanation, measured: Option<NodeSteps>) -> Self {
        let alternatives = node.alternatives.iter().map(|alternative| AlternativeLine {
            alternative,
            words: alternative.reason.to_string(),
        });
        Self {
            node: node.node,
            name: &node.name,
            op: &node.op,
            part: node.part,
            device: &node.device,
            cost: node.cost,
            alternatives: alternatives.collect(),
            measured,
        }
    }
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

fn certificate(certificate: &Certificate) -> String {
    match (certificate.is_optimal(), certificate.gap_ppm()) {
        (true, _) => "optimal before merging".to_owned(),
        (false, Some(ppm)) => format!(
            "at most {}.{:04} % above the optimum before merging",
            ppm / 10_000,
            ppm % 10_000
        ),
        (false, None) => "no bound".to_owned(),
    }
}

fn comparisons(report: &Report) -> Vec<(String, String)> {
    let ours = report.certificate.objective;
    let words = |comparison: &partitioner::Comparison| match comparison.objective {
        Some(value) if ours > 0 => format!("{:.3} times as much", value as f64 / ours as f64),
        Some(value) => format!("{value} against 0"),
        None => "not possible".to_owned(),
    };
    let rows = report.comparisons.iter();
    rows.map(|comparison| (comparison.rule.clone(), words(comparison)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_cannot_leave_their_element() {
        let name = "</script><script>alert(1)</script><!--<b>&\u{2028}\"";
        let json = serde_json::to_string(&[name]).unwrap();
        let page = filled(&json).unwrap();
        let start = page.find("id=\"data\">").unwrap() + "id=\"data\">".len();
        let end = start + page[start..].find("</script>").unwrap();
        let read: Vec<String> = serde_json::from_str(&page[start..end]).unwrap();
        assert_eq!(read, [name]);
        assert!(!page[start..end].contains('<'));
    }

    #[test]
    fn the_page_is_one_file_with_its_licences() {
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
        for library in ["d3-dag 1", "d3-zoom 3", "@observablehq/plot 0"] {
            assert!(PAGE.contains(library), "{library}");
        }
        assert!(PAGE.contains("Permission is hereby granted"));
    }
}
