#version 450

layout(local_size_x = 64) in;
layout(constant_id = 0) const uint SHIFT = 1;
layout(set = 0, binding = 0) buffer Numbers { uint numbers[]; };
layout(push_constant) uniform Push { uint scale; } push;

void main() {
    numbers[gl_GlobalInvocationID.x] = (gl_GlobalInvocationID.x << SHIFT) * push.scale;
}
