# Reference pages and editor annotations, from the rows and the comments.
docs: $(BUILD)/moth
	@mkdir -p $(BUILD)/docs
	$(BUILD)/moth lua/docs.lua $(BUILD)/docs $(STDLIB)
	@echo 'build/docs/index.md, build/docs/moth.d.lua'
.PHONY: docs
