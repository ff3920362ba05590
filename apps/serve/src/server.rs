//! A server's life cycle: listening, answering, shutdown.
//!
//! Invariants:
//! 1. After shutdown begins, nothing new starts; accepted requests are answered until the grace time ends.
//! 2. A connection that stalls within a header or reads nothing is closed, as is one whose client has disconnected, and
//!    a silent one where all are taken.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use polychip_llm::{Batch, CallStyle, LanguageModel};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;

use crate::access::Access;
use crate::connections::{Connection, Connections, Watched};
use crate::lanes::Lanes;
use crate::metrics::Metrics;
use crate::pool::need;
use crate::queue::{Phase, Queue};
use crate::rounds::{CHUNKS, Rounds};
use crate::routes::{Names, Site, router};
use crate::{Error, Options};

/// Threads that read bodies as JSON and text.
const READING_THREADS: usize = 4;
/// Most bytes of a request's head.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// How long a server that has nothing more to say waits for clients to read it.
const LAST: Duration = Duration::from_secs(5);
/// Most files that the server lets itself open.
#[cfg(unix)]
const MAX_FILES: u64 = 65_536;
/// How long nothing is accepted after an error of the system's, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// A server of one language model.
///
/// ```no_run
/// use polychip_llm::LanguageModel;
/// use polychip_serve::{Options, Server};
///
/// let model = LanguageModel::open("model.gguf", polychip_llm::Options::new())?;
/// let server = Server::new(model, Options::new().port(0))?;
/// println!("http://{}/v1", server.address());
/// let handle = server.handle();
/// std::thread::spawn(move || {
///     std::thread::sleep(std::time::Duration::from_secs(60));
///     handle.shut_down();
/// });
/// server.run()?; // for a minute
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Server {
    listener: StdListener,
    address: SocketAddr,
    site: Arc<Site>,
    options: Options,
    stop: Arc<watch::Sender<Phase>>,
}

/// Shuts a server down, from any thread. Clones are of the same server.
#[derive(Clone, Debug)]
pub struct Handle {
    queue: Arc<Queue>,
    stop: Arc<watch::Sender<Phase>>,
}

impl Handle {
    /// No new request is answered; [`Server::run`] ends when the running ones are, or after [`Options::grace`].
    pub fn shut_down(&self) {
        self.enter(Phase::Closing);
    }

    /// As [`Handle::shut_down`], but running requests are given up at once.
    pub fn give_up(&self) {
        self.enter(Phase::GivenUp);
    }

    fn enter(&self, phase: Phase) {
        // before the thread that runs the model can end for it
        self.stop.send_modify(|now| *now = phase.max(*now));
        self.queue.enter(phase);
    }
}

