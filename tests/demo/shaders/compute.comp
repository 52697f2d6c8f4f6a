#version 450
#ifndef is_blur
#extension GL_EXT_control_flow_attributes : require
#endif
#extension GL_GOOGLE_include_directive : require
// The compute shaders. The Makefile defines which one a module has. A module names the extensions of its source, so none
// asks for what it does not use.

// The interface that all compute shaders share. Workgroup sizes stay at or below 128 invocations,
// the least that every Vulkan implementation offers.

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint GROUP = 64;

layout(set = 0, binding = 0) readonly buffer BufferA { vec4 a[]; };
layout(set = 0, binding = 1) buffer BufferB { vec4 b[]; };
layout(set = 0, binding = 2) readonly buffer BufferC { uint c[]; };
layout(set = 0, binding = 3) buffer BufferD { uint d[]; };

layout(set = 0, binding = 4) uniform Settings {
    mat4 viewProjection;
    vec4 plane[8];
    vec4 sphere[8];    // xyz, radius
    vec4 force[4];     // xyz, strength
    vec4 scale;
} settings;

layout(set = 0, binding = 5) uniform sampler2D source;
layout(set = 0, binding = 6) uniform sampler2D history;
layout(set = 0, binding = 7, rgba16f) writeonly uniform image2D target;

layout(push_constant) uniform Push {
    uvec4 size;        // width, height, count, pass number
    vec4 parameters;   // x: time step
} push;

#if defined is_particles
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

#elif defined is_prefix_sum
layout(constant_id = 1) const int ITEMS = 4;          // per invocation
layout(constant_id = 2) const bool EXCLUSIVE = false;
layout(constant_id = 3) const int OPERATION = 0;      // 0 sum, 1 maximum, 2 exclusive or, 3 count of set bits
layout(constant_id = 4) const bool BLELLOCH = false;  // otherwise Hillis and Steele
layout(constant_id = 5) const bool COMPACT = false;   // write the non-zero items to their places
layout(constant_id = 6) const int SEGMENT_BITS = 0;   // 0: one segment

shared uint lane[256];

uint identity() { return 0u; }

uint combine(uint x, uint y) {
    switch (OPERATION) {
    case 1: return max(x, y);
    case 2: return x ^ y;
    default: return x + y;
    }
}

uint load(uint index) {
    uint value = index < push.size.z ? c[index] : identity();
    return OPERATION == 3 ? uint(bitCount(value)) : value;
}

uint scanHillisSteele(uint me, uint value) {
    lane[me] = value;
    barrier();
    [[dont_unroll]] for (uint offset = 1u; offset < GROUP; offset <<= 1) {
        uint other = me >= offset ? lane[me - offset] : identity();
        barrier();
        lane[me] = combine(other, lane[me]);
        barrier();
    }
    return me > 0u ? lane[me - 1u] : identity();
}

uint scanBlelloch(uint me, uint value) {
    lane[me] = value;
    [[dont_unroll]] for (uint stride = 1u; stride < GROUP; stride <<= 1) {
        barrier();
        uint right = (me + 1u) * stride * 2u - 1u;
        if (right < GROUP)
            lane[right] = combine(lane[right - stride], lane[right]);
    }
    barrier();
    if (me == 0u)
        lane[GROUP - 1u] = identity();
    [[dont_unroll]] for (uint stride = GROUP >> 1; stride > 0u; stride >>= 1) {
        barrier();
        uint right = (me + 1u) * stride * 2u - 1u;
        if (right < GROUP) {
            uint left = lane[right - stride];
            lane[right - stride] = lane[right];
            lane[right] = combine(left, lane[right]);
        }
    }
    barrier();
    return lane[me];
}

