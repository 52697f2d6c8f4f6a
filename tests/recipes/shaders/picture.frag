#version 460

layout(constant_id = 0) const uint VARIANT = 0;

#ifdef WRITES
layout(set = 0, binding = 0) buffer Values { uint values[]; };
#endif
layout(location = 0) in vec4 color;
layout(location = 0) out vec4 target;

void main()
{
    target = color * (0.5 + 0.05 * float(VARIANT % 10));
#ifdef WRITES
    values[8 + (uint(gl_FragCoord.x) & 7)] = 200 + VARIANT;
#endif
}
