#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "compute.glsl"
#include "noise.glsl"

layout(constant_id = 1) const int OCTAVES = 3;
layout(constant_id = 2) const int RIDGED = 0;         // 0 plain, 1 ridged, 2 billowed
layout(constant_id = 3) const int WARPS = 0;          // times the domain is bent
layout(constant_id = 4) const bool TERRACES = false;
layout(constant_id = 5) const int CRATERS = 0;
layout(constant_id = 6) const bool NORMALS = false;   // write slopes, too

float shape(float n) {
    switch (RIDGED) {
    case 1: return 1.0 - 2.0 * abs(n);
    case 2: return 2.0 * abs(n) - 0.5;
    default: return n;
    }
}

float layered(vec2 p, uint seed) {
    float sum = 0.0, amplitude = 0.5, weight = 1.0;
    [[dont_unroll]] for (int i = 0; i < OCTAVES; ++i) {
        float n = shape(gradientNoise(p, seed + uint(i))) * amplitude;
        sum += RIDGED == 1 ? n * weight : n;
        weight = clamp(n * 2.0, 0.0, 1.0);
        p = mat2(1.6, 1.2, -1.2, 1.6) * p;
        amplitude *= 0.5;
    }
    return sum;
}

float height(vec2 p) {
    [[dont_unroll]] for (int i = 0; i < WARPS; ++i)
        p += 0.4 * vec2(gradientNoise(p * 1.3, 91u + uint(i)), gradientNoise(p * 1.3 + 5.2, 17u + uint(i)));
    float h = layered(p, push.size.w);
    [[dont_unroll]] for (int i = 0; i < CRATERS; ++i) {
        vec2 center = vec2(hashToUnit(uint(i) * 3u), hashToUnit(uint(i) * 3u + 1u)) * 8.0;
        float x = distance(p, center) / (0.3 + hashToUnit(uint(i) * 3u + 2u));
        h += x < 1.0 ? (x * x - 1.0) * 0.3 : 0.1 * exp(-4.0 * (x - 1.0));
    }
    if (TERRACES) {
        float level = h * 12.0;
        h = (floor(level) + smoothstep(0.3, 0.7, fract(level))) / 12.0;
    }
    return h;
}

void main() {
    uvec2 cell = uvec2(gl_GlobalInvocationID.x % push.size.x, gl_GlobalInvocationID.x / push.size.x);
    if (cell.y >= push.size.y)
        return;
    vec2 p = vec2(cell) * settings.scale.xy + push.parameters.yz;
    float e = settings.scale.x;
    vec3 h = vec3(0.0);
    [[dont_unroll]] for (int i = 0; i < (NORMALS ? 3 : 1); ++i)
        h[i] = height(p + e * vec2(i == 1, i == 2));
    vec4 result = vec4(h.x, 0.0, 0.0, 1.0);
    if (NORMALS)
        result.yz = normalize(vec3(h.x - h.y, e, h.x - h.z)).xz;
    b[gl_GlobalInvocationID.x] = result;
    imageStore(target, ivec2(cell), result);
}
