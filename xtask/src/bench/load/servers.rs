//! The servers under the generators: fixtures that do as little as can be, and others where TLS or HTTP/2 is spoken.
//!
//! Invariant: a server ends with the value that stands for it.

use crate::bench::prioritised;
use anyhow::{Context as _, ensure};
use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// CPU of the server; the generators get the other one of a two-core machine.
pub const SERVER_CPU: &str = "0";

/// A server of our fixtures: it says `ready PORT` when it listens. Killed when dropped.
pub struct Fixture {
    child: Child,
    /// Where it listens.
    pub port: u16,
}

impl Fixture {
    /// Starts it on its CPU.
    pub fn start(program: &Path, realtime: bool, more: &[&str]) -> anyhow::Result<Self> {
        let mut command = prioritised(program, realtime);
        let mut child = command.args(["0", SERVER_CPU]).args(more).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("stdout is piped")?).read_line(&mut line)?;
        let port = line.trim().strip_prefix("ready ").and_then(|p| p.parse().ok());
        Ok(Self { child, port: port.with_context(|| format!("{} said {line:?}", program.display()))? })
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// nginx with a certificate of its own. Killed when dropped, and its folder removed.
pub struct Nginx {
    child: Child,
    folder: tempfile::TempDir,
    /// Speaks HTTP/1.1 over TLS 1.3, with and without keep-alive.
    pub tls_port: u16,
    /// Speaks HTTP/2 in the clear.
    pub h2_port: u16,
    /// Speaks HTTP/1.1 in the clear.
    pub plain_port: u16,
    /// The same, and sends a file of 1 KiB and logs each request, as nginx does unless told otherwise.
    pub file_port: u16,
}

impl Nginx {
    /// Starts it on one CPU with one worker.
    pub fn start() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a scratch folder")?;
        let at = |name: &str| folder.path().join(name).display().to_string();
        // No authority: rustls refuses a server that shows an authority as its own certificate.
        let names = "subjectAltName=DNS:localhost,IP:127.0.0.1";
        let subject = ["-subj", "/CN=localhost", "-addext", names, "-addext", "basicConstraints=critical,CA:FALSE"];
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
            .args(subject)
            .args(["-keyout", &at("key.pem"), "-out", &at("cert.pem")])
            .output()
            .context("cannot start openssl; apt-get install openssl")?;
        ensure!(made.status.success(), "openssl: {}", String::from_utf8_lossy(&made.stderr));
        let (tls_port, h2_port) = (free_port()?, free_port()?);
        let (plain_port, file_port) = (free_port()?, free_port()?);
        std::fs::write(at("index.html"), "Hello, world\n".repeat(79)).context("cannot write a scratch file")?;
        let config = format!(
            "daemon off; worker_processes 1; worker_cpu_affinity 01; pid {pid}; error_log {log};\n\
             events {{ worker_connections 16384; }}\n\
             http {{ access_log off; keepalive_requests 1000000000; http2_max_concurrent_streams 256; server_tokens off;\n\
             server {{ listen 127.0.0.1:{tls_port} ssl backlog=4096; ssl_protocols TLSv1.3; ssl_session_tickets off;\n\
             ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;\n\
             ssl_certificate {cert}; ssl_certificate_key {key}; location / {{ return 200 'Hello, world\\n'; }} }}\n\
             server {{ listen 127.0.0.1:{plain_port} backlog=4096; location / {{ return 200 'Hello, world\\n'; }} }}\n\
             server {{ listen 127.0.0.1:{file_port} backlog=4096; root {files}; access_log {access}; }}\n\
             server {{ listen 127.0.0.1:{h2_port} http2 backlog=4096; location / {{ return 200 'Hello, world\\n'; }} }} }}\n",
            pid = at("pid"),
            log = at("error.log"),
            cert = at("cert.pem"),
            key = at("key.pem"),
            files = folder.path().display(),
            access = at("access.log"),
        );
        std::fs::write(at("nginx.conf"), config)?;
        let mut command = Command::new("nginx");
        command.args(["-c", &at("nginx.conf"), "-p", &at("")]).stderr(Stdio::null());
        let child = command.spawn().context("cannot start nginx; apt-get install nginx-light")?;
        let nginx = Self { child, folder, tls_port, h2_port, plain_port, file_port };
        if listens(h2_port) {
            return Ok(nginx);
        }
        let log = std::fs::read_to_string(nginx.folder.path().join("error.log")).unwrap_or_default();
        anyhow::bail!("nginx does not answer; its log says: {log}")
    }

    /// The certificate, which is its own authority.
    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("cert.pem")
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // The master ends its worker on SIGTERM; a kill would leave it behind.
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().ok();
        self.child.wait().ok();
    }
}

/// nghttpd, which sends the answers of all streams together and so answers HTTP/2 faster than nginx. Killed when dropped.
pub struct Nghttpd {
    child: Child,
    _files: tempfile::TempDir,
    /// Speaks HTTP/2 in the clear.
    pub port: u16,
}

impl Nghttpd {
    /// Starts it on the servers' CPU with one worker.
    pub fn start() -> anyhow::Result<Self> {
        let files = tempfile::tempdir().context("cannot make a scratch folder")?;
        std::fs::write(files.path().join("index.html"), "Hello, world\n")?;
        let port = free_port()?;
        let mut command = Command::new("taskset");
        command.args(["-c", SERVER_CPU, "nghttpd", "--no-tls", "-a", "127.0.0.1", "-n", "1", "-d"]).arg(files.path());
        command.arg(port.to_string()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().context("cannot start nghttpd; apt-get install nghttp2-server")?;
        let nghttpd = Self { child, _files: files, port };
        ensure!(listens(port), "nghttpd does not answer; is it installed (apt-get install nghttp2-server)?");
        Ok(nghttpd)
    }
}

impl Drop for Nghttpd {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Waits until a server listens there, 5 s at most.
fn listens(port: u16) -> bool {
    (0..100).any(|_| {
        let there = TcpStream::connect(("127.0.0.1", port)).is_ok();
        if !there {
            std::thread::sleep(Duration::from_millis(50));
        }
        there
    })
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
