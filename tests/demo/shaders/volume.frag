#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "graphics.glsl"
#include "noise.glsl"

layout(constant_id = 0) const int STEPS = 8;             // unrolled by most compilers
layout(constant_id = 1) const int OCTAVES = 1;           // of the fog's density
layout(constant_id = 2) const bool SHADOWED = false;
layout(constant_id = 3) const int PHASE = 0;             // 0 isotropic, 1 Henyey-Greenstein, 2 two lobes
layout(constant_id = 4) const int LOCAL_LIGHTS = 0;
layout(constant_id = 5) const bool POWDER = false;

layout(location = 0) in vec2 inUv;
layout(location = 0) out vec4 outColor;

float density(vec3 p) {
    float sum = exp(-max(p.y, 0.0) * 0.05);
    [[dont_unroll]] for (int i = 0; i < OCTAVES; ++i)
        sum += gradientNoise(p.xz * 0.1 * exp2(float(i)) + camera.position.w * 0.05, uint(i)) * exp2(-float(i));
    return max(sum, 0.0) * lights.fog.w;
}

float henyeyGreenstein(float cosine, float g) {
    return (1.0 - g * g) / (4.0 * PI * pow(1.0 + g * g - 2.0 * g * cosine, 1.5));
}

float phase(float cosine) {
    if (PHASE == 0)
        return 0.25 / PI;
    float forward = henyeyGreenstein(cosine, 0.7);
    return PHASE == 1 ? forward : mix(forward, henyeyGreenstein(cosine, -0.3), 0.4);
}

float visible(vec3 p) {
    if (!SHADOWED)
        return 1.0;
    vec4 s = lights.cascade[1] * vec4(p, 1.0);
    return texture(shadowMap, vec4(s.xy / s.w * 0.5 + 0.5, 1.0, s.z / s.w));
}

void main() {
    vec4 far = camera.inverseViewProjection * vec4(inUv * 2.0 - 1.0, textureLod(mapB, inUv, 0.0).r, 1.0);
    vec3 ray = far.xyz / far.w - camera.position.xyz;
    float stride = length(ray) / float(STEPS), transmitted = 1.0;
    vec3 direction = normalize(ray), light = vec3(0.0);
    float jitter = hashToUnit(uint(gl_FragCoord.x) * 1973u + uint(gl_FragCoord.y) * 9277u + uint(camera.planes.w));
    float sun = phase(dot(direction, lights.sunDirection.xyz));
    [[dont_unroll]] for (int i = 0; i < STEPS; ++i) {
        vec3 p = camera.position.xyz + direction * stride * (float(i) + jitter);
        float here = density(p), absorbed = exp(-here * stride);
        vec3 incoming = lights.sunColor.rgb * sun * visible(p);
        for (int j = 0; j < LOCAL_LIGHTS; ++j) {
            vec3 d = lights.positionRadius[j].xyz - p;
            incoming += lights.colorIntensity[j].rgb * phase(dot(direction, normalize(d))) / (1.0 + dot(d, d));
        }
        if (POWDER)
            incoming *= 1.0 - exp(-2.0 * here * stride);
        light += transmitted * (1.0 - absorbed) * (incoming + lights.fog.rgb);
        transmitted *= absorbed;
    }
    outColor = vec4(textureLod(mapA, inUv, 0.0).rgb * transmitted + light, 1.0);
}
