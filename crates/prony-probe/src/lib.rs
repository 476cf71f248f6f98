//! Reads one host: procfs, sysfs, netlink, cgroup, server status. Facts only.
