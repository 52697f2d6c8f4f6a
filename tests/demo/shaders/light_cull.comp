#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "compute.glsl"

layout(constant_id = 1) const int TILE = 8;            // pixels, per axis
layout(constant_id = 2) const bool DEPTH_BOUNDS = false;
layout(constant_id = 3) const bool SPOT_CONES = false;
layout(constant_id = 4) const int CLUSTERS = 1;        // slices in depth
layout(constant_id = 5) const int TEST = 0;            // 0 planes, 1 box around the tile, 2 both
layout(constant_id = 6) const bool SORTED = false;     // nearest first, for the lists' stability

shared uint nearest, farthest, count[8];
shared uint list[8][64];

float linear(float z) { return settings.scale.x * settings.scale.y / (settings.scale.y - z * (settings.scale.y - settings.scale.x)); }

void depthBounds(uvec2 tile) {
    for (uint i = gl_LocalInvocationID.x; i < uint(TILE * TILE); i += GROUP) {
        ivec2 p = ivec2(tile) * TILE + ivec2(i % uint(TILE), i / uint(TILE));
        uint z = floatBitsToUint(linear(texelFetch(source, p, 0).r));
        atomicMin(nearest, z);
        atomicMax(farthest, z);
    }
}

bool outsidePlanes(vec3 p, float radius, vec2 low, vec2 high) {
    vec3 n0 = normalize(vec3(1.0, 0.0, -low.x)), n1 = normalize(vec3(-1.0, 0.0, high.x));
    vec3 n2 = normalize(vec3(0.0, 1.0, -low.y)), n3 = normalize(vec3(0.0, -1.0, high.y));
    return min(min(dot(n0, p), dot(n1, p)), min(dot(n2, p), dot(n3, p))) < -radius;
}

bool outsideBox(vec3 p, float radius, vec2 low, vec2 high, float near, float far) {
    vec3 lower = vec3(min(low * near, low * far), near), upper = vec3(max(high * near, high * far), far);
    vec3 d = max(max(lower - p, p - upper), 0.0);
    return dot(d, d) > radius * radius;
}

bool touches(uint light, vec2 low, vec2 high, float near, float far) {
    vec4 sphere = a[light * 2u];
    vec3 p = (settings.viewProjection * vec4(sphere.xyz, 1.0)).xyz;
    float radius = sphere.w;
    if (SPOT_CONES) {
        vec4 cone = a[light * 2u + 1u];
        p += cone.xyz * radius * 0.5;
        radius *= cone.w < 0.7071 ? sqrt(max(1.0 - cone.w * cone.w, 0.0)) : 0.5 / max(cone.w, 1e-3);
    }
    if (p.z + radius < near || p.z - radius > far)
        return false;
    bool outside = false;
    if (TEST != 1)
        outside = outsidePlanes(p, radius, low, high);
    if (TEST != 0)
        outside = outside || outsideBox(p, radius, low, high, near, far);
    return !outside;
}

void sortSlice(uint slice) {
    uint n = min(count[slice], 64u), me = gl_LocalInvocationID.x;
    for (uint round = 0u; round < n; ++round) {
        uint i = me * 2u + (round & 1u);
        if (i + 1u < n && list[slice][i] > list[slice][i + 1u]) {
            uint swap = list[slice][i];
            list[slice][i] = list[slice][i + 1u];
            list[slice][i + 1u] = swap;
        }
        barrier();
    }
}

void main() {
    uint me = gl_LocalInvocationID.x;
    if (me < 8u)
        count[me] = 0u;
    if (me == 0u) {
        nearest = floatBitsToUint(DEPTH_BOUNDS ? 1e30 : settings.scale.x);
        farthest = floatBitsToUint(DEPTH_BOUNDS ? 0.0 : settings.scale.y);
    }
    barrier();
    uvec2 tile = gl_WorkGroupID.xy;
    if (DEPTH_BOUNDS)
        depthBounds(tile);
    barrier();
    vec2 low = (vec2(tile) * float(TILE) / vec2(push.size.xy)) * 2.0 - 1.0, high = low + 2.0 * float(TILE) / vec2(push.size.xy);
    float near = uintBitsToFloat(nearest), ratio = uintBitsToFloat(farthest) / near;
    for (uint light = me; light < push.size.z; light += GROUP)
        [[dont_unroll]] for (int i = 0; i < CLUSTERS; ++i) {
            float front = near * pow(ratio, float(i) / float(CLUSTERS)), back = near * pow(ratio, float(i + 1) / float(CLUSTERS));
            if (touches(light, low, high, front, back)) {
                uint slot = atomicAdd(count[i], 1u);
                if (slot < 64u)
                    list[i][slot] = light;
            }
        }
    barrier();
    uint base = (tile.y * gl_NumWorkGroups.x + tile.x) * uint(CLUSTERS) * 65u;
    for (int i = 0; i < CLUSTERS; ++i) {
        if (SORTED)
            sortSlice(uint(i));
        if (me == 0u)
            d[base + uint(i) * 65u] = min(count[i], 64u);
        if (me < min(count[i], 64u))
            d[base + uint(i) * 65u + 1u + me] = list[i][me];
    }
}
