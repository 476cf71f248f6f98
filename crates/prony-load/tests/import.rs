//! Imports held against what they import from: logs of a real nginx, and what a real curl sends when a real bash starts it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking; clippy sees only the test functions themselves")]

mod server;

use prony_load::import::{Form, Import, LogFormat, from_curl, from_log};
use prony_load::{check_url, run};
use prony_model::{LoadPlan, Nanos};
use server::Nginx;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// As it stands in nginx.conf, and as a person would copy it from there.
const OWN_FORMAT: &str = r#"log_format own escape=json '{"at":$msec,"took":$request_time,"to":"$http_host",'
    '"method":"$request_method","path":"$request_uri","ua":"$http_user_agent","up":"$upstream_response_time"}';"#;

/// Method, path as sent, path as it is to be sent again, host.
const ASKED: [(&str, &str, &str, &str); 7] = [
    ("GET", "/a", "/a", "one.test"),
    ("GET", "/a?b=c&d=%22", "/a?b=c&d=%22", "two.test:81"),
    ("HEAD", "/${n}/\\x22", "/${n}/\\x22", "one.test"),
    ("POST", "/p\"q\"", "/p\"q\"", "one.test"),
    ("GET", "/caf\u{e9}|{}", "/caf%C3%A9|{}", "one.test"),
    ("DELETE", "/missing", "/missing", "one.test"),
    ("GET", "/a", "/a", "one.test"),
];

/// Time between two requests.
const PAUSE: Duration = Duration::from_millis(30);

/// Asks for everything, one after the other, each on a connection of its own.
fn ask(nginx: &Nginx) {
    for (method, path, _, host) in ASKED {
        let mut stream = TcpStream::connect(("127.0.0.1", nginx.port)).unwrap();
        let body = if method == "POST" { "Content-Length: 3\r\n\r\na=b" } else { "\r\n" };
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: a \"b\"\r\nConnection: close\r\n");
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        // nginx has written its line when it closes.
        stream.read_to_end(&mut Vec::new()).unwrap();
        std::thread::sleep(PAUSE);
    }
    let mut stream = TcpStream::connect(("127.0.0.1", nginx.port)).unwrap();
    stream.write_all(b"\x16\x03\x01\x02\x00 no HTTP\r\n\r\n").unwrap();
    stream.read_to_end(&mut Vec::new()).ok();
}

/// What a log says as soon as it has so many lines.
fn logged(nginx: &Nginx, log: &str, lines: usize, format: &LogFormat, form: Form) -> Import {
    let path = nginx.folder().join(log);
    let begun = Instant::now();
    while std::fs::read_to_string(&path).unwrap().lines().count() < lines {
        assert!(begun.elapsed() < Duration::from_secs(5), "{}", std::fs::read_to_string(&path).unwrap());
        std::thread::sleep(Duration::from_millis(10));
    }
    from_log(&mut std::io::BufReader::new(std::fs::File::open(path).unwrap()), format, form).unwrap()
}

fn config(folder: &Path, port: u16) -> String {
    let folder = folder.display();
    format!(
        "daemon off; user root; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
  {OWN_FORMAT}
  access_log {folder}/combined.log combined; access_log {folder}/own.log own;
  lingering_close off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{ listen 127.0.0.1:{port}; location / {{ return 200 'hello'; }} location /missing {{ return 404 'no'; }} }}
}}"
    )
}

fn requests(import: &Import) -> Vec<(&str, &str, f64)> {
    import.requests.iter().map(|r| (r.method.as_deref().unwrap_or("GET"), r.path.as_str(), r.weight)).collect()
}

