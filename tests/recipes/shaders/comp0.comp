#version 450
// The smallest program whose constants still change what is compiled.

layout(local_size_x = 64) in;
layout(constant_id = 0) const uint STEPS = 1;
layout(set = 0, binding = 0) buffer Numbers { uint numbers[]; };

void main() {
    uint sum = 0;
    for (uint i = 0; i < STEPS; ++i)
        sum += numbers[gl_GlobalInvocationID.x + i];
    numbers[gl_GlobalInvocationID.x] = sum;
}
