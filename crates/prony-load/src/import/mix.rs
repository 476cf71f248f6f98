//! Counts how often each request was asked for, within bounded memory.
//!
//! Invariant: however many different requests there are, at most [`DISTINCT_MAX`] of them, and [`MEMORY_BYTES_MAX`]
//! bytes, are remembered. Where that does not suffice, rare ones are forgotten, as in "lossy counting" (Manku and
//! Motwani, 2002).

use prony_model::RequestSpec;
use std::collections::{BTreeMap, HashMap};

/// Most different requests that are counted at a time. A guess: 40 times as many as are kept; the table for them takes
/// 59 MB.
const DISTINCT_MAX: usize = 400_000;
/// Most memory for what is counted, without the table's free places. A guess: half of what the rendered requests of a
/// load may take.
const MEMORY_BYTES_MAX: usize = 128 << 20;
/// What a map with headers takes besides their text: a node of 11 pairs of `String`, its least.
const HEADERS_BYTES: usize = 11 * 48;

/// A request as it was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    /// None: GET.
    pub method: Option<String>,
    /// Path and query.
    pub path: String,
    /// Headers.
    pub headers: BTreeMap<String, String>,
    /// Body.
    pub body: Option<String>,
}

impl Asked {
    /// The method as an [`Asked`] holds it.
    pub fn method(name: &str) -> Option<String> {
        (name != "GET").then(|| name.to_string())
    }

    /// Memory that it takes, to within what an allocator rounds up.
    pub fn bytes(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let node = if self.headers.is_empty() { 0 } else { HEADERS_BYTES };
        let texts = [&self.method, &self.body].into_iter().flatten().map(String::len).sum::<usize>();
        size_of::<Self>() + self.path.len() + texts + headers + node
    }

    /// As a workload has it.
    pub fn spec(self, weight: f64) -> RequestSpec {
        let Self { method, path, headers, body } = self;
        RequestSpec { path, weight, method, headers, body }
    }
}

/// How often each request was asked for.
#[derive(Debug, Default)]
pub(super) struct Mix {
    seen: HashMap<Asked, Seen>,
    bytes: usize,
    total: u64,
    forgotten: bool,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    count: u64,
    /// Number of the request that was the first of its kind: orders what is equally frequent.
    first: u64,
}

/// The most frequent requests.
#[derive(Debug)]
pub(super) struct Frequent {
    /// From frequent to rare; the weight is the count.
    pub requests: Vec<RequestSpec>,
    /// How many were asked for besides those.
    pub left_out: u64,
    /// Whether rare requests were forgotten on the way, so that counts may be too low.
    pub forgotten: bool,
}

impl Mix {
    /// Counts one request.
    pub fn count(&mut self, asked: Asked) {
        let first = self.total;
        self.total += 1;
        if let Some(seen) = self.seen.get_mut(&asked) {
            seen.count += 1;
            return;
        }
        let bytes = asked.bytes();
        if self.seen.len() >= DISTINCT_MAX || self.bytes + bytes > MEMORY_BYTES_MAX {
            self.forget_rare(DISTINCT_MAX / 2, MEMORY_BYTES_MAX / 2);
        }
        self.bytes += bytes;
        self.seen.insert(asked, Seen { count: 1, first });
    }

    /// Forgets the rarest until no more than so many, and so many bytes, are left.
    fn forget_rare(&mut self, distinct_max: usize, bytes_max: usize) {
        self.forgotten = true;
        let mut rare = 1;
        while self.seen.len() > distinct_max || self.bytes > bytes_max {
            self.seen.retain(|_, seen| seen.count > rare);
            self.bytes = self.seen.keys().map(Asked::bytes).sum();
            rare = rare.saturating_mul(2);
        }
    }

    /// The `most` most frequent.
    pub fn frequent(self, most: usize) -> Frequent {
        let mut sorted: Vec<(Asked, Seen)> = self.seen.into_iter().collect();
        sorted.sort_unstable_by_key(|(_, seen)| (std::cmp::Reverse(seen.count), seen.first));
        sorted.truncate(most);
        let kept: u64 = sorted.iter().map(|(_, seen)| seen.count).sum();
        let requests = sorted.into_iter().map(|(asked, seen)| asked.spec(seen.count as f64)).collect();
        Frequent { requests, left_out: self.total - kept, forgotten: self.forgotten }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(path: &str) -> Asked {
        Asked { path: path.to_string(), ..Asked::default() }
    }

    #[test]
    fn keeps_the_most_frequent() {
        let mut mix = Mix::default();
        ["/a", "/b", "/c", "/b", "/c", "/d"].iter().for_each(|path| mix.count(asked(path)));
        let frequent = mix.frequent(3);
        let kept: Vec<_> = frequent.requests.iter().map(|r| (r.path.as_str(), r.weight)).collect();
        assert_eq!(kept, [("/b", 2.0), ("/c", 2.0), ("/a", 1.0)]);
        assert_eq!((frequent.left_out, frequent.forgotten), (1, false));
    }

    #[test]
    fn what_differs_is_counted_apart() {
        let mut mix = Mix::default();
        mix.count(asked("/a"));
        mix.count(Asked { method: Asked::method("POST"), ..asked("/a") });
        mix.count(Asked { headers: [("host".to_string(), "x".to_string())].into(), ..asked("/a") });
        mix.count(Asked { body: Some(String::new()), ..asked("/a") });
        mix.count(Asked { method: Asked::method("GET"), ..asked("/a") });
        assert_eq!(mix.frequent(9).requests.iter().map(|r| r.weight).collect::<Vec<_>>(), [2.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn the_rare_are_forgotten_first() {
        let mut mix = Mix::default();
        (0..10).for_each(|_| mix.count(asked("/often")));
        (0..3).for_each(|_| mix.count(asked("/sometimes")));
        (0..50).for_each(|n| mix.count(asked(&format!("/{n}"))));
        mix.forget_rare(10, usize::MAX);
        assert_eq!((mix.seen.len(), mix.bytes), (2, 2 * size_of::<Asked>() + "/often/sometimes".len()));
        mix.forget_rare(1, usize::MAX);
        let frequent = mix.frequent(9);
        assert_eq!(frequent.requests, [asked("/often").spec(10.0)]);
        assert_eq!((frequent.left_out, frequent.forgotten), (53, true));
    }

    #[test]
    fn memory_is_bounded() {
        let mut mix = Mix::default();
        for n in 0..300 {
            mix.count(asked(&format!("/{n}/{}", "x".repeat(1 << 20))));
            assert!(mix.bytes <= MEMORY_BYTES_MAX);
        }
        assert_eq!(mix.total, 300);
    }
}
