#include "shaders.h"

#include "shaders/all.h"

#define CODE(name) {name, sizeof(name)}
#define RASTER(name, bit) .stage = bit, .code_10 = CODE(name##_10), .code_11 = CODE(name##_11)
#define COMPUTE(name) RASTER(name##_comp, VK_SHADER_STAGE_COMPUTE_BIT)
#define VERTEX(name) RASTER(name##_vert, VK_SHADER_STAGE_VERTEX_BIT)
#define FRAGMENT(name) RASTER(name##_frag, VK_SHADER_STAGE_FRAGMENT_BIT)
#define RAYS(name, bit) .stage = bit, .code_11 = CODE(name##_14)

#define LIST_LENGTH(...) (sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t))
// clang-format off
#define ONE_OF(...) {LIST_LENGTH(__VA_ARGS__), {__VA_ARGS__}}
// clang-format on
#define BOOL ONE_OF(0, 1)
#define GROUP ONE_OF(64, 128)

// In the order of the constant_id in each shader.
const Shader shaders[SHADER_COUNT] = {
    [COMP_PARTICLES] = {COMPUTE(particles),
                        7,
                        {GROUP, ONE_OF(0, 1, 2, 3), ONE_OF(0, 1, 2, 3, 4, 6, 8), ONE_OF(0, 1, 2, 3, 4, 6),
                         ONE_OF(0, 1, 2, 3, 4), BOOL, BOOL}},
    [COMP_PREFIX_SUM] = {COMPUTE(prefix_sum),
                         7,
                         {GROUP, ONE_OF(1, 2, 3, 4, 5, 6, 7, 8), BOOL, ONE_OF(0, 1, 2, 3), BOOL, BOOL,
                          ONE_OF(0, 4, 5, 6, 7, 8, 10, 12)}},
    [COMP_RADIX_SORT] = {COMPUTE(radix_sort),
                         8,
                         {GROUP, ONE_OF(1, 2, 3, 4), ONE_OF(1, 2, 3, 4, 6, 8), ONE_OF(0, 1, 2), BOOL, BOOL, BOOL,
                          ONE_OF(0, 1, 2, 3, 4, 8, 12, 16)}},
    [COMP_MATMUL] = {COMPUTE(matmul),
                     7,
                     {GROUP, ONE_OF(1, 2, 3), ONE_OF(1, 2), ONE_OF(4, 8, 12, 16, 20, 24, 28, 32), BOOL,
                      ONE_OF(0, 1, 2, 3), BOOL}},
    [COMP_FFT] = {COMPUTE(fft),
                  7,
                  {GROUP, ONE_OF(1, 2), ONE_OF(1, 2, 3, 4, 5, 6, 7), BOOL, ONE_OF(0, 1, 2, 3), BOOL, BOOL}},
    [COMP_BLUR] = {COMPUTE(blur),
                   7,
                   {GROUP, ONE_OF(1, 2, 3, 4, 5, 6, 8, 11), BOOL, ONE_OF(0, 1, 2), ONE_OF(0, 1, 2, 3), BOOL, BOOL}},
    [COMP_TERRAIN] = {COMPUTE(terrain),
                      7,
                      {GROUP, ONE_OF(1, 2, 3, 4, 5, 6, 7, 8), ONE_OF(0, 1, 2), ONE_OF(0, 1, 2, 3), BOOL,
                       ONE_OF(0, 1, 2, 3, 4, 6), BOOL}},
    [COMP_LIGHT_CULL] = {COMPUTE(light_cull),
                         7,
                         {GROUP, ONE_OF(4, 8, 16, 32), BOOL, BOOL, ONE_OF(1, 2, 3, 4, 6, 8), ONE_OF(0, 1, 2), BOOL}},

    [VERT_MESH] = {VERTEX(mesh), 3, {ONE_OF(0, 1, 2, 3, 4, 5, 6, 8), BOOL, BOOL}},
    [VERT_SKINNED] = {VERTEX(skinned), 2, {ONE_OF(1, 2, 3, 4), ONE_OF(0, 1, 2, 3, 4)}},
    [VERT_TERRAIN] = {VERTEX(terrain), 2, {ONE_OF(0, 1, 2, 3, 4, 5, 6, 8), BOOL}},
    [VERT_SCREEN] = {VERTEX(screen), 2, {BOOL, ONE_OF(0, 25, 50, 75, 100)}},

    [FRAG_GGX] = {FRAGMENT(ggx),
                  6,
                  {ONE_OF(0, 1, 2, 3, 4, 5, 6, 8), ONE_OF(0, 1, 2, 3, 4), BOOL, BOOL, BOOL, ONE_OF(0, 64, 128, 192)}},
    [FRAG_SHADOW] = {FRAGMENT(shadow),
                     6,
                     {ONE_OF(1, 2, 3, 4), ONE_OF(0, 1, 2, 3), BOOL, BOOL, ONE_OF(0, 1, 2),
                      ONE_OF(0, 4, 8, 16, 32, 64, 128, 256)}},
    [FRAG_GBUFFER] = {FRAGMENT(gbuffer),
                      6,
                      {ONE_OF(0, 4, 6, 8, 10, 12, 16, 20), ONE_OF(0, 1, 2, 3, 4), ONE_OF(0, 1, 2, 3), BOOL, BOOL,
                       ONE_OF(0, 1, 2)}},
    [FRAG_TERRAIN] = {FRAGMENT(terrain),
                      5,
                      {ONE_OF(1, 2, 3, 4, 5, 6, 8), BOOL, ONE_OF(0, 1, 2, 3, 4), BOOL, ONE_OF(0, 50, 60, 70, 80, 90)}},
    [FRAG_WATER] = {FRAGMENT(water),
                    5,
                    {ONE_OF(0, 2, 4, 6, 8, 10, 12, 16), ONE_OF(0, 4, 8, 12, 16), BOOL, BOOL, ONE_OF(0, 1, 2, 3, 4)}},
    [FRAG_TONEMAP] = {FRAGMENT(tonemap),
                      6,
                      {ONE_OF(0, 1, 2, 3), ONE_OF(0, 1, 2, 3, 4, 5, 6), BOOL, BOOL, ONE_OF(0, 1, 2, 3),
                       ONE_OF(0, 3, 4, 5, 6, 8, 12)}},
    [FRAG_FXAA] = {FRAGMENT(fxaa),
                   5,
                   {ONE_OF(3, 4, 5, 6, 7, 8, 10, 12), BOOL, BOOL, ONE_OF(0, 10, 20, 30, 40),
                    ONE_OF(8, 12, 16, 24, 32)}},
    [FRAG_SSAO] = {FRAGMENT(ssao),
                   6,
                   {ONE_OF(4, 6, 8, 10, 12, 14, 16, 20), BOOL, BOOL, ONE_OF(0, 1, 2), ONE_OF(1, 2, 3, 4, 5), BOOL}},
    [FRAG_BLOOM] = {FRAGMENT(bloom),
                    6,
                    {ONE_OF(2, 3, 4, 5, 6, 8, 10, 12), ONE_OF(0, 1, 2, 3), ONE_OF(0, 1, 2), BOOL, BOOL,
                     ONE_OF(0, 1, 2, 3, 4)}},
    [FRAG_VOLUME] = {FRAGMENT(volume),
                     6,
                     {ONE_OF(4, 6, 8, 10, 12, 16, 20, 24), ONE_OF(0, 1, 2, 3), BOOL, ONE_OF(0, 1, 2),
                      ONE_OF(0, 1, 2, 3, 4), BOOL}},

    [RAYS_CAMERA] = {RAYS(camera_rgen, VK_SHADER_STAGE_RAYGEN_BIT_KHR),
                     2,
                     {ONE_OF(0, 1, 2, 3, 4, 5, 6, 8), ONE_OF(1, 2, 3, 4, 5, 6, 7, 8)}},
    [RAYS_SURFACE] = {RAYS(surface_rchit, VK_SHADER_STAGE_CLOSEST_HIT_BIT_KHR),
                      3,
                      {ONE_OF(0, 1, 2, 3), BOOL, ONE_OF(0, 1, 2, 3, 4, 5, 6, 8)}},
    [RAYS_SKY] = {RAYS(sky_rmiss, VK_SHADER_STAGE_MISS_BIT_KHR), 1, {ONE_OF(1, 2, 3, 4, 5, 6, 8, 12)}},
    [RAYS_SHADOW] = {RAYS(shadow_rmiss, VK_SHADER_STAGE_MISS_BIT_KHR), 0, {{0, {0}}}},
};

uint64_t shader_variants(const Shader *shader)
{
    uint64_t total = 1;
    for (uint32_t i = 0; i < shader->constant_count; ++i)
        total *= shader->constants[i].count;
    return total;
}

void shader_constants(const Shader *shader, uint64_t variant, int32_t values[MAX_CONSTANTS])
{
    for (uint32_t i = 0; i < shader->constant_count; ++i) {
        const Choices *choices = &shader->constants[i];
        values[i] = choices->values[variant % choices->count];
        variant /= choices->count;
    }
}

uint64_t mixed(uint64_t number)
{
    number += 0x9e3779b97f4a7c15u;
    number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
    number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
    return number ^ (number >> 31);
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

uint64_t shuffled(uint64_t number, uint64_t total, uint64_t seed)
{
    // About the golden section of the range, so that even few numbers cover it evenly.
    uint64_t stride = total * 618 / 1000 + mixed(seed) % 16 + 1;
    while (common_divisor(stride, total) != 1)
        ++stride;
    return (number % total * (stride % total) + mixed(seed + 1) % total) % total;
}
