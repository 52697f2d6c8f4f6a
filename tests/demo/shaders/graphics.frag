#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
// The fragment shaders. The Makefile defines which one a module has.
#include "graphics.glsl"

#if defined is_ggx || defined is_shadow || defined is_gbuffer || defined is_terrain || defined is_water
// What the surfaces' vertex shaders hand on (graphics.vert).
layout(location = 0) in vec3 inWorld;
layout(location = 1) in vec3 inNormal;
layout(location = 2) in vec4 inTangent;
layout(location = 3) in vec2 inUv;
layout(location = 4) in vec4 inColor;

// Cook-Torrance terms.

float distributionGgx(float nDotH, float roughness) {
    float a2 = square(roughness * roughness);
    return a2 / (PI * square(nDotH * nDotH * (a2 - 1.0) + 1.0) + 1e-6);
}

float visibilitySmith(float nDotV, float nDotL, float roughness) {
    float a2 = square(roughness * roughness);
    float v = nDotL * sqrt(nDotV * nDotV * (1.0 - a2) + a2);
    float l = nDotV * sqrt(nDotL * nDotL * (1.0 - a2) + a2);
    return 0.5 / (v + l + 1e-5);
}

vec3 fresnelSchlick(float vDotH, vec3 f0) {
    return f0 + (1.0 - f0) * pow(1.0 - vDotH, 5.0);
}

vec3 irradiance(vec3 n) {
    return lights.ambient[0].rgb + lights.ambient[1].rgb * n.y + lights.ambient[2].rgb * n.z + lights.ambient[3].rgb * n.x;
}

vec3 applyNormalMap(vec3 sampled, vec3 normal, vec4 tangent) {
    vec3 n = normalize(normal);
    vec3 t = normalize(tangent.xyz - n * dot(n, tangent.xyz));
    return normalize(mat3(t, cross(n, t) * tangent.w, n) * sampled);
}
#endif

#if defined is_ggx
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

#elif defined is_shadow
#include "noise.glsl"

layout(constant_id = 0) const int CASCADES = 2;
layout(constant_id = 1) const int PCF_RADIUS = 1;       // taps: (2 * radius + 1) squared, or that many on a disk
layout(constant_id = 2) const bool POISSON_DISK = false;
layout(constant_id = 3) const bool BLEND_CASCADES = false;
layout(constant_id = 4) const int FOG = 0;              // 0 none, 1 exponential, 2 with height
layout(constant_id = 5) const int SPECULAR_POWER = 0;   // 0: no highlight

layout(location = 0) out vec4 outColor;

// One tap: on a disk that turns from pixel to pixel, or in a square.
vec2 tapOffset(int i, int taps, float turn) {
    if (POISSON_DISK) {
        float angle = turn + float(i) * 2.3999632;
        return vec2(cos(angle), sin(angle)) * sqrt((float(i) + 0.5) / float(taps)) * float(PCF_RADIUS);
    }
    int width = 2 * PCF_RADIUS + 1;
    return vec2(i % width - PCF_RADIUS, i / width - PCF_RADIUS);
}

float shadowIn(int cascade) {
    vec4 p = lights.cascade[cascade] * vec4(inWorld + inNormal * 0.02, 1.0);
    vec3 coordinate = vec3(p.xy / p.w * 0.5 + 0.5, p.z / p.w);
    const int taps = POISSON_DISK ? 4 + 4 * PCF_RADIUS : (2 * PCF_RADIUS + 1) * (2 * PCF_RADIUS + 1);
    float turn = hashToUnit(uint(gl_FragCoord.x) * 1973u + uint(gl_FragCoord.y) * 9277u) * 2.0 * PI, sum = 0.0;
    [[dont_unroll]] for (int i = 0; i < taps; ++i)
        sum += texture(shadowMap, vec4(coordinate.xy + tapOffset(i, taps, turn) / 2048.0, float(cascade), coordinate.z));
    return sum / float(taps);
}

