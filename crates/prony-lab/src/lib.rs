//! Stacks in network namespaces with real servers and emulated links.
