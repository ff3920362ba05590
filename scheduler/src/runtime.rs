//! The runtime: plugins and their devices, the profile database, and loading of models.
//!
//! Invariants:
//! 1. A plugin that cannot be used is listed with the reason. It never makes the runtime fail.
//! 2. The CPU plugin is linked in (feature `cpu`), so every model has a device.
//! 3. Libraries are loaded only from the given folders, `POLYCHIP_PLUGINS`, and the executable's
//!    folder.

mod isolation;

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use polychip_host::{
    Clock, Device, Host, Isolate, Limits, ModelFiles, Query, Refusal, Store, trusted_variable,
};
use polychip_profile::Profile;
use polychip_profile::bundle::{PublicKey, Trust};

use crate::admission::Registry;
use crate::blob_cache::BlobCache;
use crate::bundles::{self, LoadedBundle};
use crate::device_queue::DeviceQueues;
use crate::durable::Durable;
use crate::error::{Error, ErrorKind, Result};
use crate::memory_account::{MemoryAccount, MemoryReport};
use crate::memory_limit::MemoryLimit;
use crate::memory_pressure::{MemoryPressure, OnMemoryPressure};
use crate::model::Model;
use crate::planned::{Planned, PlanningStep};
use crate::policy::Policy;
use crate::precompiled::Precompiled;
use crate::seal::{Sealed, Sealer};
use crate::session::Session;
use crate::shared::Shared;
use crate::support::Support;
use crate::telemetry::files::Sensors;

/// Environment variable with further plugin folders, separated as in `PATH`. Ignored in a program with
/// more privileges than its caller.
const PLUGINS_VARIABLE: &str = "POLYCHIP_PLUGINS";

/// Plugins, devices and profile, shared by all models and sessions. Clones share the same runtime.
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

/// Configures and builds a [`Runtime`].
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
    isolate: Isolate,
    sandbox: bool,
    model_files: Option<ModelFiles>,
    limits: Limits,
    clears_quarantine: bool,
    guards_buffers: bool,
    usual_places: bool,
    sensors: Option<Sensors>,
    memory_limit: Option<u64>,
    on_memory_pressure: OnMemoryPressure,
}

