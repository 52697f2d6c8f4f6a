"""A Python program that creates its pipelines in a C library, as bindings do.

python_host.py LIBRARY gil|nogil [busy] ARGUMENTS...: runs the demo's main() inside this interpreter, holding the GIL
throughout or releasing it, beside threads that compute if ``busy``.
"""

import ctypes
import sys
import threading
import time

library, gil, *arguments = sys.argv[1:]
busy = arguments[:1] == ["busy"]
arguments = arguments[busy:]
program = (ctypes.PyDLL if gil == "gil" else ctypes.CDLL)(library)
argv = (ctypes.c_char_p * (len(arguments) + 2))(b"pipelines", *[a.encode() for a in arguments], None)
stop = threading.Event()


def compute():
    while not stop.is_set():
        sum(range(10000))
        time.sleep(0)


threads = [threading.Thread(target=compute) for _ in range(4 * busy)]
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
