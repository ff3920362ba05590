//! The locked versions of the registry crates that a package depends on, from `Cargo.lock`.

use std::collections::{BTreeMap, BTreeSet};

/// A package of the lock.
#[derive(Default)]
struct Locked<'a> {
    name: &'a str,
    version: &'a str,
    checksum: &'a str,
    dependencies: Vec<&'a str>,
}

/// Name, version and checksum of everything below our own packages that comes from elsewhere.
pub(crate) fn versions(text: &str, ours: &BTreeSet<&str>) -> BTreeSet<String> {
    let packages: Vec<Locked<'_>> = text.split("[[package]]").skip(1).map(read).collect();
    let mut by_name: BTreeMap<&str, Vec<&Locked<'_>>> = BTreeMap::new();
    for package in &packages {
        by_name.entry(package.name).or_default().push(package);
    }
    let mut open: Vec<&str> = ours.iter().copied().collect();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut found = BTreeSet::new();
    while let Some(dependency) = open.pop() {
        if !seen.insert(dependency) {
            continue;
        }
        // `name`, or `name version` where there are several
        let (name, version) = dependency.split_once(' ').unwrap_or((dependency, ""));
        for package in by_name.get(name).into_iter().flatten() {
            // one of ours that none of these is made of is below a test of theirs
            let is_meant = (version.is_empty() || version.starts_with(package.version))
                && (!package.checksum.is_empty() || ours.contains(name));
            if !is_meant {
                continue;
            }
            if !ours.contains(name) {
                found.insert(format!("{name} {} {}", package.version, package.checksum));
            }
            open.extend(&package.dependencies);
        }
    }
    found
}

fn read(text: &str) -> Locked<'_> {
    let mut package = Locked::default();
    for line in text.lines() {
        let quoted = || line.split('"').nth(1).unwrap_or_default();
        match line.split_once(" = ").map_or(line, |(key, _)| key) {
            "name" => package.name = quoted(),
            "version" => package.version = quoted(),
            "checksum" => package.checksum = quoted(),
            _ if line.starts_with(" \"") => package.dependencies.push(quoted()),
            _ => {}
        }
    }
    package
}
