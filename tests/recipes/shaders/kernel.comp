#version 460
#extension GL_KHR_shader_subgroup_arithmetic : require

// VARIANT makes different pipelines of one module; the other constants are there to be specialized or left alone.
layout(constant_id = 0) const uint VARIANT = 0;
layout(constant_id = 1) const float SCALE = 1.0;
layout(constant_id = 2) const bool SIGNED = false;

layout(local_size_x = 128) in;
layout(set = 0, binding = 0) buffer Values { uint values[]; };
layout(push_constant) uniform Push { uint offset; };

void main()
{
    uint value = values[gl_GlobalInvocationID.x + offset];
    uint sum = subgroupAdd(value);
    for (uint i = 0; i < VARIANT; ++i)
        sum = sum * 1664525u + 1013904223u;
    values[gl_GlobalInvocationID.x] = SIGNED ? sum : uint(float(sum) * SCALE);
}
