//! A profile: an arbitrary JSON export, and a database file with changed bytes.
//!
//! Invariants: it is refused, or its rows can be listed, predicted from, exported and imported again. Not here: SQLite
//! itself, whose code is not instrumented.

#![no_main]

mod patches;

use std::cell::OnceCell;
use std::fs;

use libfuzzer_sys::fuzz_target;
use patches::patched;
use polychip_profile::{Profile, ProfileFile};
use tempfile::TempDir;

struct World {
    folder: TempDir,
    /// A valid database.
    database: Vec<u8>,
}

thread_local! {
    static WORLD: OnceCell<World> = const { OnceCell::new() };
}

fuzz_target!(|input: &[u8]| {
    if let Ok(records) = serde_json::from_slice::<ProfileFile>(input) {
        let profile = Profile::in_memory();
        if profile.import(&records, "input").is_ok() {
            used(&profile);
        }
        return;
    }
    WORLD.with(|world| {
        let world = world.get_or_init(world_of_seed);
        let bytes = patched(&world.database, input);
        let path = world.folder.path().join("profile.db");
        for side in ["profile.db-wal", "profile.db-shm"] {
            let _absent = fs::remove_file(world.folder.path().join(side));
        }
        fs::write(&path, bytes).expect("a file");
        if let Ok(profile) = Profile::open(&path) {
            used(&profile);
        }
    });
});

fn world_of_seed() -> World {
    let folder = tempfile::tempdir().expect("a folder");
    let records: ProfileFile =
        serde_json::from_str(include_str!("../seeds/profile/export.json")).expect("the seed is an export");
    let path = folder.path().join("seed.db");
    let profile = Profile::open(&path).expect("a new file");
    profile.import(&records, "seed").expect("the seed is sound");
    let copy = folder.path().join("copy.db");
    profile.copy_to(&copy).expect("a copy");
    let database = fs::read(copy).expect("the copy");
    World { folder, database }
}

/// A changed database may fail at any row; it may not panic.
fn used(profile: &Profile) {
    let _parts = profile.parts();
    let _predictions = profile.predictions();
    let _bundles = profile.loaded_bundles();
    if let Ok(exported) = profile.export() {
        let _merged = Profile::in_memory().import(&exported, "again");
    }
}
