// The interface that all compute shaders share. Workgroup sizes stay at or below 128 invocations,
// the least that every Vulkan implementation offers.

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint GROUP = 64;

layout(set = 0, binding = 0) readonly buffer BufferA { vec4 a[]; };
layout(set = 0, binding = 1) buffer BufferB { vec4 b[]; };
layout(set = 0, binding = 2) readonly buffer BufferC { uint c[]; };
layout(set = 0, binding = 3) buffer BufferD { uint d[]; };

layout(set = 0, binding = 4) uniform Settings {
    mat4 viewProjection;
    vec4 plane[8];
    vec4 sphere[8];    // xyz, radius
    vec4 force[4];     // xyz, strength
    vec4 scale;
} settings;

layout(set = 0, binding = 5) uniform sampler2D source;
layout(set = 0, binding = 6) uniform sampler2D history;
layout(set = 0, binding = 7, rgba16f) writeonly uniform image2D target;

layout(push_constant) uniform Push {
    uvec4 size;        // width, height, count, pass number
    vec4 parameters;   // x: time step
} push;
