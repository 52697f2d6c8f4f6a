#version 460
#extension GL_EXT_ray_tracing : require
#ifndef is_shadow
#extension GL_GOOGLE_include_directive : require
#endif
// The ray tracing shaders. The Makefile defines which one a module has.

layout(set = 0, binding = 0) uniform accelerationStructureEXT scene;
layout(set = 0, binding = 1, rgba16f) writeonly uniform image2D target;
layout(set = 0, binding = 2) uniform Frame {
    mat4 inverseViewProjection;
    vec4 position;
    vec4 sunDirection;
    vec4 sunColor;
} frame;
layout(set = 0, binding = 3) readonly buffer Vertices { vec4 vertices[]; };

struct Payload {
    vec3 color;
    float distance;
    vec3 normal;
    float roughness;
};

const float PI = 3.14159265;

#if defined is_camera
#include "noise.glsl"

layout(constant_id = 0) const int BOUNCES = 1;
layout(constant_id = 1) const int SAMPLES = 1;

layout(location = 0) rayPayloadEXT Payload payload;

void main() {
    vec3 sum = vec3(0.0);
    for (int i = 0; i < SAMPLES; ++i) {
        uint seed = gl_LaunchIDEXT.x + gl_LaunchIDEXT.y * gl_LaunchSizeEXT.x + uint(i) * 7919u;
        vec2 jitter = vec2(hashToUnit(seed), hashToUnit(seed ^ 0x5bd1e995u));
        vec2 uv = (vec2(gl_LaunchIDEXT.xy) + jitter) / vec2(gl_LaunchSizeEXT.xy) * 2.0 - 1.0;
        vec4 far = frame.inverseViewProjection * vec4(uv, 1.0, 1.0);
        vec3 origin = frame.position.xyz, direction = normalize(far.xyz / far.w - origin), weight = vec3(1.0);
        for (int bounce = 0; bounce <= BOUNCES; ++bounce) {
            traceRayEXT(scene, gl_RayFlagsOpaqueEXT, 0xff, 0, 0, 0, origin, 0.001, direction, 10000.0, 0);
            sum += payload.color * weight;
            if (payload.distance < 0.0)
                break;
            origin += direction * payload.distance;
            vec3 rough = hashToDirection(seed + uint(bounce) * 31u) * payload.roughness;
            direction = normalize(reflect(direction, payload.normal) + rough);
            weight *= 0.6;
        }
    }
    imageStore(target, ivec2(gl_LaunchIDEXT.xy), vec4(sum / float(SAMPLES), 1.0));
}

#elif defined is_surface
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

#elif defined is_sky
layout(constant_id = 0) const int SCATTER_STEPS = 2;

layout(location = 0) rayPayloadInEXT Payload payload;

void main() {
    vec3 direction = gl_WorldRayDirectionEXT, color = vec3(0.0);
    float cosine = dot(direction, frame.sunDirection.xyz);
    for (int i = 0; i < SCATTER_STEPS; ++i) {
        float height = max(direction.y, 0.0) * float(i + 1) / float(SCATTER_STEPS);
        vec3 depth = vec3(5.8, 13.5, 33.1) * 0.02 * exp(-height * 8.0);
        color += depth * exp(-depth * float(i + 1)) * (0.75 + 0.75 * cosine * cosine);
    }
    payload.color = color + frame.sunColor.rgb * pow(max(cosine, 0.0), 800.0);
    payload.distance = -1.0;
    payload.normal = vec3(0.0, 1.0, 0.0);
    payload.roughness = 1.0;
}

#elif defined is_shadow
layout(location = 1) rayPayloadInEXT float lit;

void main() { lit = 1.0; }

#endif
