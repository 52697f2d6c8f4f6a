# make demo   the layer at work on an unmodified program, as a table
# make fleet-demo  a builder publishes what it compiled, and an empty home pulls it from nginx, as a table
# make containers  config/containers in podman: the image, and what Kubernetes would run; minutes, as root
# make fleet-s3 S3=s3://BUCKET  builders on a real S3 server
# make wine  Windows programs under Wine, with the layer; two minutes
# make wine-chroot  the same in a chroot: SUITE=unstable, with DXVK and 32-bit programs in 64-bit processes (new WoW64),
#             or SUITE=bookworm, with 32-bit processes; minutes, as root
# make check  after each edit: lint, the unit tests, one real program cold and warm; under a minute
# make test   lint and the tests that need a compiler, Vulkan's loader, RADV and Lavapipe; some four minutes
# make test-foreign  those that need a browser, a web server, groff, the validation layer, or programs that people use
# make test-all  both of these, packages, Windows programs, other drivers, and the sanitizers; hours, as root
# make descriptor-heap  every way to create a pipeline on the drivers of Debian testing, in a chroot; minutes, as root
# make drivers  NVK, Turnip, Honeykrisp, ANV, HASVK and RADV without hardware, in chroots of Debian; half an hour, as root
# make evidence  programs that people use, without the layer, twice under it and rebuilt, as a table; some ten minutes
# make bench  what the layer costs and saves, with the driver's disk cache as installed and without; some eight minutes
# make bench-more  stores of any size, threads, memory
# make gain   what a player gains whose driver cache is too small: three programs take turns, with and without the layer
# make hitches  200 late frames, alone and beside eight busy processes: is each told as the program measured it?
# make fuzz   hostile files for everything that reads one: INPUTS of them, 300000 by default; minutes
# make fuzz-shim   hostile programs for the layer's entry points, with libFuzzer for SECONDS, 60 by default
# make sanitizers  the layer's tests under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer; an hour
# make analyze     clang-tidy over shim/; a minute
# make stress programs that are killed a thousand times on one store; minutes
# make soak   the same programs with failing drivers and disks and damaged files, for MINUTES, 10 by default
# make corruption  damage to files of the store and of programs: INPUTS times, 2000 by default; minutes
# make recovery    one bad moment, then clean runs: MOMENTS of them, 2000 by default; minutes. SEED= draws other
#             moments, here and in the three above
# make differential  generated programs without the layer and with it, PROGRAMS of them, 2000 by default; minutes
# make gpu    draws with pipelines of every sort on this machine's GPU, with each mode, and compares images; a minute
# make coverage  how much of C and Python the tests run, by folder; some ten minutes
# make count  how large the project is: lines of code, files, keys, commands
# make lint   formatters, linters, mypy --strict; no warning of the C compiler
# make format what the formatters of make lint want, done
# make docs   the parts of docs/ that are made from the sources
# make setup  the virtual environment in .venv with pylayer in it
# make install  pylayer for this user: ~/.local/bin/pylayer, which needs nothing of this clone afterwards
# make sdist  the source distribution, in dist/
# make wheel  from it the wheel for this Python, with all libraries that it needs inside, in dist/
# make deb    a package for Debian or Ubuntu, for this release of it, in dist/
# make arch   one for Arch Linux, in dist/
# make stage DESTDIR=DIR  the files of a distribution's package, below DIR
# make check-wheel  that wheel in an empty environment without a compiler: doctor, a program, its pipelines; a minute
# make flatpak  an extension with the layer for Flatpak's programs, in dist/; FLATPAK_RUNTIME= their runtime's version
# make clean  removes what the above made
#
# On Debian and Ubuntu each installs the system packages that it needs when run as root, and names them in one line
# otherwise. PYTHON=/path/to/python chooses the Python that is embedded: 3.11 to 3.15 with a shared libpython.

PYTHON ?=
export PYTHON
# Each of pytest's workers reads all tests: 2.5 s of a processor with the bytecode that an earlier one wrote, 8 without.
unexport PYTHONDONTWRITEBYTECODE
INPUTS ?= $(if $(filter corruption,$(MAKECMDGOALS)),2000,300000)
PROGRAMS ?= 2000
SECONDS ?= 60
CLANG_TIDY ?= clang-tidy-19
MINUTES ?= 10
MOMENTS ?= 2000
SEED ?= 0
JOBS ?= $(shell nproc)
# Tests wait for their programs now and then: with one worker more than processors the suite took 0.86 times as long.
WORKERS ?= $(shell expr $$(nproc) + 1)

