#!/bin/sh
# Runs a command in a copy of this tree under a newer Debian, as root, for tests with its drivers. The chroot is made the
# first time, in build/chroot-SUITE, and kept. The system itself is not changed.
#
#   tests/debian_chroot.sh SUITE COMMAND...
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
suite=$1
shift
root=$top/build/chroot-$suite

fail() { echo "debian_chroot.sh: $*" >&2; exit 1; }

# shellcheck source=tests/debian_suite.sh
. "$top/tests/debian_suite.sh"

[ "$(id -u)" = 0 ] || fail "needs root for the chroot"

# Everything else comes by .ci/system-packages, inside.
if [ ! -e "$root/pylayer" ]; then
    rm -rf "$root" "$root.apt"
    mkdir -p "$root.apt"
    write_sources "$root.apt" "$suite"
    apt-config dump | grep '^Acquire::Check-' >"$root.apt/options" || true
    mmdebstrap --quiet --variant=apt --aptopt="$root.apt/options" \
        --include=make,ca-certificates,vulkan-validationlayers "$suite" "$root" "$root.apt"/suite.*
    rm -rf "$root.apt"
    mkdir "$root/pylayer"
fi

# The network as outside. What was built inside stays.
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
find "$root/pylayer" -mindepth 1 -maxdepth 1 ! -name .venv ! -name build -exec rm -rf {} +
tar -C "$top" --exclude=./.venv --exclude=./build --exclude=./dist --exclude=./.git -cf - . | tar -C "$root/pylayer" -xf -

# Mounts end with the command: their namespace is its own. Tests make such namespaces, too, and the kernel changes how
# mounts spread only where the root is one.
# shellcheck disable=SC2016  # the inner shells' own variables
exec env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u PYTHON HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
    unshare --mount sh -c 'mount --bind "$0" "$0"; mount -t proc proc "$0/proc"; exec chroot "$0" sh -c "cd /pylayer && exec \"\$@\"" sh "$@"' "$root" "$@"