float shadow(float depth) {
    float result = 1.0;
    [[dont_unroll]] for (int i = CASCADES - 1; i >= 0; --i) {
        float end = lights.cascadeEnd[i];
        if (depth < end) {
            float here = shadowIn(i);
            result = BLEND_CASCADES ? mix(here, result, smoothstep(end * 0.9, end, depth)) : here;
        }
    }
    return result;
}

vec3 fogged(vec3 color, float depth) {
    if (FOG == 0)
        return color;
    float amount = lights.fog.w * depth;
    if (FOG == 2)
        amount *= exp(-max(inWorld.y, 0.0) * 0.1);
    return mix(lights.fog.rgb, color, exp(-amount));
}

void main() {
    vec4 albedo = texture(mapA, inUv) * inColor;
    vec3 normal = applyNormalMap(texture(mapB, inUv).xyz * 2.0 - 1.0, inNormal, inTangent);
    vec3 toEye = camera.position.xyz - inWorld;
    float depth = length(toEye);
    float lit = saturate(dot(normal, lights.sunDirection.xyz)) * shadow(depth);
    vec3 color = albedo.rgb * (irradiance(normal) + lights.sunColor.rgb * lit);
    if (SPECULAR_POWER > 0) {
        float highlight = saturate(dot(normal, normalize(toEye / depth + lights.sunDirection.xyz)));
        color += lights.sunColor.rgb * lit * pow(highlight, float(SPECULAR_POWER));
    }
    outColor = vec4(fogged(color, depth), albedo.a);
}

#elif defined is_gbuffer
layout(constant_id = 0) const int PARALLAX_STEPS = 0;    // 0: none
layout(constant_id = 1) const int REFINE_STEPS = 0;      // binary search after the march
layout(constant_id = 2) const int DETAIL_LAYERS = 0;     // extra normal maps
layout(constant_id = 3) const bool OCTAHEDRAL = false;   // how the normal is packed
layout(constant_id = 4) const bool DITHERED_FADE = false;
layout(constant_id = 5) const int EMISSIVE = 0;          // 0 none, 1 from the map, 2 pulsing

layout(location = 0) out vec4 outAlbedo;
layout(location = 1) out vec4 outNormal;
layout(location = 2) out vec4 outMaterial;

float depthAt(vec2 uv, vec2 dx, vec2 dy) { return 1.0 - textureGrad(mapD, uv, dx, dy).r; }

vec2 parallax(vec2 uv, vec3 view) {
    if (PARALLAX_STEPS == 0)
        return uv;
    vec2 dx = dFdx(uv), dy = dFdy(uv);
    vec2 step = view.xy / max(view.z, 0.1) * draw.parameters.x / float(PARALLAX_STEPS);
    float layer = 1.0 / float(PARALLAX_STEPS), depth = 0.0;
    [[dont_unroll]] for (int i = 0; i < PARALLAX_STEPS; ++i) {
        if (depthAt(uv, dx, dy) > depth) {
            uv -= step;
            depth += layer;
        }
    }
    [[dont_unroll]] for (int i = 0; i < REFINE_STEPS; ++i) {
        step *= 0.5;
        layer *= 0.5;
        float side = depthAt(uv, dx, dy) > depth ? 1.0 : -1.0;
        uv -= step * side;
        depth += layer * side;
    }
    return uv;
}

vec2 pack(vec3 n) {
    if (!OCTAHEDRAL)
        return n.xy / sqrt(8.0 * n.z + 8.001) + 0.5;
    n /= abs(n.x) + abs(n.y) + abs(n.z);
    vec2 folded = (1.0 - abs(n.yx)) * vec2(n.x >= 0.0 ? 1.0 : -1.0, n.y >= 0.0 ? 1.0 : -1.0);
    return (n.z >= 0.0 ? n.xy : folded) * 0.5 + 0.5;
}

