#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "compute.glsl"

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