impl Runtime {
    /// Starts a builder with the defaults: the linked CPU plugin, plugins from the folders in
    /// `POLYCHIP_PLUGINS` and beside the executable, and a profile in memory.
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
            isolate: Isolate::default(),
            sandbox: true,
            model_files: None,
            limits: Limits::default(),
            clears_quarantine: false,
            guards_buffers: false,
            usual_places: true,
            sensors: None,
            memory_limit: None,
            on_memory_pressure: OnMemoryPressure::default(),
        }
    }

    /// Sleeps until the runtime's clock reaches `until_ns`, in nanoseconds
    /// ([`Session::now_ns`](crate::Session::now_ns)). An app waits this way between two frames. On
    /// virtual time the clock jumps there at once.
    pub fn sleep_until_ns(&self, until_ns: u64) {
        self.0.host.clock().sleep_until_ns(until_ns);
    }

    /// The period of earlier sessions of a model, from the profile. Zero means back to back, or
    /// unknown.
    ///
    /// # Errors
    /// A device that the policy names does not exist, or the model has no canonical form.
    pub fn known_period(&self, model: &Model, policy: &Policy) -> Result<Duration> {
        crate::planned::known_period(&self.0, model, policy)
    }

    /// The open devices.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        self.0.host.devices()
    }

    /// The devices that a policy allows for plans, regardless of their temperature.
    ///
    /// # Errors
    /// The policy names a device that does not exist, or no device is allowed.
    pub fn devices_of(&self, policy: &Policy) -> Result<Vec<Device>> {
        crate::planned::choose_devices(&self.0, policy)
    }

    /// Plugins, folders and devices that are not used, each with the reason.
    #[must_use]
    pub fn refusals(&self) -> &[Refusal] {
        self.0.host.refusals()
    }

    /// The profile database.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.0.profile
    }

    /// The memory that sessions hold, and its limit ([`Builder::memory_limit`]).
    #[must_use]
    pub fn memory(&self) -> MemoryReport {
        self.0.memory.report()
    }

    /// Frees memory when the system is short of it; call it from the app's own warning, such as Android's
    /// `onTrimMemory`. Sessions drop their cached specializations except the last used ones
    /// ([`Policy::specialization_cache_bytes`]). At [`MemoryPressure::Critical`], all idle sessions are parked, too
    /// ([`Session::park`]); the next run of each loads it again. Returns the number of bytes that were freed.
    pub fn trim_memory(&self, pressure: MemoryPressure) -> u64 {
        let before = self.0.memory.held();
        let parks = pressure == MemoryPressure::Critical;
        self.0
            .memory
            .trim(parks, "the system is short of memory", u64::MAX);
        before.saturating_sub(self.0.memory.held())
    }

    /// The given bundles in order, each loaded or refused with the reason.
    #[must_use]
    pub fn bundles(&self) -> &[LoadedBundle] {
        &self.0.bundles
    }

    /// Reads an ONNX model, converts it to one opset and infers shapes. Weights stay in the mapped
    /// file ([`Builder::model_files`]).
    ///
    /// # Errors
    /// The file cannot be read, or is not a model that this build supports.
    pub fn load(&self, path: impl AsRef<Path>) -> Result<Model> {
        Model::load(path.as_ref())
    }

    /// Reads an ONNX model from memory, which is kept and not copied: a vector, an array in the
    /// program, or the app's own mapping. Messages call the model `name`. External weight files are
    /// not found.
    ///
    /// # Errors
    /// The bytes are not a model that this build supports.
    pub fn load_bytes(&self, name: &str, bytes: impl AsRef<[u8]> + Send + 'static) -> Result<Model> {
        Model::of_bytes(name, bytes::Bytes::from_owner(bytes))
    }

    /// Makes a model from a graph built in memory. Messages call it `name`. Constants are not
    /// copied.
    #[must_use]
    pub fn load_graph(&self, name: &str, graph: polychip_graph::Graph) -> Model {
        Model::made(name, graph)
    }

    /// Like [`load_graph`](Runtime::load_graph), for constants that are stored in files. A device
    /// that packs constants then reads them from the files, so they are not in memory twice. The
    /// first file that the graph names is the model file of `files`.
    #[must_use]
    pub fn load_graph_over(
        &self,
        name: &str,
        graph: polychip_graph::Graph,
        files: Arc<polychip_host::ModelFolder>,
    ) -> Model {
        Model::made_over(name, graph, files)
    }

    /// Like [`load_graph_over`](Runtime::load_graph_over), with known hashes of the constants.
    /// Compiled parts are then identified without reading the constants. `files` is `None` if the
    /// constants are in memory.
    #[must_use]
    pub fn load_graph_hashed(
        &self,
        name: &str,
        graph: polychip_graph::Graph,
        files: Option<Arc<polychip_host::ModelFolder>>,
        hashes: Arc<polychip_graph::fingerprint::ConstantHashes>,
    ) -> Model {
        Model::made_hashed(name, graph, files, hashes)
    }

    /// Maps an ONNX model that starts at byte `offset` of an open file and has `len` bytes, or
    /// extends to the end of the file: for example an asset inside an Android package. Messages
    /// call the model `name`. External weight files are not found.
    ///
    /// # Errors
    /// The range exceeds the file, or its bytes are not a model that this build supports.
    pub fn load_file(
        &self,
        name: &str,
        file: impl Into<std::fs::File>,
        offset: u64,
        len: Option<u64>,
    ) -> Result<Model> {
        Model::of_file(name, file.into(), offset, len)
    }

    /// Asks the devices which nodes of a model they can run, without planning.
    ///
    /// # Errors
    /// The model has an open dimension ([`Model::bind`]), a device that the policy names does not
    /// exist, or a plugin failed.
    pub fn support(&self, model: &Model, policy: &Policy) -> Result<Support> {
        Support::new(&self.0, model, policy)
    }

    /// Plans a model without compiling anything.
    ///
    /// # Errors
    /// The model has an open dimension ([`Model::bind`]), a device that the policy names does not
    /// exist, or no device can run some node.
    pub fn plan(&self, model: &Model, policy: &Policy) -> Result<Planned> {
        self.plan_watched(model, policy, &|_| {})
    }

    /// Like [`Runtime::plan`], and calls `watch` before each planning step.
    ///
    /// # Errors
    /// As for [`Runtime::plan`].
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

    /// Checks an existing plan (for example from a file) for this model against the current
    /// devices.
    ///
    /// # Errors
    /// The plan is for another model, names a device that does not exist, or breaks a rule of the
    /// checker.
    pub fn with_plan(
        &self,
        model: &Model,
        policy: &Policy,
        plan: polychip_partitioner::Plan,
    ) -> Result<Planned> {
        Planned::with_plan(&self.0, model, policy, plan)
    }

    /// Plans, checks, compiles and loads a model, ready to run. If the model has open sizes, this
    /// call only does what holds for all sizes. The first [`Session::submit`] or
    /// [`Session::prepare`] with new input sizes does the rest, and the session caches the results
    /// ([`Policy::specialization_cache_bytes`]).
    ///
    /// # Errors
    /// As for [`Runtime::plan`], or a device refused its part. For a model with open sizes: the
    /// policy is governed or allows no device, or runs cannot be padded to the policy's buckets
    /// ([`Policy::shapes`]).
    pub fn session(&self, model: &Model, policy: Policy) -> Result<Session> {
        if !model.open_dims().is_empty() || model.has_open_rank() {
            self.calibrated_for(&policy)?;
            let session = Session::open(Arc::clone(&self.0), model, policy)?;
            if !model.has_open_rank() {
                session.0.simplify();
            }
            return Ok(session);
        }
        if let Some((name, _)) = policy.buckets().first() {
            let words = format!(
                "{}: buckets for {name:?}, but the model has no open dimension; remove them (Policy::shapes)",
                model.path().display()
            );
            return Err(Error::new(ErrorKind::BadInput, words));
        }
        let planned = self.plan(model, &policy)?;
        self.session_of(planned, policy)
    }

    /// Plans a model and compiles the plan's parts, for [`Runtime::session_precompiled`] in this
    /// process or another one. `sizes` gives the model's open dimensions; it is empty if there are
    /// none.
    ///
    /// # Errors
    /// As for [`Runtime::plan`], or a device refused its part.
    pub fn precompile(&self, model: &Model, policy: &Policy, sizes: &[(&str, usize)]) -> Result<Precompiled> {
        let sizes = sizes.iter().map(|(name, size)| ((*name).to_owned(), *size));
        Precompiled::new(&self.0, model, policy, sizes.collect())
    }

    /// Like [`Runtime::session`], from plans that were compiled ahead: nothing is planned or
    /// compiled. If the model has open sizes, `made` holds one plan for each set of sizes that you
    /// precompiled; runs of other sizes are planned as usual.
    ///
    /// # Errors
    /// A precompiled plan is stale ([`ErrorKind::BadPlan`], with the reason): it was made by
    /// another version of Polychip, for another model, policy or device, or with another plugin or
    /// driver. Or a device refused its part.
    pub fn session_precompiled(
        &self,
        model: &Model,
        policy: Policy,
        made: &[Precompiled],
    ) -> Result<Session> {
        Session::precompiled(Arc::clone(&self.0), model, policy, made)
    }

    /// Stores the measured energy of a run on `device` in the profile, with the sensor's name.
    /// `net_uj` is in microjoules, without idle power. Returns false, and stores nothing, if the
    /// plan gives the device several parts, because the energy of each part is then unknown.
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

    /// Compiles and loads an existing plan, for example one read from a file.
    ///
    /// # Errors
    /// A device refused its part.
    pub fn session_of(&self, planned: Planned, policy: Policy) -> Result<Session> {
        Session::new(Arc::clone(&self.0), planned, policy)
    }
}