void main() {
    if (DITHERED_FADE) {
        ivec2 p = ivec2(gl_FragCoord.xy) & 3;
        int bayer = ((p.x ^ p.y) & 1) * 8 + (p.y & 1) * 4 + ((p.x ^ p.y) >> 1) * 2 + (p.y >> 1);
        if (inColor.a * 16.0 < float(bayer) + 0.5)
            discard;
    }
    vec3 n = normalize(inNormal), t = normalize(inTangent.xyz);
    vec3 toEye = normalize(camera.position.xyz - inWorld);
    vec2 uv = parallax(inUv, vec3(dot(toEye, t), dot(toEye, cross(n, t)), dot(toEye, n)));
    vec3 sampled = texture(mapB, uv).xyz * 2.0 - 1.0;
    for (int i = 0; i < DETAIL_LAYERS; ++i) {
        vec3 detail = texture(mapB, uv * (4.0 + 3.0 * float(i))).xyz * 2.0 - 1.0;
        sampled = normalize(vec3(sampled.xy + detail.xy * (0.5 / float(i + 1)), sampled.z));
    }
    vec3 material = texture(mapC, uv).rgb;
    float glow = EMISSIVE == 0 ? 0.0 : texture(mapD, uv).a;
    if (EMISSIVE == 2)
        glow *= 0.5 + 0.5 * sin(camera.position.w * 3.0 + inWorld.x);
    outAlbedo = vec4(texture(mapA, uv).rgb * inColor.rgb, glow);
    outNormal = vec4(pack(mat3(camera.view) * applyNormalMap(sampled, inNormal, inTangent)), 0.0, 1.0);
    outMaterial = vec4(material, 1.0);
}

#elif defined is_terrain
#include "noise.glsl"

layout(constant_id = 0) const int LAYERS = 2;
layout(constant_id = 1) const bool TRIPLANAR = false;
layout(constant_id = 2) const int BREAKUP_OCTAVES = 0;  // noise that hides the tiling
layout(constant_id = 3) const bool HEIGHT_BLEND = false;
layout(constant_id = 4) const int SNOW = 0;             // 0 none, else steepness limit in percent

layout(location = 0) out vec4 outColor;

vec4 layerColor(float scale, vec3 normal) {
    if (!TRIPLANAR)
        return texture(mapB, inWorld.xz * scale);
    vec3 weight = pow(abs(normal), vec3(4.0));
    weight /= weight.x + weight.y + weight.z;
    return texture(mapB, inWorld.yz * scale) * weight.x + texture(mapC, inWorld.xz * scale) * weight.y +
           texture(mapD, inWorld.xy * scale) * weight.z;
}

float breakup(vec2 p) {
    float sum = 0.5;
    [[dont_unroll]] for (int i = 0; i < BREAKUP_OCTAVES; ++i)
        sum += gradientNoise(p * exp2(float(i)) * 0.05, uint(i) * 31u + 7u) * exp2(-float(i));
    return saturate(sum);
}

void main() {
    vec3 normal = normalize(inNormal);
    vec4 mask = texture(mapA, inUv);
    float noise = breakup(inWorld.xz), total = 0.0;
    vec3 albedo = vec3(0.0);
    [[dont_unroll]] for (int i = 0; i < LAYERS; ++i) {
        vec4 layer = layerColor(0.1 * float(i + 1), normal);
        float weight = mask[i & 3] * mix(0.5, 1.5, noise);
        if (HEIGHT_BLEND)
            weight = pow(max(weight * (layer.a + 0.2), 1e-4), 4.0);
        albedo += layer.rgb * weight;
        total += weight;
    }
    albedo = albedo / max(total, 1e-4) * inColor.rgb;
    if (SNOW > 0) {
        float amount = smoothstep(float(SNOW) * 0.01, float(SNOW) * 0.01 + 0.1, normal.y + noise * 0.1);
        albedo = mix(albedo, vec3(0.92, 0.94, 1.0), amount);
    }
    outColor = vec4(albedo * (irradiance(normal) + lights.sunColor.rgb * saturate(dot(normal, lights.sunDirection.xyz))), 1.0);
}

#elif defined is_water
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

#elif defined is_tonemap
#include "noise.glsl"

