# The layer and the C programs of the tests under sanitizers, in build/sanitize/KIND.  From the repository's root:
#   make -f tests/sanitize/build.mk KIND=address     AddressSanitizer, LeakSanitizer, UndefinedBehaviorSanitizer
#   make -f tests/sanitize/build.mk KIND=thread      ThreadSanitizer
# `pylayer/` there is the installed package with that layer in it, `tree/build/` the programs.
KIND ?= address
OUT := build/sanitize/$(KIND)
TREE := $(OUT)/tree
PYTHON := .venv/bin/python

# The programs too: what they allocate and free, and the mutexes and threads that order what they do.
# Undefined behaviour of the layer traps, and the test sees its program end by SIGILL: gcc's own reports of it go to the
# program's stderr. That of the programs does not: drivers of the tests crash by it.
COMMON := -g -fno-omit-frame-pointer
PROGRAMS_address := -fsanitize=address $(COMMON)
PROGRAMS_thread := -fsanitize=thread $(COMMON)
LAYER_address := -fsanitize=undefined -fsanitize-recover=address -fsanitize-undefined-trap-on-error $(PROGRAMS_address)
LAYER_thread := $(PROGRAMS_thread)
KEEP_address := -DLEAKS

INSTALLED := $(shell $(PYTHON) -Pc "import pylayer, os; print(os.path.dirname(pylayer.__file__))")
POLICY := $(notdir $(wildcard $(INSTALLED)/_policy.*.so))
PRIVATE := $(notdir $(wildcard $(INSTALLED)/_private/lib/libpylayer-python*))
LAYER := $(OUT)/pylayer/libVkLayer_pylayer_pipeline_cache.so
SETS := demo layer recipes driver hosts

all: $(LAYER) $(OUT)/libkeep.so programs

$(OUT)/libkeep.so: tests/sanitize/keep.c tests/sanitize/build.mk
	@mkdir -p $(OUT)
	$(CC) -Wall -Wextra -Wno-unused-parameter -Werror -O1 -fPIC -shared $(KEEP_$(KIND)) -o $@ $<

$(LAYER): .venv/installed tests/sanitize/build.mk $(wildcard shim/layer/*.h shim/layer/*/*) shim/boundary.h shim/layer.map
	@rm -rf $(OUT)/pylayer && mkdir -p $(OUT)
	@cp -r $(INSTALLED) $(OUT)/pylayer && rm -f $@
	$(CC) -std=gnu11 -O1 $(LAYER_$(KIND)) -fPIC -fvisibility=hidden -shared -DPYLAYER_POLICY_LIBRARY='"$(POLICY)"' \
	    -DPYLAYER_PRIVATE_PYTHON='"$(PRIVATE)"' -Wl,--version-script=shim/layer.map -Wl,-z,nodelete -Wl,-z,defs \
	    -o $@ -Ishim/layer shim/layer/*/*.c -lpthread -ldl

# The test programs' Makefiles build into build/ of the directory that they run in: here one of links to the sources.
programs:
	@mkdir -p $(TREE) && ln -sfn $(CURDIR)/tests $(TREE)/tests && ln -sfn $(CURDIR)/shim $(TREE)/shim
	@set -e; for name in $(SETS); do \
	    $(MAKE) --no-print-directory -s -C $(TREE) -f tests/$$name/Makefile CC="$(CC) $(PROGRAMS_$(KIND))"; \
	done

.PHONY: all programs
.DEFAULT_GOAL := all
