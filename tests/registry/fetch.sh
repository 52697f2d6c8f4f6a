#!/bin/sh
# Puts Vulkan's registry and headers of the newest libvulkan-dev that Debian has into build/registry, for
# tests/unit/test_registry.py. Nothing is installed.
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
out=$top/build/registry

fail() { echo "fetch.sh: $*" >&2; exit 1; }

# shellcheck source=tests/debian_suite.sh
. "$top/tests/debian_suite.sh"

download() {
    write_apt_configuration "$1" unstable
    APT_CONFIG=$1/apt.conf apt-get -qq update
    (cd "$1" && APT_CONFIG=$1/apt.conf apt-get -qq download libvulkan-dev)
}

new=$out.new
rm -rf "$new"
mkdir -p "$new"
download "$new/apt"
dpkg -x "$new"/apt/libvulkan-dev_*.deb "$new/apt/root"
mv "$new/apt/root/usr/share/vulkan/registry/vk.xml" "$new/apt/root/usr/include" "$new"
dpkg-deb -f "$new"/apt/libvulkan-dev_*.deb Version >"$new/package"
rm -rf "$new/apt" "$out"
mv "$new" "$out"
version=$(cat "$out/package")
echo "fetch.sh: libvulkan-dev $version in $out"
grep -q "libvulkan-dev $version\. " "$top/shim/layer/vulkan/registry.inc" ||
    echo "fetch.sh: to renew the table: python3 shim/generate_registry.py $out/vk.xml $version"
