//! Rule sets of a proxy: names, maps and regular expressions, as many as a lab asks for.
//!
//! Text of nginx only. Invariant: no rule changes what a request for one of the files gets.

use prony_model::lab::LabServer;
use std::path::Path;

/// Places of a hash of nginx for each entry. Above 100 nginx tries every size from the smallest on, which takes long for many
/// entries (ngx_hash_init); with fewer than four it may find none. A guess in between.
const PLACES: u32 = 16;

/// A map of names that is looked up for each request.
pub(crate) fn map(server: &LabServer) -> String {
    let Some(lines) = server.map_lines else { return String::new() };
    let entries: String = (0..lines).map(|i| format!("        d{i}.lab pool{i};\n")).collect();
    let size = lines.saturating_mul(PLACES).max(2048);
    format!(
        "map_hash_max_size {size};\n    map_hash_bucket_size 128;\n    map $http_host $pool {{\n        default none;\n{entries}    }}"
    )
}

/// What makes nginx look into the map: it does so only when a variable is used.
pub(crate) fn map_header(server: &LabServer) -> String {
    server.map_lines.map_or(String::new(), |_| "proxy_set_header X-Pool $pool;".to_string())
}

/// Locations that nginx tries one after the other before it takes the one for everything; none of them fits a file.
pub(crate) fn locations(server: &LabServer) -> String {
    let rule = |i| format!("location ~* /shop{i}/.*\\.(php|cgi)$ {{ return 404; }}");
    (0..server.regex_rules.unwrap_or(0)).map(rule).collect::<Vec<_>>().join("\n        ")
}

/// A server for each name, all with the same location, which stands in a file of its own.
pub(crate) fn domains(server: &LabServer, dir: &Path) -> String {
    let Some(count) = server.domains else { return String::new() };
    let size = count.saturating_mul(2 * PLACES).max(2048);
    let pass = dir.join("pass.conf");
    let named = |i| {
        format!(
            "    server {{\n        listen 80;\n        server_name d{i}.lab www.d{i}.lab;\n        include {};\n    }}\n",
            pass.display()
        )
    };
    let servers: String = (0..count).map(named).collect();
    format!("server_names_hash_max_size {size};\n    server_names_hash_bucket_size 128;\n{servers}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_proxy_has_no_rules() {
        let plain = LabServer::default();
        let texts = [map(&plain), map_header(&plain), locations(&plain), domains(&plain, Path::new("/x"))];
        assert!(texts.iter().all(String::is_empty), "{texts:?}");
    }

    #[test]
    fn each_rule_stands_there_once() {
        let server = LabServer { domains: Some(3), map_lines: Some(2), regex_rules: Some(2), ..LabServer::default() };
        assert_eq!(domains(&server, Path::new("/x")).matches("include /x/pass.conf;").count(), 3);
        assert_eq!(map(&server).matches(" pool").count(), 2);
        assert_eq!(
            locations(&server),
            "location ~* /shop0/.*\\.(php|cgi)$ { return 404; }\n        location ~* /shop1/.*\\.(php|cgi)$ { return 404; }"
        );
        assert_eq!(map_header(&server), "proxy_set_header X-Pool $pool;");
    }
}
