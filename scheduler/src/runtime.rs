//! The runtime: plugins and their devices, the profile database, and where models come from.
//!
//! Invariants:
//! 1. A plugin that cannot be used is listed with its reason; it never makes the runtime fail.
//! 2. The CPU plugin is linked in (feature `cpu`), so every model has a device.
//! 3. Libraries are loaded only from the folders given, `POLYCHIP_PLUGINS`, and beside the executable.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use polychip_host::{Clock, Device, Host, Query, Refusal, Store};
use polychip_profile::Profile;
use polychip_profile::bundle::{PublicKey, Trust};

use crate::admission::Registry;
use crate::bundles::{self, LoadedBundle};
use crate::durable::Durable;
use crate::error::{Error, ErrorKind, Result};
use crate::lane::Lanes;
use crate::model::Model;
use crate::planned::{Planned, PlanningStep};
use crate::policy::Policy;
use crate::precompiled::Precompiled;
use crate::session::Session;
use crate::shared::Shared;
use crate::support::Support;
use crate::telemetry::files::Sensors;

/// Environment variable with further plugin folders, separated as in `PATH`.
const PLUGINS_VARIABLE: &str = "POLYCHIP_PLUGINS";

/// Plugins, devices and profile, shared by all models and sessions. Clones share it.
///
/// ```
/// # fn main() -> Result<(), polychip::Error> {
/// let runtime = polychip::Runtime::builder().build()?;
/// for device in runtime.devices() {
///     println!("{}: {}", device.name(), device.info().name);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Runtime(pub(crate) Arc<Shared>, pub(crate) Arc<Registry>);

/// What a runtime is made of.
#[derive(Debug)]
pub struct Builder {
    linked: Vec<Query>,
    folders: Vec<PathBuf>,
    profiles: Vec<PathBuf>,
    trust: Trust,
    cache: Option<PathBuf>,
    clock: Clock,
    configuration: Vec<(String, String, String)>,
    measures_rates: bool,
    usual_places: bool,
    sensors: Option<Sensors>,
}

impl Runtime {
    /// The defaults: the linked CPU plugin, plugins from the usual places, a profile in memory.
    #[must_use]
    pub fn builder() -> Builder {
        Builder {
            linked: Vec::new(),
            folders: Vec::new(),
            profiles: Vec::new(),
            trust: Trust::new(),
            cache: None,
            clock: Clock::real(),
            configuration: Vec::new(),
            measures_rates: false,
            usual_places: true,
            sensors: None,
        }
    }

    /// Waits until the runtime's clock shows this, in nanoseconds ([`Session::now_ns`](crate::Session::now_ns)): what an app
    /// does between two frames. On virtual time the clock is moved there at once.
    pub fn sleep_until_ns(&self, until_ns: u64) {
        self.0.host.clock().sleep_until_ns(until_ns);
    }

    /// At which period sessions of a model ran before, by the profile; zero: back to back, or nothing is known.
    ///
    /// # Errors
    /// A named device is not there, or the model has no canonical form.
    pub fn known_period(&self, model: &Model, policy: &Policy) -> Result<Duration> {
        crate::planned::known_period(&self.0, model, policy)
    }

