# inferprof. `make` builds, `make demo` runs an example, `make test` runs the tests; each installs the packages it needs.
#   make SAN=1 ...        address and undefined-behaviour sanitizers      make CC=clang ...   the other compiler
#   make TSAN=1 ...       thread sanitizer
#   make WERROR=1 ...     warnings are errors (as in CI)                  make V=1 ...        show the commands
VERSION := 0.1.0
ifeq ($(origin CC),default)
CC := gcc
endif
SAN ?= 0
TSAN ?= 0
WERROR ?= 0
STATIC ?= 0
V ?= 0
Q := $(if $(filter 1,$(V)),,@)
say = @printf '  %-5s %s\n' $(1) $(2)
PREFIX ?= /usr/local
DESTDIR ?=

# Each variant has its own object folder, so that switching between variants rebuilds nothing.
variant := $(if $(findstring clang,$(CC)),-clang)$(if $(filter 1,$(SAN)),-san)$(if $(filter 1,$(TSAN)),-tsan)$(if $(filter 1,$(STATIC)),-static)
B := build$(if $(variant),/$(patsubst -%,%,$(variant)))

# The build does not need CUDA. With nvcc it has the kernels of the CUDA backend. If CUDA's headers are installed, the collector's own declarations are checked against them
# (src/collect/abi_check.c). The CUDA libraries are loaded at run time.
CUDA_HOME ?= /usr/local/cuda
CUDA_INC := $(firstword $(foreach d,$(CUDA_HOME)/include $(CUDA_HOME)/extras/CUPTI/include,$(if $(wildcard $(d)/cupti.h),$(d))))

# Headers only: libpq, libmicrohttpd and libcurl are loaded at run time by the commands that use them.
PQ_INC := $(addprefix -isystem ,$(wildcard /usr/include/postgresql))

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings \
        -Wformat=2 -Wno-format-nonliteral -Wvla -Wno-missing-field-initializers $(if $(filter 1,$(WERROR)),-Werror)
CFLAGS ?= $(if $(filter 1,$(SAN)),-O1,-O2) -g
CPPFLAGS += -Isrc -I$(B) -D_GNU_SOURCE $(PQ_INC) $(if $(CUDA_INC),-isystem $(CUDA_INC))
ALL_CFLAGS := -std=c11 $(CFLAGS) $(WARN) -fno-strict-aliasing
ifeq ($(SAN),1)
ALL_CFLAGS += -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
SAN_LD := -fsanitize=address,undefined
else ifeq ($(TSAN),1)
ALL_CFLAGS += -fsanitize=thread -fno-omit-frame-pointer $(if $(findstring clang,$(CC)),,-Wno-tsan) # no fences: their data is atomic
SAN_LD := -fsanitize=thread
endif

, := ,
# Libraries of the command-line program. STATIC=1 links them from .a files (make dist).
# libsupc++ is always linked as an archive: the shared library does not export its demangler that does not allocate memory.
LIB_NAMES := :libsupc++.a sqlite3 png jpeg pcre2-8 utf8proc yaml zstd z jansson
LIBS := $(if $(filter 1,$(STATIC)),-Wl$(,)-Bstatic) $(addprefix -l,$(LIB_NAMES)) \
        $(if $(filter 1,$(STATIC)),-Wl$(,)-Bdynamic) -lm -lpthread -ldl
RUNPATH := $(if $(filter 1,$(STATIC)),-Wl$(,)-rpath$(,)'$$ORIGIN/../lib/inferprof')

