#version 460
#ifdef VIEWS
#extension GL_EXT_multiview : require
#define VIEW float(gl_ViewIndex)
#else
#define VIEW 0.0
#endif

layout(triangles, equal_spacing, ccw) in;
layout(location = 0) in vec4 color_in[];
layout(location = 0) out vec4 color;

void main()
{
    gl_Position = gl_in[0].gl_Position * gl_TessCoord.x + gl_in[1].gl_Position * gl_TessCoord.y +
                  gl_in[2].gl_Position * gl_TessCoord.z;
    gl_Position.xy *= 0.8 + 0.2 * gl_TessCoord.x - 0.1 * VIEW;
    color = color_in[0] * gl_TessCoord.x + color_in[1] * gl_TessCoord.y + color_in[2] * gl_TessCoord.z;
}
