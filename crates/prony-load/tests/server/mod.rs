//! A real nginx in a scratch folder, on a port of loopback that was free. Gone when dropped.

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running nginx.
pub struct Nginx {
    child: Child,
    folder: tempfile::TempDir,
    /// Where it listens.
    pub port: u16,
}

impl Nginx {
    /// Starts it, or tells why it cannot be and gives none.
    #[allow(dead_code, reason = "not every test binary wants the plain one")]
    pub fn start() -> Option<Self> {
        Self::with(config)
    }

    /// Starts it with the configuration that `config` makes for its folder and port.
    pub fn with(config: impl Fn(&Path, u16) -> String) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        // The port is free now; should someone take it first, nginx does not come up and the next is tried.
        for _ in 0..5 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            std::fs::write(folder.path().join("nginx.conf"), config(folder.path(), port)).unwrap();
            let conf = folder.path().join("nginx.conf");
            let mut command = Command::new("nginx");
            command.arg("-p").arg(folder.path()).arg("-c").arg(conf).stderr(Stdio::piped());
            let mut child = match command.spawn() {
                Ok(child) => child,
                Err(error) => {
                    eprintln!("not tested: nginx cannot be started ({error}); apt-get install nginx-light");
                    return None;
                }
            };
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(10) && child.try_wait().unwrap().is_none() {
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return Some(Self { child, folder, port });
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            let mut said = String::new();
            child.kill().ok();
            child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            child.wait().unwrap();
            eprintln!("nginx did not come up on port {port}: {said}");
        }
        panic!("nginx did not come up");
    }

    /// Lines of its access log (`STATUS PATH REQUEST_BYTES REQUESTS_OF_CONNECTION`) as soon as there are `count`; whatever there
    /// is after 5 s.
    #[allow(dead_code, reason = "not every test binary reads the log")]
    pub fn log(&self, count: u64) -> Vec<String> {
        let begun = Instant::now();
        loop {
            let text = std::fs::read_to_string(self.folder.path().join("access.log")).unwrap_or_default();
            let lines: Vec<String> = text.lines().map(str::to_string).collect();
            if lines.len() as u64 >= count || begun.elapsed() > Duration::from_secs(5) {
                return lines;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // The main process ends its worker on SIGTERM; std can only send SIGKILL, which would leave the worker.
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        self.child.wait().unwrap();
    }
}

fn config(folder: &Path, port: u16) -> String {
    let folder = folder.display();
    format!(
        "daemon off; user root; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
  log_format line '$status $uri $request_length $connection_requests';
  access_log {folder}/access.log line; keepalive_requests 1000000; client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port};
    location / {{ return 200 'hello'; }}
    location /missing {{ return 404 'no'; }}
    location /post {{ client_max_body_size 10m; proxy_pass http://127.0.0.1:{port}/sink; }}
    location /sink {{ client_max_body_size 10m; access_log off; return 204; }}
  }}
}}"
    )
}
