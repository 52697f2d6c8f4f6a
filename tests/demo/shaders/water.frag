#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "graphics.glsl"
#include "brdf.glsl"
#include "surface_in.glsl"

layout(constant_id = 0) const int WAVES = 4;             // Gerstner waves for the normal
layout(constant_id = 1) const int REFLECTION_STEPS = 0;  // march on the screen; 0: environment only
layout(constant_id = 2) const bool REFRACTION = false;
layout(constant_id = 3) const bool FOAM = false;
layout(constant_id = 4) const int RIPPLE_LAYERS = 1;

layout(location = 0) out vec4 outColor;

vec3 waveNormal(vec2 p) {
    vec2 slope = vec2(0.0), direction = vec2(0.92, 0.39);
    [[dont_unroll]] for (int i = 0; i < WAVES; ++i) {
        float k = 0.4 + 0.3 * float(i);
        slope += direction * cos(dot(p, direction) * k - camera.position.w * sqrt(9.81 * k)) * 0.12;
        direction = vec2(direction.x * 0.267 - direction.y * 0.964, direction.x * 0.964 + direction.y * 0.267);
    }
    for (int i = 0; i < RIPPLE_LAYERS; ++i)
        slope += (texture(mapB, p * (0.1 + 0.13 * float(i)) + camera.position.w * 0.02).xy - 0.5) * 0.3;
    return normalize(vec3(-slope.x, 1.0, -slope.y));
}

float linearDepth(float z) { return camera.planes.x * camera.planes.y / (camera.planes.y - z * (camera.planes.y - camera.planes.x)); }

vec3 reflection(vec3 origin, vec3 direction) {
    vec3 color = textureLod(environment, direction, 1.0).rgb;
    float hit = 0.0;
    [[dont_unroll]] for (int i = 1; i <= REFLECTION_STEPS; ++i) {
        vec4 p = camera.viewProjection * vec4(origin + direction * (0.3 * float(i * i)), 1.0);
        vec3 ndc = p.xyz / p.w;
        vec2 uv = ndc.xy * 0.5 + 0.5;
        float scene = linearDepth(textureLod(mapD, uv, 0.0).r), ray = linearDepth(ndc.z);
        if (hit == 0.0 && scene < ray && ray - scene < 1.0) {
            hit = 1.0;
            color = textureLod(mapC, uv, 0.0).rgb;
        }
    }
    return color;
}

void main() {
    vec3 normal = normalize(waveNormal(inWorld.xz) + (inNormal - vec3(0.0, 1.0, 0.0)));
    vec3 view = normalize(camera.position.xyz - inWorld);
    vec2 screen = gl_FragCoord.xy * camera.viewport.zw;
    float below = max(linearDepth(textureLod(mapD, screen, 0.0).r) - linearDepth(gl_FragCoord.z), 0.0);
    vec2 bent = REFRACTION ? screen + normal.xz * 0.03 * saturate(below) : screen;
    vec3 refracted = textureLod(mapC, bent, 0.0).rgb * exp(-below * vec3(0.45, 0.09, 0.06));
    float f = fresnelSchlick(saturate(dot(normal, view)), vec3(0.02)).x;
    vec3 color = mix(refracted, reflection(inWorld, reflect(-view, normal)), f);
    vec3 h = normalize(view + lights.sunDirection.xyz);
    color += lights.sunColor.rgb * pow(saturate(dot(normal, h)), 800.0);
    if (FOAM)
        color = mix(color, vec3(1.0), smoothstep(0.5, 0.0, below) * texture(mapA, inUv * 8.0).r);
    outColor = vec4(color, inColor.a);
}
