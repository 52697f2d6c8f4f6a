#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "graphics.glsl"

layout(constant_id = 0) const int SEARCH_STEPS = 5;
layout(constant_id = 1) const bool LUMA_FROM_GREEN = false;
layout(constant_id = 2) const bool SUBPIXEL = false;
layout(constant_id = 3) const int SHARPEN = 0;          // strength in percent
layout(constant_id = 4) const int THRESHOLD = 16;       // contrast, in 1 / 256

layout(location = 0) in vec2 inUv;
layout(location = 0) out vec4 outColor;

float luma(vec2 uv) {
    vec3 color = textureLod(mapA, uv, 0.0).rgb;
    return LUMA_FROM_GREEN ? color.g : sqrt(luminance(color));
}

struct Neighbours { float m, n, s, e, w, ne, nw, se, sw; };

Neighbours look(vec2 uv, vec2 texel) {
    Neighbours l;
    l.m = luma(uv);
    l.n = luma(uv + texel * vec2(0.0, -1.0)); l.s = luma(uv + texel * vec2(0.0, 1.0));
    l.e = luma(uv + texel * vec2(1.0, 0.0)); l.w = luma(uv + texel * vec2(-1.0, 0.0));
    l.ne = luma(uv + texel * vec2(1.0, -1.0)); l.nw = luma(uv + texel * vec2(-1.0, -1.0));
    l.se = luma(uv + texel * vec2(1.0, 1.0)); l.sw = luma(uv + texel * vec2(-1.0, 1.0));
    return l;
}

vec2 edgeOffset(Neighbours l, vec2 texel, float range) {
    float horizontal = abs(l.n + l.s - 2.0 * l.m) * 2.0 + abs(l.ne + l.se - 2.0 * l.e) + abs(l.nw + l.sw - 2.0 * l.w);
    float vertical = abs(l.e + l.w - 2.0 * l.m) * 2.0 + abs(l.ne + l.nw - 2.0 * l.n) + abs(l.se + l.sw - 2.0 * l.s);
    bool isHorizontal = horizontal >= vertical;
    float one = isHorizontal ? l.n : l.w, two = isHorizontal ? l.s : l.e;
    bool firstSteeper = abs(one - l.m) >= abs(two - l.m);
    float side = firstSteeper ? -1.0 : 1.0, average = 0.5 * ((firstSteeper ? one : two) + l.m);
    vec2 along = isHorizontal ? vec2(texel.x, 0.0) : vec2(0.0, texel.y), across = isHorizontal ? vec2(0.0, texel.y) : vec2(texel.x, 0.0);
    vec2 base = inUv + across * side * 0.5;
    float gradient = 0.25 * max(abs(one - l.m), abs(two - l.m)), left = 0.0, right = 0.0, endLeft = 0.0, endRight = 0.0;
    bool doneLeft = false, doneRight = false;
    [[dont_unroll]] for (int i = 1; i <= SEARCH_STEPS; ++i) {
        float stride = i > 5 ? float(i - 4) : 1.0;
        if (!doneLeft) { left += stride; endLeft = luma(base - along * left) - average; doneLeft = abs(endLeft) >= gradient; }
        if (!doneRight) { right += stride; endRight = luma(base + along * right) - average; doneRight = abs(endRight) >= gradient; }
    }
    bool leftNearer = left < right;
    bool good = ((leftNearer ? endLeft : endRight) < 0.0) != (l.m - average < 0.0);
    float shift = good ? 0.5 - min(left, right) / (left + right) : 0.0;
    if (SUBPIXEL) {
        float blend = abs((2.0 * (l.n + l.s + l.e + l.w) + l.ne + l.nw + l.se + l.sw) / 12.0 - l.m) / range;
        shift = max(shift, square(smoothstep(0.0, 1.0, saturate(blend))) * 0.75);
    }
    return across * side * shift;
}

void main() {
    vec2 texel = camera.viewport.zw;
    Neighbours l = look(inUv, texel);
    float lowest = min(l.m, min(min(l.n, l.s), min(l.e, l.w))), highest = max(l.m, max(max(l.n, l.s), max(l.e, l.w)));
    float range = highest - lowest;
    vec2 uv = inUv;
    if (range > max(float(THRESHOLD) / 256.0, highest * 0.125))
        uv += edgeOffset(l, texel, range);
    vec3 color = textureLod(mapA, uv, 0.0).rgb;
    if (SHARPEN > 0) {
        vec3 around = textureLod(mapA, uv + texel, 0.0).rgb + textureLod(mapA, uv - texel, 0.0).rgb;
        color += (color - around * 0.5) * float(SHARPEN) * 0.01;
    }
    outColor = vec4(color, 1.0);
}
