//! HTTP/2 without the loop, over a blocking socket: with a server of another implementation (the crate h2, which
//! compresses headers with a dynamic table), with a real nginx, and with servers that break off.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking; clippy sees only the test functions themselves")]

use prony_load::h2::{Http2, Link};
use prony_load::protocol::{After, Answer, Encoded, Malformed, Message, Protocol};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// A connection that is driven to the end of each wait.
struct Client {
    socket: TcpStream,
    http2: Http2,
    link: Link,
    out: Vec<u8>,
    /// By call.
    answers: BTreeMap<u32, Answer>,
    after: After,
    begun: u32,
}

impl Client {
    fn connect(port: u16, depth: u32) -> Self {
        let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let http2 = Http2::new(depth, &get("/"));
        let (mut link, mut out) = (http2.link(), Vec::new());
        http2.open(&mut link, &mut out);
        Self { socket, http2, link, out, answers: BTreeMap::new(), after: After::Open, begun: 0 }
    }

    /// Begins a captured call as soon as there is room.
    fn begin(&mut self, message: &Message) -> u32 {
        while !self.http2.has_room(&self.link) {
            self.receive().unwrap();
        }
        let mut request = Encoded::default();
        self.http2.encode(message, &mut request);
        self.http2.begin(&mut self.link, self.begun, &request, Some(Box::default()), &mut self.out);
        self.begun += 1;
        self.begun - 1
    }

    /// Sends what is to be sent and receives once. False: the server closed.
    fn receive(&mut self) -> Result<bool, Malformed> {
        self.socket.write_all(&self.out).unwrap();
        self.out.clear();
        let mut buffer = vec![0; 30_000];
        let count = self.socket.read(&mut buffer).unwrap();
        let mut answers = Vec::new();
        self.after = self.http2.feed(&mut self.link, &buffer[..count], &mut self.out, &mut answers)?;
        for answer in answers {
            assert!(self.answers.insert(answer.call, answer).is_none(), "a call is answered once");
        }
        Ok(count > 0)
    }

    /// Waits for the answer of a call: its status, header lines and body.
    fn answer(&mut self, call: u32) -> (Option<u16>, String, Vec<u8>) {
        while !self.answers.contains_key(&call) {
            assert!(self.receive().unwrap(), "the server closed before it answered call {call}");
        }
        let answer = self.answers.remove(&call).unwrap();
        let captured = answer.captured.unwrap();
        (answer.status, String::from_utf8(captured.head).unwrap(), captured.body)
    }

    fn ask(&mut self, message: &Message) -> (Option<u16>, String, Vec<u8>) {
        let call = self.begin(message);
        self.answer(call)
    }
}

fn get(path: &str) -> Message {
    Message {
        method: "GET".into(),
        path: path.into(),
        authority: "test:1".into(),
        headers: vec![("User-Agent".into(), "prony".into())],
        ..Message::default()
    }
}

fn post(path: &str, body: Vec<u8>) -> Message {
    Message { method: "POST".into(), body, ..get(path) }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n % 251) as u8).collect()
}

mod other {
    //! A server made with the crate h2.

    use super::{TcpListener, pattern};
    use h2::server::{Builder, SendResponse};
    use h2::{Reason, RecvStream};
    use http::{HeaderMap, Request, Response};

    /// Starts it with these small limits; it ends with the process.
    pub fn start(window: u32, streams: u32) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
            listener.set_nonblocking(true).unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                loop {
                    let (socket, _) = listener.accept().await.unwrap();
                    tokio::spawn(serve(socket, window, streams));
                }
            });
        });
        port
    }

    async fn serve(socket: tokio::net::TcpStream, window: u32, streams: u32) {
        let mut builder = Builder::new();
        builder.initial_window_size(window).max_concurrent_streams(streams);
        let mut connection = builder.handshake::<_, std::io::Cursor<Vec<u8>>>(socket).await.unwrap();
        while let Some(Ok((request, respond))) = connection.accept().await {
            if request.uri().path() == "/last" {
                connection.graceful_shutdown();
            }
            tokio::spawn(answer(request, respond));
        }
    }

    async fn answer(request: Request<RecvStream>, mut respond: SendResponse<std::io::Cursor<Vec<u8>>>) {
        let path = request.uri().path().to_string();
        let agent = request.headers()["user-agent"].clone();
        let authority = request.uri().authority().unwrap().to_string();
        let response = Response::builder().header("x-agent", agent).header("x-authority", authority);
        match path.as_str() {
            "/reset" => return respond.send_reset(Reason::REFUSED_STREAM),
            "/push" => assert!(respond.push_request(Request::get("http://a/").body(()).unwrap()).is_err()),
            _ => {}
        }
        let body = match path.as_str() {
            "/echo" => read(request.into_body()).await,
            "/large" => pattern(1_000_000),
            "/early" => Vec::new(),
            _ => path.clone().into_bytes(),
        };
        let response = response.header("content-length", body.len()).body(()).unwrap();
        if body.is_empty() {
            respond.send_response(response, true).unwrap();
            return;
        }
        let mut stream = respond.send_response(response, false).unwrap();
        let trailers = path == "/trailers";
        stream.send_data(std::io::Cursor::new(body), !trailers).unwrap();
        if trailers {
            let mut map = HeaderMap::new();
            map.insert("x-checksum", "1".parse().unwrap());
            stream.send_trailers(map).unwrap();
        }
    }

    async fn read(mut body: RecvStream) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(part) = body.data().await {
            let part = part.unwrap();
            body.flow_control().release_capacity(part.len()).unwrap();
            all.extend_from_slice(&part);
        }
        all
    }
}

