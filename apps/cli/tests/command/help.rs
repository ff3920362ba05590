//! The help texts, and what is no command line.

use crate::tool::{polychip, shapes};

#[test]
fn help_texts() {
    insta::assert_snapshot!("polychip", polychip(&["--help"]).ok());
    for command in [
        "devices",
        "run",
        "bench",
        "compare",
        "measure",
        "energy",
        "monitor",
        "partition",
        "explain",
        "inspect",
        "profile",
        "generate",
        "chat",
        "bench-llm",
        "phases",
        "logits",
        "serve-sim",
        "new-plugin",
        "completions",
    ] {
        insta::assert_snapshot!(command, polychip(&[command, "--help"]).ok());
    }
    #[cfg(feature = "serve")]
    insta::assert_snapshot!("serve", polychip(&["serve", "--help"]).ok());
    for command in ["show", "export", "import", "merge", "diff"] {
        let name = format!("profile_{command}");
        insta::assert_snapshot!(name, polychip(&["profile", command, "--help"]).ok());
    }
    for command in ["boards", "run", "compare", "report", "bundle", "clean", "keygen"] {
        let name = format!("farm_{command}");
        insta::assert_snapshot!(name, polychip(&["farm", command, "--help"]).ok());
    }
    insta::assert_snapshot!("plan_diff", polychip(&["plan", "diff", "--help"]).ok());
}

#[test]
fn bad_usage_is_code_2() {
    let model = shapes();
    let cases: [&[&str]; 20] = [
        &["frobnicate"],
        &["run"],
        &["run", &model, "--frobnicate"],
        &["run", &model, "--input", "image"],
        &["run", &model, "--input", "image="],
        &["run", &model, "--fill", "seven"],
        &["run", &model, "--dim", "n"],
        &["run", &model, "--dim", "n=-1"],
        &["run", &model, "--threads", "0"],
        &["run", &model, "--policy", "speed"],
        &["run", &model, "--plan", "x", "--devices", "cpu"],
        &["bench", &model, "--iters", "0"],
        &["bench", &model, "--iters", "5", "--duration", "1"],
        &["profile", "show"],
        &["profile"],
        &["profile", &model],
        &["profile", &model, "--profile", "x", "--time", "0"],
        &["profile", "diff", "a", "b", "--fail-on", "faster"],
        &["run", &model, "--fill", "1", "--plugins", "/nowhere/at/all"],
        &["run", &model, "--fill", "1", "--dim", "n=1", "--dim", "n=2"],
    ];
    for case in cases {
        let done = polychip(case);
        assert_eq!((done.code, &*done.stdout), (2, ""), "{case:?}: {}", done.stderr);
        assert!(done.stderr.starts_with("error: "), "{case:?}: {}", done.stderr);
    }
    assert_eq!(polychip(&[]).code, 2);
}

#[test]
fn an_output_folder_that_is_a_file_is_bad_usage() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "kept").unwrap();
    polychip(&["run", &shapes(), "--fill", "1", "--save", file.to_str().unwrap()])
        .fails(2, &["not a folder"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
    let plan = file.join("plan.json");
    polychip(&["partition", &shapes(), "-o", plan.to_str().unwrap()]).fails(2, &["cannot be written"]);
}
