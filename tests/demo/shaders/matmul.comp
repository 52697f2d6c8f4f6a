#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "compute.glsl"

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