impl Server {
    /// Listens, and plans the model for chunks and steps of all sizes, so that no request waits for that. Clients may connect from now on;
    /// they are answered once it runs.
    ///
    /// # Errors
    /// An option is out of its range, the address is taken or not this machine's, or no device runs the model.
    pub fn new(model: LanguageModel, options: Options) -> Result<Server, Error> {
        options.check()?;
        let sockets = options.sockets()?;
        let listen = |error| Error::listen(sockets[0], error);
        let listener = StdListener::bind(&sockets[..]).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        for rows in CHUNKS.into_iter().filter(|rows| *rows <= model.capacity()) {
            model.prepare(rows).map_err(Error::model)?;
        }
        let together = Batch::new(&model).prepare(options.max_active.min(options.max_batch));
        together.map_err(Error::model)?;
        let metrics = Metrics::new();
        let queue = Queue::new(options.max_active, options.max_queue, metrics.clone());
        let site = Site {
            style: model.template().map(CallStyle::of),
            names: names(&model, &options),
            queue: Arc::new(queue),
            metrics,
            access: Access {
                keys: options
                    .api_keys
                    .iter()
                    .map(|key| blake3::hash(key.as_bytes()))
                    .collect(),
                is_local: address.ip().is_loopback() && options.api_keys.is_empty(),
                hosts: options.allowed_hosts.clone(),
                origins: options.origins.clone(),
            },
            is_strict: options.strict,
            ignored: std::sync::Mutex::default(),
            max_active: options.max_active,
            max_tokens: options.max_tokens,
            max_body_bytes: options.body_bytes(model.capacity()),
            max_text_bytes: longest_text(&model),
            patience: options.patience,
            timeout: options.timeout,
            lanes: Arc::new(Lanes::new(&options, model.capacity())),
            created: Site::now(),
            model,
        };
        Ok(Server {
            listener,
            address,
            site: Arc::new(site),
            options,
            stop: Arc::new(watch::Sender::new(Phase::Open)),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The model's name for clients.
    #[must_use]
    pub fn name(&self) -> &str {
        self.site.names.main()
    }

    /// What shuts it down.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle {
            queue: Arc::clone(&self.site.queue),
            stop: Arc::clone(&self.stop),
        }
    }

    /// Answers until it is shut down; the calling thread serves all connections.
    ///
    /// # Errors
    /// The system gives no thread, or the thread that runs the model has ended by a bug.
    pub fn run(self) -> Result<(), Error> {
        raise_file_limit();
        // the calling thread's, for all connections: what it does for each is little
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(READING_THREADS)
            .thread_name("polychip-reading")
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| Error::system("an event queue for connections", error))?;
        let model = &self.site.model;
        let of_one = need(model, &CHUNKS, model.capacity());
        let rounds = Rounds::new(
            model,
            Arc::clone(&self.site.queue),
            self.site.metrics.clone(),
            self.options.budget(of_one),
            &self.options,
        );
        let (ended, has_ended) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("polychip-rounds".to_owned())
            .spawn(move || rounds.run(ended))
            .map_err(|error| Error::system("a model thread", error))?;
        let served = runtime.block_on(self.serve(has_ended));
        // drop the threads that still read a body: no client waits for them
        runtime.shutdown_timeout(PAUSE);
        let joined = thread.join();
        served.and(joined.map_err(|_| Error::ended()))
    }

    async fn serve(self, has_ended: oneshot::Receiver<()>) -> Result<(), Error> {
        let listen = |error| Error::listen(self.address, error);
        let listener = TcpListener::from_std(self.listener).map_err(listen)?;
        let connections = Connections::new(self.options.connections());
        let (close, closing) = watch::channel(false);
        let accepting = accept(
            listener,
            router(Arc::clone(&self.site)),
            Arc::clone(&connections),
            closing,
            Arc::clone(&self.site),
            self.options.patience,
        );
        let ended = end(
            &self.site.queue,
            self.stop.subscribe(),
            self.options.grace,
            has_ended,
        );
        tokio::select! {
            () = accepting => {}
            () = ended => {}
        }
        // closes the open connections; ignore an error, since there may be none
        let _ = close.send(true);
        if timeout(LAST, connections.all_closed()).await.is_err() {
            tracing::warn!("clients that read nothing were disconnected during an answer");
        }
        match *self.stop.borrow() {
            // the model's thread ended without a request to stop
            Phase::Open => Err(Error::ended()),
            _ => Ok(()),
        }
    }
}

/// Raises the number of files that this process may open: a connection takes two, and many systems start programs with 1024.
fn raise_file_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        let wanted = limit.maximum.unwrap_or(MAX_FILES).min(MAX_FILES);
        if limit.current.is_some_and(|current| current < wanted) {
            let raised = Rlimit {
                current: Some(wanted),
                maximum: limit.maximum,
            };
            if let Err(error) = setrlimit(Resource::Nofile, raised) {
                tracing::debug!("the limit of open files stays: {error}");
            }
        }
    }
}

/// The model's names for clients: as configured, or by its file.
fn names(model: &LanguageModel, options: &Options) -> Names {
    let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let stem = text(model.path().file_stem());
    let mut listed = vec![options.name.clone().unwrap_or_else(|| stem.clone())];
    for alias in &options.aliases {
        if !listed.contains(alias) {
            listed.push(alias.clone());
        }
    }
    Names {
        listed,
        others: vec![stem, text(model.path().file_name())],
        is_any: options.any_model,
    }
}

