#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "compute.glsl"
#include "noise.glsl"

layout(constant_id = 1) const int CURL_OCTAVES = 1;
layout(constant_id = 2) const int SPHERES = 0;       // colliders
layout(constant_id = 3) const int PLANES = 1;
layout(constant_id = 4) const int ATTRACTORS = 0;
layout(constant_id = 5) const bool VERLET = false;   // otherwise semi-implicit Euler
layout(constant_id = 6) const bool RESPAWN = false;

vec3 potential(vec3 p) {
    vec3 sum = vec3(0.0);
    [[dont_unroll]] for (int i = 0; i < CURL_OCTAVES; ++i) {
        float f = exp2(float(i));
        sum += vec3(gradientNoise(p.yz * f, 11u), gradientNoise(p.zx * f, 23u), gradientNoise(p.xy * f, 37u)) / f;
    }
    return sum;
}

vec3 curl(vec3 p) {
    const float e = 0.05;
    mat4x3 at;
    [[dont_unroll]] for (int i = 0; i < 4; ++i)
        at[i] = potential(p + e * vec3(i == 1, i == 2, i == 3));
    vec3 x = at[1] - at[0], y = at[2] - at[0], z = at[3] - at[0];
    return vec3(y.z - z.y, z.x - x.z, x.y - y.x) / e;
}

void collide(inout vec3 p, inout vec3 v) {
    [[dont_unroll]] for (int i = 0; i < SPHERES; ++i) {
        vec3 n = p - settings.sphere[i].xyz;
        float inside = settings.sphere[i].w - length(n);
        if (inside > 0.0) {
            n = normalize(n);
            p += n * inside;
            v -= n * min(dot(v, n), 0.0) * 1.5;
        }
    }
    for (int i = 0; i < PLANES; ++i) {
        float inside = -dot(vec4(p, 1.0), settings.plane[i]);
        if (inside > 0.0) {
            p += settings.plane[i].xyz * inside;
            v = reflect(v, settings.plane[i].xyz) * 0.6;
        }
    }
}

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= push.size.z)
        return;
    vec4 position = b[i * 2u], velocity = b[i * 2u + 1u];
    float dt = push.parameters.x;
    vec3 force = vec3(0.0, -9.81, 0.0) - velocity.xyz * 0.1;
    if (CURL_OCTAVES > 0)
        force += curl(position.xyz * push.parameters.y);
    for (int j = 0; j < ATTRACTORS; ++j) {
        vec3 toward = settings.force[j].xyz - position.xyz;
        force += toward * settings.force[j].w * inversesqrt(dot(toward, toward) + 0.01);
    }
    vec3 p = position.xyz, v = velocity.xyz;
    if (VERLET) {
        p += v * dt + 0.5 * force * dt * dt;
        v += force * dt;
    } else {
        v += force * dt;
        p += v * dt;
    }
    collide(p, v);
    float age = position.w + dt;
    if (RESPAWN && age > velocity.w) {
        p = hashToDirection(i + push.size.w * 7919u) * push.parameters.z;
        v = hashToDirection(i ^ 0xabcdu) * 2.0;
        age = 0.0;
    }
    b[i * 2u] = vec4(p, age);
    b[i * 2u + 1u] = vec4(v, velocity.w);
}
