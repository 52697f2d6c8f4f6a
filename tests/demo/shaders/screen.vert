#version 450
// One triangle over the whole screen, from no vertex buffer at all.

layout(constant_id = 0) const bool FLIP_Y = false;
layout(constant_id = 1) const int DEPTH_PERCENT = 0;  // far or near plane, or in between

layout(location = 0) out vec2 outUv;

void main() {
    outUv = vec2((gl_VertexIndex << 1) & 2, gl_VertexIndex & 2);
    vec2 position = outUv * 2.0 - 1.0;
    gl_Position = vec4(position.x, FLIP_Y ? -position.y : position.y, float(DEPTH_PERCENT) * 0.01, 1.0);
}
