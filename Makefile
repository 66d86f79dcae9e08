# make demo     set up, then the T1 study in its quick form: table here, PNG and report.html in results/demo
# make debian   set up, then Debian's packages as an image to boot: about a minute, and 130 MB from Debian's mirror
# make test     set up, then every check but the slow ones, cheapest first
# make test-slow  tests of a good part of a minute each: continuous integration runs both
# make test-long  what takes too long for every change: boots of timing cores and of many harts, and the mutants (an hour)
# make mutants  which test catches which fault: a table in docs/mutants.md
# make bench    speed of the simulator: a table, and target/bench.json
# make bench-peers  the same beside rvsim, which is installed from PyPI for it: a table, and target/bench-peers.json
# make setup    only set up: system packages, .venv, the Python package (release), the guests
# make docs     the documentation as a site, in build/site: tutorial, how-to, reference, explanation
# make wheel    a wheel in dist, with the guests inside; make test-wheel installs it elsewhere and runs the tutorial
# make causes   the experiments on causes of misses, again; fails where one gives something else than docs/causes.toml keeps
# make study    the whole study, as published figures are compared (about three minutes on two processors)
#
# Everything is incremental. PYTHON=... and CROSS=... choose another Python and another cross compiler. With PGO=1 the compiler learns
# from runs (tools/train.py): building takes twice as long, simulating about a fifth less (docs/performance.md).

PYTHON ?= python3
CROSS ?= riscv64-linux-gnu-
export CROSS

bin := .venv/bin
stamps := build/stamps
# Other simulators, in an environment of their own.
peers := build/peers
# Its profiles are read by the tools of the LLVM that rustc has.
PGO ?=
ifneq ($(PGO),)
export MATURIN_PGO := true
export PGO
export PATH := /usr/lib/llvm-$(shell rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')/bin:$(PATH)
endif
export PYO3_PYTHON := $(CURDIR)/$(bin)/python

sources := Cargo.toml Cargo.lock pyproject.toml $(shell find crates -name '*.rs' -o -name '*.toml' -o -name '*.c')

.PHONY: demo debian docs wheel test-wheel study causes test test-slow test-long mutants bench bench-peers setup packages packages-test guests lint test-locks test-rust test-guests test-python clean
.NOTPARALLEL:

demo: setup
	$(bin)/loiter study run cakarevic2008 --scale quick --out results/demo

study: setup
	$(bin)/loiter study run cakarevic2008

# Both say on every call that the maintainers of MkDocs work on a version 2.
docs: export NO_MKDOCS_2_WARNING := 1
docs: export DISABLE_MKDOCS_2_WARNING := true
docs: setup $(stamps)/dev
	$(bin)/mkdocs build --quiet --strict

wheel: setup
	rm -rf dist
	$(bin)/maturin build --release --strip --out dist

test-wheel: wheel
	$(bin)/python tools/check_wheel.py dist/*.whl

causes: setup
	$(bin)/python tools/validation.py --run

debian: setup
	@PYTHON=$(PYTHON) tools/packages.sh images
	$(bin)/loiter image build debian

bench: setup packages-test
	$(bin)/python tools/bench.py target/bench.json

bench-peers: setup $(stamps)/peers
	@$(MAKE) --no-print-directory -s -C guests peers
	$(bin)/python tools/bench_peers.py guests/build/peers/coremix.elf $(peers)/bin/python target/bench-peers.json

setup: packages guests $(stamps)/package

packages:
	@PYTHON=$(PYTHON) tools/packages.sh build

packages-test:
	@PYTHON=$(PYTHON) tools/packages.sh test

$(bin)/python: | packages
	$(PYTHON) -m venv .venv

$(stamps)/maturin: | $(bin)/python
	$(bin)/pip install -q --disable-pip-version-check 'maturin>=1.13,<2'
	@mkdir -p $(@D) && touch $@

$(stamps)/peers: | packages
	$(PYTHON) -m venv $(peers)
	$(peers)/bin/pip install -q --disable-pip-version-check 'rvsim==2.1.0'
	@mkdir -p $(@D) && touch $@

$(stamps)/package: $(sources) | $(stamps)/maturin
	PIP_QUIET=1 $(bin)/maturin develop --release
	@mkdir -p $(@D) && touch $@

# What checks and documentation need beside, which a first study does not wait for.
$(stamps)/dev: $(stamps)/package
	PIP_QUIET=1 $(bin)/maturin develop --release --extras dev
	@mkdir -p $(@D) && touch $@

guests: | packages
	@$(MAKE) --no-print-directory -s -C guests

# --- checks, cheapest first ------------------------------------------------------------------------------------------

test: setup $(stamps)/dev packages-test lint test-locks test-rust test-guests test-python

lint: setup $(stamps)/dev
	cargo fmt --all --check
	$(bin)/ruff check -q python tests tools guests locks locks
	$(bin)/ruff format --check -q python tests tools guests locks locks
	$(bin)/mypy
	$(bin)/python tools/validation.py --check
	cargo clippy --workspace --all-targets --release -q -- -D warnings
	$(bin)/python tools/mutants.py --check
	$(bin)/python locks/test/mutants.py --check

test-rust: setup packages-test
	cargo test --workspace --profile checked

test-locks: setup packages-test
	@$(MAKE) --no-print-directory -s -j 2 -C locks test

test-guests: setup packages-test
	@$(MAKE) --no-print-directory -s -C guests test

# A file's tests share what they have set up, so they stay in one process.
test-python: setup $(stamps)/dev packages-test
	$(bin)/pytest -n 2 --dist loadfile

# What continuous integration runs after `make test`.
test-slow: setup $(stamps)/dev packages-test
	$(bin)/pytest -n 2 --dist loadfile -m slow

test-long: setup $(stamps)/dev packages-test
	$(bin)/pytest -m long
	LOITER_LITMUS_ROUNDS=600 cargo test --profile checked -p loiter-sim --test architecture litmus
	$(bin)/python tools/mutants.py

# Builds one copy of the workspace with all mutants in build/mutants.
mutants: setup $(stamps)/dev packages-test
	$(bin)/python tools/mutants.py

clean:
	rm -rf build dist results guests/build locks/build target .venv
