# memwald: make run, make check; make help lists the rest.
#
# One library of everything but the mains; variants build beside each other:
#   make            build/              what ships
#   make FAULTS=1   build/faults/       with fault points (tests)
#   make SAN=1      build/san/          ASan and UBSan, with fault points
#   make TSAN=1     build/tsan/         TSan, with fault points

CC	= gcc
CXX	= g++
WARN	= -Wall -Wextra -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes -Werror
CFLAGS	= -std=gnu17 -O2 -g -fno-omit-frame-pointer $(WARN)
CXXFLAGS = -std=c++17 -O2 -g -fno-exceptions -fno-rtti -Wall -Wextra -Werror
CPPFLAGS = -I. -I$B -MMD -MP
LDLIBS	= -luring -lcjson -lprotobuf-c -luuid -lxxhash -lroaring -lzstd -lstdc++ -lm -pthread
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
SRCS	= $(filter-out $(MAINS),$(wildcard common/*.c shm/*.c worker/*.c worker/*/*.c master/*.c ops/*.c))
OBJS	= $(SRCS:%.c=$B/%.o) $(patsubst %.cc,$B/%.o,$(wildcard common/*.cc)) $(PROTOS:%.proto=$B/%.pb-c.o)
TESTS	= $(patsubst tests/unit/%.c,$B/tests/unit/%,$(wildcard tests/unit/*_test.c))

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

unit: $(TESTS)
	@set -e; for t in $(TESTS); do echo "== $$t"; $$t; done

clean:
	rm -rf build

.PHONY: all unit clean
.SECONDARY:
-include $(shell find build -name '*.d' 2>/dev/null)