impl Builder {
    /// Adds a plugin that is linked into the program, by its query function.
    #[must_use]
    pub fn link(mut self, query: Query) -> Self {
        self.linked.push(query);
        self
    }

    /// Adds a folder in which to search for plugin libraries, before `POLYCHIP_PLUGINS` and the
    /// folder of the executable.
    #[must_use]
    pub fn plugins(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folders.push(folder.into());
        self
    }

    /// Sets the profile database, or adds a bundle.
    ///
    /// A profile database is created if the file does not exist. Runs record their measured times
    /// in it. [`Builder::build`] fails if the file is unusable, and leaves it unchanged; without
    /// the feature `database` it fails for every such file. If a later write fails, new
    /// measurements stay in memory until the file can be written; [`Profile::trouble`] and the
    /// session reports state the reason. If several databases are given, the last one is used.
    ///
    /// Values that plugins store in the database, such as a driver's pipeline cache, are sealed with a
    /// key of this user. A plugin never receives values from a copied, merged or imported profile.
    ///
    /// A bundle holds the measurements of a device farm (`polychip farm bundle`). Its content and
    /// version go into the database, so that no older bundle is accepted later; without a database
    /// they stay in memory. Only bundles signed by a trusted key are accepted ([`Builder::trust`]).
    /// [`Runtime::bundles`] lists which bundles were loaded, and why the others were refused.
    /// Bundles are loaded in the given order. A path counts as a bundle if its name ends in
    /// `.bundle`, or if the file starts like one.
    #[must_use]
    pub fn profiles(mut self, file: impl Into<PathBuf>) -> Self {
        self.profiles.push(file.into());
        self
    }

