#version 460
#extension GL_EXT_ray_tracing : require
#extension GL_GOOGLE_include_directive : require
#include "raytracing.glsl"

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