    /// The devices that are open.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        self.0.host.devices()
    }

    /// The devices that a policy lets plans use, however hot they are.
    ///
    /// # Errors
    /// The policy names a device that is not there, or there is none.
    pub fn devices_of(&self, policy: &Policy) -> Result<Vec<Device>> {
        crate::planned::choose_devices(&self.0, policy)
    }

    /// Plugins, folders and devices that are not used, each with its reason.
    #[must_use]
    pub fn refusals(&self) -> &[Refusal] {
        self.0.host.refusals()
    }

    /// The profile database.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.0.profile
    }

    /// The bundles that were given, in their order: loaded, or refused with the reason.
    #[must_use]
    pub fn bundles(&self) -> &[LoadedBundle] {
        &self.0.bundles
    }

    /// Reads an ONNX model and brings it to the canonical form. Weights stay in the mapped file.
    ///
    /// # Errors
    /// The file cannot be read, or is not a model that this build reads.
    pub fn load(&self, path: impl AsRef<Path>) -> Result<Model> {
        Model::load(path.as_ref())
    }

    /// Reads an ONNX model from memory, which is kept and not copied: a vector, an array in the program, a mapping of the
    /// app's own. Messages call it `name`. Weights in files beside it are not found.
    ///
    /// # Errors
    /// The bytes are not a model that this build reads.
    pub fn load_bytes(&self, name: &str, bytes: impl AsRef<[u8]> + Send + 'static) -> Result<Model> {
        Model::of_bytes(name, bytes::Bytes::from_owner(bytes))
    }

    /// A graph that was made in memory, as a model; messages call it `name`. Its constants stay where they are.
    #[must_use]
    pub fn load_graph(&self, name: &str, graph: polychip_graph::Graph) -> Model {
        Model::made(name, graph)
    }

    /// As [`load_graph`](Runtime::load_graph), with constants that stand in a file: devices may read them from there, so
    /// that what they pack does not lie in memory twice. The graph's first file is the folder's model.
    #[must_use]
    pub fn load_graph_over(
        &self,
        name: &str,
        graph: polychip_graph::Graph,
        files: Arc<polychip_host::ModelFolder>,
    ) -> Model {
        Model::made_over(name, graph, files)
    }

    /// Maps an ONNX model that lies in an open file from byte `offset` on and has `len` bytes, or goes to the file's end:
    /// an asset inside an Android package, say. Messages call it `name`. Weights in files beside it are not found.
    ///
    /// # Errors
    /// The range leaves the file, or its bytes are not a model that this build reads.
    pub fn load_file(
        &self,
        name: &str,
        file: impl Into<std::fs::File>,
        offset: u64,
        len: Option<u64>,
    ) -> Result<Model> {
        Model::of_file(name, file.into(), offset, len)
    }

    /// Asks the devices which nodes of a model they run, without planning.
    ///
    /// # Errors
    /// A symbolic dimension is not bound, a named device is not there, or a plugin failed.
    pub fn support(&self, model: &Model, policy: &Policy) -> Result<Support> {
        Support::new(&self.0, model, policy)
    }

    /// Plans a model without compiling anything.
    ///
    /// # Errors
    /// A symbolic dimension is not bound, a named device is not there, or no device can run some node.
    pub fn plan(&self, model: &Model, policy: &Policy) -> Result<Planned> {
        self.plan_watched(model, policy, &|_| {})
    }

    /// As [`Runtime::plan`]; says before each step of the planning which it is.
    ///
    /// # Errors
    /// As [`Runtime::plan`].
    pub fn plan_watched(
        &self,
        model: &Model,
        policy: &Policy,
        watch: &dyn Fn(PlanningStep<'_>),
    ) -> Result<Planned> {
        self.calibrated_for(policy)?;
        let start = std::time::Instant::now();
        let planned = Planned::new(&self.0, model, policy, watch)?;
        tracing::info!(
            "{} is planned in {} parts, in {:.1} ms",
            model.path().display(),
            planned.plan().parts.len(),
            start.elapsed().as_secs_f64() * 1e3
        );
        Ok(planned)
    }

    /// A plan made before (read from a file, say) for this model, checked anew against the devices.
    ///
    /// # Errors
    /// The plan is for another model, names a device that is not there, or breaks a rule.
    pub fn with_plan(
        &self,
        model: &Model,
        policy: &Policy,
        plan: polychip_partitioner::Plan,
    ) -> Result<Planned> {
        Planned::with_plan(&self.0, model, policy, plan)
    }

    /// Plans, checks, compiles and loads a model: ready to run. Where the model leaves sizes open, that is done for the
    /// sizes of the first run's inputs, and again for others; what was made is kept ([`Policy::specialization_cache_bytes`]).
    ///
    /// # Errors
    /// As [`Runtime::plan`], or a device refused its part; for a model with open sizes, the session is governed or has
    /// no device; or runs cannot be padded to the policy's buckets ([`Policy::shapes`]).
    pub fn session(&self, model: &Model, policy: Policy) -> Result<Session> {
        if !model.open_dims().is_empty() {
            self.calibrated_for(&policy)?;
            return Session::open(Arc::clone(&self.0), model, policy);
        }
        if let Some((name, _)) = policy.buckets().first() {
            let words = format!(
                "{}: buckets are given for {name:?}, but the model leaves no size open (Policy::shapes)",
                model.path().display()
            );
            return Err(Error::new(ErrorKind::BadInput, words));
        }
        let planned = self.plan(model, &policy)?;
        self.session_of(planned, policy)
    }

    /// Plans a model and compiles the parts of the plan, for [`Runtime::session_precompiled`] in this process or another one.
    /// `sizes` are those of the model's open dimensions; none where it has none.
    ///
    /// # Errors
    /// As [`Runtime::plan`], or a device refused its part.
    pub fn precompile(&self, model: &Model, policy: &Policy, sizes: &[(&str, usize)]) -> Result<Precompiled> {
        let sizes = sizes.iter().map(|(name, size)| ((*name).to_owned(), *size));
        Precompiled::new(&self.0, model, policy, sizes.collect())
    }

    /// As [`Runtime::session`], of a plan that was made and compiled ahead: nothing is planned and nothing compiled. Where the
    /// model leaves sizes open, `made` has a plan for each of some sizes; for others a run plans as ever.
    ///
    /// # Errors
    /// What was made ahead is stale ([`ErrorKind::BadPlan`], and the words say why): it was made by another version of
    /// Polychip, for another model, policy or device, with another plugin or driver. Or a device refused its part.
    pub fn session_precompiled(
        &self,
        model: &Model,
        policy: Policy,
        made: &[Precompiled],
    ) -> Result<Session> {
        Session::precompiled(Arc::clone(&self.0), model, policy, made)
    }

    /// Keeps the energy of a run, less what the device takes idle, that was measured with sensors while a plan ran: in
    /// microjoules, for the one part that the plan gives to the device. A device with several parts tells nothing of
    /// each. With it the sensor's name is kept, and the interval. Whether it was kept.
    ///
    /// # Errors
    /// The profile cannot be written.
    pub fn record_energy(
        &self,
        planned: &Planned,
        policy: &Policy,
        device: &str,
        sensor: &str,
        net_uj: &crate::telemetry::Interval,
    ) -> Result<bool> {
        crate::telemetry::record(&self.0, planned, policy, device, sensor, net_uj)
    }

    /// Compiles and loads a plan made before, or one read from a file.
    ///
    /// # Errors
    /// A device refused its part.
    pub fn session_of(&self, planned: Planned, policy: Policy) -> Result<Session> {
        Session::new(Arc::clone(&self.0), planned, policy)
    }
}

