//! Where connections of a curl command go when not to the URL's host: `--connect-to` and `--resolve`.
//!
//! It resolves no name. Invariant: what is for another host or port is named as left out, never used.

/// What the flags say, in order.
pub(super) struct Elsewhere<'a> {
    /// `HOST1:PORT1:HOST2:PORT2` each; where host or port are empty, any will do, or it stays.
    pub connect_to: &'a [String],
    /// `HOST:PORT:ADDRESS[,ADDRESS]` each.
    pub resolve: &'a [String],
}

impl Elsewhere<'_> {
    /// Addresses as a plan has them, for a URL of this host and port; none: the URL's own.
    ///
    /// # Errors
    /// A sentence that names the flag that is not written as it must be.
    pub fn endpoints(&self, host: &str, port: u16, skipped: &mut Vec<String>) -> Result<Vec<String>, String> {
        let port = port.to_string();
        let moved = self.moved(host, &port, skipped)?;
        let (host, port) = moved.as_ref().map_or((host, port.as_str()), |(host, port)| (host, port));
        let addresses = self.resolved(host, port, skipped)?;
        Ok(match moved.is_some() && addresses.is_empty() {
            true => vec![endpoint(host, port)],
            false => addresses,
        })
    }

    /// The host and port that the first `--connect-to` that fits names instead.
    fn moved(&self, host: &str, port: &str, skipped: &mut Vec<String>) -> Result<Option<(String, String)>, String> {
        let mut moved = None;
        for text in self.connect_to {
            let parts = split_colons(text, 4);
            let [from_host, from_port, to_host, to_port] = parts[..] else {
                return Err(format!("`--connect-to {text}`: write HOST1:PORT1:HOST2:PORT2, where each may be empty"));
            };
            let fits = |want: &str, have: &str| want.is_empty() || want.eq_ignore_ascii_case(have);
            if moved.is_some() || !fits(bare(from_host), host) || !fits(from_port, port) {
                skipped.push(format!("`--connect-to {text}`: it is for another host or port, or not the first"));
                continue;
            }
            let or = |new: &str, old: &str| if new.is_empty() { old.to_string() } else { new.to_string() };
            moved = Some((or(bare(to_host), host), or(to_port, port)));
        }
        Ok(moved)
    }

    /// The addresses of the last `--resolve` that fits.
    fn resolved(&self, host: &str, port: &str, skipped: &mut Vec<String>) -> Result<Vec<String>, String> {
        let mut addresses = Vec::new();
        for text in self.resolve {
            let parts = split_colons(text.trim_start_matches('+'), 3);
            let [from_host, from_port, list] = parts[..] else {
                return Err(format!("`--resolve {text}`: write HOST:PORT:ADDRESS"));
            };
            if (from_host == "*" || bare(from_host).eq_ignore_ascii_case(host)) && from_port == port {
                addresses = list.split(',').map(|address| endpoint(bare(address), port)).collect();
            } else {
                skipped.push(format!("`--resolve {text}`: it is for another host or port"));
            }
        }
        Ok(addresses)
    }
}

/// Splits at colons outside brackets into at most `most` parts.
fn split_colons(text: &str, most: usize) -> Vec<&str> {
    let (mut parts, mut from, mut depth) = (Vec::new(), 0, 0i32);
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            ':' if depth == 0 && parts.len() + 1 < most => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

/// Without the brackets of an IPv6 address.
fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

fn endpoint(host: &str, port: &str) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    /// For `http://s1/`.
    fn check(connect_to: &[&str], resolve: &[&str], want: Expect) {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (connect_to, resolve, mut skipped) = (owned(connect_to), owned(resolve), Vec::new());
        let asked = Elsewhere { connect_to: &connect_to, resolve: &resolve };
        let mut lines = asked.endpoints("s1", 80, &mut skipped).unwrap_or_else(|error| vec![error]);
        lines.extend(skipped.iter().map(|skipped| format!("skipped {skipped}")));
        want.assert_eq(&lines.join("\n"));
    }

    #[test]
    fn an_address_or_a_name_instead() {
        check(&[], &[], expect![""]);
        check(&["::10.0.0.9:"], &[], expect!["10.0.0.9:80"]);
        check(&["S1:80:[::1]:444"], &[], expect!["[::1]:444"]);
        check(
            &[],
            &["+s1:80:10.0.0.1,::2,[::3]"],
            expect![[r#"
            10.0.0.1:80
            [::2]:80
            [::3]:80"#]],
        );
        check(&["::s2:81"], &["s2:81:10.0.0.2"], expect!["10.0.0.2:81"]);
    }

    #[test]
    fn what_is_for_others_is_left_out() {
        check(
            &["s2:80:x:1", "s1:81:x:1"],
            &["*:81:10.0.0.1"],
            expect![[r#"
            skipped `--connect-to s2:80:x:1`: it is for another host or port, or not the first
            skipped `--connect-to s1:81:x:1`: it is for another host or port, or not the first
            skipped `--resolve *:81:10.0.0.1`: it is for another host or port"#]],
        );
        check(
            &[":::", "::x:"],
            &["*:80:10.0.0.1"],
            expect![[r#"
            10.0.0.1:80
            skipped `--connect-to ::x:`: it is for another host or port, or not the first"#]],
        );
        check(&["a:b"], &[], expect!["`--connect-to a:b`: write HOST1:PORT1:HOST2:PORT2, where each may be empty"]);
        check(&[], &["s1:80"], expect!["`--resolve s1:80`: write HOST:PORT:ADDRESS"]);
    }
}
