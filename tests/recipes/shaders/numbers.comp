#version 460

layout(constant_id = 0) const uint VARIANT = 0;

layout(local_size_x = 16) in;
layout(set = 0, binding = 0) buffer Values { uint values[]; };

void main()
{
    values[gl_LocalInvocationIndex] = gl_LocalInvocationIndex * (VARIANT + 3);
}