void main() {
    uint me = gl_LocalInvocationID.x, base = (gl_WorkGroupID.x * GROUP + me) * uint(ITEMS);
    uint item[8];
    uint total = identity();
    for (int i = 0; i < ITEMS; ++i) {
        item[i] = load(base + uint(i));
        bool starts = SEGMENT_BITS > 0 && ((base + uint(i)) & ((1u << SEGMENT_BITS) - 1u)) == 0u;
        total = starts ? item[i] : combine(total, item[i]);
    }
    uint running = BLELLOCH ? scanBlelloch(me, total) : scanHillisSteele(me, total);
    for (int i = 0; i < ITEMS; ++i) {
        uint index = base + uint(i), before = running;
        if (SEGMENT_BITS > 0 && (index & ((1u << SEGMENT_BITS) - 1u)) == 0u)
            before = running = identity();
        running = combine(running, item[i]);
        if (index >= push.size.z)
            continue;
        if (COMPACT) {
            if (item[i] != 0u)
                d[before] = index;
        } else {
            d[index] = EXCLUSIVE ? before : running;
        }
    }
    if (me == GROUP - 1u)
        d[push.size.z + gl_WorkGroupID.x] = running;
}

#elif defined is_radix_sort
layout(constant_id = 1) const int DIGIT_BITS = 2;
layout(constant_id = 2) const int ITEMS = 2;          // keys per invocation
layout(constant_id = 3) const int KEY_KIND = 0;       // 0 unsigned, 1 signed, 2 float
layout(constant_id = 4) const bool DESCENDING = false;
layout(constant_id = 5) const bool WITH_VALUES = false;
layout(constant_id = 6) const int PHASE = 0;          // 0 histogram, 1 ranks and scatter
layout(constant_id = 7) const int FIRST_BIT = 0;       // of the digit, beside the pass number

shared uint bins[16];
shared uint flags[256];

uint sortable(uint key) {
    if (KEY_KIND == 1)
        key ^= 0x80000000u;
    if (KEY_KIND == 2)
        key ^= (key & 0x80000000u) != 0u ? 0xffffffffu : 0x80000000u;
    return DESCENDING ? ~key : key;
}

uint digitOf(uint key) {
    return bitfieldExtract(sortable(key), int(push.size.w) * DIGIT_BITS + FIRST_BIT, DIGIT_BITS);
}

void histogram(uint base) {
    for (int i = 0; i < ITEMS; ++i)
        if (base + uint(i) < push.size.z)
            atomicAdd(bins[digitOf(c[base + uint(i)])], 1u);
    barrier();
    uint me = gl_LocalInvocationID.x;
    if (me < (1u << DIGIT_BITS))
        d[me * gl_NumWorkGroups.x + gl_WorkGroupID.x] = bins[me];
}

// The place of this invocation's keys among the equal digits of the group.
uint rank(uint me, uint digit, uint wanted) {
    flags[me] = digit == wanted ? 1u : 0u;
    barrier();
    [[dont_unroll]] for (uint offset = 1u; offset < GROUP; offset <<= 1) {
        uint other = me >= offset ? flags[me - offset] : 0u;
        barrier();
        flags[me] += other;
        barrier();
    }
    return flags[me] - (digit == wanted ? 1u : 0u);
}

void scatter(uint base) {
    uint me = gl_LocalInvocationID.x;
    for (int i = 0; i < ITEMS; ++i) {
        uint index = base + uint(i);
        uint key = index < push.size.z ? c[index] : 0xffffffffu, digit = digitOf(key), place = 0u;
        [[dont_unroll]] for (uint wanted = 0u; wanted < (1u << DIGIT_BITS); ++wanted) {
            uint r = rank(me, digit, wanted);
            place = digit == wanted ? r : place;
            barrier();
        }
        uint destination = d[digit * gl_NumWorkGroups.x + gl_WorkGroupID.x] + bins[digit] + place;
        if (index < push.size.z) {
            d[push.size.x + destination] = key;
            if (WITH_VALUES)
                b[destination] = a[index];
        }
        barrier();
        atomicAdd(bins[digit], 1u);
        barrier();
    }
}

void main() {
    uint me = gl_LocalInvocationID.x, base = (gl_WorkGroupID.x * GROUP + me) * uint(ITEMS);
    if (me < 16u)
        bins[me] = 0u;
    barrier();
    if (PHASE == 0)
        histogram(base);
    else
        scatter(base);
}

#elif defined is_matmul
layout(constant_id = 1) const int ROWS = 2;         // of results per invocation
layout(constant_id = 2) const int COLUMNS = 2;      // of results per invocation, in vec4
layout(constant_id = 3) const int DEPTH = 4;        // how much of the inner dimension one round takes
layout(constant_id = 4) const bool TRANSPOSED = false;
layout(constant_id = 5) const int ACTIVATION = 0;   // 0 none, 1 ReLU, 2 GELU, 3 sigmoid
layout(constant_id = 6) const bool BIAS = false;

