#version 460
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

// A constant of eight bytes between two of four.
layout(constant_id = 7) const uint VARIANT = 0;
layout(constant_id = 8) const uint64_t WIDE = 1ul;
layout(constant_id = 9) const uint NARROW = 2;

layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer Values { uint64_t values[]; };

void main()
{
    values[gl_GlobalInvocationID.x] = values[gl_GlobalInvocationID.x] * WIDE + uint64_t(NARROW + VARIANT);
}
