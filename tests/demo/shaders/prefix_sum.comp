#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "compute.glsl"

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
