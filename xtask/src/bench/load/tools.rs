//! What each generator says of its number of responses.

/// `responses N`, as the fixtures and the example of the engine print.
pub fn key_value(said: &str) -> Option<u64> {
    said.lines().find_map(|l| l.strip_prefix("responses "))?.trim().parse().ok()
}

/// `  44845 requests in 1.01s, 4.96MB read`
pub fn wrk(said: &str) -> Option<u64> {
    said.lines().find_map(|l| l.trim().split_once(" requests in "))?.0.parse().ok()
}

/// `Complete requests:      20000`
pub fn ab(said: &str) -> Option<u64> {
    said.lines().find_map(|l| l.strip_prefix("Complete requests:"))?.trim().parse().ok()
}

/// `requests: 34140 total, 34156 started, 34140 done, 34140 succeeded, ...`
pub fn h2load(said: &str) -> Option<u64> {
    let line = said.lines().find_map(|l| l.strip_prefix("requests: "))?;
    line.split(", ").find_map(|part| part.strip_suffix(" succeeded"))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_each_generator_says() {
        assert_eq!(key_value("responses 12\ncpu_us_per_request 4\n"), Some(12));
        assert_eq!(wrk("Running 1s\n  44845 requests in 1.01s, 4.96MB read\n"), Some(44845));
        assert_eq!(ab("Complete requests:      20000\nFailed requests:        0\n"), Some(20000));
        assert_eq!(h2load("requests: 5 total, 6 started, 4 done, 3 succeeded, 0 failed\n"), Some(3));
        assert_eq!(wrk("unable to connect"), None);
    }
}
