#!/bin/sh
# Builds DXVK from source: build/dxvk/x86_64 and build/dxvk/i686 with d3d11.dll and dxgi.dll. As root on Debian unstable, in a
# chroot: make wine-dxvk. The source is that of Debian's package, which has all that DXVK includes but headers.
set -eu
cd "$(dirname "$0")/../.."
version=${DXVK:-3.1.1}
sha256=${DXVK_SHA256:-4f4d7c99eea52244f775a8200bc656fb5f6d0d56c1909f05a440f271c5576231}
out=build/dxvk
source=$PWD/$out/dxvk-$version

fail() { echo "dxvk.sh: $*" >&2; exit 1; }

DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends -o Dpkg::Use-Pty=0 install curl xz-utils meson \
    ninja-build glslang-tools spirv-headers libvulkan-dev g++-mingw-w64-x86-64-posix g++-mingw-w64-i686-posix >/dev/null
mkdir -p $out
if [ ! -e "$source/ready" ]; then
    # shellcheck disable=SC2016  # apt's own variable
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' | head -n 1)
    curl -fsS -o $out/source.tar.xz "${mirror%/}/pool/main/d/dxvk/dxvk_$version+ds.orig.tar.xz" ||
        fail "Debian has no source of DXVK $version any more; set DXVK and DXVK_SHA256 to a version that it has"
    echo "$sha256  $out/source.tar.xz" | sha256sum -c --quiet || fail "the source of DXVK $version is another one"
    rm -rf "$source"
    tar -C $out -xf $out/source.tar.xz
    for place in include/vulkan include/spirv subprojects/dxbc-spirv/submodules/spirv_headers; do
        mkdir -p "$source/$place/include"
        ln -s /usr/include/vulkan /usr/include/vk_video /usr/include/spirv "$source/$place/include"
    done
    touch "$source/ready"
fi
for bits in 64 32; do
    kind=x86_64
    [ $bits = 64 ] || kind=i686
    [ -e $out/$kind/build.ninja ] || (cd "$source" && meson setup --cross-file build-win$bits.txt --buildtype release \
        -Denable_d3d8=false -Denable_d3d9=false -Denable_d3d10=false "../$kind" >/dev/null)
    nice ninja --quiet -C $out/$kind
    cp $out/$kind/src/*/*.dll $out/$kind
done
