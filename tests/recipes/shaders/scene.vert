#version 460

layout(constant_id = 0) const uint VARIANT = 0;

layout(set = 0, binding = 1) uniform Scene { mat4 transform; vec4 tint[4]; };
layout(location = 0) in vec4 position;
layout(location = 0) out vec4 color;

void main()
{
    gl_Position = transform * position + vec4(float(VARIANT));
    color = tint[gl_VertexIndex & 3];
}