/// Bytes beyond which no text fits the model's room. A vocabulary may shorten a text before it cuts it, by composing its characters, but
/// not to a quarter.
fn longest_text(model: &LanguageModel) -> usize {
    let tokens = model.tokenizer().longest().saturating_mul(model.capacity());
    tokens.saturating_mul(4)
}

/// Waits until the thread that runs the model has ended, on request or after a bug.
async fn end(
    queue: &Queue,
    mut stop: watch::Receiver<Phase>,
    grace: Duration,
    mut has_ended: oneshot::Receiver<()>,
) {
    tokio::select! {
        _ = &mut has_ended => return,
        _ = stop.wait_for(|phase| *phase >= Phase::Closing) => {}
    }
    let given_up = stop.wait_for(|phase| *phase >= Phase::GivenUp);
    tokio::select! {
        _ = &mut has_ended => return,
        _ = given_up => {}
        () = sleep(grace) => {}
    }
    queue.enter(Phase::GivenUp);
    // an error says the same: it is gone
    let _ = has_ended.await;
}

/// Accepts connections for ever.
async fn accept(
    listener: TcpListener,
    router: Router,
    connections: Arc<Connections>,
    closing: watch::Receiver<bool>,
    site: Arc<Site>,
    patience: Duration,
) {
    loop {
        let (stream, address) = match listener.accept().await {
            Ok((stream, address)) => (stream, address.ip()),
            Err(error) => {
                tracing::warn!("cannot accept connections: {error}");
                // without one that goes, files may run out for as long as clients hold theirs
                if error.kind() != std::io::ErrorKind::ConnectionAborted {
                    connections.make_room();
                }
                sleep(PAUSE).await;
                continue;
            }
        };
        let place = connections.admit(Some(address)).await;
        let (router, closing, site) = (router.clone(), closing.clone(), Arc::clone(&site));
        tokio::spawn(async move {
            site.metrics.connected();
            connection(stream, router, closing, patience, &place.connection).await;
            site.metrics.disconnected();
            drop(place);
            site.lanes.settle();
        });
    }
}

/// Serves a connection to its end.
async fn connection(
    stream: TcpStream,
    router: Router,
    mut closing: watch::Receiver<bool>,
    patience: Duration,
    own: &Arc<Connection>,
) {
    // small events are sent at once; where the system refuses, later
    let _ = stream.set_nodelay(true);
    let gone = own.gone(second(&stream));
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(patience));
    let stream = Watched::new(Box::pin(stream), Arc::clone(own));
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        // a client may close its sending half behind a request; elsewhere, nothing tells it from one that has gone
        .half_close(cfg!(unix))
        .max_buf_size(MAX_HEAD_BYTES);
    let service = TowerToHyperService::new(router.layer(Extension(Arc::clone(own))));
    let mut served = pin!(server.serve_connection(TokioIo::new(stream), service));
    // what it gives holds a lock
    let closed = async move { closing.wait_for(|closing| *closing).await.is_ok() };
    let done = tokio::select! {
        done = served.as_mut() => done,
        // what is dropped with it lets the answer go
        () = gone => return tracing::debug!("a client disconnected"),
        () = own.must_close() => return tracing::debug!("a silent client made room for another one"),
        _ = closed => {
            served.as_mut().graceful_shutdown();
            served.as_mut().await
        }
    };
    if let Err(error) = done {
        tracing::debug!("a connection ended: {error}");
    }
}

/// The same connection a second time, to look at; none where the system gives no more.
fn second(stream: &TcpStream) -> Option<TcpStream> {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd as _;
        let own = stream.as_fd().try_clone_to_owned().ok()?;
        TcpStream::from_std(own.into()).ok()
    }
    #[cfg(not(unix))]
    {
        let _ = stream;
        None
    }
}
