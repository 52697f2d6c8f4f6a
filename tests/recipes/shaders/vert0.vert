#version 450

layout(constant_id = 0) const uint DEPTH = 0;
layout(location = 0) out vec2 place;

void main() {
    place = vec2((gl_VertexIndex << 1) & 2, gl_VertexIndex & 2);
    gl_Position = vec4(place * 2.0 - 1.0, float(DEPTH) * 0.125, 1.0);
}