layout(constant_id = 0) const int OPERATOR = 0;       // 0 Reinhard, 1 filmic, 2 ACES fit, 3 Lottes
layout(constant_id = 1) const int BLOOM_LEVELS = 0;
layout(constant_id = 2) const bool COLOR_GRADE = false;
layout(constant_id = 3) const bool VIGNETTE = false;
layout(constant_id = 4) const int GRAIN = 0;          // layers
layout(constant_id = 5) const int FRINGE_TAPS = 0;    // chromatic aberration; 0: none

layout(location = 0) in vec2 inUv;
layout(location = 0) out vec4 outColor;

vec3 filmic(vec3 x) {
    const float a = 0.15, b = 0.50, c = 0.10, d = 0.20, e = 0.02, f = 0.30;
    return (x * (a * x + c * b) + d * e) / (x * (a * x + b) + d * f) - e / f;
}

vec3 aces(vec3 color) {
    const mat3 toAces = mat3(0.59719, 0.07600, 0.02840, 0.35458, 0.90834, 0.13383, 0.04823, 0.01566, 0.83777);
    const mat3 fromAces = mat3(1.60475, -0.10208, -0.00327, -0.53108, 1.10813, -0.07276, -0.07367, -0.00605, 1.07602);
    vec3 v = toAces * color;
    vec3 a = v * (v + 0.0245786) - 0.000090537;
    vec3 b = v * (0.983729 * v + 0.4329510) + 0.238081;
    return saturate(fromAces * (a / b));
}

vec3 lottes(vec3 x) {
    const vec3 a = vec3(1.6), d = vec3(0.977), b = vec3(-0.0267), c = vec3(1.0778);
    return pow(x, a) / (pow(x, a * d) * c + b + 0.05);
}

vec3 mapTones(vec3 color) {
    switch (OPERATOR) {
    case 0: return color / (1.0 + luminance(color));
    case 1: return filmic(color * 2.0) / filmic(vec3(11.2));
    case 2: return aces(color);
    default: return lottes(color);
    }
}

vec3 scene() {
    if (FRINGE_TAPS == 0)
        return texture(mapA, inUv).rgb;
    vec2 away = (inUv - 0.5) * 0.02;
    vec3 sum = vec3(0.0), weights = vec3(0.0);
    [[dont_unroll]] for (int i = 0; i < FRINGE_TAPS; ++i) {
        float t = float(i) / float(FRINGE_TAPS);
        vec3 weight = max(vec3(0.0), 1.0 - abs(vec3(0.0, 0.5, 1.0) - t) * 2.0) + 1e-3;
        sum += textureLod(mapA, inUv - away * t, 0.0).rgb * weight;
        weights += weight;
    }
    return sum / weights;
}

vec3 grade(vec3 color) {
    color = pow(max(color * draw.tint.rgb + draw.parameters.rgb, 0.0), vec3(1.0 + draw.parameters.w));
    vec3 scaled = color * 15.0;
    float slice = floor(scaled.b);
    vec2 uv = vec2((scaled.r + 0.5) / 256.0 + slice / 16.0, (scaled.g + 0.5) / 16.0);
    return mix(textureLod(mapC, uv, 0.0).rgb, textureLod(mapC, uv + vec2(1.0 / 16.0, 0.0), 0.0).rgb, scaled.b - slice);
}

void main() {
    vec3 color = scene();
    for (int i = 0; i < BLOOM_LEVELS; ++i)
        color += textureLod(mapB, inUv, float(i)).rgb * (0.3 / float(i + 1));
    color = mapTones(color * camera.planes.z);
    color = mix(color * 12.92, 1.055 * pow(max(color, 1e-5), vec3(1.0 / 2.4)) - 0.055, step(0.0031308, color));
    if (COLOR_GRADE)
        color = grade(saturate(color));
    if (VIGNETTE)
        color *= 1.0 - 0.5 * smoothstep(0.3, 0.8, distance(inUv, vec2(0.5)));
    for (int i = 0; i < GRAIN; ++i) {
        uint seed = uint(gl_FragCoord.x) + uint(gl_FragCoord.y) * 4096u + uint(camera.planes.w) * 7919u + uint(i);
        color += (hashToUnit(seed) - 0.5) * (0.04 / float(i + 1)) * (1.0 - luminance(color));
    }
    outColor = vec4(color, 1.0);
}

