//! What `prony calibrate` measures: the kinds of load, and how many connections and bytes of each.
//!
//! Invariant: rows of one kind stand together, in the order in which they are shown.

use super::ceiling::Shape;
use prony_model::Protocol;
use prony_report::number;

/// Bodies of the answers, in bytes: a health check, a small object, a page, an image. A guess at what services send.
const BODY_BYTES: [usize; 4] = [100, SMALL_BYTES, PAGE_BYTES, 128 * 1024];
/// Body of the answers where their size is not what is varied.
const SMALL_BYTES: usize = 1024;
/// The larger of the bodies under TLS, whose cost grows with them.
const PAGE_BYTES: usize = 16 * 1024;
/// Connections that are kept. Fewer mean more wakeups, more mean larger batches and colder caches.
const CONNECTIONS: [u32; 4] = [1, 16, 128, 1024];
/// Connections where their number is not what is varied: few and many.
const FEW_AND_MANY: [u32; 2] = [16, 128];
/// Requests in flight on a connection of HTTP/1.1 that has several, as in wrk's script for pipelining.
const PIPELINED: u32 = 16;
/// Streams of a connection of HTTP/2, as h2load's users write it (`-m 10`).
const STREAMS: u32 = 10;

/// A line of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Row {
    /// What is loaded. The size of an answer is filled in from what arrives, as it is for a load.
    pub shape: Shape,
    /// Body that the null server sends.
    pub body_bytes: usize,
}

impl Row {
    fn new(connections: u32, body_bytes: usize) -> Self {
        let protocol = Protocol::Http1;
        let shape = Shape { connections, keepalive: true, protocol, depth: 1, tls: false, response_bytes: 0.0 };
        Self { shape, body_bytes }
    }

    fn closed(self) -> Self {
        Self { shape: Shape { keepalive: false, ..self.shape }, ..self }
    }

    fn depth(self, depth: u32) -> Self {
        Self { shape: Shape { depth, ..self.shape }, ..self }
    }

    fn http2(self) -> Self {
        Self { shape: Shape { protocol: Protocol::Http2, ..self.shape }, ..self }
    }

    fn tls(self) -> Self {
        Self { shape: Shape { tls: true, ..self.shape }, ..self }
    }

    /// Like `HTTP/1.1, 16 connections, kept, answers of 1 KiB`.
    pub fn text(&self) -> String {
        format!("{}, answers of {}", self.shape.text(), number::bytes(self.body_bytes as f64))
    }
}

/// All of them.
pub(super) fn rows() -> Vec<Row> {
    let small = |connections| Row::new(connections, SMALL_BYTES);
    let page = |connections| Row::new(connections, PAGE_BYTES);
    let mut rows: Vec<Row> = BODY_BYTES.into_iter().flat_map(|body| CONNECTIONS.map(|c| Row::new(c, body))).collect();
    rows.extend(FEW_AND_MANY.map(|c| small(c).depth(PIPELINED)));
    rows.extend(FEW_AND_MANY.map(|c| small(c).closed()));
    rows.extend(FEW_AND_MANY.map(|c| small(c).tls()));
    rows.extend(FEW_AND_MANY.map(|c| page(c).tls()));
    rows.extend(FEW_AND_MANY.map(|c| small(c).tls().closed()));
    rows.extend(FEW_AND_MANY.map(|c| small(c).http2()));
    rows.extend(FEW_AND_MANY.map(|c| small(c).http2().depth(STREAMS)));
    rows.extend(FEW_AND_MANY.map(|c| small(c).http2().tls()));
    rows.extend(FEW_AND_MANY.map(|c| small(c).http2().tls().depth(STREAMS)));
    rows
}