#[test]
fn talks_to_another_implementation() {
    let mut client = Client::connect(other::start(1000, 3), 8);
    for path in ["/first", "/second", "/trailers", "/push", "/second"] {
        let (status, head, body) = client.ask(&get(path));
        assert_eq!((status, body), (Some(200), path.as_bytes().to_vec()), "{path}");
        // From the second on these come from the server's dynamic table, and go by index in ours.
        assert!(head.contains("x-agent: prony\r\n") && head.contains("x-authority: test:1\r\n"), "{head}");
    }
    assert_eq!(client.ask(&get("/reset")).0, None);
    assert_eq!(client.ask(&get("/large")).2, pattern(1_000_000));
    // Bodies through windows of 1000 bytes, more of them at once than the server takes.
    let calls: Vec<u32> = (0..10).map(|n| client.begin(&post("/echo", pattern(20_000 + n)))).collect();
    for (n, call) in calls.into_iter().enumerate() {
        let (status, _, body) = client.answer(call);
        assert_eq!((status, body == pattern(20_000 + n)), (Some(200), true));
    }
    // Answered although nobody reads the body.
    assert_eq!(client.ask(&post("/early", pattern(50_000))).0, Some(200));
    assert_eq!(client.ask(&get("/after")).0, Some(200));
}

#[test]
fn a_cancelled_call_leaves_the_others_alone() {
    let mut client = Client::connect(other::start(65_535, 100), 4);
    let waiting = client.begin(&post("/echo", pattern(100_000)));
    let large = client.begin(&get("/large"));
    client.receive().unwrap();
    for call in [waiting, large] {
        assert!(client.http2.cancel(&mut client.link, call, &mut client.out));
    }
    for n in 0..20 {
        let path = format!("/{n}");
        let (status, head, body) = client.ask(&get(&path));
        assert_eq!((status, body), (Some(200), path.into_bytes()), "{head}");
    }
    assert!(client.answers.keys().all(|call| *call < 2), "{:?}", client.answers);
}

#[test]
fn a_graceful_end_answers_what_was_begun() {
    let mut client = Client::connect(other::start(65_535, 100), 8);
    let calls: Vec<u32> = ["/a", "/last", "/b"].iter().map(|path| client.begin(&get(path))).collect();
    for call in calls {
        assert_eq!(client.answer(call).0, Some(200));
    }
    while client.after == After::Open {
        assert!(client.receive().unwrap());
    }
    assert!(!client.http2.has_room(&client.link));
    assert_eq!(client.after, After::Ended);
}

/// A real nginx that speaks HTTP/2 without TLS. Gone when dropped.
struct Nginx {
    child: Child,
    _folder: tempfile::TempDir,
    port: u16,
}

impl Nginx {
    fn start() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let at = folder.path().display();
        let config = format!(
            "daemon off; user root; worker_processes 1; pid {at}/pid; error_log {at}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off; keepalive_requests 50; client_body_temp_path {at}/b; proxy_temp_path {at}/p;
  fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;
  server {{
    listen 127.0.0.1:{port} http2; http2_max_concurrent_streams 4; root {at}; client_max_body_size 100k;
    location / {{ add_header X-Agent $http_user_agent; add_header X-Host $http_host; return 200 'hello $request_uri'; }}
    location /file {{ }}
    location /missing {{ return 404; }}
  }}
}}"
        );
        std::fs::write(folder.path().join("nginx.conf"), config).unwrap();
        std::fs::write(folder.path().join("file"), pattern(300_000)).unwrap();
        let mut command = Command::new("nginx");
        command.arg("-p").arg(folder.path()).arg("-c").arg(folder.path().join("nginx.conf"));
        let child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                eprintln!("not tested: nginx cannot be started ({error}); apt-get install nginx-light");
                return None;
            }
        };
        let nginx = Self { child, _folder: folder, port };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(10), "nginx did not come up on port {port}");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(nginx)
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

