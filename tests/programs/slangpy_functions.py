"""Two functions in Slang, called through slangpy on Vulkan. Prints a digest of their results."""

import hashlib
import os
from pathlib import Path

import numpy as np
import slangpy

directory = Path(os.environ["HOME"])
(directory / "functions.slang").write_text(
    "float square(float a) { return a * a + 1; }\nfloat2 wave(float a, float b) { return float2(a * b - 2, b - a); }\n"
)
device = slangpy.create_device(type=slangpy.DeviceType.vulkan, include_paths=[directory])
module = slangpy.Module.load_from_file(device, "functions.slang")
numbers = np.arange(1000, dtype=np.float32)
results = [module.square(numbers, _result="numpy"), module.wave(numbers, numbers[::-1].copy(), _result="numpy")]
print("results", hashlib.sha256(b"".join(np.asarray(one).tobytes() for one in results)).hexdigest())
