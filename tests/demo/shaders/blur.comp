#version 450
#extension GL_GOOGLE_include_directive : require
#include "compute.glsl"

layout(constant_id = 1) const int RADIUS = 3;
layout(constant_id = 2) const bool VERTICAL = false;
layout(constant_id = 3) const int EDGE = 0;          // 0 plain, 1 bilateral by depth, 2 bilateral by colour
layout(constant_id = 4) const int KERNEL = 0;        // 0 Gaussian, 1 box, 2 triangle, 3 Lanczos
layout(constant_id = 5) const bool TEMPORAL = false; // blend with the last frame, clamped to the neighbourhood
layout(constant_id = 6) const bool CACHED = false;   // go through shared memory

shared vec4 row[128 + 2 * 16];

float weightAt(int i) {
    float x = abs(float(i)) / float(RADIUS + 1);
    switch (KERNEL) {
    case 1: return 1.0;
    case 2: return 1.0 - x;
    case 3: return i == 0 ? 1.0 : sin(3.14159265 * x) * sin(1.0471976 * x) / (3.2898681 * x * x);
    default: return exp(-4.5 * x * x);
    }
}

vec4 fetch(ivec2 p) { return texelFetch(source, clamp(p, ivec2(0), ivec2(push.size.xy) - 1), 0); }

vec4 tap(ivec2 p, int offset) {
    if (CACHED)
        return row[gl_LocalInvocationID.x + uint(offset + 16)];
    return fetch(p + (VERTICAL ? ivec2(0, offset) : ivec2(offset, 0)));
}

float edgeWeight(vec4 center, vec4 other) {
    if (EDGE == 0)
        return 1.0;
    float difference = EDGE == 1 ? abs(center.a - other.a) * 50.0 : distance(center.rgb, other.rgb) * 8.0;
    return exp(-difference * difference);
}

vec4 accumulate(ivec2 p, vec4 color, vec4 lowest, vec4 highest) {
    vec2 uv = (vec2(p) + 0.5) / vec2(push.size.xy);
    vec2 motion = textureLod(source, uv, 1.0).xy * push.parameters.y;
    vec4 old = clamp(textureLod(history, uv - motion, 0.0), lowest, highest);
    return mix(old, color, 0.1 + 0.4 * clamp(length(motion) * 20.0, 0.0, 1.0));
}

void main() {
    int along = int(gl_GlobalInvocationID.x), line = int(gl_WorkGroupID.y);
    ivec2 p = VERTICAL ? ivec2(line, along) : ivec2(along, line);
    if (CACHED) {
        for (uint i = gl_LocalInvocationID.x; i < GROUP + 32u; i += GROUP) {
            int at = int(gl_WorkGroupID.x * GROUP + i) - 16;
            row[i] = fetch(VERTICAL ? ivec2(line, at) : ivec2(at, line));
        }
        barrier();
    }
    vec4 center = tap(p, 0), sum = vec4(0.0), lowest = center, highest = center;
    float total = 0.0;
    for (int i = -RADIUS; i <= RADIUS; ++i) {
        vec4 other = tap(p, i);
        float weight = weightAt(i) * edgeWeight(center, other);
        sum += other * weight;
        total += weight;
        if (TEMPORAL && abs(i) <= 1) {
            lowest = min(lowest, other);
            highest = max(highest, other);
        }
    }
    vec4 color = sum / max(total, 1e-4);
    if (TEMPORAL)
        color = accumulate(p, color, lowest, highest);
    if (all(lessThan(p, ivec2(push.size.xy))))
        imageStore(target, p, color);
}
