#version 450
#ifndef is_screen
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#endif
// The vertex shaders. The Makefile defines which one a module has.

#ifndef is_screen
#include "graphics.glsl"

// What all but one hand to a fragment shader (graphics.frag).
layout(location = 0) out vec3 outWorld;
layout(location = 1) out vec3 outNormal;
layout(location = 2) out vec4 outTangent;
layout(location = 3) out vec2 outUv;
layout(location = 4) out vec4 outColor;
#endif

#if defined is_mesh
#include "noise.glsl"

layout(constant_id = 0) const int WIND_WAVES = 0;       // sums of sines that move foliage
layout(constant_id = 1) const bool INSTANCED = false;   // derive an instance's place from its number
layout(constant_id = 2) const bool OUTLINE = false;     // grow along the normal

layout(location = 0) in vec4 position;
layout(location = 1) in vec4 normal;
layout(location = 2) in vec4 tangent;
layout(location = 3) in vec2 uv;
layout(location = 4) in vec4 color;

vec3 wind(vec3 world, float weight) {
    vec3 offset = vec3(0.0);
    [[dont_unroll]] for (int i = 0; i < WIND_WAVES; ++i) {
        float frequency = exp2(float(i));
        float phase = (world.x - 0.5 * world.z) * frequency + camera.position.w * (1.0 + 0.5 * frequency);
        offset += vec3(1.0, -0.2, 0.5) * sin(phase) / frequency;
    }
    return offset * weight;
}

void main() {
    vec3 local = position.xyz;
    if (OUTLINE)
        local += normalize(normal.xyz) * draw.parameters.x;
    if (INSTANCED) {
        uint id = uint(gl_InstanceIndex);
        local *= mix(0.7, 1.3, hashToUnit(id));
        local.xz += vec2(id & 63u, id >> 6) * draw.parameters.y;
    }
    vec4 world = draw.model * vec4(local, 1.0);
    world.xyz += wind(world.xyz, color.a);
    mat3 rotation = mat3(draw.model);
    outWorld = world.xyz;
    outNormal = normalize(rotation * normal.xyz);
    outTangent = vec4(normalize(rotation * tangent.xyz), tangent.w < 0.0 ? -1.0 : 1.0);
    outUv = uv;
    outColor = color * draw.tint;
    gl_Position = camera.viewProjection * world;
}

#elif defined is_skinned
layout(constant_id = 0) const int BONES_PER_VERTEX = 4;
layout(constant_id = 1) const int MORPH_TARGETS = 0;

layout(set = 0, binding = 8) readonly buffer Pose { vec4 pose[]; };  // 3 rows of each bone
layout(set = 0, binding = 9) readonly buffer Morph { vec4 morph[]; };

layout(location = 0) in vec4 position;
layout(location = 1) in vec4 normal;
layout(location = 2) in vec4 tangent;
layout(location = 3) in vec2 uv;
layout(location = 4) in vec4 color;
layout(location = 5) in uvec4 bones;
layout(location = 6) in vec4 weights;

void skin(inout vec3 p, inout vec3 n, inout vec3 t) {
    vec4 row0 = vec4(0.0), row1 = vec4(0.0), row2 = vec4(0.0);
    for (int i = 0; i < BONES_PER_VERTEX; ++i) {
        uint base = bones[i] * 3u;
        row0 += pose[base] * weights[i];
        row1 += pose[base + 1u] * weights[i];
        row2 += pose[base + 2u] * weights[i];
    }
    p = vec3(dot(row0, vec4(p, 1.0)), dot(row1, vec4(p, 1.0)), dot(row2, vec4(p, 1.0)));
    n = vec3(dot(row0.xyz, n), dot(row1.xyz, n), dot(row2.xyz, n));
    t = vec3(dot(row0.xyz, t), dot(row1.xyz, t), dot(row2.xyz, t));
}

void main() {
    vec3 p = position.xyz, n = normal.xyz, t = tangent.xyz;
    [[dont_unroll]] for (int i = 0; i < MORPH_TARGETS; ++i) {
        vec4 delta = morph[gl_VertexIndex * MORPH_TARGETS + i];
        p += delta.xyz * draw.parameters[i & 3];
        n += vec3(delta.w, delta.w * 0.5, -delta.w) * draw.parameters[i & 3];
    }
    skin(p, n, t);
    vec4 world = draw.model * vec4(p, 1.0);
    outWorld = world.xyz;
    outNormal = normalize(mat3(draw.model) * n);
    outTangent = vec4(normalize(mat3(draw.model) * t), tangent.w < 0.0 ? -1.0 : 1.0);
    outUv = uv;
    outColor = color * draw.tint;
    gl_Position = camera.viewProjection * world;
}

#elif defined is_terrain
#include "noise.glsl"

layout(constant_id = 0) const int DETAIL_OCTAVES = 2;     // noise on top of the height map
layout(constant_id = 1) const bool MORPH_LEVELS = false;  // blend between levels of detail by distance

layout(location = 0) in vec2 cell;

float detail(vec2 p) {
    float sum = 0.0;
    [[dont_unroll]] for (int i = 0; i < DETAIL_OCTAVES; ++i)
        sum += gradientNoise(p * exp2(float(i)), uint(i) * 101u) * exp2(-float(i) - 2.0);
    return sum;
}

float heightAt(vec2 uv) { return textureLod(mapA, uv, 0.0).r * draw.parameters.x; }

vec3 normalAt(vec2 uv, float height) {
    float step = draw.parameters.z;
    float dx = heightAt(uv + vec2(step, 0.0)) - height, dz = heightAt(uv + vec2(0.0, step)) - height;
    return normalize(vec3(-dx, step * draw.parameters.y, -dz));
}

void main() {
    vec2 position = cell;
    if (MORPH_LEVELS) {
        float range = distance(camera.position.xz, (draw.model * vec4(cell.x, 0.0, cell.y, 1.0)).xz);
        vec2 odd = fract(cell * 0.5) * 2.0;
        position -= odd * smoothstep(0.6, 0.9, range / draw.parameters.w);
    }
    vec2 uv = position * draw.parameters.z;
    float height = heightAt(uv);
    vec4 world = draw.model * vec4(position.x, height + detail(position), position.y, 1.0);
    outWorld = world.xyz;
    outNormal = normalAt(uv, height);
    outTangent = vec4(1.0, 0.0, 0.0, 1.0);
    outUv = uv;
    outColor = draw.tint;
    gl_Position = camera.viewProjection * world;
}

#elif defined is_screen
// One triangle over the whole screen, from no vertex buffer at all.

layout(constant_id = 0) const bool FLIP_Y = false;
layout(constant_id = 1) const int DEPTH_PERCENT = 0;  // far or near plane, or in between

layout(location = 0) out vec2 outUv;

void main() {
    outUv = vec2((gl_VertexIndex << 1) & 2, gl_VertexIndex & 2);
    vec2 position = outUv * 2.0 - 1.0;
    gl_Position = vec4(position.x, FLIP_Y ? -position.y : position.y, float(DEPTH_PERCENT) * 0.01, 1.0);
}

#endif
