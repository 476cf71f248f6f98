//! What the kernel tells of one TCP connection in struct tcp_info, as far as it is used.
//!
//! Kernels append fields: what an older one does not have is none. Invariant: no figure stands for a missing field.

use crate::netlink::{u32_at, u64_at};

/// Retransmissions in a row without an answer, from which a connection is stuck. Three in a row by accident are one in
/// a million at a loss of 1 %, and 0.2 + 0.4 + 0.8 s have passed.
const BACKOFF_STUCK: u8 = 3;

/// The fields of tcp_info that are used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Info {
    pub(crate) sent_ms_ago: u32,
    pub(crate) received_ms_ago: u32,
    pub(crate) rtt_us: u32,
    pub(crate) retransmits: u32,
    /// Segments with data that it sent; none on kernels before 4.6.
    pub(crate) sent: Option<u32>,
    /// The same of those that it received.
    pub(crate) received: Option<u32>,
    pub(crate) backoff: u8,
    pub(crate) segment_bytes: u32,
    pub(crate) unacknowledged: u32,
    pub(crate) window: u32,
    pub(crate) not_sent_bytes: Option<u32>,
    /// None until there was a sample.
    pub(crate) min_rtt_us: Option<u32>,
    /// Microseconds in which it had data to send and the receiver no room; since Linux 4.9.
    pub(crate) window_limited_us: Option<u64>,
    /// The same with a full send buffer.
    pub(crate) buffer_limited_us: Option<u64>,
}

impl Info {
    /// Offsets of struct tcp_info (include/uapi/linux/tcp.h): fields are only ever added at its end.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            sent_ms_ago: u32_at(bytes, 44)?,
            received_ms_ago: u32_at(bytes, 52)?,
            rtt_us: u32_at(bytes, 68)?,
            retransmits: u32_at(bytes, 100)?,
            sent: u32_at(bytes, 156),
            received: u32_at(bytes, 152),
            backoff: *bytes.get(4)?,
            segment_bytes: u32_at(bytes, 16)?,
            unacknowledged: u32_at(bytes, 24)?,
            window: u32_at(bytes, 80)?,
            not_sent_bytes: u32_at(bytes, 144),
            min_rtt_us: u32_at(bytes, 148).filter(|us| *us != u32::MAX),
            window_limited_us: u64_at(bytes, 176),
            buffer_limited_us: u64_at(bytes, 184),
        })
    }

    /// Its data is lost again and again.
    pub(crate) fn stuck(&self) -> bool {
        self.backoff >= BACKOFF_STUCK
    }

    /// It could send, but holds back less than a full segment until what it sent is acknowledged: Nagle's algorithm.
    pub(crate) fn held(&self) -> bool {
        let small = self.not_sent_bytes.is_some_and(|bytes| bytes > 0 && bytes < self.segment_bytes);
        small && self.unacknowledged > 0 && self.unacknowledged < self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn info(words: &[(usize, u32)], len: usize) -> Info {
        let mut bytes = vec![0u8; len];
        for (at, value) in words {
            bytes[*at..*at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        Info::of(&bytes).unwrap()
    }

    #[test]
    fn fields_stand_where_the_kernel_puts_them() {
        let seen = info(&[(44, 1), (52, 2), (68, 3), (100, 4), (148, 5), (176, 6), (184, 7)], 248);
        assert_eq!((seen.sent_ms_ago, seen.received_ms_ago, seen.rtt_us, seen.retransmits), (1, 2, 3, 4));
        assert_eq!((seen.min_rtt_us, seen.window_limited_us, seen.buffer_limited_us), (Some(5), Some(6), Some(7)));
        let old = info(&[], 104);
        assert_eq!((old.min_rtt_us, old.window_limited_us), (None, None), "an older kernel");
        assert_eq!(info(&[(148, u32::MAX)], 248).min_rtt_us, None, "no sample yet");
    }

    #[test]
    fn nagle_holds_small_rests() {
        let sent = |rest: u32, unacknowledged: u32| {
            info(&[(16, 1448), (24, unacknowledged), (80, 10), (144, rest)], 248).held()
        };
        assert!(sent(200, 1));
        assert!(!sent(0, 1), "nothing is left");
        assert!(!sent(5_000, 1), "a full segment goes at once");
        assert!(!sent(200, 0), "nothing is under way");
        assert!(!sent(200, 10), "the congestion window holds it");
    }

    #[test]
    fn three_retransmissions_in_a_row_are_stuck() {
        assert!(info(&[(4, 3)], 104).stuck() && !info(&[(4, 2)], 104).stuck());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Info::of(&bytes).map(|info| (info.stuck(), info.held()));
        }
    }
}