    /// Accepts bundles signed with this key.
    #[must_use]
    pub fn trust(mut self, key: PublicKey) -> Self {
        self.trust = self.trust.key(key);
        self
    }

    /// Sets the name of this installation, a random string that the app keeps. Staged rollouts use
    /// it to pick a share of all installations. Without it, only bundles for all installations are
    /// accepted.
    #[must_use]
    pub fn installation(mut self, name: &str) -> Self {
        self.trust = self.trust.installation(name);
        self
    }

    /// Accepts a bundle with a lower version than the last loaded one, to undo a bad release.
    #[must_use]
    pub fn allow_rollback(mut self) -> Self {
        self.trust = self.trust.allow_rollback();
        self
    }

    /// Sets a folder for compiled parts, so that a later process need not compile them again. Only parts
    /// that the same user compiled on this machine are used: they are sealed with a key in the user's
    /// data folder, or in this folder if the user has none.
    #[must_use]
    pub fn cache(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache = Some(folder.into());
        self
    }

    /// Passes a configuration string to one plugin (`"cpu"`, `"threads"`, `"2"`).
    #[must_use]
    pub fn configure(mut self, plugin: &str, key: &str, value: impl Into<String>) -> Self {
        self.configuration
            .push((plugin.to_owned(), key.to_owned(), value.into()));
        self
    }

    /// Lets plugins measure the rates behind their cost estimates, if the profile holds none for
    /// this machine and build. Without this, estimates use the rates in the profile, or those that
    /// manufacturers publish.
    #[must_use]
    pub fn measure_rates(mut self) -> Self {
        self.measures_rates = true;
        self
    }

