#!/usr/bin/env bash
# Installs by apt what prony's build, demo, tests, experiments or benchmarks need and what is missing here; says each package and why.
# schemathesis, which tries the API of `prony serve`, comes by pip, and Jetty by Maven, into folders of their own (~/.cache/prony).
# It does nothing when everything is there, and it never starts a service of the distribution.
#
# usage: setup.sh build|demo|test|experiments|bench
set -euo pipefail

# nginx, haproxy, ip and nft live in sbin, which is not on every user's PATH.
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

# Debian asks this file before it starts a service that was just installed; exit code 101 means: do not.
POLICY=/usr/sbin/policy-rc.d
POLICY_SAVED="$POLICY.before-prony"
POLICY_MARK="# prony setup: no service is started while packages are installed"

# For whom | program, or file where a package has none | package | why
NEEDED="
build|clang|clang|compiling the eBPF programs of the deep look
build|pkg-config|pkg-config|finding libelf and zlib for libbpf
build|/usr/include/gelf.h|libelf-dev|libbpf reads the compiled eBPF programs by it
build|/usr/include/zlib.h|zlib1g-dev|libbpf and libelf need it
demo|nginx|nginx-light|the proxy and the file servers of the labs
demo|haproxy|haproxy|the slow upstream of a lab
demo|psql|postgresql|the database of the chain labs
demo|redis-server|redis-server|the cache of the chain labs
demo|python3|python3|the application of the chain labs
demo|ip|iproute2|namespaces and links of the labs
demo|tc|iproute2|link rates of the labs
demo|nft|nftables|packet loss of the labs
demo|ethtool|ethtool|queues and offloads of interfaces
demo|curl|curl|asking a lab by hand
demo|ps|procps|looking at the processes of a lab
test|tmux|tmux|the terminal screens in a window that is resized
test|python3|python3|the fault cases and small servers that misbehave on purpose
test|chromium|chromium|a look at the pages in a real browser
test|/usr/share/doc/python3-venv|python3-venv|a place for schemathesis, which Debian has no package of
servers|apache2|apache2-bin|a server to compare with
servers|node|nodejs|a server to compare with
servers|java|default-jdk-headless|a server to compare with
servers|mvn|maven|fetching Jetty, a server to compare with
servers|mkfs.ext4|e2fsprogs|a file system of its own for the logs of a lab
experiments|iperf3|iperf3|measuring the network by a program that others know
bench|wrk|wrk|a load generator to compare with
bench|ab|apache2-utils|a load generator to compare with
bench|h2load|nghttp2-client|a load generator to compare with
bench|nghttpd|nghttp2-server|a server that answers HTTP/2 faster than the generators ask
"

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

# The same for what NEEDED names.
is_there() {
    case "$1" in
        /*) [ -e "$1" ] ;;
        *) has "$1" ;;
    esac
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# Whether something for $2 is wanted when $1 was asked for: each asks for what the one before it asks for, and more.
wanted() {
    case "$1:$2" in
        build:build | demo:build | demo:demo | test:build | test:demo | test:servers | test:test) return 0 ;;
        experiments:build | experiments:demo | experiments:servers | experiments:experiments | bench:*) return 0 ;;
        *) return 1 ;;
    esac
}

check_toolchains() {
    has cargo || die "Rust is missing (no cargo): install it from https://rustup.rs"
    has cc || has gcc || die "a C compiler is missing: run 'apt-get install gcc libc6-dev'"
    if [ "$1" = test ] && ! has npm; then
        die "Node is missing (no npm): install Node 20 or newer from https://nodejs.org"
    fi
}

# Sets `packages` to what is missing for $1, one per line, and says why.
find_missing() {
    packages=""
    local scope program package why
    while IFS='|' read -r scope program package why; do
        if [ -n "$scope" ] && wanted "$1" "$scope" && ! is_there "$program"; then
            say "$package is missing: $why ($program)"
            case " $packages " in
                *" $package "*) ;;
                *) packages="$packages $package" ;;
            esac
        fi
    done <<<"$NEEDED"
}

hold_services() {
    if [ -e "$POLICY" ]; then as_root mv "$POLICY" "$POLICY_SAVED"; fi
    printf '#!/bin/sh\n%s\nexit 101\n' "$POLICY_MARK" | as_root tee "$POLICY" >/dev/null
    as_root chmod 755 "$POLICY"
}

# Puts back what hold_services found; does nothing when it did not run. Also mends a setup that was killed.
release_services() {
    if [ -e "$POLICY" ] && grep -qF "$POLICY_MARK" "$POLICY"; then as_root rm -f "$POLICY"; fi
    if [ -e "$POLICY_SAVED" ]; then as_root mv "$POLICY_SAVED" "$POLICY"; fi
}

# Installing also enables services for the next boot: the labs start servers of their own, so those stay off.
disable_services() {
    has systemctl || return 0
    local service
    for service in nginx haproxy nftables postgresql redis-server; do
        case " $1 " in
            *" $service "* | *" $service-light "*)
                as_root systemctl disable "$service" >/dev/null 2>&1 || say "note: '$service' may start at the next boot"
                ;;
        esac
    done
}

install_packages() {
    has apt-get || die "there is no apt-get here: install$1 with the package manager of this system, then repeat"
    [ "$(id -u)" = 0 ] || has sudo || die "installing needs root, and there is no sudo: run 'apt-get install$1' as root, then repeat"
    say "installing by apt:$1"
    trap release_services EXIT
    hold_services
    as_root apt-get update -qq || say "note: 'apt-get update' failed; trying with the package lists that are here"
    # $1 is a list of package names: splitting it is what is wanted.
    # shellcheck disable=SC2086
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $1
    release_services
    trap - EXIT
    disable_services "$1"
}

# Tries the API of `prony serve` with requests of all kinds (xtask/src/ci/api.rs looks for it there). Not fatal: that step is
# left out then, and says so.
SCHEMATHESIS=4.32.5
SCHEMATHESIS_FOLDER="${XDG_CACHE_HOME:-$HOME/.cache}/prony/schemathesis-$SCHEMATHESIS"

install_schemathesis() {
    if [ -x "$SCHEMATHESIS_FOLDER/bin/schemathesis" ]; then return 0; fi
    say "schemathesis is missing: it tries the API of prony serve; installing it by pip into $SCHEMATHESIS_FOLDER"
    if ! python3 -m venv "$SCHEMATHESIS_FOLDER" || ! "$SCHEMATHESIS_FOLDER/bin/pip" install -q "schemathesis==$SCHEMATHESIS"; then
        rm -rf "$SCHEMATHESIS_FOLDER"
        say "note: schemathesis could not be installed; the API is tried without it"
    fi
}

# Not fatal: only one level of one experiment needs it, and says so when it is not there.
install_jetty() {
    "$(dirname "${BASH_SOURCE[0]}")/jetty.sh" || say "note: without Jetty the experiment other-servers does not run; repeat 'scripts/jetty.sh'"
}

main() {
    case "${1:-}" in
        build | demo | test | experiments | bench) ;;
        *) die "usage: setup.sh build|demo|test|experiments|bench" ;;
    esac
    release_services
    check_toolchains "$1"
    find_missing "$1"
    if [ -n "$packages" ]; then
        install_packages "$packages"
        find_missing "$1"
        [ -z "$packages" ] || die "still missing after the installation:$packages"
    fi
    if [ "$1" = test ]; then install_schemathesis; fi
    if wanted "$1" servers; then install_jetty; fi
    say "everything for '$1' is here"
}

main "$@"
