//! What kinds of links this kernel can make, found out by making one where nobody notices.
//!
//! Nothing stays behind: the link lies in a network namespace that goes away with the program that made it.

use crate::LabError;
use crate::tool;
use prony_tool::{IP, UNSHARE};

/// Whether the kernel makes links of this kind; `details` is what `ip link add` wants of it besides.
///
/// # Errors
/// It does not: the error says what the kernel said.
pub(crate) fn check_link(kind: &str, details: &[&str], wanted_by: &str) -> Result<(), LabError> {
    tool::find(UNSHARE, wanted_by)?;
    let ip = tool::find(IP, wanted_by)?;
    let program = ip.to_string_lossy();
    let make = ["--net", &program, "link", "add", "prony0", "type", kind];
    let made = tool::run(UNSHARE, &[&make[..], details].concat(), "");
    let Err(LabError::Command { reason, .. }) = made else { return made };
    Err(LabError::KernelLacks { what: kind.to_string(), wanted_by: wanted_by.to_string(), said: reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_root_a_kind_of_link_that_the_kernel_lacks_is_named() {
        if !crate::sys::is_root() {
            return eprintln!("skipped: making links needs root");
        }
        check_link("veth", &[], "the overlay of a lab").unwrap();
        let error = check_link("nothing", &[], "the overlay of a lab").unwrap_err().to_string();
        assert!(error.starts_with("this kernel has no nothing, and the overlay of a lab needs it ("), "{error}");
    }
}
