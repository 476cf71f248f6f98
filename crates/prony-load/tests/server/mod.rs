//! Server programs of other people, each in a scratch folder, on a port of loopback that was free. Gone when dropped.

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running server.
pub struct Program {
    child: Child,
    /// Where its configuration and its logs are.
    pub folder: tempfile::TempDir,
    /// Where it listens.
    pub port: u16,
}

impl Program {
    /// Starts it with the arguments that `args` makes for its folder, where it runs, and its port. None: it is not installed,
    /// which is told, and `next` with it.
    pub fn start(name: &str, next: &str, args: impl Fn(&Path, u16) -> Vec<String>) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        // The port is free now; should someone take it first, the server does not come up and the next is tried.
        for _ in 0..5 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let said = File::create(folder.path().join("said")).unwrap();
            let mut command = Command::new(name);
            command.args(args(folder.path(), port)).current_dir(folder.path()).stdin(Stdio::null());
            command.stdout(said.try_clone().unwrap()).stderr(said);
            let mut child = match command.spawn() {
                Ok(child) => child,
                Err(error) => {
                    eprintln!("not tested: {name} cannot be started ({error}); {next}");
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
            child.kill().ok();
            child.wait().unwrap();
            let said = std::fs::read_to_string(folder.path().join("said")).unwrap();
            eprintln!("{name} did not come up on port {port}: {said}");
        }
        panic!("{name} did not come up");
    }

    /// Lines of a file of its folder that hold `word`, as soon as there are `count`; whatever there is after 5 s. What it writes
    /// to stdout and stderr is in `said`.
    #[allow(dead_code, reason = "not every test binary reads a log")]
    pub fn lines(&self, file: &str, word: &str, count: u64) -> Vec<String> {
        let begun = Instant::now();
        loop {
            let text = std::fs::read_to_string(self.folder.path().join(file)).unwrap_or_default();
            let lines: Vec<String> = text.lines().filter(|line| line.contains(word)).map(str::to_string).collect();
            if lines.len() as u64 >= count || begun.elapsed() > Duration::from_secs(5) {
                return lines;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // nginx ends its worker on SIGTERM; std can only send SIGKILL, which would leave the worker.
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        self.child.wait().unwrap();
    }
}

/// A running nginx.
#[allow(dead_code, reason = "not every test binary wants it")]
pub struct Nginx {
    program: Program,
    /// Where it listens.
    pub port: u16,
}

#[allow(dead_code, reason = "not every test binary wants every way to start it")]
impl Nginx {
    /// Starts it, or tells why it cannot be and gives none.
    pub fn start() -> Option<Self> {
        Self::with(config)
    }

    /// Starts it with the configuration that `config` makes for its folder and port.
    pub fn with(config: impl Fn(&Path, u16) -> String) -> Option<Self> {
        let program = Program::start("nginx", "apt-get install nginx-light", |folder, port| {
            let conf = folder.join("nginx.conf");
            std::fs::write(&conf, config(folder, port)).unwrap();
            ["-p".into(), folder.display().to_string(), "-c".into(), conf.display().to_string()].to_vec()
        })?;
        Some(Self { port: program.port, program })
    }

    /// Its own folder, with its configuration and logs.
    pub fn folder(&self) -> &Path {
        self.program.folder.path()
    }

    /// Lines of its access log (`STATUS PATH REQUEST_BYTES REQUESTS_OF_CONNECTION`) as soon as there are `count`; whatever there
    /// is after 5 s.
    pub fn log(&self, count: u64) -> Vec<String> {
        self.program.lines("access.log", "", count)
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
