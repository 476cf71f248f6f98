#!/bin/sh
# Copies the files that prony-probe reads about one server into a folder, for tests without a live kernel.
# usage: capture.sh MAIN_PID FOLDER     (in its network namespace: nsenter --net=/run/netns/NAME ...)
set -eu
main=$1; to=$2
take() { mkdir -p "$to/$(dirname "$2")"; cat "$1" > "$to/$2" 2>/dev/null || rm -f "$to/$2"; }
for f in stat loadavg meminfo diskstats softirqs interrupts cpuinfo pressure/cpu pressure/io pressure/memory \
    sys/kernel/osrelease sys/net/core/somaxconn sys/net/ipv4/ip_local_port_range sys/net/ipv4/tcp_congestion_control; do
    take "/proc/$f" "proc/$f"
done
for f in dev snmp netstat sockstat softnet_stat; do take "/proc/thread-self/net/$f" "proc/net/$f"; done
grep cgroup /proc/self/mountinfo | grep -v "cgroup/systemd" > "$to/proc/mountinfo.tmp"
mkdir -p "$to/proc/self"; mv "$to/proc/mountinfo.tmp" "$to/proc/self/mountinfo"
sed 's|\(memory:\).*|\1/|' /proc/self/cgroup > "$to/proc/self/cgroup"
for pid in $main $(cat "/proc/$main/task/$main/children"); do
    for f in stat schedstat io status limits comm cmdline cgroup stack "task/$pid/children"; do
        take "/proc/$pid/$f" "proc/$pid/$f"
    done
    mkdir -p "$to/proc/$pid/fd"
    for fd in /proc/"$pid"/fd/*; do
        ln -s "$(readlink "$fd")" "$to/proc/$pid/fd/${fd##*/}"; take "/proc/$pid/fdinfo/${fd##*/}" "proc/$pid/fdinfo/${fd##*/}"
    done
done
for controller in cpu cpuacct memory; do
    group=$(sed -n "s/^[0-9]*:$controller://p" "/proc/$main/cgroup")
    [ "$group" = / ] && continue
    for f in cpu.stat cpu.cfs_quota_us cpu.cfs_period_us cpuacct.usage memory.oom_control cgroup.procs; do
        [ -e "/sys/fs/cgroup/$controller$group/$f" ] && take "/sys/fs/cgroup/$controller$group/$f" "cgroup/$controller$group/$f"
    done
done
take /sys/devices/system/cpu/online sys/devices/system/cpu/online