shared vec4 tile[8 * 32];

vec4 activate(vec4 x) {
    switch (ACTIVATION) {
    case 1: return max(x, 0.0);
    case 2: return 0.5 * x * (1.0 + tanh(0.7978846 * (x + 0.044715 * x * x * x)));
    case 3: return 1.0 / (1.0 + exp(-x));
    default: return x;
    }
}

void main() {
    uint me = gl_LocalInvocationID.x;
    uint row = (gl_WorkGroupID.y * (GROUP / 8u) + me / 8u) * uint(ROWS);
    uint column = (gl_WorkGroupID.x * 8u + me % 8u) * uint(COLUMNS);
    uint inner = push.size.z, width = push.size.x / 4u;
    vec4 sum[4][4];
    for (int i = 0; i < ROWS; ++i)
        for (int j = 0; j < COLUMNS; ++j)
            sum[i][j] = vec4(0.0);
    for (uint k = 0u; k < inner; k += uint(DEPTH)) {
        for (uint slot = me; slot < uint(DEPTH * 8 * COLUMNS); slot += GROUP)
            tile[slot & 255u] = a[push.size.w + (k + slot / uint(8 * COLUMNS)) * width + slot % uint(8 * COLUMNS)];
        barrier();
        [[dont_unroll]] for (int kk = 0; kk < DEPTH; kk += 4) {
            for (int i = 0; i < ROWS; ++i) {
                uint at = TRANSPOSED ? ((k + uint(kk)) / 4u) * push.size.y + row + uint(i) : (row + uint(i)) * (inner / 4u) + (k + uint(kk)) / 4u;
                vec4 left = a[at];
                for (int j = 0; j < COLUMNS; ++j)
                    for (int n = 0; n < 4; ++n)
                        sum[i][j] += left[n] * tile[(uint((kk + n) * 8 * COLUMNS) + (me % 8u) * uint(COLUMNS) + uint(j)) & 255u];
            }
        }
        barrier();
    }
    for (int i = 0; i < ROWS; ++i)
        for (int j = 0; j < COLUMNS; ++j) {
            vec4 result = sum[i][j];
            if (BIAS)
                result += uintBitsToFloat(c[column + uint(j)]);
            b[(row + uint(i)) * width + column + uint(j)] = activate(result);
        }
}

#elif defined is_fft
layout(constant_id = 1) const int RADIX_BITS = 1;    // 1: radix 2, 2: radix 4
layout(constant_id = 2) const int STAGES = 2;        // done in shared memory
layout(constant_id = 3) const bool INVERSE = false;
layout(constant_id = 4) const int WINDOW = 0;        // 0 none, 1 Hann, 2 Hamming, 3 Blackman
layout(constant_id = 5) const bool POWER_OUT = false; // write squared magnitudes
layout(constant_id = 6) const bool OCEAN = false;    // multiply by a wave spectrum first

shared vec2 line[512];

vec2 multiply(vec2 x, vec2 y) { return vec2(x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x); }
vec2 turn(float angle) { return vec2(cos(angle), INVERSE ? sin(angle) : -sin(angle)); }

float window(float t) {
    const float tau = 6.2831853;
    switch (WINDOW) {
    case 1: return 0.5 - 0.5 * cos(tau * t);
    case 2: return 0.54 - 0.46 * cos(tau * t);
    case 3: return 0.42 - 0.5 * cos(tau * t) + 0.08 * cos(2.0 * tau * t);
    default: return 1.0;
    }
}

vec2 load(uint index) {
    vec2 value = a[index].xy * window(float(index) / float(push.size.x));
    if (OCEAN) {
        vec2 k = vec2(float(index % push.size.x), float(index / push.size.x)) * push.parameters.y;
        float k2 = dot(k, k) + 1e-6, w = sqrt(9.81 * sqrt(k2));
        float phillips = exp(-1.0 / (k2 * push.parameters.z)) / (k2 * k2) * (k.x * k.x / k2);
        value = multiply(value, turn(w * push.parameters.x)) * sqrt(phillips);
    }
    return value;
}

