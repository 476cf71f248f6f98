//! Flags that say how connections are made, used and secured.

use super::{above_zero, read_text};
use crate::BadArgument;
use crate::cli::{ConnectionArgs, TlsArgs};
use anyhow::Result;
use prony_model::load::Transport;
use prony_model::{LoadPlan, Protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// Most local addresses that ranges may stand for. A guess: a loopback network of 4096 has 250 million ports.
const SOURCES_MAX: u128 = 4096;

/// Sets what the flags name.
pub(super) fn set(args: &ConnectionArgs, plan: &mut LoadPlan) -> Result<()> {
    plan.keepalive &= !args.no_keepalive;
    plan.requests_per_connection = args.requests_per_connection.or(plan.requests_per_connection);
    if let Some(rate) = args.connect_rate {
        plan.connect_rate = Some(above_zero("--connect-rate", rate)?);
    }
    if args.http2 {
        plan.protocol = Protocol::Http2;
    }
    if args.pipeline.is_some() && plan.protocol == Protocol::Http2 {
        let text = "--pipeline is of HTTP/1.1; in HTTP/2 requests in flight on one connection are --streams";
        return Err(BadArgument::error(text));
    }
    if args.pipeline.is_some_and(|depth| depth > 1) && !plan.keepalive {
        let text = "--pipeline: a connection per request carries one request; leave --no-keepalive out";
        return Err(BadArgument::error(text));
    }
    plan.depth = args.streams.or(args.pipeline).unwrap_or(plan.depth);
    if !args.connect_to.is_empty() {
        plan.connect_to = args.connect_to.iter().map(|text| address(text)).collect::<Result<_>>()?;
    }
    if let Some(path) = &args.unix_socket {
        plan.connect_to = vec![format!("unix:{}", path.display())];
    }
    if args.all_addresses && !plan.connect_to.is_empty() {
        let text = "--all-addresses: the import says where to connect, so the name's addresses are not used";
        return Err(BadArgument::error(text));
    }
    plan.all_addresses |= args.all_addresses;
    if !args.sources.is_empty() {
        let ranges = args.sources.iter().map(|text| sources(text)).collect::<Result<Vec<_>>>()?;
        plan.sources = ranges.concat();
    }
    if args.no_io_uring {
        plan.transport = Some(Transport::Epoll);
    }
    plan.spin |= args.spin;
    Ok(())
}

/// `ADDRESS:PORT`, an IPv6 address in brackets.
fn address(text: &str) -> Result<String> {
    let wrong = |why: &str| BadArgument::error(format!("--connect-to {text}: {why}"));
    let bracketed = text.starts_with('[');
    if !bracketed && text.matches(':').count() == 3 {
        return Err(wrong("this is curl's form: write only where to connect, like 127.0.0.1:8443"));
    }
    let split = text.rsplit_once(':').filter(|(host, _)| !host.is_empty() && (bracketed || !host.contains(':')));
    let (_, port) = split.ok_or_else(|| wrong("write ADDRESS:PORT, like 127.0.0.1:8443 or [::1]:8443"))?;
    match port.parse::<u16>() {
        Ok(port) if port > 0 => Ok(text.to_string()),
        Ok(_) | Err(_) => Err(wrong("the port is not a number from 1 to 65535")),
    }
}

/// One address, or every address from the first to the last of a range.
fn sources(text: &str) -> Result<Vec<IpAddr>> {
    let wrong = |why: &str| BadArgument::error(format!("--source {text}: {why}"));
    let ip = |text: &str| {
        text.trim().parse::<IpAddr>().map_err(|_| wrong("write an IP address, or a range like 127.0.0.2-127.0.0.9"))
    };
    let Some((first, last)) = text.split_once('-') else { return Ok(vec![ip(text)?]) };
    let numbers = match (ip(first)?, ip(last)?) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()), u128::from(b.to_bits()), true),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), false),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => {
            return Err(wrong("a range is of IPv4 or of IPv6 addresses, not of both"));
        }
    };
    let (first, last, is_v4) = numbers;
    if last < first {
        return Err(wrong("the last address is below the first"));
    }
    if last - first >= SOURCES_MAX {
        return Err(wrong("the range has more than 4096 addresses"));
    }
    let one = |bits: u128| match u32::try_from(bits) {
        Ok(bits) if is_v4 => IpAddr::V4(Ipv4Addr::from_bits(bits)),
        Ok(_) | Err(_) => IpAddr::V6(Ipv6Addr::from_bits(bits)),
    };
    Ok((first..=last).map(one).collect())
}

/// Sets what the flags say of TLS.
pub(super) fn secure(args: &TlsArgs, plan: &mut LoadPlan) -> Result<()> {
    let tls = &mut plan.tls;
    tls.insecure |= args.insecure;
    tls.resume |= args.resume;
    if let Some(name) = &args.server_name {
        tls.server_name = Some(name.clone());
    }
    if let Some(file) = &args.cacert {
        tls.ca_pem = Some(pem("--cacert", "CERTIFICATE", file)?);
    }
    if let Some(file) = &args.cert {
        tls.certificate_pem = Some(pem("--cert", "CERTIFICATE", file)?);
    }
    if let Some(file) = &args.key {
        tls.key_pem = Some(pem("--key", "PRIVATE KEY", file)?);
    }
    let named = [
        ("--cacert", args.cacert.is_some()),
        ("--cert", args.cert.is_some()),
        ("--server-name", args.server_name.is_some()),
        ("--resume", args.resume),
    ];
    let is_plain = plan.url.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"));
    match named.iter().find(|(_, given)| *given && is_plain) {
        Some((flag, _)) => {
            Err(BadArgument::error(format!("{flag}: the URL is http://, which is not secured; write https://")))
        }
        None => Ok(()),
    }
}

fn pem(flag: &str, kind: &str, file: &Path) -> Result<String> {
    let text = read_text(file)?;
    let begins = |line: &str| line.starts_with("-----BEGIN ") && line.trim_end().ends_with(&format!("{kind}-----"));
    if text.lines().any(begins) {
        return Ok(text);
    }
    let path = file.display();
    Err(BadArgument::error(format!("{flag} {path}: it holds no `-----BEGIN {kind}-----`; convert it to PEM first")))
}
