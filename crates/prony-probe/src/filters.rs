//! How many rules netfilter has in a namespace. Part of a close look: a large set takes a while to list.
//!
//! Reads no rule. Invariant: a namespace that could not be asked has no number.

use crate::facts::Facts;
use crate::netlink::Netlink;
use prony_model::metric as m;
use std::io;

/// NFNL_SUBSYS_NFTABLES and NFT_MSG_GETRULE (linux/netfilter/nfnetlink.h, nf_tables.h).
const GET_RULES: u16 = 10 << 8 | 7;
/// struct nfgenmsg: every family, version 0.
const ALL: [u8; 4] = [0; 4];

/// Puts the number of rules in the namespace of the calling thread. Kernels without nf_tables, and users without rights, have none.
pub(crate) fn put(facts: &mut Facts) {
    facts.put_if_any(&m::LOOK_FILTER_RULES, "", rules().ok());
}

fn rules() -> io::Result<f64> {
    let mut count = 0.0;
    Netlink::new(libc::NETLINK_NETFILTER).dump(GET_RULES, &ALL, |_| count += 1.0)?;
    Ok(count)
}
