// Cook-Torrance terms; include graphics.glsl first.

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
