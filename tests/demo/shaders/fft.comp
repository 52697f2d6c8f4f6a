#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "compute.glsl"

layout(constant_id = 1) const int RADIX_BITS = 1;    // 1: radix 2, 2: radix 4
layout(constant_id = 2) const int STAGES = 2;        // done in shared memory
layout(constant_id = 3) const bool INVERSE = false;
layout(constant_id = 4) const int WINDOW = 0;        // 0 none, 1 Hann, 2 Hamming, 3 Blackman
layout(constant_id = 5) const bool POWER_OUT = false; // write squared magnitudes
layout(constant_id = 6) const bool OCEAN = false;    // multiply by a wave spectrum first

shared vec2 line[512];

vec2 multiply(vec2 x, vec2 y) { return vec2(x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x); }
vec2 turn(float angle) { return vec2(cos(angle), INVERSE ? sin(angle) : -sin(angle)); }

float window(float t) {
    const float tau = 6.2831853;
    switch (WINDOW) {
    case 1: return 0.5 - 0.5 * cos(tau * t);
    case 2: return 0.54 - 0.46 * cos(tau * t);
    case 3: return 0.42 - 0.5 * cos(tau * t) + 0.08 * cos(2.0 * tau * t);
    default: return 1.0;
    }
}

vec2 load(uint index) {
    vec2 value = a[index].xy * window(float(index) / float(push.size.x));
    if (OCEAN) {
        vec2 k = vec2(float(index % push.size.x), float(index / push.size.x)) * push.parameters.y;
        float k2 = dot(k, k) + 1e-6, w = sqrt(9.81 * sqrt(k2));
        float phillips = exp(-1.0 / (k2 * push.parameters.z)) / (k2 * k2) * (k.x * k.x / k2);
        value = multiply(value, turn(w * push.parameters.x)) * sqrt(phillips);
    }
    return value;
}

void transform(inout vec2 v[4]) {
    const int radix = 1 << RADIX_BITS;
    for (int half_ = radix >> 1; half_ > 0; half_ >>= 1)
        for (int i = 0; i < radix; ++i)
            if ((i & half_) == 0) {
                vec2 x = v[i], y = v[i + half_];
                v[i] = x + y;
                v[i + half_] = multiply(x - y, turn(3.14159265 * float(i & (half_ - 1)) / float(half_)));
            }
}

void main() {
    const int radix = 1 << RADIX_BITS;
    uint me = gl_LocalInvocationID.x, base = gl_WorkGroupID.x * GROUP * uint(radix);
    vec2 v[4];
    for (int i = 0; i < radix; ++i)
        v[i] = load(base + me + uint(i) * GROUP);
    uint span = 1u;
    [[dont_unroll]] for (int stage = 0; stage < STAGES; ++stage) {
        float angle = 6.2831853 * float(me % span) / float(span * uint(radix));
        for (int i = 1; i < radix; ++i)
            v[i] = multiply(v[i], turn(angle * float(i)));
        transform(v);
        uint place = (me / span) * span * uint(radix) + me % span;
        barrier();
        for (int i = 0; i < radix; ++i)
            line[(place + uint(i) * span) & 511u] = v[bitfieldReverse(i) >> (32 - RADIX_BITS) & (radix - 1)];
        barrier();
        for (int i = 0; i < radix; ++i)
            v[i] = line[(me + uint(i) * GROUP) & 511u];
        span *= uint(radix);
    }
    float scale = INVERSE ? 1.0 / float(GROUP * uint(radix)) : 1.0;
    for (int i = 0; i < radix; ++i)
        b[base + me + uint(i) * GROUP] = vec4(POWER_OUT ? vec2(dot(v[i], v[i]), 0.0) : v[i] * scale, 0.0, 1.0);
}
