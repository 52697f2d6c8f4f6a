#version 460
#extension GL_EXT_ray_tracing : require

layout(constant_id = 0) const uint LIGHT = 1;
layout(location = 0) rayPayloadInEXT float payload;

void main() { payload = float(LIGHT); }
