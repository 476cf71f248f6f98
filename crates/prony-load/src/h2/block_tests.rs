//! Tests of header blocks of requests: a server that decodes them sees what the message says, whatever its settings
//! were.

use super::super::frames::setting;
use super::super::hpack::{Decoder, Fields, Part};
use super::super::peer::Peer;
use super::*;
use expect_test::{Expect, expect};
use proptest::prelude::*;

fn message(path: &str, headers: &[(&str, &str)]) -> Message {
    Message {
        method: "GET".into(),
        path: path.into(),
        authority: "s1:81".into(),
        headers: headers.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect(),
        ..Message::default()
    }
}

/// A server's side of header compression, as one connection meets it.
struct Server {
    peer: Peer,
    decoder: Decoder,
}

impl Server {
    fn new() -> Self {
        Self { peer: Peer::new(), decoder: Decoder::new() }
    }

    fn settle(&mut self, table_bytes: u32) {
        let payload = [&setting::HEADER_TABLE_SIZE.to_be_bytes()[..], &table_bytes.to_be_bytes()].concat();
        self.peer.settle(&payload).unwrap();
    }

    /// Gets a request; gives its fields, and how many bytes the block had.
    fn receive(&mut self, common: &Common, message: &Message) -> (String, usize) {
        let (mut request, mut block, mut lines) = (Encoded::default(), Vec::new(), Vec::new());
        common.encode(message, &mut request);
        let say = self.peer.say(has_common(&request), &mut block);
        common.push(&request, say, &mut block);
        self.decoder.read(&block, &mut Fields::of(Part::Ignored, Some(&mut lines))).unwrap();
        (String::from_utf8(lines).unwrap().replace('\r', ""), block.len())
    }
}

fn check(message: &Message, want: Expect) {
    let mut server = Server::new();
    let (fields, bytes) = server.receive(&Common::default(), message);
    want.assert_eq(&format!("{fields}{bytes} bytes\n"));
}

#[test]
fn writes_what_http2_wants_of_a_message() {
    check(
        &message("/", &[]),
        expect![[r#"
            :method: GET
            :scheme: http
            :path: /
            :authority: s1:81
            10 bytes
        "#]],
    );
    let mut post =
        message("/index.html?a=b", &[("X-Own", "1"), ("Connection", "close"), ("HOST", "other"), ("TE", "gzip")]);
    (post.method, post.secure, post.body) = ("POST".into(), true, b"hello".to_vec());
    post.headers.extend([("Accept-Encoding".into(), "gzip, deflate".into()), ("te".into(), "trailers".into())]);
    check(
        &post,
        expect![[r#"
            :method: POST
            :scheme: https
            :path: /index.html?a=b
            :authority: other
            x-own: 1
            accept-encoding: gzip, deflate
            te: trailers
            content-length: 5
            53 bytes
        "#]],
    );
    let mut put = message("/x", &[]);
    put.method = "PUT".into();
    check(
        &put,
        expect![[r#"
            :method: PUT
            :scheme: http
            :path: /x
            :authority: s1:81
            content-length: 0
            21 bytes
        "#]],
    );
    put.headers = vec![("content-length".into(), "7".into())];
    check(
        &put,
        expect![[r#"
            :method: PUT
            :scheme: http
            :path: /x
            :authority: s1:81
            content-length: 7
            21 bytes
        "#]],
    );
}

#[test]
fn a_head_request_is_known_as_one_and_the_body_lies_behind_the_block() {
    let mut encoded = Encoded::default();
    let head = Message { method: "HEAD".into(), ..message("/", &[]) };
    Common::default().encode(&head, &mut encoded);
    assert!(encoded.head && encoded.body_at == encoded.bytes.len());
    let post = Message { body: b"hello".to_vec(), ..message("/", &[]) };
    Common::default().encode(&post, &mut encoded);
    assert!(!encoded.head && &encoded.bytes[encoded.body_at..] == b"hello");
}

/// What a connection says over time: the bytes of each block.
#[test]
fn common_fields_are_said_once_per_connection() {
    let first = message("/a", &[("User-Agent", "prony"), ("Accept-Encoding", "gzip, deflate"), ("X-A", "1")]);
    let common = Common::of(&first);
    let mut own = first.clone();
    own.headers.push(("X-B".into(), "2".into()));
    let other = message("/a", &[("User-Agent", "other")]);
    let mut server = Server::new();
    let mut sizes = Vec::new();
    let mut receive = |server: &mut Server, message: &Message| {
        let (fields, bytes) = server.receive(&common, message);
        assert_eq!(fields, Server::new().receive(&Common::default(), message).0);
        sizes.push(bytes);
    };
    // Before the settings of the server came, in full; then in full and kept; then by index.
    receive(&mut server, &first);
    server.settle(4096);
    receive(&mut server, &other);
    for _ in 0..2 {
        receive(&mut server, &first);
        receive(&mut server, &own);
    }
    receive(&mut server, &other);
    // The server's table shrinks: the next block says that we know, and all are in full.
    server.settle(100);
    receive(&mut server, &first);
    server.settle(4096);
    receive(&mut server, &first);
    expect!["[29, 21, 28, 17, 10, 17, 21, 30, 29]"].assert_eq(&format!("{sizes:?}"));
}

#[test]
fn common_fields_are_no_more_than_fit_in_a_table() {
    let long = "v".repeat(1500);
    let many: Vec<(String, String)> = (0..4).map(|n| (format!("x-{n}"), long.clone())).collect();
    let message = Message { headers: many, ..message("/", &[]) };
    let common = Common::of(&message);
    assert_eq!(common.headers.len(), 2);
    let mut server = Server::new();
    server.settle(4096);
    let (first, long) = server.receive(&common, &message);
    let (second, short) = server.receive(&common, &message);
    assert_eq!(first, second);
    assert_eq!((first.matches("x-").count(), long > 6000, short > 3000 && short < 3100), (4, true, true));
}

fn field() -> impl Strategy<Value = (String, String)> {
    let name =
        prop_oneof![Just("User-Agent"), Just("accept"), Just("X-Long-Name-Of-Ours"), Just("Host"), Just("Upgrade")];
    (name.prop_map(str::to_string), "[ -~]{0,200}")
}

proptest! {
    #[test]
    fn servers_read_what_was_meant(
        shared in prop::collection::vec(field(), 0..6),
        requests in prop::collection::vec((0usize..7, prop::collection::vec(field(), 0..3), 0u32..9), 1..20),
    ) {
        let shared = Message { headers: shared, ..message("/x", &[]) };
        let common = Common::of(&shared);
        let mut server = Server::new();
        for (kept, own, settings) in requests {
            match settings {
                0 => server.settle(4096),
                1 => server.settle(65536),
                2 => server.settle(0),
                _ => {}
            }
            let mut message = shared.clone();
            message.headers.truncate(kept);
            message.headers.extend(own);
            let (seen, _) = server.receive(&common, &message);
            let nothing = Common::of(&Message { authority: "nobody".into(), ..Message::default() });
            prop_assert_eq!(seen, Server::new().receive(&nothing, &message).0);
        }
    }
}
