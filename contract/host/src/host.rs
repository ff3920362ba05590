//! The plugins of a runtime: found, checked and created, with open devices and a list of refusals.
//!
//! Invariants:
//! 1. A plugin that cannot be used is listed with its reason, and does not prevent others from
//!    loading.
//! 2. Of two plugins with the same name, the first found is used and the second is listed as
//!    refused.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use polychip_abi as abi;
use polychip_isolation::{Isolated, Limits};

use crate::clock::Clock;
use crate::device::Device;
use crate::instance::{PluginInfo, Trial};
use crate::isolate::{Isolate, Placement};
use crate::open_calls::OpenCall;
use crate::plugin::Plugin;
use crate::probe::Probe;
use crate::quarantine::{Keeper, Remembered};
use crate::services::{Recipe, Store};
use crate::{library, table};

/// A plugin, folder or device that is not used, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// File, folder, plugin or device concerned.
    pub subject: String,
    /// Reason.
    pub reason: String,
    /// Whether the plugin itself works, but its chip is absent.
    pub is_absent_chip: bool,
    /// Whether it is a device whose plugin is quarantined since an earlier process.
    pub is_quarantined: bool,
}

impl Refusal {
    fn of(subject: String, reason: String) -> Refusal {
        Refusal {
            subject,
            reason,
            is_absent_chip: false,
            is_quarantined: false,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.reason)
    }
}

/// The export of a linked plugin. Pure: returns a static table or null.
pub type Query = abi::polychip_plugin_query_fn;

/// Plugins to load, and the services that they receive.
pub struct Builder {
    linked: Vec<Query>,
    files: Vec<PathBuf>,
    /// Folders to search, and whether the app named them: then libraries with a wrong name are refused, not ignored.
    folders: Vec<(PathBuf, bool)>,
    isolate: Isolate,
    sandbox: bool,
    limits: Limits,
    clears_quarantine: bool,
    recipe: Recipe,
}

/// Plugins and their open devices.
#[derive(Debug)]
pub struct Host {
    plugins: Vec<Plugin>,
    devices: Vec<Device>,
    refusals: Vec<Refusal>,
    clock: Clock,
}

impl Host {
    /// An empty builder on the machine's clock.
    #[must_use]
    pub fn builder() -> Builder {
        Builder {
            linked: Vec::new(),
            files: Vec::new(),
            folders: Vec::new(),
            isolate: Isolate::default(),
            sandbox: true,
            limits: Limits::default(),
            clears_quarantine: false,
            recipe: Recipe {
                clock: Clock::real(),
                store: None,
                configuration: BTreeMap::new(),
                of_all: BTreeMap::new(),
            },
        }
    }

    /// The plugins in use.
    #[must_use]
    pub fn plugins(&self) -> &[Plugin] {
        &self.plugins
    }

    /// The open devices, plugin by plugin.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Plugins, folders and devices that are not used, with reasons.
    #[must_use]
    pub fn refusals(&self) -> &[Refusal] {
        &self.refusals
    }

    /// The clock that the plugins use.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }
}

impl Builder {
    /// Adds a linked plugin; tried before the folders.
    #[must_use]
    pub fn linked(mut self, query: Query) -> Self {
        self.linked.push(query);
        self
    }

