// Value and gradient noise without textures.

uint hash(uint x) {
    x = x * 747796405u + 2891336453u;
    x = ((x >> ((x >> 28) + 4u)) ^ x) * 277803737u;
    return (x >> 22) ^ x;
}

float hashToUnit(uint x) { return float(hash(x) >> 8) * (1.0 / 16777216.0); }

vec2 gradientAt(ivec2 cell, uint seed) {
    uint bits = hash(uint(cell.x) * 374761393u + uint(cell.y) * 668265263u + seed);
    return vec2(bits & 0xffffu, bits >> 16) * (1.0 / 32768.0) - 1.0;
}

float gradientNoise(vec2 p, uint seed) {
    ivec2 cell = ivec2(floor(p));
    vec2 f = fract(p);
    vec2 u = f * f * f * (f * (f * 6.0 - 15.0) + 10.0);
    float a = dot(gradientAt(cell, seed), f);
    float b = dot(gradientAt(cell + ivec2(1, 0), seed), f - vec2(1.0, 0.0));
    float c = dot(gradientAt(cell + ivec2(0, 1), seed), f - vec2(0.0, 1.0));
    float d = dot(gradientAt(cell + ivec2(1, 1), seed), f - vec2(1.0, 1.0));
    return mix(mix(a, b, u.x), mix(c, d, u.x), u.y);
}

vec3 hashToDirection(uint x) {
    float z = hashToUnit(x) * 2.0 - 1.0;
    float angle = hashToUnit(x ^ 0x9e3779b9u) * 6.2831853;
    return vec3(sqrt(max(0.0, 1.0 - z * z)) * vec2(cos(angle), sin(angle)), z);
}
