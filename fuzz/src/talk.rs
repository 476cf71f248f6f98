//! A talk between one protocol of the engine and a server that sends whatever the input says.
//!
//! It stands where the engine's loop stands and checks what that loop relies on. What must hold: nothing panics; every call
//! that began is answered at most once, and none that did not begin; memory and the bytes sent in return are bounded by
//! constants and by what was received; the same bytes in other pieces give the same answers.

use crate::course::Course;
use crate::memory::{live_bytes, peak_bytes};
use prony_load::protocol::{After, Answer, CAPTURED_BODY_BYTES_MAX, Captured, Encoded, Message, Protocol};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Most memory that a connection may hold besides what it captures. A guess: a head of 64 KiB in a buffer that doubles, and as
/// much for the tables of HTTP/2.
const LINK_BYTES_MAX: isize = 256 * 1024;
/// Most header bytes that a captured answer may hold: heads are limited to 64 KiB. HTTP/2 decodes, which can lengthen.
const CAPTURED_HEAD_BYTES_MAX: usize = 128 * 1024;
/// Most bytes said in return per byte received: a frame of 9 bytes can cost a reset or an update of 13, twice.
const RETURN_FACTOR: usize = 4;
/// Most bytes said in return to nothing: the preface, settings and window of HTTP/2.
const RETURN_BYTES: usize = 4096;
/// Most bytes that a protocol adds to a request when it begins: heads of HTTP/2 frames.
const BEGIN_BYTES: usize = 256;
/// Body of a POST. A guess: larger than a window that a server may choose, smaller than what slows the fuzzer down.
const BODY_BYTES: usize = 3000;
/// Most calls of one talk. A guess: enough for every slot to be used again.
const CALLS_MAX: u32 = 64;

/// Runs the talk of an input, and once more with everything in one piece.
pub fn drive<P: Protocol>(protocol: &P, input: &[u8]) {
    let Some((course, sent)) = Course::read(input) else { return };
    let heard = Talk::new(protocol, course).run(sent);
    // When a call begins or is given up depends on the pieces; otherwise nothing may.
    let comparable = course.pieces != 0 && course.repeats == 1 && !course.again && !course.cancels;
    if comparable {
        let whole = Talk::new(protocol, course.whole()).run(sent);
        assert_eq!(heard.answers, whole.answers, "the same bytes in other pieces give other answers");
        // After its end a connection is not fed any more, so only one of the two may see what follows.
        if !heard.ended && !whole.ended {
            assert_eq!(heard.malformed, whole.malformed, "the same bytes in other pieces are judged otherwise");
        }
    }
}

/// What came out of a talk.
struct Heard {
    answers: Vec<Told>,
    malformed: Option<&'static str>,
    ended: bool,
}

/// An answer, small enough to be kept: of what was captured only a hash.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    call: u32,
    status: Option<u16>,
    captured: Option<u64>,
}

struct Talk<'a, P: Protocol> {
    protocol: &'a P,
    course: Course,
    requests: [Encoded; 3],
    link: P::Link,
    /// What this thread held before the connection was made.
    base: isize,
    /// By call number: whether it waits for its answer.
    waiting: Vec<bool>,
    begun: u32,
    /// What a flush would send; emptied after each step, as the loop does.
    out: Vec<u8>,
    /// Bytes that `out` may still hold over the whole talk.
    out_left: usize,
    answers: Vec<Answer>,
    heard: Heard,
}

impl<'a, P: Protocol> Talk<'a, P> {
    fn new(protocol: &'a P, course: Course) -> Self {
        let places = protocol.depth().min(CALLS_MAX) as usize;
        let requests =
            [request(protocol, "GET", 0), request(protocol, "POST", BODY_BYTES), request(protocol, "HEAD", 0)];
        let (waiting, answers) = (vec![false; places], Vec::with_capacity(places));
        let heard = Heard { answers: Vec::with_capacity(CALLS_MAX as usize), malformed: None, ended: false };
        let (base, link) = (live_bytes(), protocol.link());
        Self {
            protocol,
            course,
            requests,
            link,
            base,
            waiting,
            begun: 0,
            out: Vec::new(),
            out_left: RETURN_BYTES,
            answers,
            heard,
        }
    }

    fn run(mut self, sent: &[u8]) -> Heard {
        self.protocol.open(&mut self.link, &mut self.out);
        self.flush();
        for call in 0..self.course.calls.min(self.waiting.len() as u32) {
            self.begin(call);
        }
        let middle = sent.len() * self.course.repeats / 2;
        let mut received = 0;
        let course = self.course;
        for piece in course.cut(sent) {
            if !self.feed(piece) {
                return self.heard;
            }
            let before = received;
            received += piece.len();
            if self.course.cancels && before <= middle && received > middle && !self.cancel() {
                return self.heard;
            }
        }
        if self.course.ends {
            self.protocol.end(&mut self.link, &mut self.answers);
            self.hear();
        }
        self.heard
    }

