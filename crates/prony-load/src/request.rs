//! What is sent: requests rendered to bytes once, and the choice among them.
//!
//! It does no IO. Invariant: choosing a request neither allocates nor renders.

use crate::error::LoadError;
use crate::target::Target;
use prony_model::{LoadPlan, RequestSpec};
use prony_stats::random::Random;

/// Most memory for rendered requests. A guess: leaves room on a machine of 1 GiB.
const RENDERED_BYTES_MAX: usize = 256 * 1024 * 1024;

/// A request as it goes on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Head and body.
    pub bytes: Box<[u8]>,
    /// Whether it is a HEAD request, whose response has no body.
    pub head: bool,
}

/// Every request of a load.
#[derive(Clone, Debug)]
pub struct Requests {
    /// In the order of the plan.
    pub list: Vec<Request>,
    /// Sums of the weights, scaled to 1; empty when all weights are equal.
    cumulative: Vec<f64>,
}

impl Requests {
    /// Renders the requests of a plan.
    ///
    /// # Errors
    /// [`LoadError::Plan`] for what would not be HTTP, for weights that cannot be, and for too many bytes.
    pub fn render(plan: &LoadPlan, target: &Target) -> Result<Self, LoadError> {
        let own = [RequestSpec {
            path: target.path.clone(),
            weight: 1.0,
            method: None,
            headers: Default::default(),
            body: None,
        }];
        let specs = if plan.requests.is_empty() { &own[..] } else { &plan.requests };
        let mut list = Vec::with_capacity(specs.len());
        let mut bytes = 0;
        for spec in specs {
            let request = render_one(plan, target, spec)?;
            bytes += request.bytes.len();
            if bytes > RENDERED_BYTES_MAX {
                let why = format!(
                    "{} requests need more than 256 MiB of memory: use fewer paths or a smaller body",
                    specs.len()
                );
                return Err(LoadError::Plan { item: "workload.requests".to_string(), why });
            }
            list.push(request);
        }
        Ok(Self { list, cumulative: cumulative(specs)? })
    }
}

/// Chooses requests: equal weights in turn, others at random by weight. One per thread.
pub struct Choice {
    next: usize,
    random: Random,
}

impl Choice {
    /// Begins in turn with the request number `first`, modulo their number.
    pub fn new(first: usize, seed: u64) -> Self {
        Self { next: first, random: Random::new(seed) }
    }

    /// The index of the next request.
    #[inline]
    pub fn choose(&mut self, among: &Requests) -> u32 {
        let count = among.list.len();
        if count == 1 {
            return 0;
        }
        if among.cumulative.is_empty() {
            let index = self.next % count;
            self.next = index + 1;
            return index as u32;
        }
        let point = self.random.uniform();
        among.cumulative.partition_point(|sum| *sum <= point).min(count - 1) as u32
    }
}

fn cumulative(specs: &[RequestSpec]) -> Result<Vec<f64>, LoadError> {
    let total: f64 = specs.iter().map(|s| s.weight).sum();
    if let Some(spec) = specs.iter().find(|s| !s.weight.is_finite() || s.weight < 0.0 || total <= 0.0) {
        let why = format!("{} has weight {}: weights are 0 or more, and not all 0", spec.path, spec.weight);
        return Err(LoadError::Plan { item: "workload.requests.weight".to_string(), why });
    }
    if specs.iter().all(|s| s.weight == specs[0].weight) {
        return Ok(Vec::new());
    }
    let sums = specs.iter().scan(0.0, |sum, s| {
        *sum += s.weight / total;
        Some(*sum)
    });
    Ok(sums.collect())
}

fn render_one(plan: &LoadPlan, target: &Target, spec: &RequestSpec) -> Result<Request, LoadError> {
    let method = spec.method.as_deref().unwrap_or(&plan.method);
    let body = spec.body.as_ref().map_or(plan.body.as_slice(), |b| b.as_bytes());
    check_token("workload.method", method)?;
    if !spec.path.starts_with('/') || spec.path.bytes().any(|b| b <= b' ' || b >= 0x7f) {
        let why = format!("{:?} is not a path: it begins with `/`, and other bytes are written as %XX", spec.path);
        return Err(LoadError::Plan { item: "workload.requests.path".to_string(), why });
    }
    let mut headers: Vec<(&str, &str)> = Vec::new();
    let shared = plan.headers.iter().map(|(n, v)| (n.as_str(), v.as_str()));
    // A request's own header replaces the workload's of the same name.
    headers.extend(shared.filter(|(name, _)| !spec.headers.keys().any(|own| own.eq_ignore_ascii_case(name))));
    headers.extend(spec.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())));
    for (name, value) in &headers {
        check_token("workload.headers", name)?;
        if value.bytes().any(|b| b == b'\r' || b == b'\n' || b == 0) {
            let why = format!("the value of `{name}` holds a line end, which would end the header");
            return Err(LoadError::Plan { item: "workload.headers".to_string(), why });
        }
    }
    let missing = |name: &str| !headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
    let mut head = format!("{method} {} HTTP/1.1\r\n", spec.path);
    let mut push = |name: &str, value: &str| head.extend([name, ": ", value, "\r\n"]);
    if missing("host") {
        push("Host", &target.authority);
    }
    headers.iter().for_each(|(name, value)| push(name, value));
    let wants_length = !body.is_empty() || matches!(method, "POST" | "PUT" | "PATCH");
    if wants_length && missing("content-length") && missing("transfer-encoding") {
        push("Content-Length", &body.len().to_string());
    }
    if !plan.keepalive && missing("connection") {
        push("Connection", "close");
    }
    head.push_str("\r\n");
    let bytes = [head.as_bytes(), body].concat().into_boxed_slice();
    Ok(Request { bytes, head: method == "HEAD" })
}

