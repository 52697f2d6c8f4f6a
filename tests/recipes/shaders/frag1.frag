#version 450

layout(constant_id = 0) const uint ROUND = 0;
layout(location = 0) in vec2 place;
layout(location = 0) out vec4 color;
layout(push_constant) uniform Push { vec4 tint; } push;

void main() {
    if (ROUND != 0 && length(place) > 1.0)
        discard;
    color = push.tint;
}