#elif defined is_fxaa
layout(constant_id = 0) const int SEARCH_STEPS = 5;
layout(constant_id = 1) const bool LUMA_FROM_GREEN = false;
layout(constant_id = 2) const bool SUBPIXEL = false;
layout(constant_id = 3) const int SHARPEN = 0;          // strength in percent
layout(constant_id = 4) const int THRESHOLD = 16;       // contrast, in 1 / 256

layout(location = 0) in vec2 inUv;
layout(location = 0) out vec4 outColor;

float luma(vec2 uv) {
    vec3 color = textureLod(mapA, uv, 0.0).rgb;
    return LUMA_FROM_GREEN ? color.g : sqrt(luminance(color));
}

struct Neighbours { float m, n, s, e, w, ne, nw, se, sw; };

Neighbours look(vec2 uv, vec2 texel) {
    Neighbours l;
    l.m = luma(uv);
    l.n = luma(uv + texel * vec2(0.0, -1.0)); l.s = luma(uv + texel * vec2(0.0, 1.0));
    l.e = luma(uv + texel * vec2(1.0, 0.0)); l.w = luma(uv + texel * vec2(-1.0, 0.0));
    l.ne = luma(uv + texel * vec2(1.0, -1.0)); l.nw = luma(uv + texel * vec2(-1.0, -1.0));
    l.se = luma(uv + texel * vec2(1.0, 1.0)); l.sw = luma(uv + texel * vec2(-1.0, 1.0));
    return l;
}

vec2 edgeOffset(Neighbours l, vec2 texel, float range) {
    float horizontal = abs(l.n + l.s - 2.0 * l.m) * 2.0 + abs(l.ne + l.se - 2.0 * l.e) + abs(l.nw + l.sw - 2.0 * l.w);
    float vertical = abs(l.e + l.w - 2.0 * l.m) * 2.0 + abs(l.ne + l.nw - 2.0 * l.n) + abs(l.se + l.sw - 2.0 * l.s);
    bool isHorizontal = horizontal >= vertical;
    float one = isHorizontal ? l.n : l.w, two = isHorizontal ? l.s : l.e;
    bool firstSteeper = abs(one - l.m) >= abs(two - l.m);
    float side = firstSteeper ? -1.0 : 1.0, average = 0.5 * ((firstSteeper ? one : two) + l.m);
    vec2 along = isHorizontal ? vec2(texel.x, 0.0) : vec2(0.0, texel.y), across = isHorizontal ? vec2(0.0, texel.y) : vec2(texel.x, 0.0);
    vec2 base = inUv + across * side * 0.5;
    float gradient = 0.25 * max(abs(one - l.m), abs(two - l.m)), left = 0.0, right = 0.0, endLeft = 0.0, endRight = 0.0;
    bool doneLeft = false, doneRight = false;
    [[dont_unroll]] for (int i = 1; i <= SEARCH_STEPS; ++i) {
        float stride = i > 5 ? float(i - 4) : 1.0;
        if (!doneLeft) { left += stride; endLeft = luma(base - along * left) - average; doneLeft = abs(endLeft) >= gradient; }
        if (!doneRight) { right += stride; endRight = luma(base + along * right) - average; doneRight = abs(endRight) >= gradient; }
    }
    bool leftNearer = left < right;
    bool good = ((leftNearer ? endLeft : endRight) < 0.0) != (l.m - average < 0.0);
    float shift = good ? 0.5 - min(left, right) / (left + right) : 0.0;
    if (SUBPIXEL) {
        float blend = abs((2.0 * (l.n + l.s + l.e + l.w) + l.ne + l.nw + l.se + l.sw) / 12.0 - l.m) / range;
        shift = max(shift, square(smoothstep(0.0, 1.0, saturate(blend))) * 0.75);
    }
    return across * side * shift;
}