/// A token of RFC 9110, 5.6.2: what methods and header names are made of.
fn check_token(item: &str, text: &str) -> Result<(), LoadError> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if !text.is_empty() && text.bytes().all(fits) {
        return Ok(());
    }
    let why = format!("{text:?} is not a word of HTTP: it is made of letters, digits and `-`");
    Err(LoadError::Plan { item: item.to_string(), why })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::check_url;
    use expect_test::{Expect, expect};

    fn spec(path: &str, weight: f64) -> RequestSpec {
        RequestSpec { path: path.into(), weight, method: None, headers: Default::default(), body: None }
    }

    fn check(change: impl FnOnce(&mut LoadPlan), want: Expect) {
        let mut plan = LoadPlan::to("http://s1:81/x");
        change(&mut plan);
        want.assert_eq(&match Requests::render(&plan, &check_url(&plan.url).unwrap()) {
            Ok(requests) => requests.list.iter().map(|r| String::from_utf8_lossy(&r.bytes).replace('\r', "")).collect(),
            Err(error) => error.to_string(),
        });
    }

    #[test]
    fn renders_requests() {
        check(
            |_| {},
            expect![[r#"
                GET /x HTTP/1.1
                Host: s1:81

            "#]],
        );
        check(
            |p| {
                p.keepalive = false;
                p.method = "POST".into();
                p.headers = vec![("X-A".into(), "1".into()), ("host".into(), "other".into())];
                p.requests = vec![RequestSpec {
                    headers: [("x-a".to_string(), "2".to_string())].into(),
                    body: Some("hello".into()),
                    ..spec("/p?q=1", 1.0)
                }];
            },
            expect![[r#"
                POST /p?q=1 HTTP/1.1
                host: other
                x-a: 2
                Content-Length: 5
                Connection: close

                hello"#]],
        );
    }

    #[test]
    fn refuses_what_would_not_be_http() {
        check(
            |p| p.requests = vec![spec("/a b", 1.0)],
            expect![[
                r#"`workload.requests.path`: "/a b" is not a path: it begins with `/`, and other bytes are written as %XX"#
            ]],
        );
        check(
            |p| p.headers = vec![("X".into(), "1\r\nY: 2".into())],
            expect!["`workload.headers`: the value of `X` holds a line end, which would end the header"],
        );
        check(
            |p| p.requests = vec![spec("/a", -1.0), spec("/b", 2.0)],
            expect!["`workload.requests.weight`: /a has weight -1: weights are 0 or more, and not all 0"],
        );
        check(
            |p| p.method = "G T".into(),
            expect![[r#"`workload.method`: "G T" is not a word of HTTP: it is made of letters, digits and `-`"#]],
        );
    }

    fn shares(weights: &[f64], draws: usize) -> Vec<usize> {
        let mut plan = LoadPlan::to("http://s1/");
        plan.requests = weights.iter().enumerate().map(|(i, w)| spec(&format!("/{i}"), *w)).collect();
        let requests = Requests::render(&plan, &check_url(&plan.url).unwrap()).unwrap();
        let mut choice = Choice::new(0, 11);
        let mut counts = vec![0; weights.len()];
        (0..draws).for_each(|_| counts[choice.choose(&requests) as usize] += 1);
        counts
    }

    #[test]
    fn equal_weights_come_in_turn_and_others_by_weight() {
        assert_eq!(shares(&[2.0, 2.0, 2.0], 300), [100, 100, 100]);
        let counts = shares(&[7.0, 0.0, 2.0, 1.0], 100_000);
        for (count, share) in counts.iter().zip([0.7, 0.0, 0.2, 0.1]) {
            let sigma = (100_000.0 * share * (1.0f64 - share)).sqrt();
            assert!((*count as f64 - 100_000.0 * share).abs() <= 4.0 * sigma, "{counts:?}");
        }
    }
}
