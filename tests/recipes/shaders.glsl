#version 460
// All shaders of recipes. The Makefile defines which one a module has, and VIEWS or WRITES for another form of it.
#ifdef VIEWS
#extension GL_EXT_multiview : require
#define VIEW float(gl_ViewIndex)
#else
#define VIEW 0.0
#endif

#if defined is_comp0
// The smallest program whose constants still change what is compiled.

layout(local_size_x = 64) in;
layout(constant_id = 0) const uint STEPS = 1;
layout(set = 0, binding = 0) buffer Numbers { uint numbers[]; };

void main() {
    uint sum = 0;
    for (uint i = 0; i < STEPS; ++i)
        sum += numbers[gl_GlobalInvocationID.x + i];
    numbers[gl_GlobalInvocationID.x] = sum;
}

#elif defined is_comp1
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint SHIFT = 1;
layout(set = 0, binding = 0) buffer Numbers { uint numbers[]; };
layout(push_constant) uniform Push { uint scale; } push;

void main() {
    numbers[gl_GlobalInvocationID.x] = (gl_GlobalInvocationID.x << SHIFT) * push.scale;
}

#elif defined is_kernel
#extension GL_KHR_shader_subgroup_arithmetic : require

// VARIANT makes different pipelines of one module; the other constants are there to be specialized or left alone.
layout(constant_id = 0) const uint VARIANT = 0;
layout(constant_id = 1) const float SCALE = 1.0;
layout(constant_id = 2) const bool SIGNED = false;

layout(local_size_x = 128) in;
layout(set = 0, binding = 0) buffer Values { uint values[]; };
layout(push_constant) uniform Push { uint offset; };

void main()
{
    uint value = values[gl_GlobalInvocationID.x + offset];
    uint sum = subgroupAdd(value);
    for (uint i = 0; i < VARIANT; ++i)
        sum = sum * 1664525u + 1013904223u;
    values[gl_GlobalInvocationID.x] = SIGNED ? sum : uint(float(sum) * SCALE);
}

#elif defined is_wide
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

// A constant of eight bytes between two of four.
layout(constant_id = 7) const uint VARIANT = 0;
layout(constant_id = 8) const uint64_t WIDE = 1ul;
layout(constant_id = 9) const uint NARROW = 2;

layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer Values { uint64_t values[]; };

void main()
{
    values[gl_GlobalInvocationID.x] = values[gl_GlobalInvocationID.x] * WIDE + uint64_t(NARROW + VARIANT);
}

#elif defined is_numbers
layout(constant_id = 0) const uint VARIANT = 0;

layout(local_size_x = 16) in;
layout(set = 0, binding = 0) buffer Values { uint values[]; };

void main()
{
    values[gl_LocalInvocationIndex] = gl_LocalInvocationIndex * (VARIANT + 3);
}

#elif defined is_vert0
layout(constant_id = 0) const uint DEPTH = 0;
layout(location = 0) out vec2 place;

void main() {
    place = vec2((gl_VertexIndex << 1) & 2, gl_VertexIndex & 2);
    gl_Position = vec4(place * 2.0 - 1.0, float(DEPTH) * 0.125, 1.0);
}

#elif defined is_vert1
layout(constant_id = 0) const uint TURN = 0;
layout(location = 0) in vec4 position;
layout(location = 0) out vec2 place;

void main() {
    place = TURN == 0 ? position.xy : position.yx;
    gl_Position = position;
}

#elif defined is_frag0
layout(constant_id = 0) const uint BANDS = 1;
layout(location = 0) in vec2 place;
layout(location = 0) out vec4 color;

void main() {
    color = vec4(fract(place * float(BANDS)), 0.0, 1.0);
}

#elif defined is_frag1
layout(constant_id = 0) const uint ROUND = 0;
layout(location = 0) in vec2 place;
layout(location = 0) out vec4 color;
layout(push_constant) uniform Push { vec4 tint; } push;

void main() {
    if (ROUND != 0 && length(place) > 1.0)
        discard;
    color = push.tint;
}

#elif defined is_rgen0
#extension GL_EXT_ray_tracing : require

layout(constant_id = 0) const uint REACH = 8;
layout(set = 0, binding = 2) uniform accelerationStructureEXT scene;
layout(set = 0, binding = 0) buffer Numbers { float numbers[]; };
layout(location = 0) rayPayloadEXT float payload;

void main() {
    traceRayEXT(scene, gl_RayFlagsOpaqueEXT, 0xff, 0, 0, 0, vec3(0.0), 0.001, vec3(0.0, 0.0, 1.0), float(REACH), 0);
    numbers[gl_LaunchIDEXT.x] = payload;
}

#elif defined is_miss0
#extension GL_EXT_ray_tracing : require

layout(constant_id = 0) const uint LIGHT = 1;
layout(location = 0) rayPayloadInEXT float payload;

void main() { payload = float(LIGHT); }

#elif defined is_hit0
#extension GL_EXT_ray_tracing : require

layout(constant_id = 0) const uint SHADE = 2;
layout(location = 0) rayPayloadInEXT float payload;

void main() { payload = gl_HitTEXT * float(SHADE); }

#elif defined is_scene_vert
layout(constant_id = 0) const uint VARIANT = 0;

