//! The schemas of what `--json` prints, held to the committed files in `apps/cli/schemas`.
//!
//! Invariant: `apps/cli/schemas/COMMAND.schema.json` is what the types say. `POLYCHIP_BLESS=1 cargo test -p
//! polychip-cli schema` writes the files anew.

#[cfg(test)]
mod tests {
    use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};

    /// The words of a command; the files of a subcommand are named after both of its words.
    fn words(command: &str) -> String {
        match command {
            "serve-sim" | "bench-llm" | "phases" => command.to_owned(),
            "farm-dry-run" => "farm run --dry-run".to_owned(),
            _ => command.replace('-', " "),
        }
    }

    fn check<T: JsonSchema>(command: &str) {
        // what is written, not what could be read: a field that may be null is always there
        let generator: SchemaGenerator = SchemaSettings::draft2020_12().for_serialize().into_generator();
        let mut schema = generator.into_root_schema_for::<T>();
        schema.insert(
            "title".into(),
            format!("polychip {} --json", words(command)).into(),
        );
        let mut schema = schema.to_value();
        by_name(&mut schema);
        // keywords come in an order of their own
        let schema = Schema::try_from(schema).unwrap();
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        let path = format!("{}/schemas/{command}.schema.json", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("POLYCHIP_BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == text,
            "{path} is out of date; run the test with POLYCHIP_BLESS=1"
        );
    }

    /// Fields and definitions in the order of their names, so that moving a field changes no file.
    fn by_name(schema: &mut serde_json::Value) {
        match schema {
            serde_json::Value::Object(object) => {
                for (key, value) in object.iter_mut() {
                    if let ("properties" | "$defs", serde_json::Value::Object(named)) = (&**key, &mut *value)
                    {
                        named.sort_keys();
                    }
                    by_name(value);
                }
            }
            serde_json::Value::Array(list) => list.iter_mut().for_each(by_name),
            _ => {}
        }
    }

    #[test]
    fn committed_schemas_match_the_types() {
        check::<crate::devices::DevicesOutput>("devices");
        check::<crate::run::RunOutput>("run");
        check::<crate::bench::BenchOutput>("bench");
        check::<crate::compare::CompareOutput>("compare");
        check::<crate::measure::MeasureOutput>("measure");
        check::<crate::energy::EnergyOutput>("energy");
        check::<crate::monitor::Line>("monitor");
        check::<crate::partition::PartitionOutput>("partition");
        check::<crate::explain::ExplainOutput>("explain");
        check::<crate::plan::PlanDiffOutput>("plan-diff");
        check::<crate::inspect::InspectOutput>("inspect");
        check::<crate::profile::ProfileOutput>("profile");
        check::<crate::serve_sim::ServeSimOutput>("serve-sim");
        check::<crate::language::generate::GenerateOutput>("generate");
        #[cfg(feature = "serve")]
        check::<crate::language::serve::ServeOutput>("serve");
        check::<crate::language::bench::BenchLlmOutput>("bench-llm");
        check::<crate::language::phases::PhasesOutput>("phases");
        check::<crate::farm::run::FarmRunOutput>("farm-run");
        check::<crate::farm::dry_run::DryRun>("farm-dry-run");
        check::<crate::farm::clean::FarmCleanOutput>("farm-clean");
        check::<crate::farm::boards::FarmBoardsOutput>("farm-boards");
        check::<crate::profile::exchange::Merge>("profile-merge");
        check::<crate::profile::exchange::Diff>("profile-diff");
        check::<crate::profile::show::ProfileShowOutput>("profile-show");
        check::<polychip::ProfileFile>("profile-export");
        check::<crate::farm::compare::FarmCompareOutput>("farm-compare");
        check::<crate::farm::bundle::FarmBundleOutput>("farm-bundle");
        check::<polychip_farm_results::Report>("farm-report");
    }
}
