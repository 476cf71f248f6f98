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

/// As [`key_value`], but nothing when a request failed: an answer to another user counts as failed in a scenario.
pub fn without_errors(said: &str) -> Option<u64> {
    said.lines().any(|l| l == "errors 0").then(|| key_value(said))?
}

/// `http_reqs......................: 3276   1636.2/s`, and nothing unless `http_req_failed......: 0.00%  0 out of 3276`.
pub fn k6(said: &str) -> Option<u64> {
    let value = |key: &str| {
        let (name, value) = said.lines().find_map(|l| l.trim().split_once(": ").filter(|(n, _)| n.starts_with(key)))?;
        name[key.len()..].chars().all(|c| c == '.').then(|| value.split_whitespace())
    };
    value("http_req_failed")?.nth(1).filter(|failed| *failed == "0")?;
    value("http_reqs")?.next()?.parse().ok()
}

/// `unavailable io_uring_setup: Operation not permitted`: a fixture that needs more than this kernel gives.
pub fn unavailable(said: &str) -> Option<&str> {
    said.lines().find_map(|l| l.strip_prefix("unavailable "))
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
        assert_eq!(
            (without_errors("responses 12\nerrors 0\n"), without_errors("responses 12\nerrors 1\n")),
            (Some(12), None)
        );
        let k6_said = |failed| {
            format!(
                "    checks_failed......: 0.00%   0 out of 2184\n    http_req_failed......: 0.00%  {failed} out of 3276\n\
                     \u{20}   http_reqs............: 3276   1636.2/s\n"
            )
        };
        assert_eq!((k6(&k6_said("0")), k6(&k6_said("1")), k6("")), (Some(3276), None, None));
        assert_eq!(unavailable("unavailable io_uring_setup: No\n"), Some("io_uring_setup: No"));
    }
}
