#version 450
layout(set = 0, binding = 0) uniform sampler2D image;
layout(set = 0, binding = 1) buffer Result { vec4 result; };
layout(push_constant) uniform Where { vec2 where; };

void main() { result = textureLod(image, where, 0); }
