#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "graphics.glsl"
#include "surface_out.glsl"

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