    /// Adds one plugin library, whatever its name; tried before the folders.
    #[must_use]
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.files.push(path.into());
        self
    }

    /// Adds a folder to search for plugin libraries; folders are tried in order.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folders.push((folder.into(), true));
        self
    }

    /// As [`Builder::folder`], for a folder that the app did not name: other libraries in it are
    /// ignored.
    #[must_use]
    pub fn usual_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folders.push((folder.into(), false));
        self
    }

    /// Selects the plugin libraries that run in processes of their own.
    #[must_use]
    pub fn isolate(mut self, isolate: Isolate) -> Self {
        self.isolate = isolate;
        self
    }

    /// Sets whether the kernel confines the processes of plugins. The default is yes.
    #[must_use]
    pub fn sandbox(mut self, confines: bool) -> Self {
        self.sandbox = confines;
        self
    }

    /// Sets the limits on plugins in processes of their own.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Forgets which of the plugins were quarantined in earlier processes, instead of leaving out their devices.
    #[must_use]
    pub fn clear_quarantine(mut self) -> Self {
        self.clears_quarantine = true;
        self
    }

    /// Replaces the machine's clock.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.recipe.clock = clock;
        self
    }

    /// Sets the storage of the plugins' own values.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.recipe.store = Some(store);
        self
    }

    /// Sets a configuration string for one plugin.
    #[must_use]
    pub fn configure(mut self, plugin: &str, key: &str, value: impl Into<String>) -> Self {
        self.recipe
            .configuration
            .entry(plugin.to_owned())
            .or_default()
            .insert(key.to_owned(), value.into());
        self
    }

    /// Sets a configuration string for every plugin that has none of its own for the key.
    #[must_use]
    pub fn configure_all(mut self, key: &str, value: impl Into<String>) -> Self {
        self.recipe.of_all.insert(key.to_owned(), value.into());
        self
    }

    /// Loads all plugins that can be loaded. May block.
    #[must_use]
    pub fn build(self) -> Host {
        let mut host = Host {
            plugins: Vec::new(),
            devices: Vec::new(),
            refusals: Vec::new(),
            clock: self.recipe.clock.clone(),
        };
        for query in &self.linked {
            match table::of_query(*query) {
                Ok(found) => self.add(&mut host, Found::linked(found)),
                Err(reason) => host.refusals.push(Refusal::of("linked plugin".into(), reason)),
            }
        }
        for path in &self.files {
            self.add_file(&mut host, path.clone());
        }
        for (folder, is_named) in &self.folders {
            self.add_folder(&mut host, folder, *is_named);
        }
        host
    }

    fn add_folder(&self, host: &mut Host, folder: &Path, is_named: bool) {
        let found = match library::candidates(folder) {
            Ok(found) => found,
            Err(error) => {
                let reason = format!("cannot be listed: {error}");
                host.refusals
                    .push(Refusal::of(folder.display().to_string(), reason));
                return;
            }
        };
        for path in found.plugins {
            self.add_file(host, path);
        }
        for (path, right) in found.misnamed.into_iter().filter(|_| is_named) {
            let reason = format!("ignored, because the library of a plugin is named like {right}");
            host.refusals
                .push(Refusal::of(path.display().to_string(), reason));
        }
    }

    fn add_file(&self, host: &mut Host, path: PathBuf) {
        let name = path.display().to_string();
        let found = self
            .isolate
            .placement(&path, self.limits, self.sandbox)
            .and_then(|placement| {
                let _listed = OpenCall::begin(&name, OpenCall::LOADING, "");
                match placement {
                    Placement::Here => Ok(Found::linked(library::open(&path)?)),
                    Placement::Isolated(isolated) => Ok(Found {
                        isolated: Some(isolated.clone()),
                        ..Found::linked(isolated.query().and_then(table::of_query)?)
                    }),
                    Placement::Probed(isolated) => {
                        let probe = Probe::new(isolated, self.recipe.clone());
                        probe.load()?;
                        Ok(Found {
                            trial: Some(Box::new(probe)),
                            ..Found::linked(library::open(&path)?)
                        })
                    }
                }
            });
        match found {
            Ok(found) => {
                let path = Some(path);
                self.add(host, Found { path, ..found });
            }
            Err(reason) => host.refusals.push(Refusal::of(name, reason)),
        }
    }

    fn add(&self, host: &mut Host, found: Found) {
        let Found {
            table,
            path,
            isolated,
            trial,
        } = found;
        let confinement = isolated.as_ref().and_then(Isolated::confinement);
        let subject = path
            .as_ref()
            .map_or_else(|| "linked plugin".to_owned(), |path| path.display().to_string());
        let mut refuse = |subject: String, reason: String| host.refusals.push(Refusal::of(subject, reason));
        let info = match Plugin::identify(&table, path) {
            Ok(info) => PluginInfo { confinement, ..info },
            Err(error) => return refuse(subject, error.message().to_owned()),
        };
        if let Some(other) = host.plugins.iter().find(|plugin| plugin.info().name == info.name) {
            // the linked plugin was also found as a file: nothing is lost
            if other.info().path.is_none() && info.path.is_some() && other.info().build_id == info.build_id {
                return;
            }
            let first = other
                .info()
                .path
                .as_ref()
                .map_or("linked in".into(), |path| path.display().to_string());
            return refuse(
                subject,
                format!("a plugin named {} is loaded already ({first})", info.name),
            );
        }
        let (name, version, build_id) = (info.name.clone(), info.version.clone(), info.build_id.clone());
        let opened = Plugin::create(table, info, &self.recipe, trial)
            .and_then(|plugin| plugin.open_devices().map(|devices| (plugin, devices)));
        match opened {
            Ok((plugin, (devices, errors))) => {
                if devices.is_empty() && errors.is_empty() {
                    host.refusals.push(Refusal {
                        is_absent_chip: true,
                        ..Refusal::of(subject, format!("{name} finds no device on this machine"))
                    });
                }
                for error in errors {
                    host.refusals.push(Refusal::of(
                        error.subject().to_owned(),
                        error.message().to_owned(),
                    ));
                }
                let all = devices.len();
                let devices = self.without_quarantined(host, (&name, &build_id), devices);
                // a plugin of which nothing is used need not stay
                if devices.is_empty() && all > 0 {
                    return;
                }
                if let (Some(isolated), Some(store)) = (&isolated, &self.recipe.store) {
                    let keeper = Keeper::new(store, &name, &build_id);
                    keeper.add(&devices);
                    plugin.remember_quarantine(isolated, keeper);
                }
                host.devices.extend(devices);
                host.plugins.push(plugin);
            }
            Err(error) => refuse(subject, format!("plugin {name} {version}: {}", error.message())),
        }
    }

    /// The devices but those that an earlier process quarantined, which are listed as refused.
    fn without_quarantined(
        &self,
        host: &mut Host,
        (plugin, build_id): (&str, &str),
        mut devices: Vec<Device>,
    ) -> Vec<Device> {
        let Some(store) = &self.recipe.store else {
            return devices;
        };
        if self.clears_quarantine {
            Remembered::clear(&**store, plugin);
            return devices;
        }
        let Some(remembered) = Remembered::read(&**store, plugin) else {
            return devices;
        };
        devices.retain(|device| {
            let refused = remembered.refuses(plugin, build_id, device);
            let is_used = refused.is_none();
            host.refusals.extend(refused.map(|reason| Refusal {
                is_quarantined: true,
                ..Refusal::of(device.name().to_owned(), reason)
            }));
            is_used
        });
        devices
    }
}

/// A plugin's table, and where it comes from.
struct Found {
    table: abi::polychip_plugin_table,
    path: Option<PathBuf>,
    /// How it runs in a process of its own, if it does.
    isolated: Option<Isolated>,
    trial: Option<Box<dyn Trial>>,
}

impl Found {
    /// A plugin in this process.
    fn linked(table: abi::polychip_plugin_table) -> Found {
        Found {
            table,
            path: None,
            isolated: None,
            trial: None,
        }
    }
}
