#version 450
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint number = 0;
layout(set = 0, binding = 0) buffer Data { uint values[]; };
void main()
{
    uint at = gl_GlobalInvocationID.x, value = number;
    for (uint i = 0; i < 4 + number % 4; i++)
        value = value * 1664525u + values[at + i] + number;
    values[at] = value;
}