cli_src := $(filter-out src/collect/% src/counters/% src/main.c,$(wildcard src/*/*.c src/*/*/*.c))
cli_obj := $(cli_src:src/%.c=$(B)/obj/%.o) $(B)/obj/gen/embed.o
# The injected library links only its own files and those of base/ and trace/ that neither exit nor print.
collect_src := $(wildcard src/collect/*.c) $(addprefix src/base/,base64.c err.c clock.c crc32.c secret.c secret_names.c fixed.c event.c lock.c own_thread.c private_fds.c notice.c launcher.c) \
               $(filter-out src/trace/reader%,$(wildcard src/trace/*.c))
collect_obj := $(collect_src:src/%.c=$(B)/pic/%.o)
# The code that runs per launch accesses thread-local variables without a call (TLS descriptors) if the compiler supports it.
# It must not use vector registers: glibc before 2.40 may overwrite them at the first access to such a variable.
$(B)/pic/collect/callbacks.o $(B)/pic/collect/thread.o: \
  TLS = $(shell f='-mtls-dialect=gnu2 -mgeneral-regs-only'; $(CC) $$f -x c -c /dev/null -o /dev/null 2>/dev/null && echo $$f)

# The counter sampler, a separate process. Like the collector it links only libc.
counters_src := $(wildcard src/counters/*.c) src/driver/cuda.c $(filter-out src/collect/%,$(collect_src))
counters_obj := $(counters_src:src/%.c=$(B)/pic/%.o)

.PHONY: all demo test test-long soak bench fuzz lint install deps clean dist help test-build format
all: $(B)/inferprof $(B)/.inferprof-build $(if $(wildcard src/collect/*.c),$(B)/libinferprof-collector.so) $(B)/inferprof-counters

$(B)/inferprof: $(B)/obj/main.o $(B)/libinferprof.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(SAN_LD) $(LDFLAGS) $(RUNPATH) -o $@ $^ -Wl,--as-needed $(LIBS)

# Marks the build folder: a program in it may use files of the source tree (src/base/installed.h).
$(B)/.inferprof-build: | $(B)/deps-build
	@touch $@

$(B)/inferprof-counters: $(counters_obj)
	$(call say,LINK,$@)
	$(Q)$(CC) $(SAN_LD) $(LDFLAGS) -o $@ $^ -Wl,-Bstatic -lzstd -Wl,-Bdynamic -lm -lpthread -ldl

# The archive is created from scratch, so that it has no objects of files removed from src/.
$(B)/libinferprof.a: $(cli_obj)
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

# Links only libc: zstd is linked as an archive. Only the injection entry points are exported. Symbols are bound at load
# time (-z now): binding at the first call needs several KiB of the program's stack.
$(B)/libinferprof-collector.so: $(collect_obj)
	$(call say,LINK,$@)
	$(Q)$(CC) $(SAN_LD) $(LDFLAGS) -shared -o $@ $^ -Wl,-Bstatic -lzstd -Wl,-Bdynamic -lpthread -ldl \
	    -Wl,--exclude-libs,ALL -Wl,-z,defs -Wl,-z,nodelete -Wl,-z,now

$(B)/obj/%.o: src/%.c | $(B)/deps-build
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<
$(B)/pic/%.o: src/%.c | $(B)/deps-build
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -fPIC -fvisibility=hidden $(TLS) -MMD -MP -c -o $@ $<

# The engine's inner loops: one source, compiled per instruction set; kernels.c selects one at run time.
avx2_flags := -mavx2 -mfma -mf16c
avx512_flags := $(avx2_flags) -mavx512f -mavx512bw -mavx512dq -mavx512vl
kernel_flags := -O3 -ffp-contract=fast -fno-math-errno
$(B)/obj/engine/compute/kernels_portable.o: ALL_CFLAGS += $(kernel_flags)
ifeq ($(shell uname -m),x86_64)
$(B)/obj/engine/compute/kernels_avx2.o: ALL_CFLAGS += $(kernel_flags) $(avx2_flags)
$(B)/obj/engine/compute/kernels_avx512.o: ALL_CFLAGS += $(kernel_flags) $(avx512_flags)
$(B)/obj/engine/compute/kernels_avx512vnni.o: ALL_CFLAGS += $(kernel_flags) $(avx512_flags) -mavx512vnni
$(B)/obj/engine/compute/kernels_avx512bf16.o: ALL_CFLAGS += $(kernel_flags) $(avx512_flags) -mavx512vnni -mavx512bf16
$(B)/obj/engine/compute/kernels_amx.o: ALL_CFLAGS += $(kernel_flags) $(avx512_flags) -mavx512vnni -mavx512bf16 \
    -mamx-tile -mamx-bf16
endif

# The CUDA backend's kernels: machine code for Hopper and PTX for other GPUs, embedded as cuda/NAME.fatbin. Without nvcc
# the program has none; the backend then says so.
NVCC ?= $(firstword $(wildcard $(CUDA_HOME)/bin/nvcc) $(shell command -v nvcc 2>/dev/null))
NVCC_FLAGS := -fatbin -O3 -std=c++17 -Werror all-warnings -gencode arch=compute_90a,code=sm_90a \
              -gencode arch=compute_80,code=compute_80
cuda_ptx := $(if $(NVCC),$(foreach a,80 90,$(patsubst src/engine/cuda/%.cu,build/cuda/ptx/$(a)/%.ptx,$(wildcard src/engine/cuda/*.cu))))
cuda_fatbins := $(if $(NVCC),$(patsubst src/engine/cuda/%.cu,build/cuda/%.fatbin,$(wildcard src/engine/cuda/*.cu)))
# The PTX of both architectures is kept for the tests that interpret it (tests/ptx).
cuda_kept = build/cuda/keep/$*/$*
build/cuda/%.fatbin build/cuda/ptx/80/%.ptx build/cuda/ptx/90/%.ptx: src/engine/cuda/%.cu $(wildcard src/engine/cuda/*.cuh) \
        src/engine/cuda/kernel_args.h src/engine/cuda/persistent_layout.h src/engine/cuda/skinny_layout.h
	@mkdir -p build/cuda/ptx/80 build/cuda/ptx/90 $(dir $(cuda_kept))
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCC_FLAGS) --keep --keep-dir $(dir $(cuda_kept)) -o $(cuda_kept).fatbin $<
	@mv $(cuda_kept).compute_80.ptx build/cuda/ptx/80/$*.ptx && mv $(cuda_kept).compute_90a.ptx build/cuda/ptx/90/$*.ptx
	@mv $(cuda_kept).fatbin build/cuda/$*.fatbin && rm -r $(dir $(cuda_kept))

$(B)/pic/collect/output.o: CPPFLAGS += -DINFERPROF_VERSION='"$(VERSION)"'

# Rewritten only when the content changes, so that a commit that changes no code does not cause a rebuild.
$(B)/obj/cmd/build_info.o: $(B)/gen/version.h
$(B)/gen/version.h: FORCE
	@mkdir -p $(@D)
	@VERSION='$(VERSION)' CUDA_INC='$(CUDA_INC)' sh scripts/version_header.sh > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
.PHONY: FORCE

# Files embedded in the program. The list is rewritten when a file is added or removed, the object when one changes.
embed_files := $(shell find web conf samples -type f 2>/dev/null | LC_ALL=C sort)
$(B)/gen/embed.c: FORCE
	@mkdir -p $(@D)
	@sh scripts/embed.sh $(sort $(embed_files) $(foreach f,$(cuda_fatbins),$(f:build/%=%)=$(f))) > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
$(B)/obj/gen/embed.o: $(B)/gen/embed.c $(embed_files) $(cuda_fatbins) src/base/embed.h | $(B)/deps-build
	@mkdir -p $(@D)
	$(call say,EMBED,"web conf samples$(if $(cuda_fatbins), cuda)")
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c -o $@ $<

# Packages: one stamp per set, renewed when the list changes.
$(B)/deps-%: scripts/deps.sh
	@mkdir -p $(@D)
	@sh scripts/deps.sh $*
	@touch $@
$(B)/deps-test: | $(B)/deps-build # in sequence: dpkg holds a lock while it installs
deps:
	@sh scripts/deps.sh build test lint fuzz

# ---- tests: one binary per folder of tests/unit, and the scripts of tests/cli
unit_names := $(notdir $(patsubst %/,%,$(wildcard tests/unit/*/)))
unit_bins := $(unit_names:%=$(B)/tests/unit-%)
test_programs := $(patsubst tests/programs/%.c,$(B)/tests/%,$(wildcard tests/programs/*.c))
define unit_rule
$(B)/tests/unit-$(1): $(patsubst tests/%.c,$(B)/tests/obj/%.o,$(wildcard tests/unit/$(1)/*.c)) $(B)/tests/obj/unit/main.o $(B)/libinferprof.a
	$$(call say,LINK,$$@)
	$(Q)$$(CC) $$(SAN_LD) $$(LDFLAGS) -o $$@ $$^ -lcmocka -Wl,--as-needed $$(LIBS)
endef
$(foreach n,$(unit_names),$(eval $(call unit_rule,$(n))))
$(B)/tests/obj/%.o: tests/%.c | $(B)/deps-build $(B)/deps-test
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) -Itests $(ALL_CFLAGS) -MMD -MP -c -o $@ $<
$(B)/tests/%: $(B)/tests/obj/programs/%.o $(B)/libinferprof.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(SAN_LD) $(LDFLAGS) -o $@ $^ -Wl,--as-needed $(LIBS)
.SECONDARY:
# ---- mocks of NVIDIA's libraries, and a program that uses them (tests/mock)
M := $(B)/tests/mock
mock_bins := $(M)/libcupti.so.13 $(M)/libcuda.so.1 $(M)/libnvidia-ml.so.1 $(M)/mock_app $(M)/libcudart.so.13 \
	$(M)/libgraphs-lazy.so $(M)/libgraphs-now.so
mock_cc = $(CC) $(CPPFLAGS) -Itests $(ALL_CFLAGS) -fvisibility=hidden $(SAN_LD) $(LDFLAGS)
mock_lib = @mkdir -p $(M) && $(mock_cc) -fPIC -shared -Wl,-soname,$(@F) -o $@ $(filter %.c,$^) -lpthread -ldl
mock_h := $(wildcard tests/mock/*.h src/collect/*.h src/counters/*.h)
$(M)/libcupti.so.13: tests/mock/cupti.c tests/mock/pm.c src/collect/layout.c $(mock_h) | $(B)/deps-build
	$(call say,LINK,$@)
	$(Q:@=)$(mock_lib)
$(M)/libcuda.so.1: tests/mock/cuda.c | $(B)/deps-build
	$(call say,LINK,$@)
	$(Q:@=)$(mock_lib)
$(M)/libnvidia-ml.so.1: tests/mock/nvml.c | $(B)/deps-build
	$(call say,LINK,$@)
	$(Q:@=)$(mock_lib)
$(M)/libcudart.so.13: tests/mock/cudart.c $(mock_h) | $(B)/deps-build
	@echo "  MOCK  $@"
	$(Q:@=)$(mock_lib)
# programs that call the runtime through slots of their global offset table, resolved at the first call or at once
$(M)/libgraphs-%.so: tests/mock/graphs.c $(M)/libcudart.so.13 $(mock_h) | $(B)/deps-build
	@echo "  MOCK  $@"
	$(Q:@=)$(mock_lib) -Wl,-z,$* -Wl,-z,relro $(M)/libcudart.so.13
$(M)/mock_app: tests/mock/app.c tests/mock/nccl.c $(mock_h) | $(B)/deps-build
	$(call say,LINK,$@)
	@mkdir -p $(M) && $(mock_cc) -o $@ $(filter %.c,$^) -lpthread -ldl

# ---- programs that mistreat the collector (tests/guests), and a disk that hangs
G := $(B)/tests/guests
guest_bins := $(patsubst tests/guests/%.c,$(G)/%,$(filter-out %/guest.c %/stuck.c %/shift_clock.c %/no_malloc.c,$(wildcard tests/guests/*.c))) $(G)/libstuck.so \
	$(G)/libshift_clock.so $(G)/libno_malloc.so
$(G)/%: tests/guests/%.c tests/guests/guest.c tests/guests/guest.h $(mock_h) | $(B)/deps-build
	$(call say,LINK,$@)
	@mkdir -p $(G) && $(mock_cc) -o $@ $(filter %.c,$^) -lpthread -ldl
$(G)/lib%.so: tests/guests/%.c | $(B)/deps-build
	$(call say,LINK,$@)
	@mkdir -p $(G) && $(CC) $(CPPFLAGS) $(filter-out -fsanitize=%,$(ALL_CFLAGS)) -fPIC -shared -o $@ $< -ldl

# ---- a disk with faults, and random guests on it for SOAK_MINUTES (tests/soak): not part of CI
SOAK_MINUTES ?= 5
$(B)/tests/soak/libfaults.so: tests/soak/faults.c | $(B)/deps-build
	$(call say,LINK,$@)
	@mkdir -p $(@D) && $(CC) $(CPPFLAGS) $(filter-out -fsanitize=%,$(ALL_CFLAGS)) -fPIC -shared -o $@ $< -ldl
soak: all $(mock_bins) $(guest_bins) $(B)/tests/soak/libfaults.so
	python3 tests/soak/soak.py --build $(B) --minutes $(SOAK_MINUTES)

# ---- checks that need a GPU (tests/gpu/cuda.sh): built here, run by hand
cuda_check_objects := $(patsubst tests/%.c,$(B)/tests/obj/%.o,$(wildcard tests/gpu/cuda/*.c))
$(B)/tests/cuda_check: $(cuda_check_objects) $(B)/libinferprof.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(SAN_LD) $(LDFLAGS) $(RUNPATH) -o $@ $^ -Wl,--as-needed $(LIBS)

# A libcuda.so.1 that interprets the kernels' PTX on the CPU. It is fast code without sanitizers: those of the program
# that loads it check the host side.
$(B)/tests/ptx/libcuda.so.1: $(wildcard tests/ptx/*.c tests/ptx/*.h) $(addprefix src/base/,alloc_guard.c clock.c die.c vec.c) src/driver/cuda.h | $(B)/deps-build
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -Itests $(filter-out -fsanitize=% -O1 -O2,$(ALL_CFLAGS)) -O3 -march=native -fvisibility=hidden \
	    -fPIC -shared -Wl,-soname,$(@F) -o $@ $(filter %.c,$^) -lm

# The program of a machine without nvcc (tests/cli/without_nvcc.sh): the same objects, without the GPU kernels in embed.o.
$(B)/tests/gen/embed.c: $(embed_files) scripts/embed.sh
	@mkdir -p $(@D)
	@sh scripts/embed.sh $(embed_files) > $@
$(B)/tests/gen/embed.o: $(B)/tests/gen/embed.c
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c -o $@ $<
$(B)/tests/inferprof-without-nvcc: $(B)/obj/main.o $(B)/tests/gen/embed.o $(B)/libinferprof.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(SAN_LD) $(LDFLAGS) $(RUNPATH) -o $@ $^ -Wl,--as-needed $(LIBS)

# Fuzz targets and benchmarks are compiled, not run, so that a changed function breaks them here.
unrun_objects := $(patsubst tests/%.c,$(B)/tests/obj/%.o,$(wildcard tests/fuzz/fuzz_*.c tests/bench/*.c))
test-build: all $(B)/tests/cuda_check $(B)/tests/ptx/libcuda.so.1 $(cuda_ptx) $(B)/tests/inferprof-without-nvcc $(unit_bins) $(test_programs) $(mock_bins) $(guest_bins) $(unrun_objects) $(B)/tests/soak/libfaults.so
test: test-build
	@BUILD='$(B)' sh tests/run.sh $(TESTS)

# ---- long tests: not part of CI. LONG_TRIALS trials of equal sides and a quarter as many slowed
# ones; 10 real processes per trial, about a second each; LONG_JOBS at once
LONG_TRIALS ?= 40
LONG_JOBS ?= 1
test-long: all test-build
	$(MAKE) SAN=1 test TESTS='browser collector guests schemas serve'
	BUILD='$(B)' sh tests/ptx/long.sh
	python3 tests/stats/false_verdicts.py $(B)/inferprof --real $(LONG_TRIALS) --jobs $(LONG_JOBS)
	CHANGE_POINT_SERIES=20000 $(B)/tests/unit-base
	SERVE_ALL=1 SERVE_KILLS=30 OPENAPI_SEEDS='7 101 202 303 404' OPENAPI_EXAMPLES=8 $(MAKE) test TESTS='serve openapi'
	INFERPROF='$(CURDIR)/$(B)/inferprof' sh tests/oracle/rank_hta.sh
	BUILD='$(B)' sh tests/tools/clock_sweep.sh
	python3 tests/tools/step_sweep.py $(B)/tests/make_ranks $(B)/inferprof 200
	@$(MAKE) --no-print-directory test-kills
	@t=$$(mktemp -d) && mkdir "$$t/work" && TMPDIR="$$t" BUILD='$(B)' INFERPROF='$(CURDIR)/$(B)/inferprof' \
	    bash tests/launchers/run.sh | tee "$$t/tap"; ! grep -q '^not ok' "$$t/tap"; s=$$?; rm -rf "$$t"; exit $$s
	@t=$$(mktemp -d) && mkdir "$$t/work" && TMPDIR="$$t" INFERPROF='$(CURDIR)/$(B)/inferprof' \
	    python3 tests/serve/real_trend.py "$$t/runs"; s=$$?; rm -rf "$$t"; exit $$s
	$(MAKE) wheel
	sh scripts/deps.sh oldroot
	VERSION='$(VERSION)' sh tests/packages/old_glibc.sh

# kill -9 of the server at random moments of KILLS uploads
KILLS ?= 1000
.PHONY: test-kills
test-kills: all
	@t=$$(mktemp -d) && mkdir "$$t/work" && TMPDIR="$$t" INFERPROF='$(CURDIR)/$(B)/inferprof' SERVE_KILLS=$(KILLS) \
	    python3 tests/serve/kills.py "$$t/runs"; s=$$?; rm -rf "$$t"; exit $$s

# ---- benchmarks: they print numbers and never fail on them
bench_bins := $(patsubst tests/bench/%.c,$(B)/bench/%,$(wildcard tests/bench/*.c))
$(B)/bench/obj/%.o: tests/bench/%.c | $(B)/deps-build
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) -Itests $(ALL_CFLAGS) -MMD -MP -c -o $@ $<
$(B)/bench/%: $(B)/bench/obj/%.o $(B)/libinferprof.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(SAN_LD) $(LDFLAGS) -o $@ $^ -Wl,--as-needed $(LIBS)
bench: all $(bench_bins) $(M)/libcupti.so.13 $(B)/tests/make_ranks
	@for b in $(bench_bins); do echo "== $$(basename $$b)"; $$b || exit 1; done
	@$(MAKE) --no-print-directory bench-serve
.PHONY: bench-serve
bench-serve: all # 100,000 runs on SQLite and PostgreSQL
	@sh scripts/deps.sh test bench
	@INFERPROF='$(CURDIR)/$(B)/inferprof' python3 tests/bench/serve.py $(if $(UPDATE),--update docs/serve.md)

# ---- fuzzing: each tests/fuzz/fuzz_NAME.c runs on its corpus for FUZZ_SECONDS (libFuzzer, clang)
FUZZ_SECONDS ?= 30
fuzz:
	@sh scripts/deps.sh fuzz
	@$(MAKE) --no-print-directory CC=clang SAN=1 CFLAGS='-O1 -g -fsanitize=fuzzer-no-link' fuzz-run FUZZ_SECONDS=$(FUZZ_SECONDS)
FUZZ_PACK ?= 0
FUZZ_LD := $(if $(filter 1,$(FUZZ_PACK)),-Wl$(,)--dynamic-linker=lib/ld-linux-x86-64.so.2 -Wl$(,)--disable-new-dtags -Wl$(,)-rpath$(,)'$$ORIGIN/../lib')
fuzz_bins := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
$(B)/fuzz/%: tests/fuzz/%.c $(B)/libinferprof.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CPPFLAGS) -Itests $(ALL_CFLAGS) -fsanitize=fuzzer -o $@ $^ -Wl,--as-needed $(LIBS) $(FUZZ_LD)
# A folder to run on another machine (tests/fuzz/campaign.sh), with the loader and libraries in lib/.
fuzz-pack:
	@sh scripts/deps.sh fuzz
	@$(MAKE) --no-print-directory STATIC=1 CC=clang SAN=1 CFLAGS='-O1 -g1 -fsanitize=fuzzer-no-link' FUZZ_PACK=1 fuzz-pack-bins
fuzz-pack-bins: $(fuzz_bins)
	@BUILD='$(B)' sh scripts/fuzz_pack.sh $(notdir $(fuzz_bins))
.PHONY: fuzz-run fuzz-pack fuzz-pack-bins
fuzz-run: $(fuzz_bins)
	@BUILD='$(B)' FUZZ_SECONDS='$(FUZZ_SECONDS)' sh scripts/fuzz.sh $(notdir $(fuzz_bins))

# ---- lint, install, packaging
c_files := $(wildcard src/*.c src/*/*.[ch] src/*/*/*.[ch] src/*/*/*.cu src/*/*/*.cuh tests/*.[ch] tests/*/*.[ch] tests/*/*/*.[ch])
sh_files := $(wildcard scripts/*.sh tests/*.sh tests/*/*.sh .ci/run)
lint: test-build # lint_exports.sh reads the objects
	@sh scripts/deps.sh lint
	@BUILD='$(B)' C_FILES='$(c_files)' SH_FILES='$(sh_files)' sh scripts/lint.sh
format:
	clang-format -i $(c_files)

demo: all
	@BUILD='$(B)' sh scripts/demo.sh

install: all
	install -d '$(DESTDIR)$(PREFIX)/bin' '$(DESTDIR)$(PREFIX)/lib/inferprof'
	install -m 755 $(B)/inferprof '$(DESTDIR)$(PREFIX)/bin/inferprof'
	install -m 755 $(B)/libinferprof-collector.so $(B)/inferprof-counters '$(DESTDIR)$(PREFIX)/lib/inferprof/'
	install -d '$(DESTDIR)$(PREFIX)/lib/inferprof/engines/hf'
	install -m 644 engines/hf/*.py '$(DESTDIR)$(PREFIX)/lib/inferprof/engines/hf/'
	install -d '$(DESTDIR)$(PREFIX)/share/bash-completion/completions' '$(DESTDIR)$(PREFIX)/share/zsh/site-functions'
	$(B)/inferprof completion bash > $(B)/gen/completion.bash
	$(B)/inferprof completion zsh > $(B)/gen/completion.zsh
	$(B)/inferprof completion fish > $(B)/gen/completion.fish
	install -m 644 $(B)/gen/completion.bash '$(DESTDIR)$(PREFIX)/share/bash-completion/completions/inferprof'
	install -m 644 $(B)/gen/completion.zsh '$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_inferprof'
	install -d '$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d'
	install -m 644 $(B)/gen/completion.fish '$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/inferprof.fish'
	rm -rf $(B)/gen/man
	$(B)/inferprof man --output $(B)/gen/man
	gzip -n9 $(B)/gen/man/*.1
	install -d '$(DESTDIR)$(PREFIX)/share/inferprof/schemas'
	install -m 644 schemas/*.json '$(DESTDIR)$(PREFIX)/share/inferprof/schemas/'
	install -d '$(DESTDIR)$(PREFIX)/share/man/man1'
	install -m 644 $(B)/gen/man/*.1.gz '$(DESTDIR)$(PREFIX)/share/man/man1/'

dist:
	@$(MAKE) --no-print-directory STATIC=1 dist-pack
.PHONY: dist-pack dist-test
dist-test: test-build
	@tarball=$$($(MAKE) --no-print-directory dist | tail -n 1) && BUILD='$(B)' TARBALL="$$tarball" sh tests/dist/run.sh
dist-pack: all
	+@BUILD='$(B)' VERSION='$(VERSION)' sh scripts/dist.sh

# A wheel and a Debian package from the same files as the tarball.
wheel deb: dist
	+@VERSION='$(VERSION)' sh scripts/$@.sh
.PHONY: wheel deb packages-test
packages-test: wheel deb
	@sh scripts/deps.sh packages
	@VERSION='$(VERSION)' sh tests/packages/run.sh

clean:
	rm -rf build

help:
	@echo "all demo test test-long soak bench fuzz lint format install dist wheel deb deps clean; see the top of the Makefile for switches"

-include $(shell find $(B) -type f -name '*.d' 2>/dev/null)
