#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "graphics.glsl"
#include "brdf.glsl"
#include "surface_in.glsl"

layout(constant_id = 0) const int PARALLAX_STEPS = 0;    // 0: none
layout(constant_id = 1) const int REFINE_STEPS = 0;      // binary search after the march
layout(constant_id = 2) const int DETAIL_LAYERS = 0;     // extra normal maps
layout(constant_id = 3) const bool OCTAHEDRAL = false;   // how the normal is packed
layout(constant_id = 4) const bool DITHERED_FADE = false;
layout(constant_id = 5) const int EMISSIVE = 0;          // 0 none, 1 from the map, 2 pulsing

layout(location = 0) out vec4 outAlbedo;
layout(location = 1) out vec4 outNormal;
layout(location = 2) out vec4 outMaterial;

float depthAt(vec2 uv, vec2 dx, vec2 dy) { return 1.0 - textureGrad(mapD, uv, dx, dy).r; }

vec2 parallax(vec2 uv, vec3 view) {
    if (PARALLAX_STEPS == 0)
        return uv;
    vec2 dx = dFdx(uv), dy = dFdy(uv);
    vec2 step = view.xy / max(view.z, 0.1) * draw.parameters.x / float(PARALLAX_STEPS);
    float layer = 1.0 / float(PARALLAX_STEPS), depth = 0.0;
    [[dont_unroll]] for (int i = 0; i < PARALLAX_STEPS; ++i) {
        if (depthAt(uv, dx, dy) > depth) {
            uv -= step;
            depth += layer;
        }
    }
    [[dont_unroll]] for (int i = 0; i < REFINE_STEPS; ++i) {
        step *= 0.5;
        layer *= 0.5;
        float side = depthAt(uv, dx, dy) > depth ? 1.0 : -1.0;
        uv -= step * side;
        depth += layer * side;
    }
    return uv;
}

vec2 pack(vec3 n) {
    if (!OCTAHEDRAL)
        return n.xy / sqrt(8.0 * n.z + 8.001) + 0.5;
    n /= abs(n.x) + abs(n.y) + abs(n.z);
    vec2 folded = (1.0 - abs(n.yx)) * vec2(n.x >= 0.0 ? 1.0 : -1.0, n.y >= 0.0 ? 1.0 : -1.0);
    return (n.z >= 0.0 ? n.xy : folded) * 0.5 + 0.5;
}

void main() {
    if (DITHERED_FADE) {
        ivec2 p = ivec2(gl_FragCoord.xy) & 3;
        int bayer = ((p.x ^ p.y) & 1) * 8 + (p.y & 1) * 4 + ((p.x ^ p.y) >> 1) * 2 + (p.y >> 1);
        if (inColor.a * 16.0 < float(bayer) + 0.5)
            discard;
    }
    vec3 n = normalize(inNormal), t = normalize(inTangent.xyz);
    vec3 toEye = normalize(camera.position.xyz - inWorld);
    vec2 uv = parallax(inUv, vec3(dot(toEye, t), dot(toEye, cross(n, t)), dot(toEye, n)));
    vec3 sampled = texture(mapB, uv).xyz * 2.0 - 1.0;
    for (int i = 0; i < DETAIL_LAYERS; ++i) {
        vec3 detail = texture(mapB, uv * (4.0 + 3.0 * float(i))).xyz * 2.0 - 1.0;
        sampled = normalize(vec3(sampled.xy + detail.xy * (0.5 / float(i + 1)), sampled.z));
    }
    vec3 material = texture(mapC, uv).rgb;
    float glow = EMISSIVE == 0 ? 0.0 : texture(mapD, uv).a;
    if (EMISSIVE == 2)
        glow *= 0.5 + 0.5 * sin(camera.position.w * 3.0 + inWorld.x);
    outAlbedo = vec4(texture(mapA, uv).rgb * inColor.rgb, glow);
    outNormal = vec4(pack(mat3(camera.view) * applyNormalMap(sampled, inNormal, inTangent)), 0.0, 1.0);
    outMaterial = vec4(material, 1.0);
}
