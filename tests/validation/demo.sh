#!/bin/sh
# Runs the demo program in every mode that it has under the validation layer, on the Vulkan driver that the loader is told
# to use, and prints a line for each mode. Exit status 0: all modes ran and none brought a message. Build first:
# make -f tests/demo/Makefile. Layers named in VK_INSTANCE_LAYERS are put above the validation layer.
set -u

top=$(cd "$(dirname "$0")/../.." && pwd)
program=$top/build/demo/pipelines
log=$top/build/validation/demo.txt
cache=$(mktemp)
trap 'rm -f "$cache"' EXIT
bad=0

# check EXPECTED-STATUS OPTION...
check() {
    expected=$1
    shift
    output=$("$top/tests/validation/run.sh" --log "$log" -- "$program" "$@" 2>&1)
    status=$?
    messages=$(grep -c '^Validation ' "$log")
    case $output in
    *" has no "*) echo "skip  $* (no such feature)"; return ;;
    esac
    if [ "$status" -ne "$expected" ] || [ "$messages" -ne 0 ]; then
        bad=$((bad + 1))
        echo "BAD   $* (status $status, $messages messages)"
        echo "$output" | tail -n 3
        grep -A 2 '^Validation ' "$log" | sort | uniq -c | sort -rn | head -n 12
    else
        echo "ok    $*"
    fi
}

check 0 --count 72
for api in 1.0 1.1 1.2 1.3; do
    check 0 --count 36 --api $api
    check 0 --count 8 --api $api --feedback --fail-on-compile-required
    check 0 --count 12 --api $api --gpl
    check 0 --count 8 --api $api --cache-control --cache object
done
for api in 1.1 1.2 1.3; do
    check 0 --count 6 --api $api --ray-tracing --feedback
done
check 0 --count 40 --compute
check 0 --count 60 --graphics
check 0 --count 36 --cache object --cache-save "$cache"
check 0 --count 36 --cache "$cache" --feedback
check 0 --count 36 --cache "$cache" --fail-on-compile-required --early-return --batch 4
check 0 --count 60 --batch 7 --fail-on-compile-required --early-return --feedback
check 0 --count 36 --batch 8 --feedback --derivatives
check 0 --count 12 --derivatives
check 0 --count 6 --ray-tracing --derivatives --batch 3
check 0 --count 6 --ray-tracing --fail-on-compile-required --batch 2
check 0 --count 72 --threads 4 --cache object
check 0 --count 36 --threads 3 --batch 5 --feedback
check 0 --count 10 --gpl --batch 4 --feedback --cache object
check 0 --count 10 --gpl --fail-on-compile-required
check 0 --count 10 --gpl --threads 2 --api 1.3 --features13
check 0 --count 10 --api 1.3 --features13
check 0 --count 10 --api 1.3 --features13 --cache-control --fail-on-compile-required
check 0 --count 6 --ray-tracing --api 1.3 --features13 --cache-control
check 0 --count 10 --repeat-instances 3
check 0 --count 10 --no-destroy
check 0 --count 10 --exit exit
check 0 --count 10 --exit _exit
check 134 --count 10 --exit abort
check 0 --count 10 --seed 7

for kind in --compute --graphics --ray-tracing --gpl; do
    for source in plain capture internal create; do
        rm -f "$cache"
        check 0 --api 1.3 --count 4 $kind --source $source --archive "$cache"
        check 0 --api 1.3 --count 4 $kind --source $source --archive "$cache"
    done
done
rm -f "$cache"
check 0 --api 1.3 --count 8 --source internal --archive "$cache"
check 0 --api 1.3 --count 8 --source internal --archive "$cache" --no-modules
check 0 --api 1.3 --count 8 --source internal --disable-internal-cache

[ "$bad" -eq 0 ] || echo "$bad modes are bad"
[ "$bad" -eq 0 ]
