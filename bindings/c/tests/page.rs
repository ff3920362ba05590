//! Compares docs/bindings.md and docs/c.md with the code of the bindings.

use std::path::Path;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What all commands say with `--help`.
fn all_help() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps/cli/tests/command/snapshots");
    let files = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let help = files.filter(|file| file.to_string_lossy().contains("command__help__"));
    help.map(|file| std::fs::read_to_string(file).unwrap()).collect()
}

/// The rows of the first table of a page: cells without their spaces.
fn table(page: &str) -> Vec<Vec<String>> {
    let lines = page.lines().skip_while(|line| !line.starts_with('|'));
    let rows = lines.take_while(|line| line.starts_with('|')).map(|line| {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect()
    });
    // the head, and the line below it
    rows.skip(2).collect()
}

/// What stands between backticks.
fn names(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn each_name_of_the_table_of_doors_is_there() {
    let page = read("docs/bindings.md");
    let (symbols, stub) = (
        read("bindings/c/symbols.txt"),
        read("bindings/python/python/polychip/_polychip.pyi"),
    );
    let help = all_help();
    let settings: Vec<&str> = polychip::settings::of_policy()
        .chain(polychip::settings::of_runtime())
        .chain(["profiles"])
        .collect();
    let is_python = |name: &str| match name.split_once('.') {
        None => stub.contains(&format!("class {name}")),
        Some((class, method)) => {
            let class = stub.split(&format!("class {class}:")).nth(1);
            let body = class.and_then(|rest| rest.split("\n@final").next());
            body.is_some_and(|body| body.contains(&format!("def {method}(")))
        }
    };
    let rows = table(&page);
    assert!(rows.len() > 15, "the table of docs/bindings.md is not found");
    for row in &rows {
        let [what, rust, c, python, provider, command] = &row[..] else {
            panic!("a row has other than six cells: {row:?}");
        };
        // that they are there, `cargo xtask tidy` looks up
        assert!(!names(rust).is_empty(), "{what}: no name in Rust");
        for (door, cell) in [("C", c), ("Python", python), ("ONNX Runtime", provider)] {
            for name in names(cell) {
                let is_there = settings.contains(&name)
                    || match door {
                        "C" => symbols.lines().any(|symbol| symbol == name),
                        "Python" => is_python(name),
                        _ => ["polychip_ort.reports", "report"].contains(&name),
                    };
                assert!(is_there, "{what}: {door} has no {name}");
            }
        }
        for name in names(command) {
            assert!(help.contains(name), "{what}: the command line has no {name}");
        }
    }
    // and the other way round: what C has of sessions, plans and runtimes beside making and destroying
    let besides = [
        "_create", "_destroy", "_submit", "_run", "_counts", "_input", "_output", "_index", "_device",
        "_count",
    ];
    let objects = ["polychip_plan_", "polychip_runtime_", "polychip_session_"];
    let told = symbols.lines().filter(|symbol| {
        objects.iter().any(|object| symbol.starts_with(object))
            && !besides.iter().any(|end| symbol.ends_with(end))
    });
    for symbol in told {
        assert!(
            rows.iter().any(|row| names(&row[2]).contains(&symbol)),
            "docs/bindings.md does not name {symbol}"
        );
    }
}

#[test]
fn guide_lists_all_settings() {
    let page = read("docs/c.md");
    let all = polychip::settings::of_policy()
        .chain(polychip::settings::of_runtime())
        .chain(polychip::settings::of_session());
    for word in all {
        assert!(
            page.lines().any(|line| line.starts_with("| `")
                && line
                    .split('|')
                    .nth(1)
                    .is_some_and(|cell| names(cell).contains(&word))),
            "docs/c.md has no row for {word}"
        );
    }
}
