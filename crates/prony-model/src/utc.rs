//! A moment as a date and a time of day. Reads no clock; knows no time zones, and no leap seconds, as Unix time does not.

use std::fmt;

/// A moment in UTC, to the second. Text: `2026-11-20 23:15:01 UTC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Utc {
    /// Year of the Gregorian calendar.
    pub year: u64,
    /// 1 to 12.
    pub month: u64,
    /// 1 to 31.
    pub day: u64,
    /// 0 to 23.
    pub hour: u64,
    /// 0 to 59.
    pub minute: u64,
    /// 0 to 59.
    pub second: u64,
}

impl Utc {
    /// From milliseconds since 1970. Days to date by Howard Hinnant's `civil_from_days` (chrono-compatible low-level date
    /// algorithms): years begin in March, so that the leap day is the last.
    pub fn from_unix_ms(unix_ms: u64) -> Self {
        let seconds = unix_ms / 1000;
        let days = seconds / 86_400 + 719_468; // since the first of March of the year 0
        let (era, day_of_era) = (days / 146_097, days % 146_097); // 400 years have 146,097 days
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        Self {
            year: year_of_era + era * 400 + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
            hour: seconds / 3600 % 24,
            minute: seconds / 60 % 60,
            second: seconds % 60,
        }
    }
}

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { year, month, day, hour, minute, second } = self;
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(unix_s: u64, want: &str) {
        assert_eq!(Utc::from_unix_ms(unix_s * 1000 + 999).to_string(), want);
    }

    #[test]
    fn knows_the_calendar() {
        check(0, "1970-01-01 00:00:00 UTC");
        check(951_782_399, "2000-02-28 23:59:59 UTC");
        check(951_782_400, "2000-02-29 00:00:00 UTC");
        check(1_795_217_701, "2026-11-20 23:35:01 UTC");
        check(4_107_542_400, "2100-03-01 00:00:00 UTC");
    }

    proptest! {
        #[test]
        fn days_follow_each_other(day in 0u64..100_000) {
            let (today, tomorrow) = (Utc::from_unix_ms(day * 86_400_000), Utc::from_unix_ms((day + 1) * 86_400_000));
            let (date, next) = ((today.year, today.month, today.day), (tomorrow.year, tomorrow.month, tomorrow.day));
            let follows = next == (date.0, date.1, date.2 + 1)
                || (next == (date.0, date.1 + 1, 1) && date.2 >= 28)
                || (date.1 == 12 && next == (date.0 + 1, 1, 1) && date.2 == 31);
            prop_assert!(follows && today < tomorrow && (1..=31).contains(&date.2), "{} then {}", today, tomorrow);
        }
    }
}
