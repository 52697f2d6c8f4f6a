#version 450

layout(constant_id = 0) const uint TURN = 0;
layout(location = 0) in vec4 position;
layout(location = 0) out vec2 place;

void main() {
    place = TURN == 0 ? position.xy : position.yx;
    gl_Position = position;
}
