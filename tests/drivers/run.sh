#!/bin/sh
# The layer on the drivers without hardware of this machine, of Debian 12 and of Debian testing: `make drivers`. Writes
# what they say of themselves into tests/drivers/facts.json, and from it the table in docs/. Options are those of
# tests/drivers/search.py.
set -eu
cd "$(dirname "$0")/../.."
shim=build/drivers/libintel_noop_drm_shim.so
facts=build/drivers/facts.json
status=0

# A system that cannot be had does not stop the others.
fail() {
    echo "make drivers: $1"
    status=1
}

# $1: where the tree is; the others run the searcher in it.
search() {
    tree=$1
    shift
    rm -f "$tree/$facts"
    "$@" --write "$facts" || fail "something is wrong above"
    [ ! -e "$tree/$facts" ] || .venv/bin/python -P tests/drivers/facts.py "$tree/$facts"
}

# In a chroot, whose tree has a directory build of its own. Options come last.
search_debian() {
    suite=$1
    tree=build/chroot-$1/pylayer
    shift
    tests/debian_chroot.sh "$suite" mkdir -p build/drivers || { fail "there is no chroot of Debian $suite"; return 0; }
    [ ! -e "$shim" ] || cp "$shim" "$tree/$shim"
    search "$tree" tests/debian_chroot.sh "$suite" tests/drivers/inside.sh search "$@"
}

mkdir -p build/drivers
if [ ! -e "$shim" ]; then
    echo "make drivers: building $shim in a chroot"
    if tests/debian_chroot.sh bookworm tests/drivers/inside.sh build_shim; then
        cp "build/chroot-bookworm/pylayer/$shim" "$shim"
    else
        fail "there is no $shim, so no ANV and no HASVK"
    fi
fi
echo "This machine:"
search . .venv/bin/python -P tests/drivers/search.py "$@"
echo "Debian 12:"
search_debian bookworm "$@"
echo "Debian testing:"
search_debian testing "$@"
.venv/bin/python docs/generate.py
exit $status
