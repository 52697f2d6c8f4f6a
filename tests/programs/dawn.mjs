// Eight compute and eight render pipelines with Dawn, Chromium's WebGPU, from the npm package webgpu.
//
//   node dawn.mjs DIRECTORY        where `npm install webgpu` was run
import { createRequire } from "node:module";

const require = createRequire(`${process.argv[2]}/node_modules/`);
const { create, globals } = await import(require.resolve("webgpu"));
Object.assign(globalThis, globals);

const COUNT = 8;
const gpu = create(["backend=vulkan"]); // Dawn crashes when it is collected before the device
const adapter = await gpu.requestAdapter();
const device = await adapter.requestDevice();
for (let i = 0; i < COUNT; i++) {
    const module = device.createShaderModule({
        code: `
            @group(0) @binding(0) var<storage, read_write> data: array<u32>;
            @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
                if (id.x < arrayLength(&data)) { data[id.x] = data[id.x] * ${i + 2}u + ${i}u; }
            }`,
    });
    const asked = { layout: "auto", compute: { module, entryPoint: "main" } };
    if (i % 2) device.createComputePipeline(asked);
    else await device.createComputePipelineAsync(asked);
}
for (let i = 0; i < COUNT; i++) {
    const module = device.createShaderModule({
        code: `
            @vertex fn vs(@builtin(vertex_index) i: u32) -> @builtin(position) vec4f {
                return vec4f(f32(i & 1u), f32(i >> 1u), 0.${i}, 1);
            }
            @fragment fn fs(@builtin(position) p: vec4f) -> @location(0) vec4f {
                return vec4f(p.xy / ${i + 1}.0, 0, 1);
            }`,
    });
    device.createRenderPipeline({
        layout: "auto",
        vertex: { module, entryPoint: "vs" },
        fragment: { module, entryPoint: "fs", targets: [{ format: "rgba8unorm" }] },
        primitive: { topology: i % 2 ? "triangle-list" : "triangle-strip" },
    });
}
await device.queue.onSubmittedWorkDone();
console.log(`dawn: ${2 * COUNT} pipelines on ${adapter.info.description}`);
device.destroy();
process.exit(gpu ? 0 : 1);
