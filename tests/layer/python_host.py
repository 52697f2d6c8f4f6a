"""A Python program that creates its pipelines in a C library, as bindings do.

python_host.py LIBRARY gil|nogil [threads|later|embed] ARGUMENTS...: runs the demo's main() inside this
interpreter, holding the GIL throughout or releasing it.
"""

import ctypes
import sys
import threading
import time

library, gil, *arguments = sys.argv[1:]
busy = False
if arguments and arguments[0] == "busy":
    busy = True
    arguments = arguments[1:]
program = (ctypes.PyDLL if gil == "gil" else ctypes.CDLL)(library)
argv = (ctypes.c_char_p * (len(arguments) + 2))(b"pipelines", *[a.encode() for a in arguments], None)

counted = [0]
stop = threading.Event()


def count():
    while not stop.is_set():
        counted[0] += 1
        if counted[0] % 1000 == 0:
            time.sleep(0)


threads = [threading.Thread(target=count) for _ in range(4 if busy else 0)]
for thread in threads:
    thread.start()
status = program.main(len(arguments) + 1, argv)
stop.set()
for thread in threads:
    thread.join()
import json  # noqa: E402  (the host's own imports work after the layer's interpreter ran)

sys.stdout.flush()
print(json.dumps({"python": sys.version_info[:2], "status": status}))
sys.exit(status)
