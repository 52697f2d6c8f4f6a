#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "graphics.glsl"
#include "brdf.glsl"
#include "surface_in.glsl"

layout(constant_id = 0) const int POINT_LIGHTS = 2;
layout(constant_id = 1) const int SPOT_LIGHTS = 0;
layout(constant_id = 2) const bool NORMAL_MAP = false;
layout(constant_id = 3) const bool IMAGE_LIGHT = false;
layout(constant_id = 4) const bool CLEAR_COAT = false;
layout(constant_id = 5) const int ALPHA_TEST = 0;  // 0: opaque, else the threshold in 1 / 255

layout(location = 0) out vec4 outColor;

struct Surface {
    vec3 position, normal, view, diffuse, f0;
    float roughness, nDotV, coat;
};

vec3 shade(Surface s, vec3 l, vec3 radiance) {
    vec3 h = normalize(s.view + l);
    float nDotL = saturate(dot(s.normal, l)), nDotH = saturate(dot(s.normal, h)), vDotH = saturate(dot(s.view, h));
    vec3 f = fresnelSchlick(vDotH, s.f0);
    vec3 specular = f * distributionGgx(nDotH, s.roughness) * visibilitySmith(s.nDotV, nDotL, s.roughness);
    vec3 diffuse = s.diffuse * (1.0 - f) / PI;
    vec3 color = diffuse + specular;
    if (CLEAR_COAT) {
        float coat = fresnelSchlick(vDotH, vec3(0.04)).x * s.coat;
        color = color * (1.0 - coat) + coat * distributionGgx(nDotH, 0.1) * visibilitySmith(s.nDotV, nDotL, 0.1);
    }
    return color * radiance * nDotL;
}

// Light 0 is the sun, then come the point lights and the spot lights.
vec3 light(Surface s, int i) {
    vec3 toLight = lights.positionRadius[i].xyz - s.position;
    float d2 = dot(toLight, toLight);
    vec3 l = toLight * inversesqrt(d2);
    float strength = square(saturate(1.0 - square(d2 / square(lights.positionRadius[i].w)))) / (d2 + 1.0);
    if (i > POINT_LIGHTS) {
        float cone = lights.directionCone[i].w;
        strength *= smoothstep(cone, mix(cone, 1.0, 0.2), dot(-l, lights.directionCone[i].xyz));
    }
    bool sun = i == 0;
    return shade(s, sun ? lights.sunDirection.xyz : l, sun ? lights.sunColor.rgb : lights.colorIntensity[i].rgb * strength);
}

vec3 imageLight(Surface s) {
    vec3 reflected = textureLod(environment, reflect(-s.view, s.normal), s.roughness * 8.0).rgb;
    vec4 r = s.roughness * vec4(-1.0, -0.0275, -0.572, 0.022) + vec4(1.0, 0.0425, 1.04, -0.04);
    float a = min(r.x * r.x, exp2(-9.28 * s.nDotV)) * r.x + r.y;
    vec2 scale = vec2(-1.04, 1.04) * a + r.zw;
    return s.diffuse * irradiance(s.normal) + reflected * (s.f0 * scale.x + scale.y);
}

void main() {
    vec4 albedo = texture(mapA, inUv) * inColor;
    if (ALPHA_TEST > 0 && albedo.a * 255.0 < float(ALPHA_TEST))
        discard;
    vec3 material = texture(mapC, inUv).rgb;
    Surface s;
    s.position = inWorld;
    s.normal = NORMAL_MAP ? applyNormalMap(texture(mapB, inUv).xyz * 2.0 - 1.0, inNormal, inTangent) : normalize(inNormal);
    s.view = normalize(camera.position.xyz - inWorld);
    s.diffuse = albedo.rgb * (1.0 - material.b);
    s.f0 = mix(vec3(0.04), albedo.rgb, material.b);
    s.roughness = clamp(material.g, 0.05, 1.0);
    s.nDotV = saturate(dot(s.normal, s.view)) + 1e-4;
    s.coat = draw.parameters.x;
    vec3 color = vec3(0.0);
    [[dont_unroll]] for (int i = 0; i <= POINT_LIGHTS + SPOT_LIGHTS; ++i)
        color += light(s, i);
    color += IMAGE_LIGHT ? imageLight(s) : s.diffuse * irradiance(s.normal);
    outColor = vec4(color * material.r, albedo.a);
}
