#version 460
#extension GL_EXT_ray_tracing : require
#extension GL_GOOGLE_include_directive : require
#include "raytracing.glsl"

layout(constant_id = 0) const int MATERIAL = 0;   // 0 diffuse, 1 GGX, 2 checkered, 3 bands
layout(constant_id = 1) const bool SHADOW_RAY = false;
layout(constant_id = 2) const int DETAIL = 1;     // layers of a procedural pattern

layout(location = 0) rayPayloadInEXT Payload payload;
layout(location = 1) rayPayloadEXT float lit;
hitAttributeEXT vec2 corner;

vec3 interpolated(uint triangle, vec3 weight, uint offset) {
    uint base = triangle * 6u + offset;
    return vertices[base].xyz * weight.x + vertices[base + 2u].xyz * weight.y + vertices[base + 4u].xyz * weight.z;
}

vec3 albedoAt(vec3 p) {
    vec3 color = vec3(0.8, 0.75, 0.7);
    for (int i = 0; i < DETAIL; ++i) {
        vec3 q = p * exp2(float(i));
        float t = MATERIAL == 2 ? mod(floor(q.x) + floor(q.y) + floor(q.z), 2.0) : 0.5 + 0.5 * sin(q.x + 2.0 * sin(q.y));
        color *= mix(vec3(0.7, 0.8, 0.9), vec3(1.0), t);
    }
    return MATERIAL == 3 ? color * (0.5 + 0.5 * sign(sin(p.y * 20.0))) : color;
}

void main() {
    vec3 weight = vec3(1.0 - corner.x - corner.y, corner);
    uint triangle = uint(gl_PrimitiveID);
    vec3 position = gl_ObjectToWorldEXT * vec4(interpolated(triangle, weight, 0u), 1.0);
    vec3 normal = normalize(vec3(interpolated(triangle, weight, 1u) * gl_WorldToObjectEXT));
    vec3 albedo = albedoAt(position), l = frame.sunDirection.xyz;
    float nDotL = max(dot(normal, l), 0.0);
    lit = 1.0;
    if (SHADOW_RAY) {
        lit = 0.0;
        traceRayEXT(scene, gl_RayFlagsTerminateOnFirstHitEXT | gl_RayFlagsSkipClosestHitShaderEXT, 0xff, 0, 0, 1,
                    position, 0.01, l, 10000.0, 1);
    }
    vec3 color = albedo / PI;
    float roughness = 0.9;
    if (MATERIAL == 1) {
        vec3 h = normalize(l - gl_WorldRayDirectionEXT);
        float nDotH = max(dot(normal, h), 0.0), d = nDotH * nDotH * (0.04 - 1.0) + 1.0;
        color += 0.04 * 0.04 / (PI * d * d) * (0.04 + 0.96 * pow(1.0 - max(dot(l, h), 0.0), 5.0));
        roughness = 0.2;
    }
    payload.color = color * frame.sunColor.rgb * nDotL * lit;
    payload.distance = gl_HitTEXT;
    payload.normal = normal;
    payload.roughness = roughness;
}
