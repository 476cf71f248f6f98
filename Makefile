# Two commands for a fresh Debian 12 machine with Rust, Node and gcc: `make demo` and `make test`.
# Both work when repeated, from any directory (`make -C DIR`, `make -f FILE`), and with spaces in the path.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Make splits lists at spaces, so the folder of this file goes through the shell and an environment variable.
export PRONY_ROOT := $(shell f='$(subst ','\'',$(MAKEFILE_LIST))'; cd "$$(dirname "$${f# }")" && pwd)
IN_ROOT := cd "$$PRONY_ROOT"

# The makefile of libbpf cannot build below a folder with a space in its name: then the build goes elsewhere.
ifneq ($(word 2,$(PRONY_ROOT)),)
export CARGO_TARGET_DIR ?= $(HOME)/.cache/prony/target-$(firstword $(shell printf %s '$(subst ','\'',$(PRONY_ROOT))' | cksum))
endif

CARGO ?= cargo
SETUP ?= scripts/setup.sh
LAB ?= labs/proxy-keepalive-off.toml
REPORT ?= report.html

# `cargo xtask` builds xtask alone, with fewer features of its dependencies than the tests need: all of those would be built twice.
BUILD_ALL := $(CARGO) build --workspace --all-targets --locked
XTASK := "$${CARGO_TARGET_DIR:-target}/debug/xtask"

.PHONY: help
help: ## show this
	@$(IN_ROOT); sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' Makefile | expand -t 16

.PHONY: setup
setup: ## install by apt what the demo needs and is missing; says what and why
	@$(IN_ROOT); "$(SETUP)" demo

.PHONY: build
build: ## build prony, optimised
	@$(IN_ROOT); $(CARGO) build --release --locked -p prony

.PHONY: demo
demo: setup build ## find, prove and undo a planted fault on an embedded lab; writes report.html
	@$(IN_ROOT)
	prony="$${CARGO_TARGET_DIR:-target}/release/prony"
	if [ "$$(id -u)" = 0 ]; then
		"$$prony" prove "$(LAB)" --report "$(REPORT)"
	else
		echo "namespaces need root: running prony through sudo"
		sudo "$$prony" prove "$(LAB)" --report "$(REPORT)"
		sudo chown "$$(id -u):$$(id -g)" "$(REPORT)"
	fi
	echo "report: $$(realpath "$(REPORT)")"

.PHONY: experiments
experiments: setup_experiments build ## run every experiment in short form and write its page; NAMES="loss overlay": only those
	@$(IN_ROOT); scripts/experiments.sh "$${CARGO_TARGET_DIR:-target}/release/prony" $(NAMES)

.PHONY: setup_experiments
setup_experiments:
	@$(IN_ROOT); "$(SETUP)" experiments

.PHONY: test
test: ## install what the tests need, then run every check and every test
	@$(IN_ROOT); "$(SETUP)" test
	$(BUILD_ALL)
	if $(CARGO) deny --version >/dev/null 2>&1; then
		$(XTASK) ci
	else
		echo "cargo-deny is not installed: licences are not checked (run 'make ci' to install it and check)"
		$(XTASK) ci --skip deny
	fi

.PHONY: ci
ci: ## everything of `make test`, and licences of dependencies; installs cargo-deny when missing
	@$(IN_ROOT); "$(SETUP)" test
	$(BUILD_ALL)
	$(XTASK) ci

.ONESHELL:
