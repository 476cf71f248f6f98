//! The layers that packets of containers and virtual machines cross, each as a lab of two hosts without servers.
//!
//! What a layer costs is the difference to the one before it. Nothing is built here.

use anyhow::Result;
use prony_model::Stack;

/// Two hosts, and what is between them.
pub(super) struct Layer {
    /// As it stands in the result.
    pub name: String,
    pub stack: Stack,
}

/// What is between the hosts, from the least to the most: name and lines of a stack file.
const LAYERS: [(&str, &str); 3] =
    [("namespaces", "[lab]\nswitch = false\n"), ("bridge", ""), ("vxlan", "[lab]\noverlay = \"vxlan\"\n")];

const OFFLOADS_OFF: &str = "[lab.host.a.link]\noffloads = false\n[lab.host.b.link]\noffloads = false\n";

const HOSTS: &str = r#"
name = "two hosts"
entry = "http://10.77.0.20/"
[host.a]
role = "generator"
calls = ["b"]
[host.b]
[lab.host.a]
addr = "10.77.0.10"
[lab.host.b]
addr = "10.77.0.20"
server = { kind = "none" }
"#;

/// All layers, each with offloads and without.
pub(super) fn all() -> Result<Vec<Layer>> {
    let mut layers = Vec::new();
    for (name, between) in LAYERS {
        for (offloads, lines) in [("", ""), (", offloads off", OFFLOADS_OFF)] {
            let file = |name: &str, text: &str| (format!("{name}.toml"), text.to_string());
            let parts = [file("hosts", HOSTS), file("cpus", cpus()), file(name, between), file("offloads", lines)];
            layers.push(Layer { name: format!("{name}{offloads}"), stack: Stack::parse_layers(&parts)? });
        }
    }
    Ok(layers)
}

/// A CPU for each host where there are two, so that sender and receiver do not wait for each other.
fn cpus() -> &'static str {
    match std::thread::available_parallelism().map_or(1, usize::from) {
        1 => "",
        _ => "[host.a]\ncpus = \"1\"\n[host.b]\ncpus = \"0\"\n",
    }
}
