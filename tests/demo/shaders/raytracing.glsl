// What all ray tracing shaders share.

layout(set = 0, binding = 0) uniform accelerationStructureEXT scene;
layout(set = 0, binding = 1, rgba16f) writeonly uniform image2D target;
layout(set = 0, binding = 2) uniform Frame {
    mat4 inverseViewProjection;
    vec4 position;
    vec4 sunDirection;
    vec4 sunColor;
} frame;
layout(set = 0, binding = 3) readonly buffer Vertices { vec4 vertices[]; };

struct Payload {
    vec3 color;
    float distance;
    vec3 normal;
    float roughness;
};

const float PI = 3.14159265;
