"""A Julia set and a blur with Taichi on Vulkan. Prints the picture's digest."""

import hashlib

import taichi as ti

ti.init(arch=ti.vulkan, offline_cache=False, log_level=ti.ERROR)
SIZE = 128
picture = ti.field(ti.f32, (SIZE, SIZE))
blurred = ti.field(ti.f32, (SIZE, SIZE))


@ti.kernel
def julia(part: ti.f32):
    for x, y in picture:
        z = ti.Vector([x / SIZE * 2 - 1, y / SIZE * 2 - 1])
        steps = 0
        while z.norm() < 4 and steps < 40:
            z = ti.Vector([z[0] ** 2 - z[1] ** 2, 2 * z[0] * z[1]]) + ti.Vector([-0.8, part])
            steps += 1
        picture[x, y] = steps


@ti.kernel
def blur():
    for x, y in blurred:
        blurred[x, y] = (picture[x, y] + picture[(x + 1) % SIZE, y] + picture[x, (y + 1) % SIZE]) / 3


julia(0.2)
blur()
print("picture", hashlib.sha256(blurred.to_numpy().tobytes()).hexdigest())
