#version 460
#ifdef VIEWS
#extension GL_EXT_multiview : require
#define VIEW float(gl_ViewIndex)
#else
#define VIEW 0.0
#endif

layout(triangles) in;
layout(triangle_strip, max_vertices = 6) out;
layout(location = 0) in vec4 color_in[];
layout(location = 0) out vec4 color;

void main()
{
    for (int copy = 0; copy < 2; copy++) {
        for (int i = 0; i < 3; i++) {
            gl_Position = gl_in[i].gl_Position;
            gl_Position.xy = gl_Position.xy * (copy == 0 ? 0.5 : 0.25) + (copy == 0 ? -0.3 : 0.4 - 0.1 * VIEW);
            color = color_in[i];
            EmitVertex();
        }
        EndPrimitive();
    }
}