#[test]
fn a_log_of_nginx_comes_back() {
    let Some(nginx) = Nginx::with(config) else { return };
    ask(&nginx);
    let asked: Vec<_> = ASKED.iter().map(|(method, _, path, _)| (*method, *path, 1.0)).collect();
    let replay = Form::Replay { speed: 1.0 };

    let combined = logged(&nginx, "combined.log", ASKED.len() + 1, &LogFormat::common(), replay);
    assert_eq!(requests(&combined), asked);
    assert!(combined.skipped[0].starts_with("1 of 8 lines: not of this format; the first is line 8: "), "{combined:?}");
    let times = combined.times.unwrap();
    assert_eq!((times.len(), times[0].0), (ASKED.len(), 0));
    assert!(times.is_sorted_by(|a, b| a < b), "requests of one second are spread: {times:?}");

    let own = logged(&nginx, "own.log", ASKED.len() + 1, &LogFormat::parse(OWN_FORMAT).unwrap(), replay);
    assert_eq!(requests(&own), asked);
    let hosts: Vec<_> = own.requests.iter().map(|r| r.headers["Host"].as_str()).collect();
    assert_eq!(hosts, ASKED.map(|(_, _, _, host)| host));
    // A sleep may take longer, never shorter; the log rounds to a millisecond.
    let gaps: Vec<_> = own.times.unwrap().windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert!(gaps.iter().all(|gap| *gap >= PAUSE.as_nanos() as u64 - 2_000_000), "{gaps:?}");

    let mix = logged(&nginx, "combined.log", ASKED.len() + 1, &LogFormat::common(), Form::Mix);
    assert_eq!(mix.requests[0].weight, 2.0);
    assert_eq!(mix.requests.iter().map(|r| r.weight).sum::<f64>(), ASKED.len() as f64);
}

#[test]
fn a_replay_is_asked_as_it_was_recorded() {
    let Some(nginx) = Nginx::with(config) else { return };
    ask(&nginx);
    let (format, replay) = (LogFormat::parse(OWN_FORMAT).unwrap(), Form::Replay { speed: 1.0 });
    let import = logged(&nginx, "own.log", ASKED.len() + 1, &format, replay);
    let last = *import.times.as_ref().unwrap().last().unwrap();
    let url = format!("http://127.0.0.1:{}/", nginx.port);
    let after_last = Nanos::from_millis(200);
    let duration = Nanos(last.0 + after_last.0);
    let mut plan = LoadPlan { threads: 1, warmup: Nanos(0), duration, ..LoadPlan::to(&url) };
    import.clone().apply(&mut plan);
    let result = run(&plan, &AtomicBool::new(false), None).unwrap();
    assert_eq!((result.intended, result.completed), (ASKED.len() as u64, ASKED.len() as u64), "{result:?}");

    // The log now holds what was asked, a line that is no request, and what was replayed.
    let twice = logged(&nginx, "own.log", 2 * ASKED.len() + 1, &format, replay);
    assert_eq!(twice.requests[ASKED.len()..], import.requests);
}

/// Commands as people and browsers write them; `URL` stands for the server.
const COMMANDS: [&str; 22] = [
    "curl URL",
    "curl -s 'URL/a?b=c#d' -o /dev/null",
    "curl -I \"URL/head\"",
    "curl -X DELETE URL/x",
    "curl -d a=1 -d 'b=2 3' URL/post",
    "curl -d @body.json --data-binary @body.json --data-raw @x URL",
    "curl --data-binary @body.json -H 'Content-Type: application/json' -XPUT URL/put",
    "curl --json '{\"a\":' --json '1}' URL",
    "curl --json @body.json -H 'content-type: text/x' URL",
    "curl --data-urlencode 'q=a b&c/\u{e9}~' --data-urlencode =x=y --data-urlencode n@body.json URL",
    "curl -G -d a=1 --data-urlencode 'b= ' 'URL/s?p=q'",
    "curl -G -d 'a=\u{e9}' URL",
    "curl --url-query 'a=b c' --url-query '+d=e' URL/q",
    "curl -u 'me:s p' -A agent -e http://from/ -b 'a=1; b=2' -b c=3 -r 0-5 URL",
    "curl -H 'X-A: 1' -H 'X-Empty;' -H 'Accept:' -H 'User-Agent:' -H 'Host: other.test' -H 'x-b:  2' URL",
    "curl -H @headers -H 'Content-Type:' -d x URL",
    "curl -u a:b -H 'Authorization: Bearer t' -A x -H 'user-agent: y' -b a=b -H 'Cookie: c=d' URL",
    "curl --compressed URL",
    "curl \\\n  'URL/api' \\\n  -H 'x: \"quoted\"' \\\n  --data-raw $'it\\'s 5\\u0021 caf\\u00e9 \\x41\\101\\n${x}' ;\n",
    "curl --data-raw \"a \\\"b\\\" \\$c \\\\ d\" URL\\?e\\&f",
    "curl -g 'URL/[1-3]{a}'",
    "curl 'URL/caf\u{e9}'",
];