#[test]
fn talks_to_nginx() {
    let Some(nginx) = Nginx::start() else { return };
    let mut client = Client::connect(nginx.port, 10);
    for path in ["/a", "/b?c=d", "/a"] {
        let (status, head, body) = client.ask(&get(path));
        assert_eq!((status, String::from_utf8(body).unwrap()), (Some(200), format!("hello {path}")));
        assert!(head.contains("server: nginx") && head.contains("x-agent: prony\r\n"), "{head}");
        assert!(head.contains("x-host: test:1\r\n"), "{head}");
    }
    let head = Message { method: "HEAD".into(), ..get("/file") };
    let (status, lines, body) = client.ask(&head);
    assert_eq!((status, body.len()), (Some(200), 0));
    assert!(lines.contains("content-length: 300000\r\n"), "{lines}");
    assert_eq!(client.ask(&get("/missing")).0, Some(404));
    // More at once than it takes.
    let calls: Vec<u32> = (0..12).map(|_| client.begin(&get("/file"))).collect();
    for call in calls {
        let (status, _, body) = client.answer(call);
        assert_eq!((status, body == pattern(300_000)), (Some(200), true));
    }
    // It refuses a large body before it is there, and takes the next request.
    assert_eq!(client.ask(&post("/a", pattern(200_000))).0, Some(413));
    assert_eq!(client.ask(&post("/missing", pattern(90_000))).0, Some(404));
    assert_eq!(client.ask(&get("/a")).0, Some(200));
}

#[test]
fn nginx_ends_a_connection_after_its_requests() {
    let Some(nginx) = Nginx::start() else { return };
    let mut answered = 0;
    for _ in 0..3 {
        let mut client = Client::connect(nginx.port, 4);
        while client.after == After::Open {
            while client.http2.has_room(&client.link) {
                client.begin(&get("/a"));
            }
            assert!(client.receive().unwrap());
        }
        while client.after != After::Ended {
            assert!(client.receive().unwrap(), "nginx closed before it answered");
        }
        // Those beyond its last are refused, not lost.
        assert_eq!(client.answers.len(), client.begun as usize);
        answered += client.answers.values().filter(|answer| answer.status == Some(200)).count();
    }
    assert!((3 * 49..=3 * 51).contains(&answered), "{answered} answers");
}

/// What a client says of a server that sends these bytes and closes.
fn hear(bytes: &'static [u8]) -> (Result<(), Malformed>, Vec<Option<u16>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut buffer = [0; 1000];
        assert!(socket.read(&mut buffer).unwrap() > 0);
        // The client may leave before the end. Closing with bytes unread would be a reset, which can overtake what was
        // sent.
        if bytes.iter().all(|byte| socket.write_all(&[*byte]).is_ok()) && socket.shutdown(Shutdown::Write).is_ok() {
            while socket.read(&mut buffer).is_ok_and(|count| count > 0) {}
        }
    });
    let mut client = Client::connect(port, 4);
    client.begin(&get("/"));
    client.begin(&get("/"));
    let ended = loop {
        match client.receive() {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(malformed) => break Err(malformed),
        }
    };
    client.socket.shutdown(Shutdown::Both).unwrap();
    server.join().unwrap();
    let mut last = Vec::new();
    client.http2.end(&mut client.link, &mut last);
    assert!(last.is_empty());
    (ended, client.answers.values().map(|answer| answer.status).collect())
}

#[test]
fn servers_that_break_off_or_speak_otherwise() {
    let one =
        b"\0\0\0\x04\0\0\0\0\0\0\0\x01\x01\x05\0\0\0\x01\x88\0\0\x01\x01\x04\0\0\0\x03\x88\0\0\x09\0\x01\0\0\0\x03cut";
    assert_eq!(hear(one), (Ok(()), vec![Some(200)]));
    let older = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
    assert_eq!(hear(older).0.unwrap_err().0, "the server answers in HTTP/1: it takes no HTTP/2 on this port");
    assert_eq!(hear(b""), (Ok(()), vec![]));
}
