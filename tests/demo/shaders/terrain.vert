#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "graphics.glsl"
#include "noise.glsl"
#include "surface_out.glsl"

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
