#!/bin/sh
# Runs vkcube and saves one of its frames as a PNG.
#
#   vkcube_picture.sh PICTURE.png [FRAME]
#
# vkcube turns its cube by a fixed angle a frame, so the same frame is the same picture in every run on the same
# driver, and pictures can be compared byte by byte.  The driver is Lavapipe; it and layers come from the environment.
# Needs Xvfb, vkcube, python3, and cc with libxcb's headers.
set -eu

picture=$1
frame=${2:-20}
size=300
screen=$((size + 100)) # vkcube puts its window at 100,100
here=$(cd "$(dirname "$0")" && pwd)

folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT

cc -O1 -Wall -Wextra -Werror -shared -fPIC -o "$folder/save_frame.so" "$here/save_frame.c" -lxcb

# Xvfb says in a pipe which display it took, once it is ready.
mkfifo "$folder/display"
Xvfb -displayfd 3 -screen 0 ${screen}x${screen}x24 -fbdir "$folder" -nolisten tcp -nocursor \
    3>"$folder/display" >"$folder/log" 2>&1 &
server=$!
read -r display <"$folder/display"

# The frames that are queued when the program ends may be lost, so it draws some more than the wanted one.
DISPLAY=:$display LD_PRELOAD="$folder/save_frame.so" SAVE_FRAME_NUMBER="$frame" \
    SAVE_FRAME_SCREEN="$folder/Xvfb_screen0" SAVE_FRAME_COPY="$folder/screen.xwd" \
    vkcube --c $((frame + 10)) --width $size --height $size --suppress_popups

# The screen is an XWD file: its header names the display, so only the pixels are kept.
python3 -IS - "$folder/screen.xwd" "$picture" <<'PYTHON'
import struct
import sys
import zlib

data = open(sys.argv[1], "rb").read()
header = struct.unpack(">25I", data[:100])
size, width, height, order, depth, pitch, colors = (header[i] for i in (0, 4, 5, 7, 11, 12, 19))
assert depth == 32 and order == 0, "not 32 bits a pixel, least significant byte first"
pixels = data[size + 12 * colors :]
rows = bytearray()
width, height = width - 100, height - 100
for y in range(100, 100 + height):
    row = pixels[y * pitch + 400 :][: width * 4]
    rgb = bytearray(width * 3)
    rgb[0::3], rgb[1::3], rgb[2::3] = row[2::4], row[1::4], row[0::4]
    rows += b"\0" + rgb
if len(set(rows)) < 10:
    sys.exit("vkcube_picture: the picture is empty")


def chunk(kind, content):
    return (
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    )


with open(sys.argv[2], "wb") as file:
    file.write(b"\x89PNG\r\n\x1a\n")
    file.write(chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)))
    file.write(chunk(b"IDAT", zlib.compress(bytes(rows), 9)))
    file.write(chunk(b"IEND", b""))
PYTHON