impl Builder {
    /// A plugin that is linked into the program, by its query function.
    #[must_use]
    pub fn link(mut self, query: Query) -> Self {
        self.linked.push(query);
        self
    }

    /// A folder to look for plugin libraries in, before the usual places.
    #[must_use]
    pub fn plugins(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folders.push(folder.into());
        self
    }

    /// The profile database, made where there is none. Runs record their measured times in it. A file that is of no
    /// use is left as it is, and what is recorded then stays in memory: [`Profile::trouble`] and the reports of
    /// sessions say so. A build without the feature `database` reads no such file, and says that there.
    ///
    /// Or a bundle, which `polychip farm bundle` made of what a farm measured: what it holds goes into the database, with
    /// its version, so that no older one is taken after it; without a database it stays in memory. Only bundles that a
    /// trusted key signed are taken ([`Builder::trust`]); [`Runtime::bundles`] says which were, and why the others
    /// were not. A file is a bundle where it begins as one, or its name ends in `.bundle`, also while it is missing. Of several databases the last one counts; bundles are taken in their order.
    #[must_use]
    pub fn profiles(mut self, file: impl Into<PathBuf>) -> Self {
        self.profiles.push(file.into());
        self
    }

    /// Takes bundles that the owner of this key signed.
    #[must_use]
    pub fn trust(mut self, key: PublicKey) -> Self {
        self.trust = self.trust.key(key);
        self
    }

    /// A name of this installation, random and kept by the app: by it bundles come to a share of the devices first.
    /// Without it only bundles for all devices are taken.
    #[must_use]
    pub fn installation(mut self, name: &str) -> Self {
        self.trust = self.trust.installation(name);
        self
    }

    /// Takes a bundle of a lower version than the one that was loaded last, which turned out bad.
    #[must_use]
    pub fn allow_rollback(mut self) -> Self {
        self.trust = self.trust.allow_rollback();
        self
    }

    /// A folder for compiled parts, so that a later process need not compile them again.
    #[must_use]
    pub fn cache(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache = Some(folder.into());
        self
    }

    /// A configuration string for one plugin (`"cpu"`, `"threads"`, `"2"`).
    #[must_use]
    pub fn configure(mut self, plugin: &str, key: &str, value: impl Into<String>) -> Self {
        self.configuration
            .push((plugin.to_owned(), key.to_owned(), value.into()));
        self
    }

    /// Plugins measure the rates that their estimates are made of, where the profile holds none of this machine and
    /// build. Without this nothing is measured before a plan is made: it rests on what the profile holds, and on what
    /// makers state of a device.
    #[must_use]
    pub fn measure_rates(mut self) -> Self {
        self.measures_rates = true;
        self
    }

