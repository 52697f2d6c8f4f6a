// Four compute pipelines with WebGPU, as Deno has it. Prints the sum of what each computed.
const device = await (await navigator.gpu.requestAdapter()).requestDevice();
for (let number = 0; number < 4; number++) {
  const code = `@group(0) @binding(0) var<storage, read_write> data: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) { data[id.x] = id.x * id.x + ${number}u; }`;
  const compute = { module: device.createShaderModule({ code }), entryPoint: "main" };
  const pipeline = await device.createComputePipelineAsync({ layout: "auto", compute });
  const { STORAGE, COPY_SRC, COPY_DST, MAP_READ } = GPUBufferUsage;
  const buffer = device.createBuffer({ size: 1024, usage: STORAGE | COPY_SRC });
  const result = device.createBuffer({ size: 1024, usage: MAP_READ | COPY_DST });
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  const entries = [{ binding: 0, resource: { buffer } }];
  pass.setBindGroup(0, device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }));
  pass.dispatchWorkgroups(4);
  pass.end();
  encoder.copyBufferToBuffer(buffer, 0, result, 0, 1024);
  device.queue.submit([encoder.finish()]);
  await result.mapAsync(GPUMapMode.READ);
  console.log("sum", new Uint32Array(result.getMappedRange()).reduce((sum, value) => sum + value, 0));
}
