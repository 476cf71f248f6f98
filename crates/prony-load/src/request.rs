//! What is sent: requests encoded once, and the choice among them.
//!
//! It does no IO. Invariant: choosing a request neither allocates nor encodes.

use crate::error::LoadError;
use crate::protocol::{Encoded, Message, Protocol};
use crate::target::Target;
use prony_model::{LoadPlan, RequestSpec};
use prony_stats::random::Random;

/// Most memory for encoded requests. A guess: leaves room on a machine of 1 GiB.
const ENCODED_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Every request of a load, ready to be sent.
#[derive(Clone, Debug)]
pub struct Requests {
    /// In the order of the plan.
    pub list: Vec<Encoded>,
    /// How often each.
    pub mix: Mix,
}

/// How often each of several things is chosen.
#[derive(Clone, Debug)]
pub struct Mix {
    count: usize,
    /// Sums of the weights, scaled to 1; empty when all weights are equal.
    cumulative: Vec<f64>,
}

impl Requests {
    /// Encodes the requests of a plan.
    ///
    /// # Errors
    /// [`LoadError::Plan`] for what would not be HTTP, for weights that cannot be, and for too many bytes.
    pub fn encode(plan: &LoadPlan, target: &Target, protocol: &impl Protocol) -> Result<Self, LoadError> {
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
            let mut encoded = Encoded::default();
            protocol.encode(&message(plan, target, spec)?, &mut encoded);
            encoded.bytes.shrink_to_fit();
            bytes += encoded.bytes.len();
            if bytes > ENCODED_BYTES_MAX {
                let why = format!(
                    "{} requests need more than 256 MiB of memory: use fewer paths or a smaller body",
                    specs.len()
                );
                return Err(LoadError::Plan { item: "workload.requests".to_string(), why });
            }
            list.push(encoded);
        }
        Ok(Self { list, mix: Mix::of(specs)? })
    }
}

/// Chooses requests: equal weights in turn, others at random by weight. One per thread.
pub struct Choice {
    next: usize,
    step: usize,
    random: Random,
}

impl Choice {
    /// Begins in turn with the request number `first`, modulo their number.
    pub fn new(first: usize, seed: u64) -> Self {
        Self { next: first, step: 1, random: Random::new(seed) }
    }

    /// Takes every `step`-th request in turn, beginning with the request number `first`: the part of a replay that goes with
    /// the times of one thread.
    pub fn every(first: usize, step: usize, seed: u64) -> Self {
        Self { next: first, step, random: Random::new(seed) }
    }

    /// The index of the next request.
    #[inline]
    pub fn choose(&mut self, among: &Mix) -> u32 {
        let count = among.count;
        if count == 1 {
            return 0;
        }
        if among.cumulative.is_empty() {
            let index = self.next % count;
            self.next = index + self.step;
            return index as u32;
        }
        let point = self.random.uniform();
        among.cumulative.partition_point(|sum| *sum <= point).min(count - 1) as u32
    }
}

impl Mix {
    /// Only one thing: nothing to choose.
    pub const ONE: Self = Self { count: 1, cumulative: Vec::new() };

    /// The weights of requests.
    ///
    /// # Errors
    /// [`LoadError::Plan`] for weights that cannot be.
    pub fn of(specs: &[RequestSpec]) -> Result<Self, LoadError> {
        let total: f64 = specs.iter().map(|s| s.weight).sum();
        if let Some(spec) = specs.iter().find(|s| !s.weight.is_finite() || s.weight < 0.0 || total <= 0.0) {
            let why = format!("{} has weight {}: weights are 0 or more, and not all 0", spec.path, spec.weight);
            return Err(LoadError::Plan { item: "workload.requests.weight".to_string(), why });
        }
        let count = specs.len();
        if specs.iter().all(|s| s.weight == specs[0].weight) {
            return Ok(Self { count, cumulative: Vec::new() });
        }
        let sums = specs.iter().scan(0.0, |sum, s| {
            *sum += s.weight / total;
            Some(*sum)
        });
        Ok(Self { count, cumulative: sums.collect() })
    }
}

