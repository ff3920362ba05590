//! Values that plugins store in a profile reach a plugin only if the same user stored them on this machine.

#![allow(
    clippy::print_stdout,
    reason = "the child process answers on its standard output"
)]

use std::path::Path;
use std::process::Command;

use polychip::{Profile, Runtime};
use polychip_null::{NullDevice, NullPlugin};
use polychip_sdk::{HostServices, Plugin, PluginInfo};

/// The profile of a child of this test.
const PROFILE: &str = "POLYCHIP_SEALS_PROFILE";
const KEY: &str = "pipelines";
const NAME: &str = "keeper";

/// A plugin that prints what it finds stored, and stores something.
struct Keeper(NullPlugin);

impl Plugin for Keeper {
    type Device = NullDevice;
    const INFO: PluginInfo = PluginInfo {
        name: NAME,
        ..NullPlugin::INFO
    };

    fn create(host: HostServices) -> polychip_sdk::Result<Keeper> {
        let found = host.store_read(KEY)?;
        println!("={}", String::from_utf8_lossy(&found.unwrap_or_default()));
        // without a key nothing is stored
        let _ = host.store_write(KEY, b"own");
        Ok(Keeper(NullPlugin::create(host)?))
    }

    fn device_count(&self) -> polychip_sdk::Result<u32> {
        self.0.device_count()
    }

    fn open(&self, index: u32) -> polychip_sdk::Result<NullDevice> {
        self.0.open(index)
    }
}

/// Not a test: what the test below runs in a process of its own.
#[test]
#[ignore = "a child process of the other tests"]
fn child() {
    let Some(profile) = std::env::var_os(PROFILE) else {
        return;
    };
    let builder = Runtime::builder().only_given_folders().profiles(profile);
    let builder = builder.configure(NAME, "script", "[[device]]");
    let runtime = builder
        .link(polychip_sdk::plugin_query::<Keeper>)
        .build()
        .unwrap();
    assert!(runtime.refusals().is_empty(), "{:?}", runtime.refusals());
}

/// What the plugin finds in this profile, for a user with this data folder.
fn found(profile: &Path, data: &Path) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "seals::child", "--nocapture"])
        .env(PROFILE, profile)
        .env("XDG_DATA_HOME", data)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let found = text.lines().find_map(|line| line.split_once('='));
    found
        .unwrap_or_else(|| panic!("the plugin was not made: {text}"))
        .1
        .to_owned()
}

#[test]
fn plugin_receives_only_values_that_its_user_stored() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (mine, other) = (at("mine"), at("other"));
    let own = at("own.profile");
    assert_eq!(found(&own, &mine), "", "nothing is stored yet");
    assert_eq!(found(&own, &mine), "own", "after a restart");

    // another user's profile, copied
    let copied = at("copied.profile");
    Profile::open(&own).unwrap().copy_to(&copied).unwrap();
    assert_eq!(found(&copied, &other), "");

    // the same, imported into a profile of this user
    let into = at("into.profile");
    let records = Profile::open(&own).unwrap().export().unwrap();
    assert_eq!(records.plugin_values.len(), 1);
    let merged = Profile::open(&into)
        .unwrap()
        .import(&records, "own.profile")
        .unwrap();
    assert_eq!(merged.plugin_values, 1, "it is kept as data");
    assert_eq!(found(&into, &other), "");
    assert_eq!(
        found(&into, &other),
        "own",
        "what the plugin then stored is this user's"
    );

    // planted by who knows all but the key
    let planted = at("planted.profile");
    for value in [
        &b"planted"[..],
        &[b"PLYV".as_slice(), &[0; 32], b"planted"].concat(),
    ] {
        let profile = Profile::open(&planted).unwrap();
        profile.set_plugin_value(NAME, KEY, value).unwrap();
        drop(profile);
        assert_eq!(found(&planted, &mine), "");
    }
}

#[cfg(unix)]
#[test]
fn key_that_others_can_read_is_not_used() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let (data, profile) = (folder.path().join("data"), folder.path().join("own.profile"));
    found(&profile, &data);
    assert_eq!(found(&profile, &data), "own");
    let key = data.join("polychip/user.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(found(&profile, &data), "");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(found(&profile, &data), "own", "it was not replaced");
}
