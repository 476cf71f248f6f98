//! The counted time as CSV (RFC 4180), a line per interval of about a second.
//!
//! Numbers are written in full; an empty field is what was not measured in that interval.

use prony_model::{LoadInterval, LoadResult};

const HEADER: &str =
    "time_s,duration_s,intended,sent,completed,failed,completed_per_s,mean_us,p50_us,p90_us,p99_us,p999_us,max_us\n";

/// A line per interval; of a result without intervals only the answers in each whole second.
pub fn csv(result: &LoadResult) -> String {
    let mut out = String::from(HEADER);
    if result.intervals.is_empty() {
        let second = |(s, completed): (usize, &u64)| format!("{s},1,,,{completed},,{completed},,,,,,\n");
        out.extend(result.per_second.iter().enumerate().map(second));
    } else {
        out.extend(result.intervals.iter().map(line));
    }
    out
}

fn line(interval: &LoadInterval) -> String {
    let seconds = interval.to.since(interval.from).as_secs_f64();
    let per_s = if seconds > 0.0 { (interval.completed as f64 / seconds).to_string() } else { String::new() };
    let counts = [interval.intended, interval.sent, interval.completed, interval.failed].map(|n| n.to_string());
    let l = &interval.latency;
    let latencies = [l.mean_us, l.p50_us, l.p90_us, l.p99_us, l.p999_us, l.max_us];
    let latencies = latencies.map(|us| if l.count > 0 { us.to_string() } else { String::new() });
    let from = interval.from.as_secs_f64();
    format!("{from},{seconds},{},{per_s},{}\n", counts.join(","), latencies.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_output::sample;
    use expect_test::expect;

    #[test]
    fn a_line_per_interval() {
        let text = csv(&sample::result());
        expect![[r#"
            time_s,duration_s,intended,sent,completed,failed,completed_per_s,mean_us,p50_us,p90_us,p99_us,p999_us,max_us
            0,1,101,101,100,0,100,50499.19744000001,50003.967,90046.463,99024.895,100007.935,100007.935
            1,1,101,101,100,1,100,50499.19744000001,50003.967,90046.463,99024.895,100007.935,100007.935
            2,1,101,101,100,2,100,50499.19744000001,50003.967,90046.463,99024.895,100007.935,100007.935
            3,1,101,101,0,3,0,,,,,,
        "#]]
        .assert_eq(&text);
        let fields = text.lines().map(|line| line.split(',').count());
        assert!(fields.eq([13; 5]), "{text}");
    }

    #[test]
    fn without_intervals_what_is_not_known_is_empty() {
        let mut result = sample::result();
        result.intervals.clear();
        let text = csv(&result);
        expect![[r#"
            time_s,duration_s,intended,sent,completed,failed,completed_per_s,mean_us,p50_us,p90_us,p99_us,p999_us,max_us
            0,1,,,100,,100,,,,,,
            1,1,,,100,,100,,,,,,
            2,1,,,100,,100,,,,,,
            3,1,,,0,,0,,,,,,
        "#]]
        .assert_eq(&text);
        assert!(text.lines().all(|line| line.split(',').count() == 13));
    }
}
