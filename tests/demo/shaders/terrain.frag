#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "graphics.glsl"
#include "brdf.glsl"
#include "noise.glsl"
#include "surface_in.glsl"

layout(constant_id = 0) const int LAYERS = 2;
layout(constant_id = 1) const bool TRIPLANAR = false;
layout(constant_id = 2) const int BREAKUP_OCTAVES = 0;  // noise that hides the tiling
layout(constant_id = 3) const bool HEIGHT_BLEND = false;
layout(constant_id = 4) const int SNOW = 0;             // 0 none, else steepness limit in percent

layout(location = 0) out vec4 outColor;

vec4 layerColor(float scale, vec3 normal) {
    if (!TRIPLANAR)
        return texture(mapB, inWorld.xz * scale);
    vec3 weight = pow(abs(normal), vec3(4.0));
    weight /= weight.x + weight.y + weight.z;
    return texture(mapB, inWorld.yz * scale) * weight.x + texture(mapC, inWorld.xz * scale) * weight.y +
           texture(mapD, inWorld.xy * scale) * weight.z;
}

float breakup(vec2 p) {
    float sum = 0.5;
    [[dont_unroll]] for (int i = 0; i < BREAKUP_OCTAVES; ++i)
        sum += gradientNoise(p * exp2(float(i)) * 0.05, uint(i) * 31u + 7u) * exp2(-float(i));
    return saturate(sum);
}

void main() {
    vec3 normal = normalize(inNormal);
    vec4 mask = texture(mapA, inUv);
    float noise = breakup(inWorld.xz), total = 0.0;
    vec3 albedo = vec3(0.0);
    [[dont_unroll]] for (int i = 0; i < LAYERS; ++i) {
        vec4 layer = layerColor(0.1 * float(i + 1), normal);
        float weight = mask[i & 3] * mix(0.5, 1.5, noise);
        if (HEIGHT_BLEND)
            weight = pow(max(weight * (layer.a + 0.2), 1e-4), 4.0);
        albedo += layer.rgb * weight;
        total += weight;
    }
    albedo = albedo / max(total, 1e-4) * inColor.rgb;
    if (SNOW > 0) {
        float amount = smoothstep(float(SNOW) * 0.01, float(SNOW) * 0.01 + 0.1, normal.y + noise * 0.1);
        albedo = mix(albedo, vec3(0.92, 0.94, 1.0), amount);
    }
    outColor = vec4(albedo * (irradiance(normal) + lights.sunColor.rgb * saturate(dot(normal, lights.sunDirection.xyz))), 1.0);
}
