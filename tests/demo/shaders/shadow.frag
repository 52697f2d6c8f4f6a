#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "graphics.glsl"
#include "brdf.glsl"
#include "noise.glsl"
#include "surface_in.glsl"

layout(constant_id = 0) const int CASCADES = 2;
layout(constant_id = 1) const int PCF_RADIUS = 1;       // taps: (2 * radius + 1) squared, or that many on a disk
layout(constant_id = 2) const bool POISSON_DISK = false;
layout(constant_id = 3) const bool BLEND_CASCADES = false;
layout(constant_id = 4) const int FOG = 0;              // 0 none, 1 exponential, 2 with height
layout(constant_id = 5) const int SPECULAR_POWER = 0;   // 0: no highlight

layout(location = 0) out vec4 outColor;

// One tap: on a disk that turns from pixel to pixel, or in a square.
vec2 tapOffset(int i, int taps, float turn) {
    if (POISSON_DISK) {
        float angle = turn + float(i) * 2.3999632;
        return vec2(cos(angle), sin(angle)) * sqrt((float(i) + 0.5) / float(taps)) * float(PCF_RADIUS);
    }
    int width = 2 * PCF_RADIUS + 1;
    return vec2(i % width - PCF_RADIUS, i / width - PCF_RADIUS);
}

float shadowIn(int cascade) {
    vec4 p = lights.cascade[cascade] * vec4(inWorld + inNormal * 0.02, 1.0);
    vec3 coordinate = vec3(p.xy / p.w * 0.5 + 0.5, p.z / p.w);
    const int taps = POISSON_DISK ? 4 + 4 * PCF_RADIUS : (2 * PCF_RADIUS + 1) * (2 * PCF_RADIUS + 1);
    float turn = hashToUnit(uint(gl_FragCoord.x) * 1973u + uint(gl_FragCoord.y) * 9277u) * 2.0 * PI, sum = 0.0;
    [[dont_unroll]] for (int i = 0; i < taps; ++i)
        sum += texture(shadowMap, vec4(coordinate.xy + tapOffset(i, taps, turn) / 2048.0, float(cascade), coordinate.z));
    return sum / float(taps);
}

float shadow(float depth) {
    float result = 1.0;
    [[dont_unroll]] for (int i = CASCADES - 1; i >= 0; --i) {
        float end = lights.cascadeEnd[i];
        if (depth < end) {
            float here = shadowIn(i);
            result = BLEND_CASCADES ? mix(here, result, smoothstep(end * 0.9, end, depth)) : here;
        }
    }
    return result;
}

vec3 fogged(vec3 color, float depth) {
    if (FOG == 0)
        return color;
    float amount = lights.fog.w * depth;
    if (FOG == 2)
        amount *= exp(-max(inWorld.y, 0.0) * 0.1);
    return mix(lights.fog.rgb, color, exp(-amount));
}

void main() {
    vec4 albedo = texture(mapA, inUv) * inColor;
    vec3 normal = applyNormalMap(texture(mapB, inUv).xyz * 2.0 - 1.0, inNormal, inTangent);
    vec3 toEye = camera.position.xyz - inWorld;
    float depth = length(toEye);
    float lit = saturate(dot(normal, lights.sunDirection.xyz)) * shadow(depth);
    vec3 color = albedo.rgb * (irradiance(normal) + lights.sunColor.rgb * lit);
    if (SPECULAR_POWER > 0) {
        float highlight = saturate(dot(normal, normalize(toEye / depth + lights.sunDirection.xyz)));
        color += lights.sunColor.rgb * lit * pow(highlight, float(SPECULAR_POWER));
    }
    outColor = vec4(fogged(color, depth), albedo.a);
}
