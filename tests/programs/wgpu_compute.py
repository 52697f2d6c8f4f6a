"""A compute program: ten kernels over one buffer, as a numerical library would have them.

Prints one line and exits with 0.  On a driver that does not execute anything the results are meaningless, so
they are compared only when PYLAYER_TEST_CHECK=1 is set.
"""

import array
import os
import sys

import wgpu

COUNT = 256

HEAD = """
@group(0) @binding(0) var<storage, read> source: array<f32>;
@group(0) @binding(1) var<storage, read_write> target_: array<f32>;
"""

ELEMENTWISE = """
fn operation(x: f32, i: u32) -> f32 { %s }

@compute @workgroup_size(%d)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < arrayLength(&source)) { target_[id.x] = operation(source[id.x], id.x); }
}
"""

# A sum within each workgroup, written by its first invocation.
REDUCTION = """
var<workgroup> partial: array<f32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) local: u32, @builtin(global_invocation_id) id: vec3<u32>) {
    partial[local] = source[id.x];
    for (var step = 32u; step > 0u; step = step / 2u) {
        workgroupBarrier();
        if (local < step) { partial[local] += partial[local + step]; }
    }
    if (local == 0u) { target_[id.x / 64u] = partial[0]; }
}
"""

STENCIL = """
override radius: i32 = 1;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let last = i32(arrayLength(&source)) - 1;
    var sum = 0.0;
    for (var offset = -radius; offset <= radius; offset++) {
        sum += source[clamp(i32(id.x) + offset, 0, last)];
    }
    target_[id.x] = sum / f32(2 * radius + 1);
}
"""

# name, WGSL, override constants, what invocation 100 gives for inputs 0, 1, 2, ... (None: not looked at)
KERNELS = [
    ("scale", ELEMENTWISE % ("return x * 2.0;", 64), {}, 200.0),
    ("offset", ELEMENTWISE % ("return x + f32(i);", 32), {}, 200.0),
    ("square", ELEMENTWISE % ("return x * x;", 64), {}, 10000.0),
    ("root", ELEMENTWISE % ("return sqrt(x);", 128), {}, 10.0),
    ("clamp", ELEMENTWISE % ("return clamp(x, 3.0, 50.0);", 64), {}, 50.0),
    ("sigmoid", ELEMENTWISE % ("return 1.0 / (1.0 + exp(-x));", 64), {}, 1.0),
    (
        "collatz",
        ELEMENTWISE
        % (
            """
            var n = u32(x) + 1u;
            var steps = 0.0;
            while (n > 1u && steps < 200.0) {
                n = select(n / 2u, 3u * n + 1u, (n & 1u) == 1u);
                steps += 1.0;
            }
            return steps;""",
            64,
        ),
        {},
        25.0,
    ),
    ("reduction", REDUCTION, {}, None),
    ("blur", STENCIL, {}, 100.0),
    ("wide blur", STENCIL, {"radius": 7}, 100.0),
]


def run(device, wgsl, constants):
    source = device.create_buffer_with_data(data=array.array("f", range(COUNT)), usage=wgpu.BufferUsage.STORAGE)
    target = device.create_buffer(size=COUNT * 4, usage=wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC)
    pipeline = device.create_compute_pipeline(
        layout=wgpu.AutoLayoutMode.auto,
        compute={
            "module": device.create_shader_module(code=HEAD + wgsl),
            "entry_point": "main",
            "constants": constants,
        },
    )
    group = device.create_bind_group(
        layout=pipeline.get_bind_group_layout(0),
        entries=[
            {"binding": 0, "resource": {"buffer": source}},
            {"binding": 1, "resource": {"buffer": target}},
        ],
    )
    encoder = device.create_command_encoder()
    compute = encoder.begin_compute_pass()
    compute.set_pipeline(pipeline)
    compute.set_bind_group(0, group)
    compute.dispatch_workgroups(COUNT // 32)
    compute.end()
    device.queue.submit([encoder.finish()])
    return device.queue.read_buffer(target).cast("f")


def main():
    check = os.environ.get("PYLAYER_TEST_CHECK") == "1"
    adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
    device = adapter.request_device_sync()
    wrong = []
    for name, wgsl, constants, expected in KERNELS:
        result = run(device, wgsl, constants)
        if check and expected is not None and abs(result[100] - expected) > 1e-3:
            wrong.append(f"{name} gave {result[100]} instead of {expected}")
    if wrong:
        sys.exit("wgpu_compute: " + ", ".join(wrong))
    print(f"wgpu_compute: {len(KERNELS)} pipelines on {adapter.info['device']}")


main()
