#version 460

layout(constant_id = 0) const uint VARIANT = 0;

layout(triangles, equal_spacing, cw) in;
layout(location = 0) in vec4 color_in[];
layout(location = 0) out vec4 color;

void main()
{
    gl_Position = gl_in[0].gl_Position * gl_TessCoord.x + gl_in[1].gl_Position * gl_TessCoord.y +
                  gl_in[2].gl_Position * gl_TessCoord.z;
    color = color_in[0] * float(1 + VARIANT);
}
