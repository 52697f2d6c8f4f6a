#!/bin/sh
# Puts the Khronos validation layer of Debian trixie (1.4.309) with the C and C++ libraries that it needs into
# build/validation/root, for use on Debian bookworm, whose own layer (1.3.239) knows no pipeline binaries.
# Nothing is installed: packages are unpacked into that directory, and apt works on lists and a cache of its own.
#
#   tests/validation/fetch.sh [--force]
set -eu

NEEDED=1.4.309
SUITE=trixie
top=$(cd "$(dirname "$0")/../.." && pwd)
out=$top/build/validation

say() { echo "fetch.sh: $*"; }
fail() { echo "fetch.sh: $*" >&2; exit 1; }

# shellcheck source=tests/debian_suite.sh
. "$top/tests/debian_suite.sh"

system_layer_version() {
    dpkg-query -W -f '${Version}' vulkan-validationlayers 2>/dev/null || true
}

download() {
    write_apt_configuration "$1" "$SUITE"
    APT_CONFIG=$1/apt.conf apt-get -qq update
    APT_CONFIG=$1/apt.conf apt-get -qq -y --download-only install vulkan-validationlayers
}

unpack() {
    rm -rf "$out/root.new"
    mkdir -p "$out/root.new"
    for package in "$1"/cache/archives/*.deb; do
        case ${package##*/} in
        # Only what the layer links; a whole system's worth of dependencies is not needed to run it.
        vulkan-validationlayers_* | libc6_* | libgcc-s1_* | libstdc++6_* | libspirv-tools*) dpkg -x "$package" "$out/root.new" ;;
        esac
    done
    rm -rf "$out/root"
    mv "$out/root.new" "$out/root"
}

# The layer's manifest with the full path of its library and a name of its own: where two manifests name one layer,
# loaders differ in which they take (1.3.239: the last, which is the system's).
write_manifest() {
    manifest=$(find "$out/root" -name 'VkLayer_khronos_validation.json')
    library=$(find "$out/root" -name 'libVkLayer_khronos_validation.so')
    [ -n "$manifest" ] && [ -n "$library" ] || fail "the package holds no validation layer"
    mkdir -p "$out/layer"
    sed -e "s|\"library_path\": *\"[^\"]*\"|\"library_path\": \"$library\"|" \
        -e 's|"name": *"VK_LAYER_KHRONOS_validation"|"name": "VK_LAYER_KHRONOS_validation_private"|' \
        "$manifest" >"$out/layer/VkLayer_khronos_validation.json"
}

version=$(system_layer_version)
if [ -n "$version" ] && dpkg --compare-versions "$version" ge "$NEEDED"; then
    say "the system's own validation layer ($version) is new enough; run.sh uses it"
    exit 0
fi
if [ -e "$out/layer/VkLayer_khronos_validation.json" ] && [ "${1-}" != --force ]; then
    say "already there: $out/root"
    exit 0
fi
[ "${VERSION_CODENAME-}" = bookworm ] || fail "only for Debian bookworm; install vulkan-validationlayers $NEEDED or newer"
download "$out/apt"
unpack "$out/apt"
write_manifest
rm -rf "$out/apt"
say "validation layer $(sed -n 's/.*"api_version": *"\([^"]*\)".*/\1/p' "$out/layer/VkLayer_khronos_validation.json") in $out/root"
