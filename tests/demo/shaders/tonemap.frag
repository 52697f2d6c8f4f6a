#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "graphics.glsl"
#include "noise.glsl"

layout(constant_id = 0) const int OPERATOR = 0;       // 0 Reinhard, 1 filmic, 2 ACES fit, 3 Lottes
layout(constant_id = 1) const int BLOOM_LEVELS = 0;
layout(constant_id = 2) const bool COLOR_GRADE = false;
layout(constant_id = 3) const bool VIGNETTE = false;
layout(constant_id = 4) const int GRAIN = 0;          // layers
layout(constant_id = 5) const int FRINGE_TAPS = 0;    // chromatic aberration; 0: none

layout(location = 0) in vec2 inUv;
layout(location = 0) out vec4 outColor;

vec3 filmic(vec3 x) {
    const float a = 0.15, b = 0.50, c = 0.10, d = 0.20, e = 0.02, f = 0.30;
    return (x * (a * x + c * b) + d * e) / (x * (a * x + b) + d * f) - e / f;
}

vec3 aces(vec3 color) {
    const mat3 toAces = mat3(0.59719, 0.07600, 0.02840, 0.35458, 0.90834, 0.13383, 0.04823, 0.01566, 0.83777);
    const mat3 fromAces = mat3(1.60475, -0.10208, -0.00327, -0.53108, 1.10813, -0.07276, -0.07367, -0.00605, 1.07602);
    vec3 v = toAces * color;
    vec3 a = v * (v + 0.0245786) - 0.000090537;
    vec3 b = v * (0.983729 * v + 0.4329510) + 0.238081;
    return saturate(fromAces * (a / b));
}

vec3 lottes(vec3 x) {
    const vec3 a = vec3(1.6), d = vec3(0.977), b = vec3(-0.0267), c = vec3(1.0778);
    return pow(x, a) / (pow(x, a * d) * c + b + 0.05);
}

vec3 mapTones(vec3 color) {
    switch (OPERATOR) {
    case 0: return color / (1.0 + luminance(color));
    case 1: return filmic(color * 2.0) / filmic(vec3(11.2));
    case 2: return aces(color);
    default: return lottes(color);
    }
}

vec3 scene() {
    if (FRINGE_TAPS == 0)
        return texture(mapA, inUv).rgb;
    vec2 away = (inUv - 0.5) * 0.02;
    vec3 sum = vec3(0.0), weights = vec3(0.0);
    [[dont_unroll]] for (int i = 0; i < FRINGE_TAPS; ++i) {
        float t = float(i) / float(FRINGE_TAPS);
        vec3 weight = max(vec3(0.0), 1.0 - abs(vec3(0.0, 0.5, 1.0) - t) * 2.0) + 1e-3;
        sum += textureLod(mapA, inUv - away * t, 0.0).rgb * weight;
        weights += weight;
    }
    return sum / weights;
}

vec3 grade(vec3 color) {
    color = pow(max(color * draw.tint.rgb + draw.parameters.rgb, 0.0), vec3(1.0 + draw.parameters.w));
    vec3 scaled = color * 15.0;
    float slice = floor(scaled.b);
    vec2 uv = vec2((scaled.r + 0.5) / 256.0 + slice / 16.0, (scaled.g + 0.5) / 16.0);
    return mix(textureLod(mapC, uv, 0.0).rgb, textureLod(mapC, uv + vec2(1.0 / 16.0, 0.0), 0.0).rgb, scaled.b - slice);
}

void main() {
    vec3 color = scene();
    for (int i = 0; i < BLOOM_LEVELS; ++i)
        color += textureLod(mapB, inUv, float(i)).rgb * (0.3 / float(i + 1));
    color = mapTones(color * camera.planes.z);
    color = mix(color * 12.92, 1.055 * pow(max(color, 1e-5), vec3(1.0 / 2.4)) - 0.055, step(0.0031308, color));
    if (COLOR_GRADE)
        color = grade(saturate(color));
    if (VIGNETTE)
        color *= 1.0 - 0.5 * smoothstep(0.3, 0.8, distance(inUv, vec2(0.5)));
    for (int i = 0; i < GRAIN; ++i) {
        uint seed = uint(gl_FragCoord.x) + uint(gl_FragCoord.y) * 4096u + uint(camera.planes.w) * 7919u + uint(i);
        color += (hashToUnit(seed) - 0.5) * (0.04 / float(i + 1)) * (1.0 - luminance(color));
    }
    outColor = vec4(color, 1.0);
}
