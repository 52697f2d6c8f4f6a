#version 460
#ifdef VIEWS
#extension GL_EXT_multiview : require
#define VIEW float(gl_ViewIndex)
#else
#define VIEW 0.0
#endif

layout(constant_id = 0) const uint VARIANT = 0;

#ifdef WRITES
layout(set = 0, binding = 0) buffer Values { uint values[]; };
#endif
layout(location = 0) out vec4 color;

void main()
{
    const vec2 corners[3] = {vec2(-0.9, -0.8), vec2(0.8, -0.7), vec2(-0.1, 0.9)};
    vec2 corner = corners[gl_VertexIndex % 3];
    gl_Position = vec4(corner * (1.0 - 0.1 * float(VARIANT % 5)) + 0.1 * VIEW, 0.5, 1.0);
    color = vec4(float(gl_VertexIndex % 3) * 0.5, float(VARIANT % 7) / 7.0, 0.25 + 0.5 * VIEW, 1.0);
#ifdef WRITES
    values[gl_VertexIndex % 3] = 100 + VARIANT;
#endif
}