void transform(inout vec2 v[4]) {
    const int radix = 1 << RADIX_BITS;
    for (int half_ = radix >> 1; half_ > 0; half_ >>= 1)
        for (int i = 0; i < radix; ++i)
            if ((i & half_) == 0) {
                vec2 x = v[i], y = v[i + half_];
                v[i] = x + y;
                v[i + half_] = multiply(x - y, turn(3.14159265 * float(i & (half_ - 1)) / float(half_)));
            }
}

void main() {
    const int radix = 1 << RADIX_BITS;
    uint me = gl_LocalInvocationID.x, base = gl_WorkGroupID.x * GROUP * uint(radix);
    vec2 v[4];
    for (int i = 0; i < radix; ++i)
        v[i] = load(base + me + uint(i) * GROUP);
    uint span = 1u;
    [[dont_unroll]] for (int stage = 0; stage < STAGES; ++stage) {
        float angle = 6.2831853 * float(me % span) / float(span * uint(radix));
        for (int i = 1; i < radix; ++i)
            v[i] = multiply(v[i], turn(angle * float(i)));
        transform(v);
        uint place = (me / span) * span * uint(radix) + me % span;
        barrier();
        for (int i = 0; i < radix; ++i)
            line[(place + uint(i) * span) & 511u] = v[bitfieldReverse(i) >> (32 - RADIX_BITS) & (radix - 1)];
        barrier();
        for (int i = 0; i < radix; ++i)
            v[i] = line[(me + uint(i) * GROUP) & 511u];
        span *= uint(radix);
    }
    float scale = INVERSE ? 1.0 / float(GROUP * uint(radix)) : 1.0;
    for (int i = 0; i < radix; ++i)
        b[base + me + uint(i) * GROUP] = vec4(POWER_OUT ? vec2(dot(v[i], v[i]), 0.0) : v[i] * scale, 0.0, 1.0);
}

#elif defined is_blur
layout(constant_id = 1) const int RADIUS = 3;
layout(constant_id = 2) const bool VERTICAL = false;
layout(constant_id = 3) const int EDGE = 0;          // 0 plain, 1 bilateral by depth, 2 bilateral by colour
layout(constant_id = 4) const int KERNEL = 0;        // 0 Gaussian, 1 box, 2 triangle, 3 Lanczos
layout(constant_id = 5) const bool TEMPORAL = false; // blend with the last frame, clamped to the neighbourhood
layout(constant_id = 6) const bool CACHED = false;   // go through shared memory

shared vec4 row[128 + 2 * 16];

float weightAt(int i) {
    float x = abs(float(i)) / float(RADIUS + 1);
    switch (KERNEL) {
    case 1: return 1.0;
    case 2: return 1.0 - x;
    case 3: return i == 0 ? 1.0 : sin(3.14159265 * x) * sin(1.0471976 * x) / (3.2898681 * x * x);
    default: return exp(-4.5 * x * x);
    }
}

vec4 fetch(ivec2 p) { return texelFetch(source, clamp(p, ivec2(0), ivec2(push.size.xy) - 1), 0); }

vec4 tap(ivec2 p, int offset) {
    if (CACHED)
        return row[gl_LocalInvocationID.x + uint(offset + 16)];
    return fetch(p + (VERTICAL ? ivec2(0, offset) : ivec2(offset, 0)));
}

float edgeWeight(vec4 center, vec4 other) {
    if (EDGE == 0)
        return 1.0;
    float difference = EDGE == 1 ? abs(center.a - other.a) * 50.0 : distance(center.rgb, other.rgb) * 8.0;
    return exp(-difference * difference);
}

vec4 accumulate(ivec2 p, vec4 color, vec4 lowest, vec4 highest) {
    vec2 uv = (vec2(p) + 0.5) / vec2(push.size.xy);
    vec2 motion = textureLod(source, uv, 1.0).xy * push.parameters.y;
    vec4 old = clamp(textureLod(history, uv - motion, 0.0), lowest, highest);
    return mix(old, color, 0.1 + 0.4 * clamp(length(motion) * 20.0, 0.0, 1.0));
}

