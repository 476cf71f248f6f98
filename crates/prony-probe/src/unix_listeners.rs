//! Accept queues of unix sockets: where a server hands requests to an application on the same host.
//!
//! `unix_diag` tells the listeners of the network namespace; those without a path are left out. Invariant: the item is the path as it was
//! bound, and what the kernel does not tell is a gap.

use crate::cadence::Cadence;
use crate::facts::Facts;
use crate::netlink::{Netlink, attributes, text, u32_at};
use crate::sys;
use prony_model::metric as m;
use std::collections::BTreeMap;

/// Listeners that are told at most, the fullest first: a desktop has a hundred that nobody asks for anything. A guess.
const LISTENERS_MAX: usize = 16;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const UDIAG_SHOW_NAME: u32 = 0x01;
const UDIAG_SHOW_RQLEN: u32 = 0x10;
const UNIX_DIAG_NAME: u16 = 0;
const UNIX_DIAG_RQLEN: u16 = 4;
const TCP_LISTEN: u32 = 10;

/// Reader of the listeners.
#[derive(Debug)]
pub(crate) struct UnixListeners {
    netlink: Netlink,
    cadence: Cadence,
}

/// A listener: connections that wait for accept(), and how many may.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Queue {
    waiting: u32,
    backlog: u32,
}

impl UnixListeners {
    pub(crate) fn new() -> Self {
        Self { netlink: Netlink::new(libc::NETLINK_SOCK_DIAG), cadence: Cadence::every(0) }
    }

    /// The kernel walks over all unix sockets of the namespace, so where they are many they are read less often.
    pub(crate) fn read(&mut self, facts: &mut Facts, at_ns: u64) {
        if !self.cadence.due(at_ns) {
            return;
        }
        let started = sys::thread_cpu_ns();
        // Of several sockets that were bound to one path the fullest tells.
        let mut listeners: BTreeMap<String, Queue> = BTreeMap::new();
        let asked = self.netlink.dump(SOCK_DIAG_BY_FAMILY, &request(), |payload| {
            let Some((path, queue)) = listener(payload) else { return };
            let known = listeners.entry(path).or_insert(queue);
            if queue.waiting > known.waiting {
                *known = queue;
            }
        });
        match asked {
            Ok(()) => put(facts, listeners),
            Err(e) => {
                facts.miss("unix", format_args!("netlink unix_diag: {e}: does the kernel have CONFIG_UNIX_DIAG?"))
            }
        }
        self.cadence.ran(at_ns, sys::thread_cpu_ns().saturating_sub(started));
    }
}

fn put(facts: &mut Facts, listeners: BTreeMap<String, Queue>) {
    let mut listeners: Vec<(String, Queue)> = listeners.into_iter().collect();
    listeners.sort_by_key(|(_, queue)| std::cmp::Reverse(queue.waiting));
    for (path, queue) in listeners.iter().take(LISTENERS_MAX) {
        facts.put(&m::UNIX_QUEUE, path, f64::from(queue.waiting));
        facts.put(&m::UNIX_BACKLOG, path, f64::from(queue.backlog));
    }
}

/// struct unix_diag_req: family, protocol, padding (4 bytes), states, inode, what to show, cookie (8).
fn request() -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[0] = libc::AF_UNIX as u8;
    bytes[4..8].copy_from_slice(&(1u32 << TCP_LISTEN).to_ne_bytes());
    bytes[12..16].copy_from_slice(&(UDIAG_SHOW_NAME | UDIAG_SHOW_RQLEN).to_ne_bytes());
    bytes
}

/// struct unix_diag_msg, 16 bytes, and attributes: the path, and struct unix_diag_rqlen (waiting, backlog).
fn listener(payload: &[u8]) -> Option<(String, Queue)> {
    let (mut path, mut queue) = (None, None);
    for (kind, value) in attributes(payload.get(16..)?) {
        match kind {
            UNIX_DIAG_NAME => path = Some(text(value)).filter(|path| !path.is_empty()),
            UNIX_DIAG_RQLEN => queue = Some(Queue { waiting: u32_at(value, 0)?, backlog: u32_at(value, 4)? }),
            _ => {}
        }
    }
    path.zip(queue)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn tells_who_waits_at_a_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.sock");
        let server = UnixListener::bind(&path).unwrap();
        let mut clients: Vec<UnixStream> = (0..3).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let waiting = || {
            let mut facts = Facts::new("web", 0);
            facts.begin(0);
            UnixListeners::new().read(&mut facts, 0);
            let path = path.to_str().unwrap();
            let sample = facts.take_samples().remove(0);
            let one = |name| sample.values.iter().find(|v| v.0 == name && v.1 == path).map(|v| v.2);
            (one(m::UNIX_QUEUE.name), one(m::UNIX_BACKLOG.name).is_some_and(|backlog| backlog >= 3.0))
        };
        assert_eq!(waiting(), (Some(3.0), true));
        server.accept().unwrap();
        assert_eq!(waiting(), (Some(2.0), true));
        clients.clear();
        drop(server);
        assert_eq!(waiting(), (None, false));
    }

    #[test]
    fn the_fullest_are_told_and_those_without_a_path_are_not() {
        let queue = |waiting| Queue { waiting, backlog: 128 };
        let many = (0..40).map(|i| (format!("/run/{i}"), queue(i))).collect();
        let mut facts = Facts::new("web", 0);
        put(&mut facts, many);
        let told = facts.listing();
        assert_eq!(told.lines().count(), 2 * LISTENERS_MAX);
        assert!(told.contains("unix.queue [/run/39] 39") && !told.contains("/run/5]"), "{told}");
        let mut message = vec![0u8; 16];
        message.extend([12, 0, 4, 0, 7, 0, 0, 0, 128, 0, 0, 0]);
        assert_eq!(listener(&message), None, "no path");
        message.extend([8, 0, 0, 0, 0, b'a', b'b', b'c']);
        assert_eq!(listener(&message), None, "an abstract name");
        message.extend([6, 0, 0, 0, b'/', b'a', 0, 0]);
        assert_eq!(listener(&message), Some(("/a".to_string(), queue(7))));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = listener(&bytes);
        }
    }
}
