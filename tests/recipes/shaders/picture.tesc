#version 460

layout(constant_id = 0) const uint VARIANT = 0;

layout(vertices = 3) out;
layout(location = 0) in vec4 color_in[];
layout(location = 0) out vec4 color_out[];

void main()
{
    gl_out[gl_InvocationID].gl_Position = gl_in[gl_InvocationID].gl_Position;
    color_out[gl_InvocationID] = color_in[gl_InvocationID];
    gl_TessLevelOuter[gl_InvocationID] = float(2 + VARIANT % 3);
    gl_TessLevelInner[0] = 2.0;
}
