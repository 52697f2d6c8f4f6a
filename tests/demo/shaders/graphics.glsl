// The interface that all vertex and fragment shaders share: one descriptor set, one push constant block.
// A shader that does not use a binding simply leaves it out of its module.

layout(set = 0, binding = 0) uniform Camera {
    mat4 view;
    mat4 viewProjection;
    mat4 inverseViewProjection;
    vec4 position;  // xyz, w: time in seconds
    vec4 viewport;  // width, height, 1 / width, 1 / height
    vec4 planes;    // near, far, exposure, frame number
} camera;

layout(set = 0, binding = 1) uniform Lights {
    vec4 positionRadius[16];
    vec4 colorIntensity[16];
    vec4 directionCone[16];  // xyz: direction of a spot light, w: cosine of its cone
    vec4 sunDirection;
    vec4 sunColor;
    vec4 ambient[4];         // spherical harmonics, order 1
    mat4 cascade[4];
    vec4 cascadeEnd;
    vec4 fog;                // rgb, density
} lights;

layout(set = 0, binding = 2) uniform sampler2D mapA;
layout(set = 0, binding = 3) uniform sampler2D mapB;
layout(set = 0, binding = 4) uniform sampler2D mapC;
layout(set = 0, binding = 5) uniform sampler2D mapD;
layout(set = 0, binding = 6) uniform sampler2DArrayShadow shadowMap;
layout(set = 0, binding = 7) uniform samplerCube environment;

layout(push_constant) uniform Draw {
    mat4 model;
    vec4 tint;
    vec4 parameters;
} draw;

const float PI = 3.14159265;

float saturate(float x) { return clamp(x, 0.0, 1.0); }
vec3 saturate(vec3 x) { return clamp(x, vec3(0.0), vec3(1.0)); }
float square(float x) { return x * x; }
float luminance(vec3 color) { return dot(color, vec3(0.2126, 0.7152, 0.0722)); }