    fn begin(&mut self, call: u32) {
        if self.begun == CALLS_MAX || !self.protocol.has_room(&self.link) {
            return;
        }
        assert!(!self.waiting[call as usize]);
        let head = self.course.heads & (1 << (self.begun % 4)) != 0;
        let request = &self.requests[if head { 2 } else { self.begun as usize % 2 }];
        let capture = self.course.captured.then(Box::default);
        self.out_left += request.bytes.len() + BEGIN_BYTES;
        self.protocol.begin(&mut self.link, call, request, capture, &mut self.out);
        self.flush();
        self.waiting[call as usize] = true;
        self.begun += 1;
    }

    /// True: the talk goes on.
    fn feed(&mut self, piece: &[u8]) -> bool {
        let before = live_bytes() - self.base;
        let (after, more) = peak_bytes(|| self.protocol.feed(&mut self.link, piece, &mut self.out, &mut self.answers));
        assert!(before + more <= self.bytes_max(), "{before} bytes held, {more} more for {} bytes", piece.len());
        self.out_left += RETURN_FACTOR * piece.len();
        self.flush();
        self.hear();
        match after {
            Ok(After::Open) => {
                for call in 0..self.waiting.len() as u32 {
                    if self.course.again && !self.waiting[call as usize] {
                        self.begin(call);
                    }
                }
                true
            }
            Ok(After::Draining) => true,
            Ok(After::Ended) => {
                self.heard.ended = true;
                false
            }
            Err(malformed) => {
                self.heard.malformed = Some(malformed.0);
                false
            }
        }
    }

    /// What a connection may hold: bodies that wait for a window, too, and what is to be sent.
    fn bytes_max(&self) -> isize {
        let captured = if self.course.captured { CAPTURED_HEAD_BYTES_MAX + CAPTURED_BODY_BYTES_MAX } else { 0 };
        // A buffer that grows is held twice for a moment, and may be twice as large as what is in it.
        LINK_BYTES_MAX + (3 * captured * self.waiting.len() + 2 * BODY_BYTES * self.begun as usize) as isize
    }

    fn flush(&mut self) {
        let sent = self.out.len();
        assert!(sent <= self.out_left, "{sent} bytes to be sent, {} are allowed", self.out_left);
        self.out_left -= sent;
        self.out.clear();
    }

    fn hear(&mut self) {
        for answer in self.answers.drain(..) {
            let waiting = self.waiting.get_mut(answer.call as usize).expect("an answer to a call that never began");
            assert!(*waiting, "call {} is answered twice, or never began", answer.call);
            *waiting = false;
            if let Some(status) = answer.status {
                assert!((200..=999).contains(&status), "status {status} ends no call");
                assert_eq!(answer.captured.is_some(), self.course.captured, "captured is what was asked for");
            }
            let captured = answer.captured.as_deref().map(fingerprint);
            self.heard.answers.push(Told { call: answer.call, status: answer.status, captured });
        }
    }

    /// Gives the newest call up. True: the talk goes on.
    fn cancel(&mut self) -> bool {
        let Some(call) = self.waiting.iter().rposition(|waits| *waits) else { return true };
        self.waiting[call] = false;
        let lives = self.protocol.cancel(&mut self.link, call as u32, &mut self.out);
        self.out_left += BEGIN_BYTES;
        self.flush();
        lives
    }
}

fn request<P: Protocol>(protocol: &P, method: &str, body_bytes: usize) -> Encoded {
    let message = Message {
        method: method.to_string(),
        path: "/a?b=c".to_string(),
        authority: "127.0.0.1:8080".to_string(),
        secure: false,
        headers: vec![("Accept".to_string(), "*/*".to_string())],
        body: vec![b'p'; body_bytes],
    };
    let mut encoded = Encoded::default();
    protocol.encode(&message, &mut encoded);
    encoded
}

fn fingerprint(captured: &Captured) -> u64 {
    assert!(captured.head.len() <= CAPTURED_HEAD_BYTES_MAX, "{} bytes of headers", captured.head.len());
    assert!(captured.body.len() <= CAPTURED_BODY_BYTES_MAX, "{} bytes of body", captured.body.len());
    let mut hasher = DefaultHasher::new();
    captured.head.hash(&mut hasher);
    captured.body.hash(&mut hasher);
    hasher.finish()
}
