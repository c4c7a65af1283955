# The C host in samples/embed: built with the two public headers only, run plainly and under valgrind.
$(BUILD)/host: samples/embed/host.c $(BUILD)/libmoth.a
	$(CC) $(WARN) $(OPT) -g $(SAN) $(CFLAGS) -D_GNU_SOURCE -Iruntime -Ilua $(LUA_INC) -o $@ $< \
	  $(BUILD)/libmoth.a $(LUA_LIB) $(JSON) $(ZLIB) $(SYSLIBS)

check-embed: $(BUILD)/host
	$(BUILD)/host
	@if command -v valgrind >/dev/null && [ -z "$(SAN)" ]; then \
	  valgrind -q --error-exitcode=9 --leak-check=full --show-leak-kinds=definite,indirect,possible \
	    --errors-for-leak-kinds=definite,indirect,possible $(BUILD)/host > $(BUILD)/host.log 2>&1 \
	  || { cat $(BUILD)/host.log; exit 1; }; echo 'valgrind: clean'; fi
.PHONY: check-embed
