"""Pipelines of a renderer: one scene in several materials, with depth. Prints one line and exits with 0."""

import wgpu

COLOR = wgpu.TextureFormat.rgba8unorm
DEPTH = wgpu.TextureFormat.depth24plus

SHADER = """
struct Scene { tint: vec4<f32>, light: vec4<f32> };
struct Varying {
    @builtin(position) position: vec4<f32>,
    @location(0) normal: vec3<f32>,
    @location(1) uv: vec2<f32>,
};

@group(0) @binding(0) var<uniform> scene: Scene;
@group(0) @binding(1) var picture: texture_2d<f32>;
@group(0) @binding(2) var picture_sampler: sampler;

@vertex
fn vertex(@location(0) position: vec3<f32>, @location(1) uv: vec2<f32>) -> Varying {
    var result: Varying;
    result.position = vec4<f32>(position, 1.0);
    result.normal = normalize(vec3<f32>(position.xy, 1.0));
    result.uv = uv;
    return result;
}

@fragment
fn flat(in: Varying) -> @location(0) vec4<f32> { return scene.tint; }

@fragment
fn lit(in: Varying) -> @location(0) vec4<f32> {
    let diffuse = max(dot(normalize(in.normal), normalize(scene.light.xyz)), 0.0);
    let half_way = normalize(normalize(scene.light.xyz) + vec3<f32>(0.0, 0.0, 1.0));
    let shine = pow(max(dot(normalize(in.normal), half_way), 0.0), 32.0);
    return vec4<f32>(scene.tint.rgb * (0.1 + diffuse) + vec3<f32>(shine), scene.tint.a);
}

@fragment
fn textured(in: Varying) -> @location(0) vec4<f32> {
    return textureSample(picture, picture_sampler, in.uv) * scene.tint;
}

@fragment
fn checkered(in: Varying) -> @location(0) vec4<f32> {
    let cell = vec2<i32>(floor(in.uv * 8.0));
    if (((cell.x + cell.y) & 1) == 0) { discard; }
    return scene.tint;
}

@fragment
fn ripples(in: Varying) -> @location(0) vec4<f32> {
    var height = 0.0;
    for (var i = 1; i < 5; i++) {
        height += sin(length(in.uv - vec2<f32>(0.5)) * 20.0 * f32(i) + scene.light.w) / f32(i);
    }
    return vec4<f32>(scene.tint.rgb * (0.5 + 0.25 * height), 0.5);
}
"""


def blending(source, destination):
    return {"src_factor": source, "dst_factor": destination, "operation": "add"}


ALPHA = {"color": blending("src-alpha", "one-minus-src-alpha"), "alpha": blending("one", "one-minus-src-alpha")}
ADDITIVE = dict.fromkeys(("color", "alpha"), blending("one", "one"))

# fragment shader, blending, topology, culling
MATERIALS = [
    ("lit", None, wgpu.PrimitiveTopology.triangle_list, wgpu.CullMode.back),
    ("lit", ALPHA, wgpu.PrimitiveTopology.triangle_list, wgpu.CullMode.none),
    ("textured", None, wgpu.PrimitiveTopology.triangle_strip, wgpu.CullMode.none),
    ("textured", ALPHA, wgpu.PrimitiveTopology.triangle_list, wgpu.CullMode.front),
    ("checkered", None, wgpu.PrimitiveTopology.triangle_list, wgpu.CullMode.none),
    ("ripples", ADDITIVE, wgpu.PrimitiveTopology.triangle_list, wgpu.CullMode.none),
    ("flat", None, wgpu.PrimitiveTopology.line_list, wgpu.CullMode.none),
    ("flat", None, wgpu.PrimitiveTopology.triangle_list, wgpu.CullMode.none),
]


def make_pipeline(device, module, layout, fragment, blend, topology, culling):
    target = {"format": COLOR}
    if blend:
        target["blend"] = blend
    primitive = {"topology": topology, "cull_mode": culling}
    if topology == wgpu.PrimitiveTopology.triangle_strip:
        primitive["strip_index_format"] = wgpu.IndexFormat.uint16
    return device.create_render_pipeline(
        layout=layout,
        vertex={
            "module": module,
            "entry_point": "vertex",
            "buffers": [
                {
                    "array_stride": 20,
                    "attributes": [
                        {"format": wgpu.VertexFormat.float32x3, "offset": 0, "shader_location": 0},
                        {"format": wgpu.VertexFormat.float32x2, "offset": 12, "shader_location": 1},
                    ],
                }
            ],
        },
        primitive=primitive,
        depth_stencil={
            "format": DEPTH,
            "depth_write_enabled": blend is None,
            "depth_compare": wgpu.CompareFunction.less_equal,
        },
        fragment={"module": module, "entry_point": fragment, "targets": [target]},
    )


def main():
    adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
    device = adapter.request_device_sync()
    module = device.create_shader_module(code=SHADER)
    both = wgpu.ShaderStage.VERTEX | wgpu.ShaderStage.FRAGMENT
    bindings = device.create_bind_group_layout(
        entries=[
            {"binding": 0, "visibility": both, "buffer": {"type": wgpu.BufferBindingType.uniform}},
            {"binding": 1, "visibility": wgpu.ShaderStage.FRAGMENT, "texture": {}},
            {"binding": 2, "visibility": wgpu.ShaderStage.FRAGMENT, "sampler": {}},
        ]
    )
    layout = device.create_pipeline_layout(bind_group_layouts=[bindings])
    pipelines = [make_pipeline(device, module, layout, *material) for material in MATERIALS]
    print(f"wgpu_render: {len(pipelines)} pipelines on {adapter.info['device']}")


main()
