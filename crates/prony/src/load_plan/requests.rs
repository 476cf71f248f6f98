//! Flags that say what is asked for: method, headers, body, paths, hosts, feeds.

use super::{read, read_text, url};
use crate::BadArgument;
use crate::cli::RequestArgs;
use anyhow::Result;
use prony_model::script::FeedOrder;
use prony_model::stack::FeedSpec;
use prony_model::{LoadPlan, RequestSpec};
use std::path::Path;

/// Most requests that hosts times paths may make. A guess, as for path patterns of a stack file: memory for each is small.
const REQUESTS_MAX: usize = 100_000;

/// Sets what the flags name.
pub(super) fn set(args: &RequestArgs, plan: &mut LoadPlan) -> Result<()> {
    if args.script.is_some() {
        let instead = "write the requests as steps of a stack file (`[[workload.step]]`, see docs/stack-file.md), or use \
                       --path, --feed and --from-curl";
        return Err(BadArgument::error(format!("-s: prony runs no scripts, which would slow it down; {instead}")));
    }
    if let Some(method) = &args.method {
        plan.method.clone_from(checked_method(method)?);
    }
    headers(args, plan)?;
    if let Some(body) = &args.body {
        plan.body = body.clone().into_bytes();
    }
    if let Some(file) = &args.body_file {
        plan.body = read(file)?;
    }
    if !args.paths.is_empty() {
        no_steps("--path", plan)?;
    }
    for path in &args.paths {
        plan.requests.push(weighted(path)?);
    }
    match &args.hosts {
        Some(file) => hosts(file, plan),
        None => Ok(()),
    }
}

fn no_steps(flag: &str, plan: &LoadPlan) -> Result<()> {
    match &plan.script {
        Some(script) if !script.steps.is_empty() => {
            Err(BadArgument::error(format!("{flag}: the stack file's scenario says what is asked for; leave one out")))
        }
        Some(_) | None => Ok(()),
    }
}

fn checked_method(method: &String) -> Result<&String> {
    if method.bytes().all(|b| b.is_ascii_digit()) {
        let text = format!("-m {method} is no method; streams of HTTP/2 are --http2 --streams {method}");
        return Err(BadArgument::error(text));
    }
    if !is_token(method) {
        return Err(BadArgument::error(format!("-m: `{method}` is no method: write one like GET or POST")));
    }
    Ok(method)
}

/// A flag replaces what stack or import say of a header; flags of one name are all sent.
fn headers(args: &RequestArgs, plan: &mut LoadPlan) -> Result<()> {
    let mut own = Vec::new();
    for header in &args.headers {
        let wrong = || BadArgument::error(format!("`{}` is no header: write 'Name: value'", header.escape_debug()));
        let (name, value) = header.split_once(':').ok_or_else(wrong)?;
        let (name, value) = (name.trim(), value.trim());
        if !is_token(name) || value.contains(['\r', '\n', '\0']) {
            return Err(wrong());
        }
        own.push((name.to_string(), value.to_string()));
    }
    if let Some(kind) = &args.content_type {
        if !kind.contains('/') {
            let text = format!("-T: `{kind}` is no content type, like text/plain; a time limit is --timeout");
            return Err(BadArgument::error(text));
        }
        own.push(("Content-Type".to_string(), kind.clone()));
    }
    plan.headers.retain(|(name, _)| !own.iter().any(|(n, _)| n.eq_ignore_ascii_case(name)));
    plan.headers.extend(own);
    Ok(())
}

/// A token of RFC 9110, 5.6.2: what methods and header names are made of.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// `/path` or `/path=3`. A path may hold `=` in its query: only a number behind the last one is a weight.
fn weighted(text: &str) -> Result<RequestSpec> {
    let (path, weight) = match text.rsplit_once('=').map(|(p, w)| (p, w.parse::<f64>())) {
        Some((path, Ok(weight))) if !path.contains('?') => (path, weight),
        _ => (text, 1.0),
    };
    if !path.starts_with('/') {
        return Err(BadArgument::error(format!("`{text}` is no path: it starts with `/`")));
    }
    if !weight.is_finite() || weight < 0.0 {
        return Err(BadArgument::error(format!("`{text}`: a weight is a number from 0 on, like `{path}=3`")));
    }
    Ok(RequestSpec { path: path.to_string(), weight, method: None, headers: Default::default(), body: None })
}

/// Every request once per host name; the names change fastest.
fn hosts(file: &Path, plan: &mut LoadPlan) -> Result<()> {
    no_steps("--hosts", plan)?;
    let text = read_text(file)?;
    let lines = (1..).zip(text.lines().map(str::trim)).filter(|(_, l)| !l.is_empty() && !l.starts_with('#'));
    let names: Vec<(usize, &str)> = lines.collect();
    if names.is_empty() {
        return Err(BadArgument::error(format!("{} names no host: write one per line", file.display())));
    }
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b);
    if let Some((line, name)) = names.iter().find(|(_, name)| !name.bytes().all(fits)) {
        let text = format!("{}:{line}: `{}` is no host name", file.display(), name.escape_debug());
        return Err(BadArgument::error(text));
    }
    if plan.requests.is_empty() {
        plan.requests.push(weighted(&url(&plan.url)?.path)?);
    }
    if plan.requests.len() * names.len() > REQUESTS_MAX {
        let (requests, names) = (plan.requests.len(), names.len());
        let text = format!("--hosts: {names} names for {requests} requests are more than {REQUESTS_MAX}: use fewer");
        return Err(BadArgument::error(text));
    }
    let mut all = Vec::with_capacity(plan.requests.len() * names.len());
    for request in &plan.requests {
        for (_, name) in &names {
            let mut request = request.clone();
            request.headers.retain(|header, _| !header.eq_ignore_ascii_case("host"));
            request.headers.insert("Host".to_string(), (*name).to_string());
            all.push(request);
        }
    }
    plan.requests = all;
    Ok(())
}

/// `NAME=FILE`, `NAME=FILE,random` or `NAME=FILE,unique`.
pub(super) fn feed(text: &str) -> Result<(String, FeedSpec)> {
    let wrong = || BadArgument::error(format!("--feed {text}: write NAME=FILE, like users=users.csv"));
    let (name, file) = text.split_once('=').ok_or_else(wrong)?;
    let (file, order) = match file.rsplit_once(',') {
        None => (file, FeedOrder::Sequential),
        Some((file, "sequential")) => (file, FeedOrder::Sequential),
        Some((file, "random")) => (file, FeedOrder::Random),
        Some((file, "unique")) => (file, FeedOrder::Unique),
        Some((_, other)) => {
            let text = format!("--feed {text}: `{other}` is no order of rows: write sequential, random or unique");
            return Err(BadArgument::error(text));
        }
    };
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !is_name(name) || file.is_empty() {
        return Err(wrong());
    }
    Ok((name.to_string(), FeedSpec { file: file.to_string(), format: None, order, columns: Vec::new() }))
}
