# Tests. `make test` is everything that a change must pass; the others take longer or need tools.

CHECK_C := $(wildcard tests/c/*.c)
CHECK_SUITES := $(patsubst tests/c/test_%.c,%,$(wildcard tests/c/test_*.c))
CHECK_OBJ := $(call obj,$(CHECK_C)) $(BUILD)/obj/tests/c/suites.o
CHECK_LIBS = $(shell pkg-config --libs check 2>/dev/null || echo -lcheck)
RUN = $(LUA) tests/run.lua --build $(BUILD)

# In a make of its own: the variables above are computed before anything is installed.
test:
	@$(MAKE) --no-print-directory deps
	@$(MAKE) --no-print-directory test-here
test-here: all $(BUILD)/check $(BUILD)/host
	$(RUN) c lua ops golden samples

check-c: $(BUILD)/moth $(BUILD)/check
	$(RUN) c
check-lua: $(BUILD)/moth
	$(RUN) lua
check-ops: $(BUILD)/moth
	$(RUN) ops
check-golden: $(BUILD)/moth
	$(RUN) golden
check-samples: $(BUILD)/moth check-embed
	$(RUN) samples
check-perf: bench
check-deps:
	$(LUA) tests/style/deps.lua
check-style:
	$(LUA) tests/style/style.lua

# The suites in one program; their names come from the files'.
$(BUILD)/gen/suites.c: $(wildcard tests/c/test_*.c) | $(BUILD)/gen
	@{ echo '#include <check.h>'; echo '#include <stdlib.h>'; \
	  for s in $(CHECK_SUITES); do echo "Suite *$${s}_suite(void);"; done; \
	  echo 'int main(void) {'; echo '  SRunner *r = srunner_create(NULL);'; \
	  for s in $(CHECK_SUITES); do echo "  srunner_add_suite(r, $${s}_suite());"; done; \
	  echo '  srunner_run_all(r, CK_ENV);'; echo '  int bad = srunner_ntests_failed(r);'; \
	  echo '  srunner_free(r);'; echo '  return bad ? EXIT_FAILURE : EXIT_SUCCESS;'; echo '}'; } > $@
$(BUILD)/obj/tests/c/suites.o: $(BUILD)/gen/suites.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -c -o $@ $<
$(BUILD)/obj/tests/%.o: INC = $(LUA_INC) -Iruntime -Ilua
$(BUILD)/check: $(CHECK_OBJ) $(BUILD)/libmoth.a
	$(CC) $(SAN) -o $@ $(CHECK_OBJ) $(BUILD)/libmoth.a $(CHECK_LIBS) $(LUA_LIB) $(JSON) $(ZLIB) $(SYSLIBS)

# Every allocation fails once: an error, no leak, no crash.
$(BUILD)/fault: tests/fault/fault.c $(BUILD)/libmoth.a
	$(CC) -std=c11 -D_GNU_SOURCE $(WARN) $(OPT) -g $(SAN) -Iruntime -Ilua $(LUA_INC) -o $@ $< \
	  $(BUILD)/libmoth.a $(LUA_LIB) $(JSON) $(ZLIB) $(SYSLIBS)
check-fault:
	+@$(MAKE) --no-print-directory BUILD=build/nopool OPT='-O1 -DMT_NOPOOL' build/nopool/fault
	build/nopool/fault tests/fault/script.lua

# The same tests with a sanitizer, without the pools that would hide freed memory from it. Check
# must not fork per test there: a report would be lost.
sanitized = +@$(MAKE) --no-print-directory BUILD=build/$(1) SAN='$(2)' \
  OPT='-O1 -DMT_NOPOOL -fno-omit-frame-pointer' build/$(1)/moth build/$(1)/check
ASAN = detect_leaks=1:abort_on_error=0:allocator_may_return_null=1
check-asan:
	$(call sanitized,asan,-fsanitize=address)
	ASAN_OPTIONS=$(ASAN) CK_TIMEOUT_MULTIPLIER=10 $(LUA) tests/run.lua --build build/asan --quick $(STAGES)
check-ubsan:
	$(call sanitized,ubsan,-fsanitize=undefined -fno-sanitize-recover=all)
	CK_TIMEOUT_MULTIPLIER=10 $(LUA) tests/run.lua --build build/ubsan --quick $(STAGES)
check-tsan:
	$(call sanitized,tsan,-fsanitize=thread)
	CK_TIMEOUT_MULTIPLIER=10 $(LUA) tests/run.lua --build build/tsan --quick $(STAGES)
STAGES ?= c lua ops golden

# The slower variants of the kernels, which this processor would not choose.
check-isa: $(BUILD)/moth $(BUILD)/check
	for v in $(filter v2 v3 base,$(ISAS)); do MOTH_ISA=$$v $(RUN) c ops golden || exit 1; done

.PHONY: test test-here check-c check-lua check-ops check-golden check-samples check-perf check-deps \
  check-style check-fault check-asan check-ubsan check-tsan check-isa