void main() {
    vec2 texel = camera.viewport.zw;
    Neighbours l = look(inUv, texel);
    float lowest = min(l.m, min(min(l.n, l.s), min(l.e, l.w))), highest = max(l.m, max(max(l.n, l.s), max(l.e, l.w)));
    float range = highest - lowest;
    vec2 uv = inUv;
    if (range > max(float(THRESHOLD) / 256.0, highest * 0.125))
        uv += edgeOffset(l, texel, range);
    vec3 color = textureLod(mapA, uv, 0.0).rgb;
    if (SHARPEN > 0) {
        vec3 around = textureLod(mapA, uv + texel, 0.0).rgb + textureLod(mapA, uv - texel, 0.0).rgb;
        color += (color - around * 0.5) * float(SHARPEN) * 0.01;
    }
    outColor = vec4(color, 1.0);
}

#elif defined is_ssao
#include "noise.glsl"

layout(constant_id = 0) const int SAMPLES = 8;
layout(constant_id = 1) const bool HORIZON = false;          // horizon search instead of hemisphere samples
layout(constant_id = 2) const bool NORMAL_FROM_DEPTH = false;
layout(constant_id = 3) const int RANGE_CHECK = 0;           // 0 none, 1 smooth, 2 hard
layout(constant_id = 4) const int POWER = 1;
layout(constant_id = 5) const bool BENT_NORMAL = false;

layout(location = 0) in vec2 inUv;
layout(location = 0) out vec4 outColor;

vec3 positionAt(vec2 uv) {
    vec4 p = camera.inverseViewProjection * vec4(uv * 2.0 - 1.0, textureLod(mapA, uv, 0.0).r, 1.0);
    return p.xyz / p.w;
}

vec3 normalAt(vec3 center) {
    if (!NORMAL_FROM_DEPTH)
        return normalize(textureLod(mapB, inUv, 0.0).xyz * 2.0 - 1.0);
    return normalize(cross(dFdx(center), dFdy(center)));
}

float inRange(float distance) {
    float x = distance / draw.parameters.x;
    return RANGE_CHECK == 0 ? 1.0 : RANGE_CHECK == 1 ? 1.0 - smoothstep(0.5, 1.0, x) : step(x, 1.0);
}

vec4 hemisphere(vec3 center, vec3 normal, uint seed) {
    float occluded = 0.0;
    vec3 open = normal;
    [[dont_unroll]] for (int i = 0; i < SAMPLES; ++i) {
        vec3 direction = hashToDirection(uint(i) * 2654435761u ^ seed);
        direction *= sign(dot(direction, normal));
        vec3 target = center + direction * draw.parameters.x * mix(0.1, 1.0, square(float(i + 1) / float(SAMPLES)));
        vec4 p = camera.viewProjection * vec4(target, 1.0);
        vec3 there = positionAt(p.xy / p.w * 0.5 + 0.5);
        float nearer = distance(there, camera.position.xyz) < distance(target, camera.position.xyz) - 0.02 ? 1.0 : 0.0;
        float hit = nearer * inRange(distance(there, center));
        occluded += hit;
        open += direction * (1.0 - hit);
    }
    return vec4(open, 1.0 - occluded / float(SAMPLES));
}

vec4 horizon(vec3 center, vec3 normal, uint seed) {
    float open = 0.0, turn = hashToUnit(seed) * PI;
    vec3 bent = normal;
    [[dont_unroll]] for (int i = 0; i < SAMPLES / 2; ++i) {
        float angle = turn + PI * float(i) / float(SAMPLES / 2);
        vec2 direction = vec2(cos(angle), sin(angle)) * camera.viewport.zw * draw.parameters.y;
        float highest = 0.0;
        for (int j = 1; j <= 3; ++j) {
            vec3 delta = positionAt(inUv + direction * float(j * j)) - center;
            float d = length(delta);
            highest = max(highest, dot(delta / max(d, 1e-4), normal) * inRange(d));
        }
        open += 1.0 - highest;
        bent += vec3(direction, 0.0) * (1.0 - highest);
    }
    return vec4(bent, open / float(SAMPLES / 2));
}

