//! The server itself: its address, its TLS, its connections, and how it ends.
//!
//! Invariant: an address that other machines can reach is served only with TLS and a token; every connection has limits on
//! what it may send, how slowly, and how many there are.

use crate::archive::Archive;
use crate::guard::{Guard, Token};
use crate::jobs::Jobs;
use crate::live::Streams;
use crate::patient::Patient;
use crate::stacks::Stacks;
use crate::{App, WebError, routes};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// Connections at once. A guess: a browser opens six.
const CONNECTIONS_MAX: usize = 256;
/// Threads that read files. The machine may be under load by a measurement, so they are few.
const READERS_MAX: usize = 2;
/// Time for a request's head, and for a kept connection to bring the next one. A guess.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// Time for a TLS handshake. A guess.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// Most headers, and bytes of them: browsers send some 20 in 2 kB.
const HEADERS_MAX: usize = 64;
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// How often the server looks whether it shall end.
const TICK: Duration = Duration::from_millis(200);

/// What is served.
#[derive(Clone)]
pub struct Settings {
    /// The folder of runs.
    pub runs: PathBuf,
    /// Folders of experiments that may be started.
    pub experiments: Vec<PathBuf>,
    /// Folders of stack files that may be edited.
    pub stacks: Vec<PathBuf>,
    /// Names of this server besides IP addresses and `localhost`.
    pub hosts: Vec<String>,
    /// What whoever asks must know; none: everybody may ask who can reach the address.
    pub token: Option<Token>,
    /// The prony that runs experiments.
    pub program: PathBuf,
}

/// Files of a certificate, in PEM.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The chain, the server's own certificate first.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// A server that has its address.
pub struct Server {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    app: Arc<App>,
}

impl Server {
    /// Takes the address. Nobody is answered before `serve` is called.
    ///
    /// # Errors
    /// The address is open to others without TLS and a token, or is taken; a folder or file cannot be used.
    pub fn bind(address: SocketAddr, tls: Option<&Tls>, settings: Settings) -> Result<Self, WebError> {
        let Settings { runs, experiments, stacks, hosts, token, program } = settings;
        if !address.ip().is_loopback() && (tls.is_none() || token.is_none()) {
            return Err(WebError::Open { address });
        }
        for folder in std::iter::once(&runs).chain(&experiments).chain(&stacks) {
            if !folder.is_dir() {
                return Err(WebError::file(folder, "there is no such folder"));
            }
        }
        let acceptor = tls.map(acceptor).transpose()?;
        let listener = TcpListener::bind(address).map_err(|source| WebError::Bind { address, source })?;
        listener.set_nonblocking(true)?;
        let archive = Archive::new(runs);
        let app = App {
            jobs: Jobs::new(archive.started(), program),
            archive,
            stacks: Stacks::new(stacks, &experiments),
            experiments,
            streams: Streams::new(),
            guard: Guard::new(token, hosts, acceptor.is_some()),
        };
        Ok(Self { listener, tls: acceptor, app: Arc::new(app) })
    }

    /// Where the pages are.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn url(&self) -> Result<String, WebError> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Ok(format!("{scheme}://{}/", self.listener.local_addr()?))
    }

    /// Answers until `is_over`. An experiment that runs then is asked to stop, and waited for.
    ///
    /// # Errors
    /// The machine has no room for the server.
    pub fn serve(self, is_over: impl Fn() -> bool) -> Result<(), WebError> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().max_blocking_threads(READERS_MAX).thread_name("prony-web").build()?;
        let app = Arc::clone(&self.app);
        let served = runtime.block_on(self.accept(is_over));
        app.streams.end();
        app.jobs.end();
        // Whoever reads a file at this moment may finish; connections end with the process.
        runtime.shutdown_timeout(TICK);
        Ok(served?)
    }

    async fn accept(self, is_over: impl Fn() -> bool) -> io::Result<()> {
        let Self { listener, tls, app } = self;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let router = routes::router(&app);
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        while !is_over() {
            let Ok(Ok(place)) = timeout(TICK, Arc::clone(&room).acquire_owned()).await else { continue };
            match timeout(TICK, listener.accept()).await {
                Ok(Ok((stream, _))) => drop(tokio::spawn(answer(stream, tls.clone(), router.clone(), place))),
                // No room for another connection: some end meanwhile.
                Ok(Err(_)) => sleep(TICK).await,
                // Nobody came.
                Err(_) => {}
            }
        }
        Ok(())
    }
}

/// One connection. What its client does wrong ends it, and nothing else.
async fn answer(stream: TcpStream, tls: Option<TlsAcceptor>, router: Router, place: OwnedSemaphorePermit) {
    let stream = Patient::new(stream);
    match tls {
        None => speak(stream, router).await,
        Some(tls) => {
            if let Ok(Ok(secured)) = timeout(HANDSHAKE_PATIENCE, tls.accept(stream)).await {
                speak(secured, router).await;
            }
        }
    }
    drop(place);
}

async fn speak(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, router: Router) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE);
    http.max_headers(HEADERS_MAX).max_buf_size(HEAD_BYTES_MAX);
    let served = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).await;
    drop(served);
}

fn acceptor(tls: &Tls) -> Result<TlsAcceptor, WebError> {
    let pem = |path: &Path, e: rustls::pki_types::pem::Error| WebError::file(path, format!("no PEM: {e}"));
    let chain = CertificateDer::pem_file_iter(&tls.certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|e| pem(&tls.certificate, e))?;
    if chain.is_empty() {
        return Err(WebError::file(&tls.certificate, "it holds no certificate in PEM"));
    }
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|e| pem(&tls.key, e))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key));
    let mut config = config.map_err(|e| WebError::file(&tls.certificate, e.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