/// What all requests of a plan begin with: authority and headers of the workload.
pub fn common(plan: &LoadPlan, target: &Target) -> Message {
    Message {
        authority: target.authority.clone(),
        secure: target.secure,
        headers: plan.headers.clone(),
        ..Message::default()
    }
}

/// What a request says, whatever protocol carries it.
///
/// # Errors
/// [`LoadError::Plan`] for what would not be HTTP.
pub fn message(plan: &LoadPlan, target: &Target, spec: &RequestSpec) -> Result<Message, LoadError> {
    let method = spec.method.as_deref().unwrap_or(&plan.method);
    let body = spec.body.as_ref().map_or(plan.body.as_slice(), |b| b.as_bytes());
    check_token("workload.method", method)?;
    if !spec.path.starts_with('/') || spec.path.bytes().any(|b| b <= b' ' || b >= 0x7f) {
        let why = format!("{:?} is not a path: it begins with `/`, and other bytes are written as %XX", spec.path);
        return Err(LoadError::Plan { item: "workload.requests.path".to_string(), why });
    }
    // A request's own header replaces the workload's of the same name.
    let replaced = |name: &String| spec.headers.keys().any(|own| own.eq_ignore_ascii_case(name));
    let mut headers: Vec<(String, String)> = plan.headers.iter().filter(|(name, _)| !replaced(name)).cloned().collect();
    headers.extend(spec.headers.iter().map(|(n, v)| (n.clone(), v.clone())));
    for (name, value) in &headers {
        check_token("workload.headers", name)?;
        if value.bytes().any(|b| b == b'\r' || b == b'\n' || b == 0) {
            let why = format!("the value of `{name}` holds a line end, which would end the header");
            return Err(LoadError::Plan { item: "workload.headers".to_string(), why });
        }
    }
    Ok(Message {
        method: method.to_string(),
        path: spec.path.clone(),
        authority: target.authority.clone(),
        secure: target.secure,
        headers,
        body: body.to_vec(),
    })
}

/// A token of RFC 9110, 5.6.2: what methods and header names are made of.
pub fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

fn check_token(item: &str, text: &str) -> Result<(), LoadError> {
    if is_token(text) {
        return Ok(());
    }
    let why = format!("{text:?} is not a word of HTTP: it is made of letters, digits and `-`");
    Err(LoadError::Plan { item: item.to_string(), why })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::Http1;
    use crate::target::check_url;
    use expect_test::{Expect, expect};

    fn spec(path: &str, weight: f64) -> RequestSpec {
        RequestSpec { path: path.into(), weight, method: None, headers: Default::default(), body: None }
    }

    fn check(change: impl FnOnce(&mut LoadPlan), want: Expect) {
        let mut plan = LoadPlan::to("http://s1:81/x");
        change(&mut plan);
        let http = Http1::new(1, !plan.keepalive);
        want.assert_eq(&match Requests::encode(&plan, &check_url(&plan.url).unwrap(), &http) {
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
        let requests = Requests::encode(&plan, &check_url(&plan.url).unwrap(), &Http1::new(1, false)).unwrap();
        let mut choice = Choice::new(0, 11);
        let mut counts = vec![0; weights.len()];
        (0..draws).for_each(|_| counts[choice.choose(&requests.mix) as usize] += 1);
        counts
    }

    #[test]
    fn threads_of_a_replay_take_turns() {
        let mix = Mix { count: 5, cumulative: Vec::new() };
        let part = |number| {
            let mut choice = Choice::every(number, 2, 1);
            (0..3).map(|_| choice.choose(&mix)).collect::<Vec<_>>()
        };
        assert_eq!((part(0), part(1)), (vec![0, 2, 4], vec![1, 3, 0]));
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
