# SPDX-License-Identifier: Apache-2.0
# Thin front of meson: what each target does is in the script or meson.build it calls.
BUILD  ?= build
PREFIX ?= /usr/local
NINJA  := ninja -C $(BUILD)

all: $(BUILD)/build.ninja
	@$(NINJA) --quiet

$(BUILD)/build.ninja:
	@tools/install_deps.sh build
	@meson setup $(BUILD) >$(BUILD).log 2>&1 || { cat $(BUILD).log; rm -f $(BUILD).log; exit 1; }
	@rm -f $(BUILD).log

qualify: all ## install what is missing, build, judge this machine
	@$(BUILD)/assay qualify

check: all ## quick suite: unit and command-line tests, under a minute
	@tools/install_deps.sh test
	@tools/run_tests.sh quick

test: all ## every test that needs no large download
	@tools/install_deps.sh test
	@tools/run_tests.sh test

test-full: all ## the tests on real wheels and packages: several GB of downloads
	@tools/install_deps.sh full
	@tools/run_tests.sh full

score: all ## diagnose the corpus: top-1, top-3, false alarms, confusion, seconds
	@tools/score.py --assay $(BUILD)/assay --yardstick corpus
	@tools/score.py --assay $(BUILD)/assay corpus/second
	@tools/score.py --assay $(BUILD)/assay corpus/third
	@tools/score.py --assay $(BUILD)/assay corpus/fourth
	@tools/score.py --assay $(BUILD)/assay corpus/fifth
	@tools/score.py --assay $(BUILD)/assay corpus/sixth
	@tools/score.py --assay $(BUILD)/assay corpus/seventh
	@tools/score.py --assay $(BUILD)/assay --mutate corpus

bench: all ## speed beside the peers; prints a table
	@tools/install_deps.sh test
	@bench/run.sh $(BUILD)

lint: all ## format, static analysis, layers, sizes
	@tools/install_deps.sh test
	@tools/lint.sh $(BUILD)

fuzz: ## each fuzz target for FUZZ_SECONDS (600) on new inputs
	@tools/install_deps.sh test
	@tools/fuzz.sh

dist: ## dist/: a folder that runs on any x86-64 Linux with glibc 2.35 or newer
	@tools/install_deps.sh build
	@tools/make_dist.sh

install: all ## into PREFIX (/usr/local)
	@meson configure $(BUILD) -Dprefix=$(PREFIX)
	@DESTDIR="$(DESTDIR)" meson install -C $(BUILD) --quiet

clean:
	rm -rf build build-* dist

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

.PHONY: all qualify check test test-full score bench lint fuzz dist install clean help
