#!/bin/sh
# Runs a program with the Khronos validation layer as the last of its layers, next to the driver: it checks what the
# layers above it, named in VK_INSTANCE_LAYERS, hand down.
#
#   tests/validation/run.sh [--log FILE] [--strict] [--below LAYERS] -- PROGRAM [ARGUMENT...]
#
# With --below, these layers stand between validation and the driver: those that are part of a test's driver.
# Messages go to FILE (default build/validation/messages.txt), which holds nothing but messages: empty means clean.
# The exit status is the program's; with --strict it is 99 when there were messages. It is 125 when the layer was
# never active, for an empty file would prove nothing then. On Debian bookworm, run fetch.sh once before.
set -u

top=$(cd "$(dirname "$0")/../.." && pwd)
out=$top/build/validation
log=$out/messages.txt
strict=
below=

fail() { echo "run.sh: $*" >&2; exit 125; }

while [ $# -gt 0 ]; do
    case $1 in
    --log) [ $# -ge 2 ] || fail "--log needs a file"; log=$2; shift 2 ;;
    --strict) strict=1; shift ;;
    --below) [ $# -ge 2 ] || fail "--below needs layers"; below=$2; shift 2 ;;
    --) shift; break ;;
    *) break ;;
    esac
done
[ $# -gt 0 ] || fail "usage: run.sh [--log FILE] [--strict] -- PROGRAM [ARGUMENT...]"
mkdir -p "$out"

work=$(mktemp -d) || fail "no temporary directory"
trap 'rm -rf "$work"' EXIT

# A pipe and not a file: the layer truncates its log at every vkCreateInstance, in every process.
mkfifo "$work/log" || fail "no pipe"

layer=VK_LAYER_KHRONOS_validation
[ ! -d "$out/root" ] || layer=VK_LAYER_KHRONOS_validation_private
export VK_INSTANCE_LAYERS="${VK_INSTANCE_LAYERS:+$VK_INSTANCE_LAYERS:}$layer${below:+:$below}"
export VK_KHRONOS_VALIDATION_LOG_FILENAME="$work/log"
export VK_KHRONOS_VALIDATION_DEBUG_ACTION=VK_DBG_LAYER_ACTION_LOG_MSG
# 'info' brings the line that proves that the layer is there. Every message counts, however often it comes.
export VK_KHRONOS_VALIDATION_REPORT_FLAGS=error,warn,info
export VK_KHRONOS_VALIDATION_ENABLE_MESSAGE_LIMIT=false
# Otherwise it keeps a list of shaders that were valid, in the user's cache, and does not look at them again.
export VK_KHRONOS_VALIDATION_CHECK_SHADERS_CACHING=false

# Puts the directories of a list, separated by colons, into the order of the layers in them. Loader 1.3.239 takes layers in
# the order in which it finds them, whatever the order in VK_INSTANCE_LAYERS: validation would stand above those that it
# is to check.
in_order_of_layers() {
    ordered=
    IFS=:
    for name in $VK_INSTANCE_LAYERS; do
        for directory in $1; do
            if grep -qs "\"name\": *\"$name\"" "$directory"/*.json; then
                case ":$ordered:" in *":$directory:"*) ;; *) ordered=$ordered${ordered:+:}$directory ;; esac
            fi
        done
    done
    for directory in $1; do
        case ":$ordered:" in *":$directory:"*) ;; *) ordered=$ordered${ordered:+:}$directory ;; esac
    done
    unset IFS
    echo "$ordered"
}

use_private_layer() {
    if [ -n "${VK_LAYER_PATH:-}" ]; then  # with it, the loader does not look at VK_ADD_LAYER_PATH
        VK_LAYER_PATH=$(in_order_of_layers "$VK_LAYER_PATH:$out/layer")
        export VK_LAYER_PATH
    else
        VK_ADD_LAYER_PATH=$(in_order_of_layers "${VK_ADD_LAYER_PATH:+$VK_ADD_LAYER_PATH:}$out/layer")
        export VK_ADD_LAYER_PATH
    fi
}

# What follows '#!' in a script, or nothing.
interpreter_line() { head -c 256 "$1" | tr -d '\0' | sed -n '1s/^#! *//p'; }

# Runs the program on the newer C library; everything that is not in that directory, drivers too, comes from the
# system as always. A script is given to its interpreter, which may be a script again: ld.so starts programs only.
run_privately() {
    program=$(command -v -- "$1") || { echo "run.sh: no program $1" >&2; return 127; }
    interpreter=$(interpreter_line "$program")
    if [ -n "$interpreter" ]; then
        shift
        # shellcheck disable=SC2086  # the interpreter's argument is a word of its own
        set -- ${interpreter#*/env } "$program" "$@"
        run_privately "$@"
        return
    fi
    name=$1
    shift
    linker=$(echo "$out"/root/usr/lib/*/ld-linux*.so.*)
    "$linker" --library-path "${linker%/*}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" --argv0 "$name" "$program" "$@"
}

run_program() {
    if [ -d "$out/root" ]; then
        use_private_layer
        run_privately "$@"
    else
        "$@"
    fi
    echo $? >"$work/status"
}

cat <"$work/log" >"$work/raw" &
reader=$!
exec 9>"$work/log"  # keeps the reader until the program has ended, however many instances it makes
# The layer announces its log on the program's standard output, where a reader of that output does not expect it.
run_program "$@" 9>&- | sed -u '/^Validation Layer Info - Logging/d'
exec 9>&-
wait "$reader"
status=$(cat "$work/status" 2>/dev/null || echo 125)

# Every message begins with a line that names its severity. 'Information' is about the layer itself.
awk '/^Validation [A-Za-z ]*: \[/ { keep = !/^Validation Information/ } keep' "$work/raw" >"$log"
count=$(grep -c '^Validation [A-Za-z ]*: \[' "$log")

[ "$count" -eq 0 ] || echo "run.sh: $count validation messages in $log" >&2
if [ "$status" -eq 0 ]; then
    # 1.4.309 writes the first line, 1.4.363 the second.
    grep -Eq 'Khronos Validation Layer Active|CURRENT-VALIDATION-ENABLED' "$work/raw" ||
        fail "the validation layer was not active"
    [ -z "$strict" ] || [ "$count" -eq 0 ] || exit 99
fi
exit "$status"
