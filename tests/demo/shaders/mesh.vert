#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "graphics.glsl"
#include "noise.glsl"
#include "surface_out.glsl"

layout(constant_id = 0) const int WIND_WAVES = 0;       // sums of sines that move foliage
layout(constant_id = 1) const bool INSTANCED = false;   // derive an instance's place from its number
layout(constant_id = 2) const bool OUTLINE = false;     // grow along the normal

layout(location = 0) in vec4 position;
layout(location = 1) in vec4 normal;
layout(location = 2) in vec4 tangent;
layout(location = 3) in vec2 uv;
layout(location = 4) in vec4 color;

vec3 wind(vec3 world, float weight) {
    vec3 offset = vec3(0.0);
    [[dont_unroll]] for (int i = 0; i < WIND_WAVES; ++i) {
        float frequency = exp2(float(i));
        float phase = (world.x - 0.5 * world.z) * frequency + camera.position.w * (1.0 + 0.5 * frequency);
        offset += vec3(1.0, -0.2, 0.5) * sin(phase) / frequency;
    }
    return offset * weight;
}

void main() {
    vec3 local = position.xyz;
    if (OUTLINE)
        local += normalize(normal.xyz) * draw.parameters.x;
    if (INSTANCED) {
        uint id = uint(gl_InstanceIndex);
        local *= mix(0.7, 1.3, hashToUnit(id));
        local.xz += vec2(id & 63u, id >> 6) * draw.parameters.y;
    }
    vec4 world = draw.model * vec4(local, 1.0);
    world.xyz += wind(world.xyz, color.a);
    mat3 rotation = mat3(draw.model);
    outWorld = world.xyz;
    outNormal = normalize(rotation * normal.xyz);
    outTangent = vec4(normalize(rotation * tangent.xyz), tangent.w < 0.0 ? -1.0 : 1.0);
    outUv = uv;
    outColor = color * draw.tint;
    gl_Position = camera.viewProjection * world;
}
