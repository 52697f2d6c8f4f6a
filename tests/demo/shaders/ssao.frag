#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "graphics.glsl"
#include "noise.glsl"

layout(constant_id = 0) const int SAMPLES = 8;
layout(constant_id = 1) const bool HORIZON = false;          // horizon search instead of hemisphere samples
layout(constant_id = 2) const bool NORMAL_FROM_DEPTH = false;
layout(constant_id = 3) const int RANGE_CHECK = 0;           // 0 none, 1 smooth, 2 hard
layout(constant_id = 4) const int POWER = 1;
layout(constant_id = 5) const bool BENT_NORMAL = false;

layout(location = 0) in vec2 inUv;
layout(location = 0) out vec4 outColor;

vec3 positionAt(vec2 uv) {
    vec4 p = camera.inverseViewProjection * vec4(uv * 2.0 - 1.0, textureLod(mapA, uv, 0.0).r, 1.0);
    return p.xyz / p.w;
}

vec3 normalAt(vec3 center) {
    if (!NORMAL_FROM_DEPTH)
        return normalize(textureLod(mapB, inUv, 0.0).xyz * 2.0 - 1.0);
    return normalize(cross(dFdx(center), dFdy(center)));
}

float inRange(float distance) {
    float x = distance / draw.parameters.x;
    return RANGE_CHECK == 0 ? 1.0 : RANGE_CHECK == 1 ? 1.0 - smoothstep(0.5, 1.0, x) : step(x, 1.0);
}

vec4 hemisphere(vec3 center, vec3 normal, uint seed) {
    float occluded = 0.0;
    vec3 open = normal;
    [[dont_unroll]] for (int i = 0; i < SAMPLES; ++i) {
        vec3 direction = hashToDirection(uint(i) * 2654435761u ^ seed);
        direction *= sign(dot(direction, normal));
        vec3 target = center + direction * draw.parameters.x * mix(0.1, 1.0, square(float(i + 1) / float(SAMPLES)));
        vec4 p = camera.viewProjection * vec4(target, 1.0);
        vec3 there = positionAt(p.xy / p.w * 0.5 + 0.5);
        float nearer = distance(there, camera.position.xyz) < distance(target, camera.position.xyz) - 0.02 ? 1.0 : 0.0;
        float hit = nearer * inRange(distance(there, center));
        occluded += hit;
        open += direction * (1.0 - hit);
    }
    return vec4(open, 1.0 - occluded / float(SAMPLES));
}

vec4 horizon(vec3 center, vec3 normal, uint seed) {
    float open = 0.0, turn = hashToUnit(seed) * PI;
    vec3 bent = normal;
    [[dont_unroll]] for (int i = 0; i < SAMPLES / 2; ++i) {
        float angle = turn + PI * float(i) / float(SAMPLES / 2);
        vec2 direction = vec2(cos(angle), sin(angle)) * camera.viewport.zw * draw.parameters.y;
        float highest = 0.0;
        for (int j = 1; j <= 3; ++j) {
            vec3 delta = positionAt(inUv + direction * float(j * j)) - center;
            float d = length(delta);
            highest = max(highest, dot(delta / max(d, 1e-4), normal) * inRange(d));
        }
        open += 1.0 - highest;
        bent += vec3(direction, 0.0) * (1.0 - highest);
    }
    return vec4(bent, open / float(SAMPLES / 2));
}

void main() {
    vec3 center = positionAt(inUv), normal = normalAt(center);
    uint seed = uint(gl_FragCoord.x) * 1973u + uint(gl_FragCoord.y) * 9277u + uint(camera.planes.w) * 26699u;
    vec4 result = HORIZON ? horizon(center, normal, seed) : hemisphere(center, normal, seed);
    float open = saturate(result.w);
    for (int i = 1; i < POWER; ++i)
        open *= saturate(result.w);
    outColor = BENT_NORMAL ? vec4(normalize(result.xyz) * 0.5 + 0.5, open) : vec4(vec3(open), 1.0);
}
