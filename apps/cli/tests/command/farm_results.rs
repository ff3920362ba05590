//! `polychip farm compare`, `report`, `keygen` and `bundle`, on folders as a driver leaves them.

use std::path::Path;

use polychip_farm_record::{
    Board, Build, FORMAT, InventoryEntry, Item, Job, Measured, Model, Outcome, PlannedPart, Record,
    RunHeader, Settings, State, Wanted,
};
use serde_json::Value;

use crate::tool::{polychip, profiling};

/// Eight rounds of one model on one board, slowed down by this factor; `side` selects which of two
/// builds ran.
fn run(folder: &Path, side: u64, slower: f64) -> String {
    let id = ["base", "new"][side as usize];
    let place = InventoryEntry {
        name: "desk".into(),
        transport: "ssh".into(),
        tags: Vec::new(),
    };
    let item = Item {
        job: Job::Bench,
        model: Some(Model {
            name: "shapes".into(),
            blake3: "ab".repeat(32),
            bytes: 9,
        }),
        plugins: vec!["cpu".into()],
        settings: Settings::default(),
    };
    let record = |round: u64| {
        let ns = (1e6 * slower * (1.0 + 0.001 * ((round * 7 + side * 3) % 5) as f64)) as u64;
        Record {
            format: FORMAT,
            run: id.into(),
            item: item.clone(),
            place: place.clone(),
            board: Board {
                soc: Some("SM8650".into()),
                os: "Linux".into(),
                arch: "aarch64".into(),
                ..Board::default()
            },
            build: Build {
                version: "0.1.0".into(),
                commit: None,
                runner: ["a", "b"][side as usize].repeat(64),
            },
            attempt: 1,
            started_s: 1_000 + 20 * round + 10 * (side ^ (round & 1)),
            took_ms: 5,
            before: State::default(),
            after: State::default(),
            outcome: Outcome::Measured(Box::new(Measured {
                samples_ns: vec![ns; 5],
                plan: vec![PlannedPart {
                    id: "p0".into(),
                    device: "cpu:0".into(),
                    nodes: 4,
                    ns,
                    provenance: "measured".into(),
                }],
                ..Measured::default()
            })),
        }
    };
    let header = RunHeader {
        format: FORMAT,
        id: id.into(),
        started_s: side,
        commit: None,
        places: vec![place.clone()],
        items: vec![Wanted {
            item: item.clone(),
            places: vec!["desk".into()],
        }],
        unchanged: Vec::new(),
        equipment: Default::default(),
    };
    let folder = folder.join(id);
    std::fs::create_dir_all(folder.join("records")).unwrap();
    std::fs::write(folder.join("run.json"), serde_json::to_string(&header).unwrap()).unwrap();
    let lines: String = (0..8).map(|round| record(round).to_line()).collect();
    std::fs::write(folder.join("records/desk.jsonl"), lines).unwrap();
    folder.display().to_string()
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn regression_is_exit_code_1_only_if_requested() {
    let folder = tempfile::tempdir().unwrap();
    let (base, new) = (run(folder.path(), 0, 1.0), run(folder.path(), 1, 1.05));
    let markdown = folder.path().join("summary.md");
    let compare = ["farm", "compare", &base, &new];
    let answer = polychip(&[&compare[..], &["--json"]].concat()).json("farm-compare");
    assert_eq!(answer["rows"][0]["verdict"], "slower");
    assert_eq!(answer["failed"], Value::Null);
    let gated = ["--fail-on", "slower", "--markdown", markdown.to_str().unwrap()];
    let done = polychip(&[&compare[..], &gated].concat());
    assert_eq!(done.code, 1, "{}", done.stderr);
    assert!(
        done.stdout
            .contains("slower: bench shapes on cpu on SM8650 [desk]: 1.00 ms → 1.05 ms"),
        "{}",
        done.stdout
    );
    assert!(
        done.stderr
            .contains("1 item is slower, or newly unsupported or failing"),
        "{}",
        done.stderr
    );
    assert!(text(&markdown).starts_with("### Device farm: 1 regression"));
    // what is allowed to be slower by more
    let done = polychip(&[&compare[..], &["--fail-on", "slower=10"]].concat());
    assert_eq!(done.code, 0, "{}", done.stderr);
    // runs in a folder are one side: here both are on both sides
    let both = folder.path().display().to_string();
    let answer = polychip(&["farm", "compare", &both, &both, "--json"]).json("farm-compare");
    assert_eq!(answer["base"].as_array().unwrap().len(), 2);
    // the other way round it is faster
    assert_eq!(
        polychip(&["farm", "compare", &new, &base, "--fail-on", "slower"]).code,
        0
    );
}

#[test]
fn suspects_file_is_accepted_by_farm_run() {
    let folder = tempfile::tempdir().unwrap();
    let (base, new) = (run(folder.path(), 0, 1.0), run(folder.path(), 1, 1.5));
    // all of NEW a day later, so other changes are possible
    let path = Path::new(&new).join("records/desk.jsonl");
    let later = text(&path).replace("\"started_s\":1", "\"started_s\":91");
    std::fs::write(&path, later).unwrap();
    let suspects = folder.path().join("suspects.json");
    let done = polychip(&[
        "farm",
        "compare",
        &base,
        &new,
        "--fail-on",
        "slower",
        "--suspects",
        suspects.to_str().unwrap(),
    ]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(
        done.stdout.contains("suspicious: bench shapes"),
        "{}",
        done.stdout
    );
    let wanted: Vec<Wanted> = serde_json::from_str(&text(&suspects)).unwrap();
    assert_eq!(wanted.len(), 1);
    assert_eq!(wanted[0].places, ["desk"]);
    // without a round nothing is known of the noise; a script reads the number by its line
    assert!(
        text(&suspects).contains("\n    \"rounds\": 12\n"),
        "{}",
        text(&suspects)
    );
}

#[test]
fn builds_of_one_run_and_invalid_folders() {
    let folder = tempfile::tempdir().unwrap();
    let base = run(folder.path(), 0, 1.0);
    let itself = format!("{base}@aaaa");
    let answer = polychip(&["farm", "compare", &itself, &base, "--json"]).json("farm-compare");
    assert_eq!(answer["same_build"], true);
    polychip(&["farm", "compare", &format!("{base}@cc"), &base]).fails(3, &["no build is called \"cc\""]);
    polychip(&["farm", "compare", &base, "/nowhere"]).fails(3, &["/nowhere/run.json"]);
    polychip(&["farm", "compare", &format!("{base},"), &base]).fails(2, &["between two commas"]);
}

#[test]
fn a_report_is_a_page_and_junit() {
    let folder = tempfile::tempdir().unwrap();
    let (base, new) = (run(folder.path(), 0, 1.0), run(folder.path(), 1, 1.05));
    let (page, junit) = (folder.path().join("farm.html"), folder.path().join("junit.xml"));
    let answer = polychip(&[
        "farm",
        "report",
        &new,
        &base,
        "--against",
        &base,
        "--html",
        page.to_str().unwrap(),
        "--junit",
        junit.to_str().unwrap(),
        "--json",
    ])
    .json("farm-report");
    assert_eq!(answer["cells"][0]["history"].as_array().unwrap().len(), 2);
    assert!(text(&page).contains("Device farm: new"));
    assert!(text(&junit).contains("slower: "), "{}", text(&junit));
    let shown = polychip(&["farm", "report", &base]).ok();
    assert!(
        shown.contains("bench shapes on cpu on SM8650 [desk]: 1.00 ms, cpu:0 100 %"),
        "{shown}"
    );
}

#[test]
fn a_bundle_is_signed_by_a_key_that_is_written_once() {
    let folder = tempfile::tempdir().unwrap();
    let base = run(folder.path(), 0, 1.0);
    let profile = Path::new(&base).join("profiles/desk.profile");
    std::fs::create_dir_all(profile.parent().unwrap()).unwrap();
    let profile = profile.display().to_string();
    let arguments = profiling(&profile);
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    arguments.extend(["--precision-goal", "100"]);
    polychip(&arguments).ok();

    let path = |name: &str| folder.path().join(name).display().to_string();
    let (key, file) = (path("key"), path("SM8650.bundle"));
    let public = polychip(&["farm", "keygen", &key]).ok().trim().to_owned();
    let secret = text(Path::new(&key));
    polychip(&["farm", "keygen", &key]).fails(2, &["cannot be written"]);
    assert_eq!(text(Path::new(&key)), secret);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&key).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let bundle = [
        "farm",
        "bundle",
        &base,
        "--key",
        &key,
        "--version",
        "3",
        "--out",
        &file,
    ];
    let answer = polychip(&[&bundle[..], &["--json"]].concat()).json("farm-bundle");
    assert_eq!(
        (&answer["family"], &answer["public_key"]),
        (&"SM8650".into(), &public.clone().into())
    );
    assert!(answer["parts"].as_u64().unwrap() > 0);
    assert_eq!(answer["plans"], 1);

    assert_eq!(answer["left_out"], serde_json::json!([]));

    // an app loads it, and finds what was measured
    let runtime = polychip::Runtime::builder()
        .only_given_folders()
        .profiles(&file)
        .trust(public.parse().unwrap())
        .build()
        .unwrap();
    let [loaded] = runtime.bundles() else {
        panic!("{:?}", runtime.bundles())
    };
    assert_eq!(loaded.manifest().unwrap().version, 3);
    assert_eq!(loaded.plans()[0].model, "shapes");
    let parts = runtime.profile().export().unwrap().parts;
    assert_eq!(parts.len() as u64, answer["parts"].as_u64().unwrap());
    let source = &parts[0].batches[0].source;
    assert_eq!(source, "bundle \"SM8650\" version 3: run base, board desk");

    // keys that were not named are not trusted
    let runtime = polychip::Runtime::builder()
        .only_given_folders()
        .profiles(&file)
        .build()
        .unwrap();
    assert!(
        runtime.bundles()[0].to_string().contains("is not trusted"),
        "{}",
        runtime.bundles()[0]
    );
    assert!(runtime.profile().trouble().unwrap().contains("is not trusted"));
    assert!(runtime.profile().export().unwrap().parts.is_empty());

    // a profile that is none is left out by name, or refused
    let whole = std::fs::read(&profile).unwrap();
    std::fs::write(&profile, "words").unwrap();
    let newer = bundle.map(|word| if word == "3" { "4" } else { word });
    polychip(&[&newer[..], &["--strict"]].concat()).fails(3, &["desk.profile", "--strict"]);
    let done = polychip(&[&newer[..], &["--json"]].concat());
    assert!(
        done.stderr.contains("warning: skipped: ") && done.stderr.contains("desk.profile"),
        "{}",
        done.stderr
    );
    let answer = done.json("farm-bundle");
    assert_eq!((&answer["parts"], &answer["plans"]), (&0.into(), &1.into()));
    assert!(answer["left_out"][0].as_str().unwrap().contains("desk.profile"));
    std::fs::write(&profile, whole).unwrap();

    let bad = [
        "farm",
        "bundle",
        &base,
        "--key",
        &key,
        "--version",
        "0",
        "--out",
        &file,
    ];
    polychip(&bad).fails(2, &["a version of at least 1"]);
    let other = [&bundle[..], &["--family", "RK3588"]].concat();
    polychip(&other).fails(2, &["no single family is called \"RK3588\"", "SM8650 (desk)"]);
    let no_key = path("no-key");
    std::fs::write(&no_key, "secret words").unwrap();
    let done = polychip(&[
        "farm",
        "bundle",
        &base,
        "--key",
        &no_key,
        "--version",
        "3",
        "--out",
        &file,
    ]);
    assert_eq!(done.code, 3);
    assert!(!done.stderr.contains("secret words"), "{}", done.stderr);
}
