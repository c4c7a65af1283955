# Moth. `make demo` and `make test` are all a newcomer needs; `make help` lists the rest.
# Sources are found by wildcard: a new file needs no line here.

PREFIX ?= /usr/local
CC = gcc
AR = gcc-ar
BUILD ?= build
WARN = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror
OPT ?= -O2
SAN ?=
CFLAGS_ALL = -std=c11 -D_GNU_SOURCE -fPIC -fvisibility=hidden -pthread $(WARN) $(OPT) -g1 $(SAN) -MMD -MP $(CFLAGS)
KFLAGS = -O3 -ffp-contract=fast -fno-math-errno -fno-trapping-math
ARCH := $(shell uname -m)

# Lua 5.4 under the names that systems give it.
LUA_PC := $(shell for n in lua5.4 lua-5.4 lua54 lua; do pkg-config --exists "$$n >= 5.4.4" 2>/dev/null && echo $$n && break; done)
LUA_INC := $(shell pkg-config --cflags $(LUA_PC) 2>/dev/null)
LUA_LIBDIR := $(shell pkg-config --variable=libdir $(LUA_PC) 2>/dev/null)
LUA_STATIC := $(firstword $(wildcard $(LUA_LIBDIR)/lib$(LUA_PC).a $(LUA_LIBDIR)/liblua5.4.a $(LUA_LIBDIR)/liblua.a))
LUA_LIB := $(if $(LUA_STATIC),$(LUA_STATIC),$(shell pkg-config --libs $(LUA_PC) 2>/dev/null))
LUA := $(firstword $(shell command -v lua5.4 lua54 lua 2>/dev/null))
# A static library where the system has one, so that build/moth is one file to copy.
static_or = $(firstword $(wildcard $(addsuffix /lib$(1).a,$(LUA_LIBDIR) /usr/lib/$(ARCH)-linux-gnu /usr/lib64 /usr/lib)) -l$(1))
ZLIB := $(call static_or,z)
JSON := $(call static_or,jansson)
HAVE_EDIT := $(wildcard /usr/include/editline/readline.h)
EDIT := $(if $(HAVE_EDIT),$(call static_or,edit) $(call static_or,bsd) $(call static_or,md) $(call static_or,tinfo))
SYSLIBS = -lm -ldl -pthread
# Static libraries of systems are not made for shared objects.
SHARED_LIBS = -ljansson -lz

ifeq ($(ARCH),x86_64)
ISAS = v2 v3 v4
isa_flag = -march=x86-64-$(1)
else
ISAS = base
isa_flag =
endif

