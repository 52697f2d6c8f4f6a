"""What a transformer computes, on llama.cpp's Vulkan backend, from the npm package @node-llama-cpp/linux-x64-vulkan.

python llama_vulkan.py DIRECTORY        where `npm install @node-llama-cpp/linux-x64-vulkan` was run

Products of matrices in six formats and three widths, each with the operations around it; no model is needed."""

from __future__ import annotations

import ctypes
import sys
from ctypes import c_bool, c_char_p, c_float, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any

PLACE = Path(sys.argv[1], "node_modules/@node-llama-cpp/linux-x64-vulkan/bins/linux-x64-vulkan")
#: f32, f16, q4_0, q8_0, q4_K, q6_K
FORMATS = (0, 1, 2, 8, 12, 14)
ROWS, LENGTH = 64, 256


class Parameters(ctypes.Structure):
    _fields_ = (("bytes", c_size_t), ("buffer", c_void_p), ("no_alloc", c_bool))


base = ctypes.CDLL(str(PLACE / "libggml-base.so"), mode=ctypes.RTLD_GLOBAL)
ggml = ctypes.CDLL(str(next(PLACE.glob("libggml.*so*"))), mode=ctypes.RTLD_GLOBAL)


def call(name: str, *arguments: Any, result: Any = c_void_p) -> Any:
    function = getattr(ggml if name == "ggml_backend_load" else base, name)
    function.restype = result
    return function(*arguments)


def tensor(context: c_void_p, name: str, *arguments: Any) -> c_void_p:
    return c_void_p(call(name, context, *arguments))


registry = call("ggml_backend_load", str(PLACE / "libggml-vulkan.so").encode())
if not registry or not call("ggml_backend_reg_dev_count", c_void_p(registry), result=c_size_t):
    sys.exit("llama_vulkan: no Vulkan device")
device = c_void_p(call("ggml_backend_reg_dev_get", c_void_p(registry), c_size_t(0)))
backend = c_void_p(call("ggml_backend_dev_init", device, None))
context = c_void_p(call("ggml_init", Parameters(16 << 20, None, True)))
graph = tensor(context, "ggml_new_graph")
for kind in FORMATS:
    for columns in (1, 8, 64):
        weights = tensor(context, "ggml_new_tensor_2d", c_int(kind), c_int64(LENGTH), c_int64(ROWS))
        values = tensor(context, "ggml_new_tensor_2d", c_int(0), c_int64(LENGTH), c_int64(columns))
        product = tensor(context, "ggml_mul_mat", weights, values)
        scaled = tensor(context, "ggml_scale", tensor(context, "ggml_silu", product), c_float(0.5))
        normal = tensor(context, "ggml_rms_norm", scaled, c_float(1e-5))
        for end in (tensor(context, "ggml_soft_max", normal), tensor(context, "ggml_gelu", product)):
            call("ggml_build_forward_expand", graph, end, result=None)
call("ggml_backend_alloc_ctx_tensors", context, backend)
if call("ggml_backend_graph_compute", backend, graph, result=c_int):
    sys.exit("llama_vulkan: the graph was not computed")
print("llama_vulkan: computed on", call("ggml_backend_dev_description", device, result=c_char_p).decode())