layout(set = 0, binding = 1) uniform Scene { mat4 transform; vec4 tint[4]; };
layout(location = 0) in vec4 position;
layout(location = 0) out vec4 color;

void main()
{
    gl_Position = transform * position + vec4(float(VARIANT));
    color = tint[gl_VertexIndex & 3];
}

#elif defined is_scene_frag
layout(constant_id = 0) const uint VARIANT = 0;

layout(set = 0, binding = 0) readonly buffer Values { vec4 values[]; };
layout(location = 0) in vec4 color;
layout(location = 0) out vec4 target;

void main()
{
    target = color * values[uint(gl_FragCoord.x)] + vec4(float(VARIANT));
}

#elif defined is_task
#extension GL_EXT_mesh_shader : require

layout(constant_id = 0) const uint VARIANT = 0;

layout(local_size_x = 32) in;
taskPayloadSharedEXT uint tile;

void main()
{
    tile = gl_WorkGroupID.x;
    EmitMeshTasksEXT(1 + VARIANT % 4, 1, 1);
}

#elif defined is_mesh
#extension GL_EXT_mesh_shader : require

layout(constant_id = 0) const uint VARIANT = 0;

layout(local_size_x = 32) in;
layout(triangles, max_vertices = 3, max_primitives = 1) out;
layout(location = 0) out vec4 color[];

void main()
{
    SetMeshOutputsEXT(3, 1);
    if (gl_LocalInvocationIndex < 3) {
        gl_MeshVerticesEXT[gl_LocalInvocationIndex].gl_Position = vec4(gl_LocalInvocationIndex, VARIANT, 0.0, 1.0);
        color[gl_LocalInvocationIndex] = vec4(1.0);
    }
    if (gl_LocalInvocationIndex == 0)
        gl_PrimitiveTriangleIndicesEXT[0] = uvec3(0, 1, 2);
}

#elif defined is_vertex
layout(constant_id = 0) const uint VARIANT = 0;

#ifdef WRITES
layout(set = 0, binding = 0) buffer Values { uint values[]; };
#endif
layout(location = 0) out vec4 color;

void main()
{
    const vec2 corners[3] = {vec2(-0.9, -0.8), vec2(0.8, -0.7), vec2(-0.1, 0.9)};
    vec2 corner = corners[gl_VertexIndex % 3];
    gl_Position = vec4(corner * (1.0 - 0.1 * float(VARIANT % 5)) + 0.1 * VIEW, 0.5, 1.0);
    color = vec4(float(gl_VertexIndex % 3) * 0.5, float(VARIANT % 7) / 7.0, 0.25 + 0.5 * VIEW, 1.0);
#ifdef WRITES
    values[gl_VertexIndex % 3] = 100 + VARIANT;
#endif
}

#elif defined is_control
layout(constant_id = 0) const uint VARIANT = 0;

layout(vertices = 3) out;
layout(location = 0) in vec4 color_in[];
layout(location = 0) out vec4 color_out[];

void main()
{
    gl_out[gl_InvocationID].gl_Position = gl_in[gl_InvocationID].gl_Position;
    color_out[gl_InvocationID] = color_in[gl_InvocationID];
    gl_TessLevelOuter[gl_InvocationID] = float(2 + VARIANT % 3);
    gl_TessLevelInner[0] = 2.0;
}

#elif defined is_evaluation
layout(triangles, equal_spacing, ccw) in;
layout(location = 0) in vec4 color_in[];
layout(location = 0) out vec4 color;

void main()
{
    gl_Position = gl_in[0].gl_Position * gl_TessCoord.x + gl_in[1].gl_Position * gl_TessCoord.y +
                  gl_in[2].gl_Position * gl_TessCoord.z;
    gl_Position.xy *= 0.8 + 0.2 * gl_TessCoord.x - 0.1 * VIEW;
    color = color_in[0] * gl_TessCoord.x + color_in[1] * gl_TessCoord.y + color_in[2] * gl_TessCoord.z;
}

#elif defined is_geometry
layout(triangles) in;
layout(triangle_strip, max_vertices = 6) out;
layout(location = 0) in vec4 color_in[];
layout(location = 0) out vec4 color;

void main()
{
    for (int copy = 0; copy < 2; copy++) {
        for (int i = 0; i < 3; i++) {
            gl_Position = gl_in[i].gl_Position;
            gl_Position.xy = gl_Position.xy * (copy == 0 ? 0.5 : 0.25) + (copy == 0 ? -0.3 : 0.4 - 0.1 * VIEW);
            color = color_in[i];
            EmitVertex();
        }
        EndPrimitive();
    }
}

#elif defined is_colors
layout(constant_id = 0) const uint VARIANT = 0;

#ifdef WRITES
layout(set = 0, binding = 0) buffer Values { uint values[]; };
#endif
layout(location = 0) in vec4 color;
layout(location = 0) out vec4 target;

void main()
{
    target = color * (0.5 + 0.05 * float(VARIANT % 10));
#ifdef WRITES
    values[8 + (uint(gl_FragCoord.x) & 7)] = 200 + VARIANT;
#endif
}

#elif defined is_sampled
layout(set = 0, binding = 0) uniform sampler2D image;
layout(set = 0, binding = 1) buffer Result { vec4 result; };
layout(push_constant) uniform Where { vec2 where; };

void main() { result = textureLod(image, where, 0); }

#endif