KSRC := $(wildcard kernels/*.c kernels/cpu/*.c kernels/cpu/ref/*.c)
ASRC := $(wildcard kernels/cpu/arch/*.c)
RSRC := $(wildcard runtime/*.c runtime/ops/*.c runtime/io/*.c runtime/graph/*.c runtime/dist/*.c)
LSRC := $(filter-out lua/main.c lua/repl.c,$(wildcard lua/*.c))
MSRC := $(wildcard lua/main.c lua/repl.c)
STDLIB := $(shell find stdlib -name '*.lua' 2>/dev/null | LC_ALL=C sort)
obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
KOBJ := $(call obj,$(KSRC)) $(foreach i,$(ISAS),$(patsubst kernels/cpu/arch/%.c,$(BUILD)/obj/arch/%_$(i).o,$(ASRC)))
ROBJ := $(call obj,$(RSRC))
LOBJ := $(call obj,$(LSRC)) $(BUILD)/obj/stdlib.o
MOBJ := $(call obj,$(MSRC))
FAMILIES := $(basename $(notdir $(wildcard runtime/ops/*.c)))

all: $(BUILD)/moth $(BUILD)/libmoth.a $(BUILD)/libmoth.so $(BUILD)/moth.so $(BUILD)/moth.pc

help:
	@echo 'make            build/moth, libmoth.a, libmoth.so, moth.so, moth.pc'
	@echo 'make demo       installs what is missing, builds, trains on real digits'
	@echo 'make test       installs what is missing, builds, runs all tests'
	@echo 'make check-X    X = c lua ops golden samples fault asan ubsan tsan deps style perf'
	@echo 'make bench      speed, beside PyTorch where it is installed'
	@echo 'make docs, make install PREFIX=/usr/local, make deps, make clean'

# ---- objects ----
$(BUILD)/gen/families.def: $(wildcard runtime/ops/*.c) | $(BUILD)/gen
	@printf 'X(%s)\n' $(FAMILIES) > $@.new; cmp -s $@.new $@ && rm $@.new || mv $@.new $@
	@touch $@
$(BUILD)/gen:
	@mkdir -p $@

$(BUILD)/obj/runtime/op.o: $(BUILD)/gen/families.def
$(BUILD)/obj/runtime/%.o: INC = -I$(BUILD)/gen
$(BUILD)/obj/lua/%.o: INC = $(LUA_INC) -Iruntime $(if $(HAVE_EDIT),-DMOTH_EDITLINE)
$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC $<"
	@$(CC) $(CFLAGS_ALL) $(INC) -c -o $@ $<
# Plain kernels are the truth for tests: no contraction, no reordering.
$(BUILD)/obj/kernels/cpu/ref/%.o: OPT = -O2 -ffp-contract=off

define arch_rule
$(BUILD)/obj/arch/%_$(1).o: kernels/cpu/arch/%.c
	@mkdir -p $$(@D)
	@echo "  CC $$< ($(1))"
	@$(CC) $(CFLAGS_ALL) $(KFLAGS) $(call isa_flag,$(1)) -DMT_ISA=$(1) -c -o $$@ $$<
endef
$(foreach i,$(ISAS),$(eval $(call arch_rule,$(i))))

# The standard library inside the program: one C array per Lua file.
$(BUILD)/gen/stdlib.c: $(STDLIB) lua/embed.lua | $(BUILD)/gen
	$(LUA) lua/embed.lua $(STDLIB) > $@.new && mv $@.new $@
$(BUILD)/obj/stdlib.o: $(BUILD)/gen/stdlib.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -fPIC -fvisibility=hidden -c -o $@ $<

# ---- products ----
$(BUILD)/libmoth.a: $(KOBJ) $(ROBJ) $(LOBJ)
	@rm -f $@
	$(AR) rcs $@ $^
$(BUILD)/libmoth_core.a: $(KOBJ) $(ROBJ)
	@rm -f $@
	$(AR) rcs $@ $^
$(BUILD)/libmoth.so: $(KOBJ) $(ROBJ)
	$(CC) -shared $(SAN) -Wl,-soname,libmoth.so -o $@ $^ $(SHARED_LIBS) $(SYSLIBS)
$(BUILD)/moth.so: $(KOBJ) $(ROBJ) $(LOBJ)
	$(CC) -shared $(SAN) -Wl,-z,nodelete -o $@ $^ $(SHARED_LIBS) $(SYSLIBS)
$(BUILD)/moth: $(MOBJ) $(LOBJ) $(ROBJ) $(KOBJ)
	$(CC) $(SAN) -Wl,-E -o $@ $^ $(LUA_LIB) $(EDIT) $(JSON) $(ZLIB) $(SYSLIBS)
$(BUILD)/moth.pc: Makefile
	@mkdir -p $(@D)
	@printf 'prefix=%s\nlibdir=$${prefix}/lib\nincludedir=$${prefix}/include/moth\n\nName: moth\nDescription: Embeddable scripting runtime for deep learning\nVersion: %s\nRequires.private: %s jansson zlib\nLibs: -L$${libdir} -lmoth\nLibs.private: -lm -ldl -pthread\nCflags: -I$${includedir}\n' \
	  '$(PREFIX)' "$$(sed -n 's/.*MOTH_VERSION "\(.*\)".*/\1/p' runtime/moth.h)" '$(LUA_PC)' > $@

include $(wildcard .make/*.mk tests/*.mk)
-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)

clean:
	rm -rf $(BUILD)
.PHONY: all help clean
.DELETE_ON_ERROR:
