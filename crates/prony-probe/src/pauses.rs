//! Stretches in which a host sends nothing: a counter that is looked at every few milliseconds.
//!
//! Knows no reason for them: little load makes them too. Invariant: a stretch counts only from one growth of the
//! counter to the next, and only as far as it was looked at: a machine that stands still as a whole is no pause of the host.

use crate::facts::Facts;
use prony_model::metric as m;
use std::time::Duration;

/// Shorter stretches are the pace of the load, or of delayed acknowledgements (40 ms).
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// Of a longer time between two looks only this much was looked at: the looking thread did not run either. A guess: it wants to look
/// every 10 ms.
const UNSEEN: Duration = Duration::from_millis(20);

/// Collects stretches. Times are those since the start of the look.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    /// What was sent when it last grew.
    sent: Option<f64>,
    /// Looked at since then.
    still: Duration,
    begun: bool,
    paused: Duration,
    longest: Duration,
    last: Duration,
}

impl Pauses {
    pub(crate) fn see(&mut self, at: Duration, sent: f64) {
        self.still += at.saturating_sub(self.last).min(UNSEEN);
        self.last = at;
        let grown = self.sent.is_some_and(|before| sent > before);
        if grown && self.still >= PAUSE_MIN {
            self.paused += self.still;
            self.longest = self.longest.max(self.still);
        }
        if grown || self.sent.is_none() {
            (self.sent, self.still) = (Some(sent), Duration::ZERO);
        }
        self.begun |= grown;
    }

    /// Nothing when the host never sent: then there was no load to pause.
    pub(crate) fn put(&self, facts: &mut Facts) {
        if self.begun && !self.last.is_zero() {
            facts.put(&m::LOOK_PAUSED, "", self.paused.as_secs_f64() / self.last.as_secs_f64());
            facts.put(&m::LOOK_PAUSE_LONGEST, "", self.longest.as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(growths_ms: &[u64]) -> String {
        let mut pauses = Pauses::default();
        let mut sent = 0.0;
        for ms in (0..=1000).step_by(10) {
            sent += f64::from(u8::from(growths_ms.contains(&ms)));
            pauses.see(Duration::from_millis(ms), sent);
        }
        let mut facts = Facts::new("app", 0);
        pauses.put(&mut facts);
        facts.listing()
    }

    #[test]
    fn stretches_are_counted_from_growth_to_growth() {
        let steady: Vec<u64> = (0..=1000).step_by(10).collect();
        assert_eq!(told(&steady), "look.paused [] 0\nlook.pause_longest [] 0\n");
        let paused: Vec<u64> = steady.iter().copied().filter(|ms| !(310..400).contains(ms)).collect();
        assert_eq!(told(&paused), "look.paused [] 0.1\nlook.pause_longest [] 0.1\n");
        assert_eq!(told(&[]), "", "no load");
        let mut stalled = Pauses::default();
        for ms in (0..=300).step_by(10).chain((700..=1000).step_by(10)) {
            stalled.see(Duration::from_millis(ms), ms as f64);
        }
        assert_eq!((stalled.paused, stalled.longest), (Duration::ZERO, Duration::ZERO), "nobody looked for 400 ms");
        let every_40: Vec<u64> = (0..=1000).step_by(40).collect();
        assert_eq!(told(&every_40), "look.paused [] 0\nlook.pause_longest [] 0\n");
    }
}
