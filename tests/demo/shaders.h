// The shaders and the specialization constants that make many programs of each.
#ifndef DEMO_SHADERS_H
#define DEMO_SHADERS_H

#include <stddef.h>
#include <stdint.h>
#include <vulkan/vulkan.h>

enum { MAX_CONSTANTS = 8, MAX_CHOICES = 8 };

typedef struct {
    const uint32_t *words;
    size_t bytes;
} Code;

typedef struct {
    uint32_t count;
    int32_t values[MAX_CHOICES];
} Choices;

typedef struct {
    VkShaderStageFlagBits stage;
    Code code_10;            // SPIR-V 1.0; NULL for ray tracing
    Code code_11;            // SPIR-V 1.3; 1.4 for ray tracing
    uint32_t constant_count; // constant i has constant_id i; all are 4 bytes wide
    Choices constants[MAX_CONSTANTS];
} Shader;

typedef enum {
    COMP_PARTICLES,
    COMP_PREFIX_SUM,
    COMP_RADIX_SORT,
    COMP_MATMUL,
    COMP_FFT,
    COMP_BLUR,
    COMP_TERRAIN,
    COMP_LIGHT_CULL,
    VERT_MESH,
    VERT_SKINNED,
    VERT_TERRAIN,
    VERT_SCREEN,
    FRAG_GGX,
    FRAG_SHADOW,
    FRAG_GBUFFER,
    FRAG_TERRAIN,
    FRAG_WATER,
    FRAG_TONEMAP,
    FRAG_FXAA,
    FRAG_SSAO,
    FRAG_BLOOM,
    FRAG_VOLUME,
    RAYS_CAMERA,
    RAYS_SURFACE,
    RAYS_SKY,
    RAYS_SHADOW,
    SHADER_COUNT,
    COMP_FIRST = COMP_PARTICLES,
    COMP_COUNT = VERT_MESH,
    RAYS_FIRST = RAYS_CAMERA
} ShaderName;

extern const Shader shaders[SHADER_COUNT];

// How many programs the constants of a shader make.
uint64_t shader_variants(const Shader *shader);

// One of them: what its constants are.
void shader_constants(const Shader *shader, uint64_t variant, int32_t values[MAX_CONSTANTS]);

// A permutation of the numbers below `total` that depends on the seed; neighbours land far apart.
uint64_t shuffled(uint64_t number, uint64_t total, uint64_t seed);

// A well mixed number.
uint64_t mixed(uint64_t number);

#endif