void main() {
    int along = int(gl_GlobalInvocationID.x), line = int(gl_WorkGroupID.y);
    ivec2 p = VERTICAL ? ivec2(line, along) : ivec2(along, line);
    if (CACHED) {
        for (uint i = gl_LocalInvocationID.x; i < GROUP + 32u; i += GROUP) {
            int at = int(gl_WorkGroupID.x * GROUP + i) - 16;
            row[i] = fetch(VERTICAL ? ivec2(line, at) : ivec2(at, line));
        }
        barrier();
    }
    vec4 center = tap(p, 0), sum = vec4(0.0), lowest = center, highest = center;
    float total = 0.0;
    for (int i = -RADIUS; i <= RADIUS; ++i) {
        vec4 other = tap(p, i);
        float weight = weightAt(i) * edgeWeight(center, other);
        sum += other * weight;
        total += weight;
        if (TEMPORAL && abs(i) <= 1) {
            lowest = min(lowest, other);
            highest = max(highest, other);
        }
    }
    vec4 color = sum / max(total, 1e-4);
    if (TEMPORAL)
        color = accumulate(p, color, lowest, highest);
    if (all(lessThan(p, ivec2(push.size.xy))))
        imageStore(target, p, color);
}

#elif defined is_terrain
#include "noise.glsl"

layout(constant_id = 1) const int OCTAVES = 3;
layout(constant_id = 2) const int RIDGED = 0;         // 0 plain, 1 ridged, 2 billowed
layout(constant_id = 3) const int WARPS = 0;          // times the domain is bent
layout(constant_id = 4) const bool TERRACES = false;
layout(constant_id = 5) const int CRATERS = 0;
layout(constant_id = 6) const bool NORMALS = false;   // write slopes, too

float shape(float n) {
    switch (RIDGED) {
    case 1: return 1.0 - 2.0 * abs(n);
    case 2: return 2.0 * abs(n) - 0.5;
    default: return n;
    }
}

float layered(vec2 p, uint seed) {
    float sum = 0.0, amplitude = 0.5, weight = 1.0;
    [[dont_unroll]] for (int i = 0; i < OCTAVES; ++i) {
        float n = shape(gradientNoise(p, seed + uint(i))) * amplitude;
        sum += RIDGED == 1 ? n * weight : n;
        weight = clamp(n * 2.0, 0.0, 1.0);
        p = mat2(1.6, 1.2, -1.2, 1.6) * p;
        amplitude *= 0.5;
    }
    return sum;
}

float height(vec2 p) {
    [[dont_unroll]] for (int i = 0; i < WARPS; ++i)
        p += 0.4 * vec2(gradientNoise(p * 1.3, 91u + uint(i)), gradientNoise(p * 1.3 + 5.2, 17u + uint(i)));
    float h = layered(p, push.size.w);
    [[dont_unroll]] for (int i = 0; i < CRATERS; ++i) {
        vec2 center = vec2(hashToUnit(uint(i) * 3u), hashToUnit(uint(i) * 3u + 1u)) * 8.0;
        float x = distance(p, center) / (0.3 + hashToUnit(uint(i) * 3u + 2u));
        h += x < 1.0 ? (x * x - 1.0) * 0.3 : 0.1 * exp(-4.0 * (x - 1.0));
    }
    if (TERRACES) {
        float level = h * 12.0;
        h = (floor(level) + smoothstep(0.3, 0.7, fract(level))) / 12.0;
    }
    return h;
}

void main() {
    uvec2 cell = uvec2(gl_GlobalInvocationID.x % push.size.x, gl_GlobalInvocationID.x / push.size.x);
    if (cell.y >= push.size.y)
        return;
    vec2 p = vec2(cell) * settings.scale.xy + push.parameters.yz;
    float e = settings.scale.x;
    vec3 h = vec3(0.0);
    [[dont_unroll]] for (int i = 0; i < (NORMALS ? 3 : 1); ++i)
        h[i] = height(p + e * vec2(i == 1, i == 2));
    vec4 result = vec4(h.x, 0.0, 0.0, 1.0);
    if (NORMALS)
        result.yz = normalize(vec3(h.x - h.y, e, h.x - h.z)).xz;
    b[gl_GlobalInvocationID.x] = result;
    imageStore(target, ivec2(cell), result);
}

#elif defined is_light_cull
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

#endif
