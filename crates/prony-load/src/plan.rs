//! From a stack to a load plan: what the person wrote, made explicit and self-contained.
//!
//! Pure but for the reader it is handed. Invariant: after this, no file is read and nothing is left to default.

use crate::error::LoadError;
use crate::target::check_url;
use prony_model::{LoadPlan, Protocol, RequestSpec, Stack};

/// Most paths that a pattern may stand for. A guess: enough to defeat any cache of small files.
const PATHS_MAX: u32 = 100_000;
/// Largest body that `body_bytes` makes. A guess: half of what rendered requests may take.
const BODY_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// Streams of a connection of HTTP/2 unless said otherwise. A guess: what a page loads at once; h2load's own default is 1.
const STREAMS: u32 = 10;
/// What a body of `body_bytes` is made of.
const FILLER: u8 = b'x';

/// The plan of a stack's workload at its entry. `read_file` reads the files that it names:
/// body, certificates, feeds.
/// Warm-up and duration are the defaults; the caller sets its own.
///
/// # Errors
/// [`LoadError::Url`], and [`LoadError::Plan`] that names the key.
pub fn plan_from(stack: &Stack, read_file: &dyn Fn(&str) -> std::io::Result<Vec<u8>>) -> Result<LoadPlan, LoadError> {
    check_url(&stack.entry)?;
    let workload = &stack.workload;
    if let Some(rate) = workload.rate.filter(|r| !r.0.is_finite() || r.0 <= 0.0) {
        return wrong(
            "workload.rate",
            format!("{rate} sends nothing: write more than 0, or leave it out for a closed loop"),
        );
    }
    if workload.requests_per_connection == Some(0) {
        return wrong("workload.requests_per_connection", "0 would send nothing: write 1 or more".to_string());
    }
    let cpus = stack.generator().and_then(|(_, host)| host.cpus.as_ref());
    let plan = LoadPlan::to(&stack.entry);
    let protocol = if workload.http2 { Protocol::Http2 } else { Protocol::Http1 };
    Ok(LoadPlan {
        protocol,
        depth: workload.depth.unwrap_or(if workload.http2 { STREAMS } else { plan.depth }),
        tls: crate::tls::plan_from(&workload.tls, read_file)?,
        connect_to: workload.connect_to.clone(),
        all_addresses: workload.all_addresses,
        sources: workload.sources.clone(),
        connect_rate: workload.connect_rate,
        profile: workload.profile.clone(),
        deadline: workload.deadline,
        script: crate::scenario::script_from(workload, read_file)?,
        connections: workload.connections,
        cpus: cpus.map(|list| list.as_slice().to_vec()).unwrap_or_default(),
        rate: workload.rate,
        arrivals: workload.arrivals,
        timeout: workload.timeout.unwrap_or(plan.timeout),
        keepalive: workload.keepalive,
        requests_per_connection: workload.requests_per_connection,
        headers: workload.headers.iter().map(|(n, v)| (n.clone(), v.clone())).collect(),
        method: workload.method.clone(),
        body: body(stack, read_file)?,
        requests: requests(stack)?,
        ..plan
    })
}

fn wrong<T>(item: &str, why: String) -> Result<T, LoadError> {
    Err(LoadError::Plan { item: item.to_string(), why })
}

fn body(stack: &Stack, read_file: &dyn Fn(&str) -> std::io::Result<Vec<u8>>) -> Result<Vec<u8>, LoadError> {
    let workload = &stack.workload;
    match (&workload.body, &workload.body_file, workload.body_bytes) {
        (None, None, None) => Ok(Vec::new()),
        (Some(text), None, None) => Ok(text.clone().into_bytes()),
        (None, Some(path), None) => read_file(path).or_else(|error| {
            wrong(
                "workload.body_file",
                format!("{path} cannot be read ({error}): check the path, relative to the stack file"),
            )
        }),
        (None, None, Some(size)) if size.0 > BODY_BYTES_MAX => {
            wrong("workload.body_bytes", format!("{size} bytes are more than 128M, the most that is sent"))
        }
        (None, None, Some(size)) => Ok(vec![FILLER; size.0 as usize]),
        (Some(_), _, _) | (_, Some(_), _) => wrong(
            "workload.body",
            "more than one of `body`, `body_file` and `body_bytes` is given: keep one".to_string(),
        ),
    }
}

fn requests(stack: &Stack) -> Result<Vec<RequestSpec>, LoadError> {
    let workload = &stack.workload;
    let Some(pattern) = &workload.paths else {
        return Ok(workload.requests.clone());
    };
    if !workload.requests.is_empty() {
        return wrong("workload.paths", "both `paths` and `requests` are given: keep one".to_string());
    }
    let Some((before, after)) = pattern.format.split_once("%d").filter(|(_, after)| !after.contains("%d")) else {
        return wrong("workload.paths.format", format!("`{}` must hold one `%d`, like `/f%d`", pattern.format));
    };
    if !(1..=PATHS_MAX).contains(&pattern.count) {
        return wrong("workload.paths.count", format!("{} is not from 1 to {PATHS_MAX}", pattern.count));
    }
    let one = |n| RequestSpec {
        path: format!("{before}{n}{after}"),
        weight: 1.0,
        method: None,
        headers: Default::default(),
        body: None,
    };
    Ok((0..pattern.count).map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(extra: &str, want: Expect) {
        let text = format!("entry = \"http://10.0.0.1/x\"\n{extra}");
        let stack = Stack::parse("stack.toml", &text).unwrap();
        let read = |path: &str| match path {
            "there" => Ok(b"content".to_vec()),
            _ => Err(std::io::ErrorKind::NotFound.into()),
        };
        want.assert_eq(&match plan_from(&stack, &read) {
            Ok(plan) => format!(
                "cpus {:?}, body {:?}, paths {:?}",
                plan.cpus,
                String::from_utf8_lossy(&plan.body),
                plan.requests.iter().map(|r| r.path.as_str()).collect::<Vec<_>>()
            ),
            Err(error) => error.to_string(),
        });
    }

    #[test]
    fn converts_a_workload() {
        check("", expect![[r#"cpus [], body "", paths []"#]]);
        check(
            "[host.client]\nrole = \"generator\"\ncpus = \"0,2-3\"\n[workload]\nbody_file = \"there\"\npaths = { format = \"/f%d.html\", count = 3 }",
            expect![[r#"cpus [0, 2, 3], body "content", paths ["/f0.html", "/f1.html", "/f2.html"]"#]],
        );
        check("[workload]\nbody_bytes = 4", expect![[r#"cpus [], body "xxxx", paths []"#]]);
    }

    #[test]
    fn names_the_key_that_is_wrong() {
        check(
            "[workload]\nbody_file = \"gone\"",
            expect![
                "`workload.body_file`: gone cannot be read (entity not found): check the path, relative to the stack file"
            ],
        );
        check(
            "[workload]\nbody = \"a\"\nbody_bytes = 3",
            expect!["`workload.body`: more than one of `body`, `body_file` and `body_bytes` is given: keep one"],
        );
        check(
            "[workload]\npaths = { format = \"/f\", count = 3 }",
            expect!["`workload.paths.format`: `/f` must hold one `%d`, like `/f%d`"],
        );
        check(
            "[workload]\nrate = \"0/s\"",
            expect!["`workload.rate`: 0/s sends nothing: write more than 0, or leave it out for a closed loop"],
        );
    }
}
