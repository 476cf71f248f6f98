//! The interval of a search while it closes.

use crate::number;
use prony_model::Event;

/// What a search knows of its answer by now, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closing {
    /// Which answer, and its interval: `limit 23,900 to 24,500/s, width 2.4 %`.
    pub interval: String,
    /// What it took: `9 trials, 41 of 90 s`.
    pub time: String,
}

impl Closing {
    /// From [`Event::Narrowed`]; none from other events.
    pub fn of(event: &Event) -> Option<Self> {
        let Event::Narrowed { answer, low, high, unit, trials, spent_s, budget_s } = event else { return None };
        let interval = match (low, high) {
            (Some(low), Some(high)) => {
                let width = (*high > 0.0).then(|| format!(", width {:.1} %", (high - low) / high * 100.0));
                format!("{} to {}{unit}{}", number::rate(*low), number::rate(*high), width.unwrap_or_default())
            }
            (Some(low), None) => format!("at least {}{unit}", number::rate(*low)),
            (None, Some(high)) => format!("below {}{unit}", number::rate(*high)),
            (None, None) => "not yet known".to_string(),
        };
        let time = format!("{trials} trials, {spent_s:.0} of {budget_s:.0} s");
        Some(Self { interval: format!("{answer} {interval}"), time })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_an_answer_is_said_in_words() {
        let event = |low, high| Event::Narrowed {
            answer: "limit".into(),
            low,
            high,
            unit: "/s".into(),
            trials: 9,
            spent_s: 41.3,
            budget_s: 90.0,
        };
        let said = |low, high| Closing::of(&event(low, high)).unwrap_or_default().interval;
        assert_eq!(said(Some(23_900.0), Some(24_500.0)), "limit 23,900 to 24,500/s, width 2.4 %");
        assert_eq!(said(Some(800.0), None), "limit at least 800/s");
        assert_eq!(said(None, Some(800.0)), "limit below 800/s");
        assert_eq!(said(None, None), "limit not yet known");
        assert_eq!(Closing::of(&event(None, None)).unwrap_or_default().time, "9 trials, 41 of 90 s");
        assert_eq!(Closing::of(&Event::Note { text: "x".into() }), None);
    }
}
