#!/bin/sh
# What `make drivers` does inside the chroots of tests/debian_chroot.sh. apt says how much it downloads.
#
#   inside.sh build_shim        builds Mesa's stand-in for Intel's kernel driver, in Debian 12
#   inside.sh search OPTIONS    builds pylayer and runs tests/drivers/search.py
set -eu
shim=build/drivers/libintel_noop_drm_shim.so

# .ci/system-packages would bring a newer Mesa.
install() {
    apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends -o Dpkg::Use-Pty=0 install "$@" >/tmp/log 2>&1 ||
        { cat /tmp/log >&2; exit 1; }
    grep '^Need to get' /tmp/log || true
    apt-get clean
}

# It is in no package. The newest C library cannot compile it, so Debian 12 does, from the source of its backports. ANV
# of Mesa 26 fails one of its assertions.
build_in() {
    cd "$1" &&
        apt-get -q --tar-only --download-only source mesa &&
        tar --strip-components 1 -xf mesa_*.orig.tar.xz &&
        meson setup build --buildtype release -Db_ndebug=true -Dtools=drm-shim,intel -Dvulkan-drivers= -Dgallium-drivers= \
            -Dplatforms= -Dllvm=disabled -Dopengl=false -Dglx=disabled -Degl=disabled -Dgbm=disabled &&
        ninja -C build src/intel/tools/libintel_noop_drm_shim.so
}

build_shim() {
    sed -e 's/^Types: .*/Types: deb deb-src/' -e 's/^Suites: .*/Suites: bookworm-backports/' \
        /etc/apt/sources.list.d/0000suite.sources >/etc/apt/sources.list.d/backports.sources
    install meson/bookworm-backports ninja-build python3-mako python3-packaging python3-yaml pkg-config libdrm-dev gcc g++ \
        flex bison zlib1g-dev libexpat1-dev xz-utils
    sources=$(mktemp -d)
    (build_in "$sources") >/tmp/log 2>&1 || { tail /tmp/log >&2; exit 1; }
    grep '^Fetched' /tmp/log
    mkdir -p "${shim%/*}"
    cp "$sources/build/src/intel/tools/${shim##*/}" "$shim"
    rm -rf "$sources"
}

# RADV of Debian 12 needs no stand-in.
search() {
    if [ -z "$(ls /usr/share/vulkan/icd.d/radeon_icd* 2>/dev/null)" ]; then
        if grep -q bookworm /etc/os-release; then
            install mesa-vulkan-drivers glslang-tools
        else
            install mesa-vulkan-drivers glslang-tools mesa-drm-shim
        fi
    fi
    make -s PACKAGES=build setup programs-demo programs-recipes
    .venv/bin/python -P tests/drivers/search.py "$@"
}

"$@"