    /// Virtual time for emulated devices, instead of the machine's clock.
    #[must_use]
    pub fn virtual_time(mut self) -> Self {
        self.clock = Clock::virtual_time();
        self
    }

    /// Linux's sensors, in the place of this machine's as [`Rules`](crate::telemetry::Rules) know them: with rules of the
    /// app's own, or of a record. Governed sessions read them, and plans are priced by them.
    #[must_use]
    pub fn sensors(mut self, sensors: Sensors) -> Self {
        self.sensors = Some(sensors);
        self
    }

    /// Loads plugins from the folders given only, not from the environment or beside the executable.
    #[must_use]
    pub fn only_given_folders(mut self) -> Self {
        self.usual_places = false;
        self
    }

    /// Loads the plugins and opens their devices.
    ///
    /// # Errors
    /// The profile cannot be opened. Plugins and bundles that cannot be loaded are no error: [`Runtime::refusals`] and
    /// [`Runtime::bundles`] say why.
    pub fn build(self) -> Result<Runtime> {
        let (bundles, databases): (Vec<&PathBuf>, Vec<&PathBuf>) =
            self.profiles.iter().partition(|path| bundles::is_one(path));
        let profile = match databases.last() {
            None => Profile::in_memory(),
            Some(path) => Profile::open(path).map_err(|error| {
                let words = format!("profile {}", path.display());
                Error::caused(ErrorKind::BadProfile, words, error)
            })?,
        };
        let profile = Arc::new(profile);
        let bundles = bundles.into_iter();
        let bundles = bundles.map(|path| LoadedBundle::load(path, &profile, &self.trust));
        let bundles: Vec<LoadedBundle> = bundles.collect();
        let store: Arc<dyn Store> = Arc::new(PluginValues(Arc::clone(&profile)));
        let mut host = Host::builder().clock(self.clock.clone()).store(store);
        #[cfg(feature = "cpu")]
        {
            host = host.linked(polychip_cpu::query);
        }
        for query in &self.linked {
            host = host.linked(*query);
        }
        for folder in self.all_folders() {
            host = host.folder(folder);
        }
        if self.measures_rates {
            host = host.configure_all("rates", "measure");
        }
        for (plugin, key, value) in self.configuration {
            host = host.configure(&plugin, &key, value);
        }
        let host = host.build();
        let shared = Shared {
            durable: Durable::default(),
            lanes: Lanes::new(host.devices(), host.clock()),
            host,
            profile,
            bundles,
            cache: self.cache,
            sensors: self.sensors,
            calibrating: Mutex::default(),
            calibrate: Runtime::calibrate_for_session,
            sampler: Mutex::new(None),
        };
        for device in shared.host.devices() {
            let plugin = device.plugin();
            let from = plugin.path.as_ref().map(|path| path.display().to_string());
            tracing::info!(
                "{}: {}, plugin {} {} ({})",
                device.name(),
                device.info().name,
                plugin.name,
                plugin.version,
                from.as_deref().unwrap_or("linked in")
            );
        }
        for refusal in shared.host.refusals() {
            tracing::info!("not used: {refusal}");
        }
        Ok(Runtime(Arc::new(shared), Arc::default()))
    }

    /// The folders that plugins are looked for in, each once.
    fn all_folders(&self) -> Vec<PathBuf> {
        let mut folders = self.folders.clone();
        if self.usual_places {
            if let Some(list) = std::env::var_os(PLUGINS_VARIABLE) {
                folders.extend(std::env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()));
            }
            let beside = std::env::current_exe()
                .ok()
                .and_then(|path| path.parent().map(Path::to_owned));
            folders.extend(beside);
        }
        let mut known = HashSet::new();
        folders.retain(|folder| known.insert(folder.canonicalize().unwrap_or_else(|_| folder.clone())));
        folders
    }
}

/// The plugins' own values, kept in the profile database.
struct PluginValues(Arc<Profile>);

impl Store for PluginValues {
    fn read(&self, plugin: &str, key: &str) -> Option<Vec<u8>> {
        self.0.plugin_value(plugin, key).unwrap_or_else(|error| {
            tracing::warn!("{error}");
            None
        })
    }

    fn write(&self, plugin: &str, key: &str, value: &[u8]) -> bool {
        let written = self.0.set_plugin_value(plugin, key, value);
        if let Err(error) = &written {
            tracing::warn!("{error}");
        }
        written.is_ok()
    }
}