VENV := .venv
BIN := $(VENV)/bin
BUILDER := build/builder
PACKAGE := build/package
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

SOURCES := setup.py pyproject.toml $(shell find pylayer shim config manifests -type f ! -name "*.pyc")
PROGRAM_SETS := $(patsubst tests/%/Makefile,programs-%,$(wildcard tests/*/Makefile))
C_FILES := $(shell find shim tests -name '*.[ch]')
SHIM_C := $(wildcard shim/layer/*/*.c shim/policy/*.c shim/replay/*.c)

VALIDATION := build/validation/layer/VkLayer_khronos_validation.json
REGISTRY := build/registry/package

# These need what builds need; all but these and the next ones need packages for the tests and their programs.
BUILD_GOALS := setup install sdist wheel flatpak deb arch stage
DEMO_GOALS := demo $(BUILD_GOALS) check-wheel fuzz fuzz-shim analyze lint format docs count
GOALS := $(or $(MAKECMDGOALS),demo)
PACKAGES := $(if $(filter-out $(DEMO_GOALS),$(GOALS)),test,$(if $(filter-out $(BUILD_GOALS),$(GOALS)),demo,build))

demo: programs-demo setup
	@$(BIN)/python tests/demo/demo.py

test: system-packages python
	@$(MAKE) --no-print-directory -j $(JOBS) -O PARALLEL=1 first
	@$(MAKE) --no-print-directory -j $(JOBS) -O PARALLEL=1 ready
	$(BIN)/pytest -q -n $(WORKERS) --dist worksteal --durations=10

# All that is not a test, with several jobs at once: first what needs no package, beside the package and the environment.
# Then the rest.
ready: programs lint bytecode
first: environment $(filter-out programs-fuzz,$(PROGRAM_SETS))

# A make of its own: in one with the programs, each step of this chain would wait until all programs have started.
environment: | python
	@$(MAKE) --no-print-directory PARALLEL= $(VENV)/extra-test

# Of the tests, for all workers. What is wrong with a test is said later, when it runs.
bytecode: | $(VENV)/extra-test
	@$(BIN)/pytest -q --collect-only >/dev/null 2>&1 || true

# Of tests/unit, and of that one test of the layer.
CHECKED := $(addprefix programs-,demo layer driver storage)
check: setup $(VENV)/extra-test $(CHECKED) lint
	$(BIN)/pytest -q -n auto --dist worksteal tests/unit "tests/layer/test_main_job.py::test_second_run_compiles_nothing[mixed]"

fleet-demo: programs-demo setup $(VENV)/extra-test
	@$(BIN)/python -P tests/fleet/demo.py

# podman may need options: tests/containers/containers.py.
containers: programs-demo wheel $(VENV)/extra-test $(VENV)/extra-containers
	@.ci/system-packages containers
	$(BIN)/kubernetes-validate --strict --quiet config/containers/kubernetes.yaml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows config/ci/github.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.gitlab-ci --data-transform gitlab-ci config/ci/gitlab.yml
	$(BIN)/pytest -q --timeout 900 tests/containers/containers.py tests/fleet/test_commands.py::test_jobs

# S3=s3://BUCKET, of a server that the variables AWS_* lead to: AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and so on.
fleet-s3: setup $(VENV)/extra-test
	PYLAYER_TEST_S3=$(S3) $(BIN)/pytest -q tests/fleet/test_publish.py

# A prefix and an X server of their own.
wine: setup $(VENV)/extra-test
	@.ci/system-packages wine
	@$(MAKE) --no-print-directory programs-wine
	$(BIN)/pytest -q -rs tests/wine/programs.py

# Debian's Wine of 2025 and later has new WoW64, and needs no 32-bit libraries but DXVK's. Before that, 32-bit programs need
# Wine's and Vulkan's.
SUITE ?= unstable
WITH_DXVK := dpkg --add-architecture i386 && apt-get -q update && \
    apt-get -q -y --no-install-recommends install dxvk-wine64 dxvk-wine32:i386
WITH_WINE32 := dpkg --add-architecture i386 && apt-get -q update && .ci/system-packages wine && \
    apt-get -q -y --no-install-recommends -t bookworm-backports install wine32:i386 libvulkan1:i386 mesa-vulkan-drivers:i386
wine-chroot:
	@.ci/system-packages chroot
	@tests/debian_chroot.sh $(SUITE) sh -c '$(if $(filter bookworm,$(SUITE)),$(WITH_WINE32),$(WITH_DXVK)) && make -s PACKAGES=demo wine'

# The tests with the mark `foreign` (tests/conftest.py).
test-foreign: test-foreign-packages programs setup $(VENV)/extra-test $(VENV)/extra-foreign $(VENV)/chromium $(VALIDATION) $(REGISTRY)
	$(BIN)/pytest -q -n $(WORKERS) --dist worksteal -m foreign

test-foreign-packages:
	@.ci/system-packages foreign

test-all:
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory test-foreign check-wheel
	@$(MAKE) --no-print-directory wine wine-chroot drivers deb sanitizers

# Debian testing has a Mesa with VK_EXT_descriptor_heap. TESTS= other tests for this chroot.
TESTS ?= tests/layer/test_recipes.py
IN_CHROOT := make -s PACKAGES=demo setup $(CHECKED) programs-recipes && \
    .venv/bin/python -m pip -q --disable-pip-version-check install pytest pytest-timeout pytest-xdist hypothesis jsonschema && \
    .venv/bin/pytest -q -rs -n auto --dist worksteal $(TESTS)
descriptor-heap:
	@.ci/system-packages chroot
	@tests/debian_chroot.sh testing sh -c '$(IN_CHROOT)'

# Downloads 490 MB the first time. ONLY= some drivers or chips: ONLY=NVK,tgl
ONLY ?=
drivers: setup programs-demo programs-recipes
	@.ci/system-packages chroot
	@tests/drivers/run.sh --jobs $(JOBS) --only '$(ONLY)'

evidence: programs setup $(VENV)/extra-test $(VENV)/extra-foreign test-foreign-packages
	@$(BIN)/python -P tests/programs/evidence.py

hitches: setup $(VENV)/extra-test programs-driver programs-layer
	HITCHES=200 $(BIN)/pytest -q -s tests/layer/test_timeline.py -k busy

bench: setup programs
	$(BIN)/python tests/bench/run.py

gain: setup programs-demo
	$(BIN)/python -P tests/bench/more.py gain

bench-more: setup programs
	for what in scale threads memory; do $(BIN)/python -P tests/bench/more.py $$what || exit 1; done

fuzz: setup
	$(BIN)/python tests/fuzz/run.py --inputs $(INPUTS)

# What libFuzzer finds new goes to build/fuzz/shim-corpus; what it fails on, to build/fuzz.
fuzz-shim: setup | analyzers
	@$(MAKE) --no-print-directory -s -f tests/fuzz/Makefile fuzzer
	@mkdir -p build/fuzz/shim-corpus
	build/fuzz/shim -max_total_time=$(SECONDS) -len_control=0 -max_len=2500 -print_final_stats=1 -verbosity=0 \
	    -artifact_prefix=build/fuzz/ build/fuzz/shim-corpus tests/fuzz/shim/corpus
	@mkdir -p build/fuzz/rules-corpus
	build/fuzz/rules -max_total_time=$(SECONDS) -max_len=600 -print_final_stats=1 -verbosity=0 \
	    -artifact_prefix=build/fuzz/ build/fuzz/rules-corpus

sanitizers: sanitize-address sanitize-thread

sanitize-%: setup $(VENV)/extra-test
	@$(MAKE) --no-print-directory -s -f tests/sanitize/build.mk KIND=$*
	$(BIN)/python tests/sanitize/run.py $*

analyzers:
	@.ci/system-packages analyze

analyze: setup | analyzers
	@echo "$(CLANG_TIDY) over shim/"
	@include=$$($(BIN)/python -c "import sysconfig; print(sysconfig.get_path('include'))"); \
	$(CLANG_TIDY) --quiet $(SHIM_C) -- -std=gnu11 -I. -Ishim/layer -isystem "$$include" \
	    -DPYLAYER_POLICY_LIBRARY='""' -DPYLAYER_PRIVATE_PYTHON='""'

coverage: setup $(VENV)/extra-test
	@$(BIN)/python tests/coverage/run.py

stress: setup $(VENV)/extra-test programs
	$(BIN)/python -P tests/recovery/run.py --together --kills 1000 --seed $(SEED) --jobs 4
	PYLAYER_TEST_MOMENTS=all $(BIN)/pytest -q tests/fleet/test_trust_rules.py

RECOVERY := $(addprefix programs-,driver storage demo)
corruption: setup $(VENV)/extra-test $(RECOVERY)
	$(BIN)/python -P tests/recovery/run.py --only damage --moments $(INPUTS) --seed $(SEED) --jobs $(JOBS)

recovery: setup $(VENV)/extra-test $(RECOVERY)
	$(BIN)/python -P tests/recovery/run.py --moments $(MOMENTS) --seed $(SEED) --jobs $(JOBS)

soak: setup $(VENV)/extra-test programs
	$(BIN)/python -P tests/recovery/run.py --together --faults --minutes $(MINUTES) --seed $(SEED) --jobs 4

gpu: setup programs-recipes
	@$(BIN)/python tests/gpu/gpu.py

differential: setup $(VENV)/extra-test programs
	@$(BIN)/python tests/differential/run.py --programs $(PROGRAMS)

setup: $(VENV)/installed

system-packages:
	@.ci/system-packages $(PACKAGES)

# ---- .venv ---------------------------------------------------------------------------------------

# Made anew where there is none or another Python is asked for; what was built for the old one goes with it. make has
# looked at the files there before it runs this, so what depends on it is told beforehand.
OTHER_PYTHON = $(if $(PYTHON),$(if $(filter $(file <$(VENV)/python),$(shell PYTHON='$(PYTHON)' .ci/find-python 2>&1)),,anew))
ANEW := $(if $(wildcard $(BIN)/python),$(OTHER_PYTHON),anew)
.PHONY: anew
anew: | python

python: | system-packages
	@if [ -n "$(PYTHON)" ] || [ ! -x $(BIN)/python ]; then \
	    python=$$(.ci/find-python) || exit 1; \
	    if [ "$$python" != "$$(cat $(VENV)/python 2>/dev/null)" ]; then \
	        echo "pylayer: $(VENV) with $$python"; \
	        rm -rf $(VENV) $(BUILDER) $(PACKAGE) && \
	        "$$python" -m venv $(VENV) && echo "$$python" >$(VENV)/python; \
	    fi; \
	fi

# $(call listed,KEYS): a list of pyproject.toml, one a line.
listed = $(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))$(1), sep='\n')"

# What pyproject.toml says that builds need. pip and build would make such an environment for each build.
$(BUILDER)/ready: pyproject.toml $(ANEW) | python
	@rm -rf $(BUILDER) && $(BIN)/python -m venv --without-pip $(BUILDER)
	@$(call listed,['build-system']['requires']) >$(BUILDER)/requires.txt
	@$(PIP) --python $(BUILDER)/bin/python install --no-compile -r $(BUILDER)/requires.txt build
	@touch $@

# The source distribution, and the wheel that is built from it.
$(PACKAGE)/built: $(SOURCES) .ci/build-package $(BUILDER)/ready
	@echo "pylayer: building the package"
	@.ci/build-package $(PACKAGE) $(BUILDER)
	@touch $@

$(VENV)/installed: $(PACKAGE)/built
	@echo "pylayer: installing into $(VENV)"
	@[ ! -e $@ ] || $(PIP) uninstall --yes vk-pylayer
	@$(PIP) install --no-compile "$$(echo $(PACKAGE)/wheel/*.whl)[report,fleet]"
	@$(BIN)/python -m compileall -q "$$($(BIN)/python -Pc 'import pylayer; print(*pylayer.__path__)')"
	@touch $@

# Tools of the lists in pyproject.toml's optional dependencies.
$(VENV)/extra-%: pyproject.toml $(ANEW) | $(VENV)/installed
	@echo "pylayer: installing what pyproject.toml lists as '$*'"
	@$(call listed,['project']['optional-dependencies']['$*']) >$(VENV)/$*.txt
	@$(PIP) install --no-compile -r $(VENV)/$*.txt
	@touch $@

# ---- Packages ------------------------------------------------------------------------------------

sdist: $(PACKAGE)/built
	@rm -f dist/*.tar.gz dist/*.whl && mkdir -p dist && cp $(PACKAGE)/sdist/* dist

# auditwheel puts the libraries inside that not every system has, and names the wheel after the oldest C library that will
# do (docs/install.md).
wheel: sdist $(VENV)/extra-package
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist $(PACKAGE)/wheel/*.whl \
	    >build/wheel.log 2>&1 || { \
	    grep -q 'too-recent versioned symbols' build/wheel.log || { cat build/wheel.log >&2; exit 1; }; \
	    echo "pylayer: auditwheel does not know a C library as new as this system's; the wheel is for this system alone" >&2; \
	    cp $(PACKAGE)/wheel/*.whl dist; }
	@ls -1 dist

# The repaired wheel: its libraries are there after an upgrade of the system, and in Steam's containers. pip replaces files
# and does not write into them, so that programs keep the libraries that they have mapped.
INSTALLED := $(HOME)/.local/share/pylayer
install: setup wheel
	@[ -n "$(HOME)" ] || { echo "pylayer: HOME is not set" >&2; exit 1; }
	@$(BIN)/python -m venv --without-pip "$(INSTALLED)"
	@[ ! -e "$(INSTALLED)/bin/pylayer" ] || $(PIP) --python "$(INSTALLED)/bin/python" uninstall --yes vk-pylayer
	@$(PIP) --python "$(INSTALLED)/bin/python" install "$$(echo dist/*.whl)[report,fleet]"
	@mkdir -p "$(HOME)/.local/bin" "$(HOME)/.local/share/man/man1"
	@ln -sfn "$(INSTALLED)/bin/pylayer" "$(HOME)/.local/bin/pylayer"
	@ln -sfn "$(INSTALLED)/share/man/man1/pylayer.1" "$(HOME)/.local/share/man/man1/pylayer.1"
	@"$(INSTALLED)/bin/pylayer" install

stage: setup
	@[ -n "$(DESTDIR)" ] || { echo "pylayer: make stage DESTDIR=DIR: the directory for the files" >&2; exit 1; }
	@$(BIN)/python -P packaging/stage.py "$(DESTDIR)" $(PACKAGE)/wheel/*.whl

# $(call copy,DIRECTORY): the sources, for a build with the system's Python, which a package depends on, and not with that
# of .venv. What was built there stays.
define copy
@mkdir -p $(1) dist
@find $(1) -mindepth 1 -maxdepth 1 ! -name .venv ! -name build -exec rm -rf {} +
@tar -cf - --exclude=./.venv --exclude=./build --exclude=./dist --exclude=./.git . | tar -C $(1) -xf -
endef
WITHOUT_MAKE := env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL

# Debian wants debian/ at the top of the sources. .ci/system-packages installs less than build-essential.
deb:
	@PATH=/usr/sbin:/usr/bin:/sbin:/bin PYTHON= .ci/system-packages deb
	$(call copy,build/deb/vk-pylayer)
	@rm -f build/deb/*.deb
	@cp -r packaging/debian build/deb/vk-pylayer
	cd build/deb/vk-pylayer && $(WITHOUT_MAKE) dpkg-buildpackage -b --no-sign -nc -d
	@mv build/deb/*.deb dist
	@ls -1 dist/*.deb

# Not as root: makepkg refuses that.
MAKEPKG ?= makepkg
arch:
	$(call copy,build/arch/vk-pylayer)
	@cp packaging/arch/PKGBUILD build/arch
	cd build/arch && $(WITHOUT_MAKE) PKGDEST='$(abspath dist)' $(MAKEPKG) --force
	@ls -1 dist/*.pkg.tar*

check-wheel: programs-demo wheel
	@$(BIN)/python tests/packaging/check.py dist

# Freedesktop's runtimes show the extension at this path in every program. It is absolute, because loaders read the
# manifests through links in another directory.
EXTENSION := org.freedesktop.Platform.VulkanLayer.pylayer
EXTENSION_LIBRARY := /usr/lib/extensions/vulkan/pylayer/lib/pylayer
FLATPAK_RUNTIME ?= 24.08
flatpak: setup wheel
	@command -v flatpak-builder >/dev/null || { echo "pylayer: install flatpak-builder" >&2; exit 1; }
	@rm -rf build/flatpak && mkdir -p build/flatpak/source/lib
	@$(BIN)/python -m zipfile -e dist/*.whl build/flatpak/source/lib
	@rm -rf build/flatpak/source/lib/*.dist-info build/flatpak/source/lib/*.data
	@XDG_DATA_HOME="$(CURDIR)/build/flatpak/source/share" $(BIN)/pylayer install --implicit >/dev/null
	@for manifest in build/flatpak/source/share/vulkan/*/*.json; do \
	    sed -i 's|"library_path": ".*/|"library_path": "$(EXTENSION_LIBRARY)/|' "$$manifest" && \
	    grep -q '$(EXTENSION_LIBRARY)/lib' "$$manifest" || exit 1; done
	@sed 's/RUNTIME$$/"$(FLATPAK_RUNTIME)"/' flatpak/$(EXTENSION).yml >build/flatpak/$(EXTENSION).yml
	@cd build/flatpak && flatpak-builder --disable-rofiles-fuse --repo=repo built $(EXTENSION).yml >builder.log 2>&1 || \
	    { cat builder.log >&2; exit 1; }
	@flatpak build-bundle --runtime build/flatpak/repo dist/$(EXTENSION)-$(FLATPAK_RUNTIME).flatpak $(EXTENSION) $(FLATPAK_RUNTIME)
	@ls -1 dist/*.flatpak

# ---- Programs for demo, tests and benchmarks -----------------------------------------------------

programs: $(PROGRAM_SETS)

# Under make -j they share its jobs.
$(PROGRAM_SETS): programs-%: | system-packages
	@$(MAKE) --no-print-directory -s $(if $(PARALLEL),,-j $(JOBS)) -f tests/$*/Makefile

HEADERS := build/store_numbers.h build/boundary_tables.h build/driver_variables.h
# Some programs include sources of the layer, of which setup makes some.
$(filter-out programs-demo,$(PROGRAM_SETS)): | $(HEADERS)
programs-fuzz: | $(VENV)/installed

# Sources of the layer need these headers before pylayer is built. Building pylayer finds them unchanged.
$(HEADERS) &: shim/policy/layer_tables.py shim/policy/store_numbers.py $(wildcard pylayer/*/*.py) | python
	@$(BIN)/python shim/policy/layer_tables.py $(notdir $(HEADERS))
	@touch $(HEADERS)

# The Khronos validation layer. Debian bookworm's own is too old for what the tests need, and is left alone.
$(VALIDATION): | test-foreign-packages
	@if grep -q '^VERSION_CODENAME=bookworm' /etc/os-release; then tests/validation/fetch.sh; fi

# Vulkan's registry as Debian has it now. Without it, tests/unit/test_registry.py says what it leaves out.
$(REGISTRY): shim/layer/vulkan/registry.inc | test-foreign-packages
	@! grep -q '^ID=debian' /etc/os-release || tests/registry/fetch.sh || true

# A browser for tests/report, where the system has none (.ci/system-packages).
$(VENV)/chromium: | $(VENV)/extra-foreign test-foreign-packages
	@command -v chromium-headless-shell chromium google-chrome >/dev/null || \
	    $(BIN)/playwright install --only-shell chromium
	@touch $@

# ---- Checks without running anything -------------------------------------------------------------

lint: setup $(VENV)/extra-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache >$(PACKAGE)/imports || { cat $(PACKAGE)/imports; exit 1; }
	@echo "$(BIN)/clang-format --dry-run -Werror over shim/ and tests/"
	@$(BIN)/clang-format --dry-run -Werror $(C_FILES)
	@echo "gcc's warnings of shim/ when the package was built"
	@cat $(PACKAGE)/sources/build/warnings && [ ! -s $(PACKAGE)/sources/build/warnings ]

count: setup $(VENV)/extra-lint
	@$(BIN)/python -P tests/count.py

format: setup $(VENV)/extra-lint
	$(BIN)/ruff check --fix --quiet .
	$(BIN)/ruff format .
	@$(BIN)/clang-format -i $(C_FILES)

docs: setup
	@$(BIN)/python docs/generate.py
	@$(BIN)/python docs/policy_reference.py

clean:
	rm -rf build dist $(VENV) *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

.PHONY: coverage descriptor-heap drivers first environment sdist wheel flatpak deb arch stage check-wheel demo fleet-demo fleet-s3 check test ready bytecode evidence bench bench-more gain hitches fuzz fuzz-shim sanitizers analyzers analyze stress corruption recovery soak gpu differential setup install system-packages python programs $(PROGRAM_SETS) lint count format docs clean wine wine-chroot test-foreign test-foreign-packages test-all containers
ifeq ($(PARALLEL),)
.NOTPARALLEL:
endif
