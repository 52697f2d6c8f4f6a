#version 450

layout(constant_id = 0) const uint BANDS = 1;
layout(location = 0) in vec2 place;
layout(location = 0) out vec4 color;

void main() {
    color = vec4(fract(place * float(BANDS)), 0.0, 1.0);
}
