#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "graphics.glsl"

layout(constant_id = 0) const int RADIUS = 4;            // half the width of the kernel
layout(constant_id = 1) const int MODE = 0;              // 0 horizontal, 1 vertical, 2 box down, 3 tent up
layout(constant_id = 2) const int PREFILTER = 0;         // 0 none, 1 hard threshold, 2 soft knee
layout(constant_id = 3) const bool KARIS_AVERAGE = false; // weight by luminance, against fireflies
layout(constant_id = 4) const bool LENS_DIRT = false;
layout(constant_id = 5) const int GHOSTS = 0;

layout(location = 0) in vec2 inUv;
layout(location = 0) out vec4 outColor;

vec3 fetch(vec2 uv) {
    vec3 color = textureLod(mapA, uv, 0.0).rgb;
    float brightness = max(color.r, max(color.g, color.b));
    if (PREFILTER == 1)
        color *= step(draw.parameters.x, brightness);
    if (PREFILTER == 2) {
        float soft = clamp(brightness - draw.parameters.x + draw.parameters.y, 0.0, 2.0 * draw.parameters.y);
        color *= max(soft * soft / (4.0 * draw.parameters.y + 1e-4), brightness - draw.parameters.x) / max(brightness, 1e-4);
    }
    return KARIS_AVERAGE ? color / (1.0 + luminance(color)) : color;
}

// The offset of a tap in texels, and its weight.
vec3 tap(int i) {
    int side = i % 3 - 1, line = i / 3 - 1;
    float grid = float((2 - abs(side)) * (2 - abs(line)));
    float step = float(i - RADIUS), falloff = exp(-4.5 * square(step / float(RADIUS + 1)));
    switch (MODE) {
    case 0: return vec3(step, 0.0, falloff);
    case 1: return vec3(0.0, step, falloff);
    case 2: return vec3(float(side) * 2.0, float(line) * 2.0, grid);
    default: return vec3(vec2(side, line) * float(RADIUS) * 0.5, grid);
    }
}

vec3 blurred(vec2 texel) {
    const int taps = MODE < 2 ? 2 * RADIUS + 1 : 9;
    vec4 sum = vec4(0.0);
    [[dont_unroll]] for (int i = 0; i < taps; ++i) {
        vec3 t = tap(i);
        sum += vec4(fetch(inUv + t.xy * texel), 1.0) * t.z;
    }
    return sum.rgb / sum.a;
}

void main() {
    vec3 color = blurred(camera.viewport.zw);
    [[dont_unroll]] for (int i = 0; i < GHOSTS; ++i) {
        vec2 uv = fract(1.0 - inUv + (inUv - 0.5) * (0.4 * float(i + 1)));
        color += fetch(uv) * vec3(1.0, 0.7 + 0.1 * float(i), 0.5) * saturate(1.0 - 2.0 * distance(uv, vec2(0.5)));
    }
    if (KARIS_AVERAGE)
        color /= max(1.0 - luminance(color), 1e-3);
    if (LENS_DIRT)
        color *= 1.0 + 2.0 * texture(mapC, inUv).rgb;
    outColor = vec4(color, 1.0);
}