/// What is sent: method, path, headers by name, body.
type Sent = (String, String, BTreeMap<String, Vec<String>>, Vec<u8>);

/// Leaves out what curl says of itself, and lengths; which encodings it knows differs from build to build.
fn of_interest(headers: impl Iterator<Item = (String, String)>) -> BTreeMap<String, Vec<String>> {
    let mut kept: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        let name = name.to_ascii_lowercase();
        let of_curl = (name == "user-agent" && value.starts_with("curl/")) || (name == "accept" && value == "*/*");
        if !of_curl && name != "content-length" {
            let value = if name == "accept-encoding" { "any".to_string() } else { value };
            kept.entry(name).or_default().push(value);
        }
    }
    kept
}

/// Accepts one request, answers it, and says what it was.
fn receive(listener: &TcpListener) -> Sent {
    let begun = Instant::now();
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(10), "curl did not connect: {error}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        let count = stream.read(&mut chunk).unwrap();
        assert!(count > 0, "curl closed in the head");
        bytes.extend_from_slice(&chunk[..count]);
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let (first, lines) = head.split_once("\r\n").unwrap();
    let pairs: Vec<(String, String)> =
        lines.lines().map(|l| l.split_once(':').unwrap()).map(|(n, v)| (n.to_string(), v.trim().to_string())).collect();
    let length =
        pairs.iter().find(|(n, _)| n.eq_ignore_ascii_case("content-length")).map_or(0, |(_, v)| v.parse().unwrap());
    let mut body = bytes[head_end + 4..].to_vec();
    while body.len() < length {
        let count = stream.read(&mut chunk).unwrap();
        assert!(count > 0, "curl closed in the body");
        body.extend_from_slice(&chunk[..count]);
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
    let words: Vec<&str> = first.split(' ').collect();
    // curl sends what is not ASCII as it is or as %xx, prony as %XX.
    let byte = |b: u8| if b.is_ascii() { char::from(b).to_string() } else { format!("%{b:02X}") };
    let path: String = words[1..words.len() - 1].join(" ").bytes().map(byte).collect();
    let path = path.replace("%c3%a9", "%C3%A9");
    (words[0].to_string(), path, of_interest(pairs.into_iter()), body)
}

/// What prony would send.
fn imported(command: &str, folder: &Path) -> Sent {
    let import = from_curl(command, &|path| std::fs::read(folder.join(path))).unwrap();
    let target = check_url(&import.url.unwrap()).unwrap();
    let mut headers = import.headers;
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        headers.push(("Host".to_string(), target.authority));
    }
    (import.method, target.path, of_interest(headers.into_iter()), import.body)
}

#[test]
fn curl_itself_sends_the_same() {
    let is_there = Command::new("bash").args(["-c", "curl --version"]).stdout(Stdio::null()).status();
    if !is_there.is_ok_and(|status| status.success()) {
        eprintln!("not tested: bash and curl are needed; apt-get install bash curl");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("body.json"), "{\r\n \"a\": 1\n}\n").unwrap();
    std::fs::write(folder.path().join("headers"), "X-A: 1\nX-B: 2\n").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    for command in COMMANDS {
        let command = command.replace("URL", &url);
        let mut shell = Command::new("bash");
        shell.args(["-c", &command]).current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
        shell.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("LC_ALL", "C.UTF-8");
        shell.env("HOME", folder.path()); // no ~/.curlrc
        let mut child = shell.spawn().unwrap();
        let sent = receive(&listener);
        assert!(child.wait().unwrap().success(), "{command}");
        assert_eq!(imported(&command, folder.path()), sent, "{command}");
    }
}