    /// Limits the memory that all sessions of the runtime hold together, in bytes: weights and code of loaded
    /// parts, buffers, and graphs. Tensors that the app makes, model files, and the memory of devices that have
    /// their own do not count. A session that would exceed the limit first parks idle sessions
    /// ([`Session::park`]): those that were idle for long and load fast come first. It waits for sessions in
    /// use, at most [`Policy::hang_timeout`]; if its plan still does not fit, the call fails with
    /// [`ErrorKind::OutOfMemory`].
    ///
    /// The default is the limit of the process's control group (Linux and Android: `memory.max`, or
    /// `memory.limit_in_bytes`), if there is one. `u64::MAX` removes the limit. [`Runtime::memory`] reports the
    /// limit and what is held.
    #[must_use]
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit = Some(bytes);
        self
    }

    /// Sets what the runtime does when Linux reports memory pressure. By default it follows: a thread sleeps until the
    /// kernel reports pressure of the process's control group or of the system, and then frees memory as
    /// [`Runtime::trim_memory`] does, except of sessions that were used within the last second. The thread starts with
    /// the first session. Systems without such reports, such as Android for apps, need calls of
    /// [`Runtime::trim_memory`].
    #[must_use]
    pub fn memory_pressure(mut self, reaction: OnMemoryPressure) -> Self {
        self.on_memory_pressure = reaction;
        self
    }

    /// Sets how model files and cached parts are held in memory. The default is [`ModelFiles::Guard`].
    /// A signal handler holds for the whole process, and so does this setting: it applies to all
    /// files that the process opens from [`Builder::build`] on.
    #[must_use]
    pub fn model_files(mut self, files: ModelFiles) -> Self {
        self.model_files = Some(files);
        self
    }

    /// Puts guard bytes around every buffer of host memory, and checks them at the end of each run.
    /// A run that wrote outside its tensors fails, and its device is left out; the error names the
    /// device, the part and the tensor. For debugging a plugin: runs become slower, and every tensor
    /// takes two more pages. Applies to everything that the process makes from then on. Memory that
    /// a device makes itself has no guards.
    #[must_use]
    pub fn guard_buffers(mut self) -> Self {
        self.guards_buffers = true;
        self
    }

    /// Uses virtual time for emulated devices, instead of the machine's clock.
    #[must_use]
    pub fn virtual_time(mut self) -> Self {
        self.clock = Clock::virtual_time();
        self
    }

    /// Replaces this machine's Linux sensors, as [`Rules`](crate::telemetry::Rules) find them, with
    /// the app's own rules or with a recording. Governed sessions read them, and plan costs use
    /// them.
    #[must_use]
    pub fn sensors(mut self, sensors: Sensors) -> Self {
        self.sensors = Some(sensors);
        self
    }

    /// Loads plugins from the given folders only, not from the environment or the executable's
    /// folder.
    #[must_use]
    pub fn only_given_folders(mut self) -> Self {
        self.usual_places = false;
        self
    }

    /// Loads the plugins and opens their devices.
    ///
    /// # Errors
    /// The profile cannot be opened. Plugins and bundles that cannot be loaded are not errors:
    /// [`Runtime::refusals`] and [`Runtime::bundles`] list them with the reasons.
    pub fn build(self) -> Result<Runtime> {
        if let Some(files) = self.model_files {
            polychip_host::set_model_files(files);
        }
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
        let of_files = || Arc::new(Sealer::of_user(self.cache.as_deref()));
        let sealer = profile
            .path()
            .map_or_else(|| Arc::new(Sealer::in_memory()), |_| of_files());
        let cache = self
            .cache
            .clone()
            .map(|folder| BlobCache::new(folder, of_files()));
        let store: Arc<dyn Store> = Arc::new(PluginValues {
            profile: Arc::clone(&profile),
            sealer,
            foreign: AtomicBool::new(false),
        });
        let mut host = Host::builder()
            .clock(self.clock.clone())
            .store(store)
            .isolate(self.isolate)
            .sandbox(self.sandbox)
            .limits(self.limits);
        if self.clears_quarantine {
            host = host.clear_quarantine();
        }
        if self.guards_buffers {
            polychip_host::guard_buffers();
        }
        #[cfg(feature = "cpu")]
        {
            host = host.linked(polychip_cpu::query);
        }
        for query in &self.linked {
            host = host.linked(*query);
        }
        for (folder, is_named) in self.all_folders() {
            host = if is_named {
                host.folder(folder)
            } else {
                host.usual_folder(folder)
            };
        }
        if self.measures_rates {
            host = host.configure_all("rates", "measure");
        }
        let configured: BTreeSet<String> = self
            .configuration
            .iter()
            .map(|(plugin, _, _)| plugin.clone())
            .collect();
        for (plugin, key, value) in self.configuration {
            host = host.configure(&plugin, &key, value);
        }
        let host = host.build();
        for plugin in configured {
            if let Some(words) = unknown_plugin(&host, &plugin) {
                tracing::warn!("a setting of plugin {plugin} has no effect: {words}");
            }
        }
        let shared = Shared {
            pressure: OnceLock::new(),
            on_memory_pressure: self.on_memory_pressure,
            durable: Durable::default(),
            memory: MemoryAccount::new(
                self.memory_limit
                    .map_or_else(MemoryLimit::of_system, MemoryLimit::Set),
            ),
            device_queues: DeviceQueues::new(host.devices(), host.clock()),
            host,
            profile,
            bundles,
            cache,
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

    /// The plugin folders to search, without duplicates, and whether somebody named them.
    fn all_folders(&self) -> Vec<(PathBuf, bool)> {
        let mut folders: Vec<_> = self.folders.iter().map(|folder| (folder.clone(), true)).collect();
        if self.usual_places {
            if let Some(list) = trusted_variable(PLUGINS_VARIABLE) {
                let named = std::env::split_paths(&list).filter(|path| !path.as_os_str().is_empty());
                folders.extend(named.map(|folder| (folder, true)));
            }
            let beside = std::env::current_exe()
                .ok()
                .and_then(|path| path.parent().map(Path::to_owned));
            folders.extend(beside.map(|folder| (folder, false)));
        }
        let mut known = HashSet::new();
        folders.retain(|(folder, _)| known.insert(folder.canonicalize().unwrap_or_else(|_| folder.clone())));
        folders
    }
}

/// That no plugin of this name is there, as text; none if it is, loaded or refused.
fn unknown_plugin(host: &Host, name: &str) -> Option<String> {
    let file_of = |subject: &str| {
        let stem = Path::new(subject).file_stem()?.to_str()?.to_owned();
        stem.rsplit_once("polychip_plugin_")
            .map(|(_, name)| name.to_owned())
    };
    let mut known: BTreeSet<String> = host
        .plugins()
        .iter()
        .map(|plugin| plugin.info().name.clone())
        .collect();
    let refused = host.refusals().iter();
    known.extend(refused.filter_map(|refusal| file_of(&refusal.subject)));
    // the reason of a refusal begins with the plugin's own name, where it is known
    let is_refused = |refusal: &Refusal| refusal.reason.split_whitespace().take(2).any(|word| word == name);
    if known.contains(name) || host.refusals().iter().any(is_refused) {
        return None;
    }
    let near = known
        .iter()
        .min_by_key(|other| strsim::damerau_levenshtein(other, name));
    let near = near.filter(|other| strsim::damerau_levenshtein(other, name) <= MOST_TYPOS);
    let all: Vec<&str> = known.iter().map(String::as_str).collect();
    let all = if all.is_empty() {
        "none".to_owned()
    } else {
        all.join(", ")
    };
    Some(match near {
        Some(near) => format!("there is no plugin {name}; did you mean {near}? (found: {all})"),
        None => format!("there is no plugin {name} (found: {all})"),
    })
}

/// Letters that a mistyped name may differ in.
const MOST_TYPOS: usize = 2;

/// The plugins' own values, kept in the profile database with seals: a plugin gets only what this user stored on
/// this machine.
struct PluginValues {
    profile: Arc<Profile>,
    sealer: Arc<Sealer>,
    /// A value of another user or machine was found and reported.
    foreign: AtomicBool,
}

impl Store for PluginValues {
    fn read(&self, plugin: &str, key: &str) -> Option<Vec<u8>> {
        let stored = self.profile.plugin_value(plugin, key).unwrap_or_else(|error| {
            tracing::warn!("{error}");
            None
        })?;
        let value = self.sealer.open(Sealed::Value { plugin, key }, &stored);
        if value.is_none() && !self.foreign.swap(true, Ordering::Relaxed) {
            tracing::info!(
                "the profile holds values of plugins that this user did not store on this machine, such as {key:?} of \
                 {plugin}: no plugin receives them"
            );
        }
        value
    }

    fn write(&self, plugin: &str, key: &str, value: &[u8]) -> bool {
        let sealed = if value.is_empty() {
            Some(Vec::new())
        } else {
            self.sealer.close(Sealed::Value { plugin, key }, value)
        };
        let Some(sealed) = sealed else {
            return false;
        };
        let written = self.profile.set_plugin_value(plugin, key, &sealed);
        if let Err(error) = &written {
            tracing::warn!("{error}");
        }
        written.is_ok()
    }
}
