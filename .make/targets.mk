# What is done with the products: packages, demo, installation, benchmarks.

deps:
	@sh .make/deps.sh

# In a make of its own: the variables of this one were computed before anything was installed.
demo:
	@$(MAKE) --no-print-directory deps
	@$(MAKE) --no-print-directory demo-here
demo-here: $(BUILD)/moth
	$(BUILD)/moth samples/mnist.lua $(DEMO)

LIB = $(DESTDIR)$(PREFIX)/lib
HEADERS = $(DESTDIR)$(PREFIX)/include/moth
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(LIB)/pkgconfig $(LIB)/lua/5.4 $(HEADERS)
	install $(BUILD)/moth $(DESTDIR)$(PREFIX)/bin/moth
	install -m 644 $(BUILD)/libmoth.a $(BUILD)/libmoth.so $(LIB)
	install -m 644 $(BUILD)/moth.so $(LIB)/lua/5.4/moth.so
	install -m 644 $(BUILD)/moth.pc $(LIB)/pkgconfig/moth.pc
	install -m 644 runtime/moth.h lua/moth_lua.h $(HEADERS)

bench: $(BUILD)/moth
	$(BUILD)/moth tests/perf/run.lua $(BENCH)
.PHONY: deps demo demo-here install bench
