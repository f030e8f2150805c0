# memwald
#
#   make run            install what is missing, build, serve on 127.0.0.1:3000
#   make check          install, build, run every test (short forms)
#   make try-lancedb    open the tables of ./data with LanceDB
#   make torture | bench | fuzz    their long forms
#   make bench-stall               what a fold does to those beside it
#   make install        what ships to /usr, for ops/systemd (PREFIX, DESTDIR)
#   make clean
#
# One library of everything but the mains; variants build beside each other:
#   make            build/              what ships
#   make FAULTS=1   build/faults/       with fault points (tests)
#   make SAN=1      build/san/          ASan and UBSan, with fault points
#   make TSAN=1     build/tsan/         TSan, with fault points
#   make FUZZ=1     build/fuzz/         libFuzzer, ASan and UBSan (clang)

CC	= gcc
CXX	= g++
WARN	= -Wall -Wextra -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes -Werror
OPTIMIZE = -O2 -g
CFLAGS	= -std=gnu17 $(OPTIMIZE) -fno-omit-frame-pointer $(WARN)
CXXFLAGS = -std=c++17 $(OPTIMIZE) -fno-exceptions -fno-rtti -Wall -Wextra -Werror
CPPFLAGS = -I. -I$B -MMD -MP
LDLIBS	= -luring -lcurl -lcjson -lprotobuf-c -luuid -lxxhash -lroaring -lzstd -lstdc++ -lm -pthread
B	= build

ifdef SAN
B	= build/san
SANFLAGS = -fsanitize=address,undefined -fno-sanitize-recover=undefined
FAULTS	= 1
endif
ifdef TSAN
B	= build/tsan
SANFLAGS = -fsanitize=thread
FAULTS	= 1
endif
# Under -O2 a sanitizer's build takes twice the time, and its code is not faster
# by much. What it cannot see then it must not warn of.
ifdef SANFLAGS
OPTIMIZE = -O1 -g1 -Wno-format-truncation -Wno-maybe-uninitialized
endif
ifdef FUZZ
B	= build/fuzz
CC	= clang
CXX	= clang++
SANFLAGS = -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
FUZZMAIN = -fsanitize=fuzzer
UNFUZZED = master/%
FAULTS	= 1
endif
ifdef FAULTS
ifndef SANFLAGS
B	= build/faults
endif
CPPFLAGS += -DMEMWALD_FAULTS
endif
CFLAGS	+= $(SANFLAGS)
CXXFLAGS += $(SANFLAGS)
LDFLAGS	+= $(SANFLAGS)

MAINS	= master/main.c ops/memwaldctl.c
PROTOS	= $(wildcard worker/lance/*.proto)
SRCS	= $(filter-out $(MAINS) $(UNFUZZED),$(wildcard common/*.c shm/*.c worker/*.c worker/*/*.c master/*.c ops/*.c))
OBJS	= $(SRCS:%.c=$B/%.o) $(patsubst %.cc,$B/%.o,$(wildcard common/*.cc)) $(PROTOS:%.proto=$B/%.pb-c.o)
TESTS	= $(patsubst %.c,$B/%,$(wildcard tests/unit/*_test.c))
HELPERS	= $(patsubst %.c,$B/%,$(wildcard tests/interop/*.c tests/bench/*.c))
FUZZERS	= $(patsubst %.c,$B/%,$(wildcard tests/fuzz/*_fuzz.c))
FUZZMAIN ?= $B/tests/fuzz/replay.o
SCRIPTS	= ops/backlog-watch ops/instance-drain ops/ordinal-reassign ops/ordinals-list ops/orphans-adopt
PREFIX	= /usr
JOBS	= -j$(shell nproc)

all: $B/memwald $B/memwaldctl

$B/memwald: $B/master/main.o $B/libmemwald.a
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$B/memwaldctl: $B/ops/memwaldctl.o $B/libmemwald.a
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$B/libmemwald.a: $(OBJS)
	rm -f $@ && ar rcs $@ $^

$B/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

$B/%.o: %.cc
	@mkdir -p $(@D)
	$(CXX) $(CPPFLAGS) $(CXXFLAGS) -c -o $@ $<

# Generated code is not ours to warn about.
$B/%.pb-c.c $B/%.pb-c.h: %.proto
	@mkdir -p $(@D)
	protoc-c --c_out=$B $<

$B/%.pb-c.o: $B/%.pb-c.c
	$(CC) $(CPPFLAGS) $(filter-out -W%,$(CFLAGS)) -c -o $@ $<

# Everything that includes a generated header waits for it once.
$(OBJS): | $(PROTOS:%.proto=$B/%.pb-c.h)

$B/%_test: $B/%_test.o $B/libmemwald.a
	$(CC) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

$(HELPERS): %: %.o $B/libmemwald.a
	$(CC) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

# libFuzzer brings a main; everywhere else replay.c is it.
$B/%_fuzz: $B/%_fuzz.o $B/libmemwald.a $(filter %.o,$(FUZZMAIN))
	$(CC) $(LDFLAGS) -o $@ $(filter-out $(FUZZMAIN),$^) $(FUZZMAIN) $(LDLIBS)

# Unit tests need the fault points; what ships is built without them.
helpers: $(HELPERS)

tests: $(TESTS) helpers $(FUZZERS)

# What tests/run also wants under TSan.
threaded: $(patsubst %,$B/tests/unit/%_test,$(file <tests/unit/threaded))

unit: $(TESTS)
	@set -e; for t in $(TESTS); do echo "== $$t"; $$t; done

# Exact versions in package.json; what is there already is used again.
tests/interop/node_modules: tests/interop/package.json
	cd $(@D) && npm install --silent --no-package-lock --no-audit --no-fund
	touch $@

# The manual pages and the completion are the tables of options and commands.
man: all
	$B/memwald --help-man >ops/memwald.8
	$B/memwaldctl --help-man >ops/memwaldctl.8
	$B/memwaldctl --completion >ops/memwaldctl.bash

run:
	tools/deps.sh build
	$(MAKE) -s $(JOBS) all
	exec tools/run.sh

# The scripts' names are too common for bin.
install: all
	install -D -t $(DESTDIR)$(PREFIX)/bin $B/memwald $B/memwaldctl
	install -D -t $(DESTDIR)$(PREFIX)/lib/memwald $(SCRIPTS)
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/memwald ops/common.bash
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man8 ops/memwald.8 ops/memwaldctl.8
	install -D -m 644 ops/memwaldctl.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/memwaldctl
	install -D -m 644 ops/systemd/sysusers.conf $(DESTDIR)$(PREFIX)/lib/sysusers.d/memwald.conf
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed 's|/usr/bin/memwald|$(PREFIX)/bin/memwald|' ops/systemd/memwald.service \
	    >$(DESTDIR)$(PREFIX)/lib/systemd/system/memwald.service

try-lancedb:
	tools/deps.sh interop
	$(MAKE) -s tests/interop/node_modules
	node tests/interop/try.mjs data

check-build:
	tools/deps.sh build interop check
	$(MAKE) -s tests/interop/node_modules
	$(MAKE) -s $(JOBS) all helpers
	$(MAKE) -s $(JOBS) FAULTS=1 all helpers $(if $(filter-out 0,$(LONG)),tests)
	$(MAKE) -s $(JOBS) SAN=1 all tests
	$(MAKE) -s $(JOBS) TSAN=1 threaded $(if $(filter-out 0,$(LONG)),all)

check: check-build
	tests/run

torture bench: check-build
	LONG=1 tests/run $@

bench-stall: check-build
	LONG=1 python3 tests/bench/stall_test.py

# Each target for FUZZ_SECONDS; what it finds stays in build/fuzz/new/.
fuzz:
	tools/deps.sh build fuzz
	$(MAKE) -s $(JOBS) FUZZ=1 fuzzers
	set -e; for f in build/fuzz/tests/fuzz/*_fuzz; do \
		n=$$(basename $$f _fuzz); mkdir -p build/fuzz/new/$$n; \
		$$f -max_total_time=$(or $(FUZZ_SECONDS),600) \
		    -artifact_prefix=build/fuzz/new/$$n. \
		    build/fuzz/new/$$n tests/fuzz/corpus/$$n; done

fuzzers: $(FUZZERS)

clean:
	rm -rf build

.PHONY: all helpers threaded tests unit man run install try-lancedb check-build \
	check torture bench bench-stall fuzz fuzzers clean
.SECONDARY:
-include $(shell find build -name '*.d' 2>/dev/null)
