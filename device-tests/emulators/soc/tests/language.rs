//! A language model on an emulated phone: which unit reads a prompt of which length, and what a hot unit's answers do. All
//! times are emulated.

use polychip::{Policy, Precision, Runtime};
use polychip_llm::gguf::TensorType;
use polychip_llm::prefill_decode::{MeasurePhases, PhaseCosts, PhaseLimits};
use polychip_llm::testing::TinyModel;
use polychip_llm::{Architecture, Gguf, LanguageModel, Options};
use polychip_soc::plugin::SocPlugin;
use polychip_soc::table::PHONE;

/// The tiny model on these units of a phone.
fn model(table: &str, units: &[&str]) -> LanguageModel {
    let tiny = TinyModel {
        architecture: Architecture::Llama,
        kind: TensorType::Q8_0,
        layers: 2,
        tied: true,
        seed: 5,
    };
    let runtime = Runtime::builder()
        .link(polychip_sdk::plugin_query::<SocPlugin>)
        .configure("soc", "table", table)
        .virtual_time()
        .only_given_folders()
        .build()
        .unwrap();
    let file = Gguf::read(tiny.writer().finish().into()).unwrap();
    let policy = Policy::latency().devices(units.iter().copied());
    let options = Options::new()
        .runtime(&runtime)
        .policy(policy)
        .precision(Precision::Exact)
        .capacity(512);
    LanguageModel::of("tiny", file, options).unwrap()
}

fn costs(model: &LanguageModel) -> PhaseCosts {
    let how = MeasurePhases {
        largest_chunk: 128,
        ..MeasurePhases::default()
    };
    model.measure_phases(&how, &mut |_, _, _| {}).unwrap()
}

/// The units that read a prompt of so many tokens, by name.
fn readers(model: &LanguageModel, costs: &PhaseCosts, prompt: usize) -> Vec<String> {
    let plan = model.phase_plan(prompt, 32).unwrap().unwrap();
    let mut names: Vec<String> = plan
        .prompt
        .iter()
        .map(|chunk| costs.devices[chunk.device].device.clone())
        .collect();
    names.dedup();
    names
}

/// The shipped table, with an NPU that takes casts and picks a row: the shipped one is for networks of pictures.
fn phone() -> String {
    let line = PHONE
        .lines()
        .find(|line| line.starts_with("refused_ops") && line.contains("\"Cast\""))
        .expect("the table's NPU refuses Cast");
    let without = line.replace(", \"Cast\"", "").replace("\"Gather\", ", "");
    PHONE.replacen(line, &without, 1)
}

/// The big cluster, and the NPU.
const CPU: &str = "soc:0";
const NPU: &str = "soc:3";

#[test]
fn the_npu_reads_prompts_from_some_length_on_and_the_cpu_answers() {
    let model = model(&phone(), &[CPU, NPU]);
    let costs = costs(&model);
    assert!(
        costs
            .devices
            .iter()
            .all(|device| device.emulated && device.refused.is_empty()),
        "{costs:?}"
    );
    model.place_phases(costs.clone(), PhaseLimits::default()).unwrap();
    let crossover = (1..=384).find(|&prompt| readers(&model, &costs, prompt).contains(&NPU.to_owned()));
    let crossover = crossover.expect("no prompt is long enough for the NPU");
    eprintln!("emulated: the NPU reads from {crossover} tokens on; {costs:?}");
    assert!(
        crossover > 1,
        "the NPU takes longer to be called than a token takes"
    );
    let plan = model.phase_plan(384, 32).unwrap().unwrap();
    assert!(
        plan.answer
            .iter()
            .all(|run| costs.devices[run.device].device == CPU),
        "{plan:?}"
    );
    assert!(
        plan.is_optimal() || plan.objective_ns < plan.bound_ns * 1.05,
        "{plan:?}"
    );

    // what is predicted is what the clock of the phone says, and both sides of the crossover were worth it
    let text: Vec<u32> = (0..384).map(|i| i % 200).collect();
    let mut sequence = model.sequence().unwrap();
    sequence.append(&text).unwrap();
    for token in 0..32 {
        sequence.append(&[token]).unwrap();
    }
    let report = sequence.phases();
    assert_eq!(report.answer.len(), 1);
    assert_eq!(report.answer[0].device, CPU);
    assert!(report.prompt.iter().any(|share| share.device == NPU));
    for share in report.prompt.iter().chain(&report.answer) {
        let off = (share.ns as f64 - share.predicted_ns).abs() / share.predicted_ns;
        assert!(share.emulated && off < 0.15, "{share:?}");
    }
}

#[test]
fn a_limit_of_memory_keeps_both_phases_on_one_unit() {
    let model = model(&phone(), &[CPU, NPU]);
    let costs = costs(&model);
    let least = costs
        .devices
        .iter()
        .map(|device| device.memory_bytes)
        .max()
        .unwrap();
    let tight = PhaseLimits {
        memory_bytes: Some(least),
        ..PhaseLimits::default()
    };
    model.place_phases(costs, tight).unwrap();
    let plan = model.phase_plan(384, 32).unwrap().unwrap();
    assert_eq!(plan.devices().len(), 1, "{plan:?}");
}

/// The table with nodes that take a hundred times as long, so that seconds pass in a few hundred tokens.
fn slow() -> String {
    let mut table = phone();
    for unit in ["ps_per_mac = 3.4\n", "ps_per_mac = 1.05\nother_ps_per_mac = 20.0"] {
        let from = format!("node_ns = 1000\n{unit}");
        assert!(table.contains(&from), "{from}");
        table = table.replacen(&from, &format!("node_ns = 100000\n{unit}"), 1);
    }
    table
}

/// The same, where the big cluster is warm within a second.
fn quickly_warm() -> String {
    let from = "kelvin_per_watt = 6.5\njoule_per_kelvin = 0.9";
    let slow = slow();
    assert!(slow.contains(from));
    slow.replacen(from, "kelvin_per_watt = 14.0\njoule_per_kelvin = 0.1", 1)
}

#[test]
fn answer_leaves_a_throttling_cluster_with_identical_tokens() {
    let table = quickly_warm();
    let hot = model(&table, &[CPU, NPU]);
    // measured when cold, as a table that ships with an app is
    let cold = model(&slow(), &[CPU, NPU]);
    let mut costs = costs(&cold);
    for (own, there) in costs.devices.iter_mut().zip(
        hot.runtime()
            .devices()
            .iter()
            .filter(|device| [CPU, NPU].contains(&device.name())),
    ) {
        own.identity = there.identity();
    }
    hot.place_phases(costs, PhaseLimits::default()).unwrap();
    let mut sequence = hot.sequence().unwrap();
    let mut moved = None;
    for step in 0..2_000u32 {
        if sequence.room() == 0 {
            sequence.truncate(1);
        }
        sequence.append(&[step % 200]).unwrap();
        if let Some(first) = sequence.phases().moves.first() {
            moved = Some((step, first.clone()));
            break;
        }
    }
    let (step, moved) = moved.expect("the cluster never throttled");
    eprintln!("emulated: token {step}, {moved:?}");
    assert_eq!((moved.from.as_str(), moved.to.as_str()), (CPU, NPU));
    assert!(moved.slowdown > 1.1, "{moved:?}");
    // the logits are those of the CPU alone, whichever device answers
    let text: Vec<u32> = sequence.tokens().to_vec();
    let mut alone = cold.sequence().unwrap();
    for token in &text {
        alone.append(&[*token]).unwrap();
    }
    let far = sequence
        .logits()
        .iter()
        .zip(alone.logits())
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max);
    assert!(far < 1e-3, "{far}");
}
