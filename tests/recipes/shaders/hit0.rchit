#version 460
#extension GL_EXT_ray_tracing : require

layout(constant_id = 0) const uint SHADE = 2;
layout(location = 0) rayPayloadInEXT float payload;

void main() { payload = gl_HitTEXT * float(SHADE); }
