#version 460

layout(constant_id = 0) const uint VARIANT = 0;

layout(set = 0, binding = 0) readonly buffer Values { vec4 values[]; };
layout(location = 0) in vec4 color;
layout(location = 0) out vec4 target;

void main()
{
    target = color * values[uint(gl_FragCoord.x)] + vec4(float(VARIANT));
}