void main() {
    vec3 center = positionAt(inUv), normal = normalAt(center);
    uint seed = uint(gl_FragCoord.x) * 1973u + uint(gl_FragCoord.y) * 9277u + uint(camera.planes.w) * 26699u;
    vec4 result = HORIZON ? horizon(center, normal, seed) : hemisphere(center, normal, seed);
    float open = saturate(result.w);
    for (int i = 1; i < POWER; ++i)
        open *= saturate(result.w);
    outColor = BENT_NORMAL ? vec4(normalize(result.xyz) * 0.5 + 0.5, open) : vec4(vec3(open), 1.0);
}

#elif defined is_bloom
layout(constant_id = 0) const int RADIUS = 4;            // half the width of the kernel
layout(constant_id = 1) const int MODE = 0;              // 0 horizontal, 1 vertical, 2 box down, 3 tent up
layout(constant_id = 2) const int PREFILTER = 0;         // 0 none, 1 hard threshold, 2 soft knee
layout(constant_id = 3) const bool KARIS_AVERAGE = false; // weight by luminance, against fireflies
layout(constant_id = 4) const bool LENS_DIRT = false;
layout(constant_id = 5) const int GHOSTS = 0;

layout(location = 0) in vec2 inUv;
layout(location = 0) out vec4 outColor;

vec3 fetch(vec2 uv) {
    vec3 color = textureLod(mapA, uv, 0.0).rgb;
    float brightness = max(color.r, max(color.g, color.b));
    if (PREFILTER == 1)
        color *= step(draw.parameters.x, brightness);
    if (PREFILTER == 2) {
        float soft = clamp(brightness - draw.parameters.x + draw.parameters.y, 0.0, 2.0 * draw.parameters.y);
        color *= max(soft * soft / (4.0 * draw.parameters.y + 1e-4), brightness - draw.parameters.x) / max(brightness, 1e-4);
    }
    return KARIS_AVERAGE ? color / (1.0 + luminance(color)) : color;
}

// The offset of a tap in texels, and its weight.
vec3 tap(int i) {
    int side = i % 3 - 1, line = i / 3 - 1;
    float grid = float((2 - abs(side)) * (2 - abs(line)));
    float step = float(i - RADIUS), falloff = exp(-4.5 * square(step / float(RADIUS + 1)));
    switch (MODE) {
    case 0: return vec3(step, 0.0, falloff);
    case 1: return vec3(0.0, step, falloff);
    case 2: return vec3(float(side) * 2.0, float(line) * 2.0, grid);
    default: return vec3(vec2(side, line) * float(RADIUS) * 0.5, grid);
    }
}

vec3 blurred(vec2 texel) {
    const int taps = MODE < 2 ? 2 * RADIUS + 1 : 9;
    vec4 sum = vec4(0.0);
    [[dont_unroll]] for (int i = 0; i < taps; ++i) {
        vec3 t = tap(i);
        sum += vec4(fetch(inUv + t.xy * texel), 1.0) * t.z;
    }
    return sum.rgb / sum.a;
}

void main() {
    vec3 color = blurred(camera.viewport.zw);
    [[dont_unroll]] for (int i = 0; i < GHOSTS; ++i) {
        vec2 uv = fract(1.0 - inUv + (inUv - 0.5) * (0.4 * float(i + 1)));
        color += fetch(uv) * vec3(1.0, 0.7 + 0.1 * float(i), 0.5) * saturate(1.0 - 2.0 * distance(uv, vec2(0.5)));
    }
    if (KARIS_AVERAGE)
        color /= max(1.0 - luminance(color), 1e-3);
    if (LENS_DIRT)
        color *= 1.0 + 2.0 * texture(mapC, inUv).rgb;
    outColor = vec4(color, 1.0);
}

#elif defined is_volume
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

#endif
