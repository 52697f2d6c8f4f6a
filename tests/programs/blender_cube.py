"""Renders Blender's own scene, small, and prints the picture's digest."""

import hashlib
import os

import bpy

scene = bpy.context.scene
scene.render.engine = "BLENDER_EEVEE"
scene.render.resolution_x = scene.render.resolution_y = 64
scene.eevee.taa_render_samples = 1
scene.render.filepath = os.path.join(os.environ["HOME"], "cube.png")
bpy.ops.render.render(write_still=True)
pixels = bytes(round(255 * value) for value in bpy.data.images.load(scene.render.filepath).pixels)
assert len(set(pixels)) > 20
print("\npicture", hashlib.sha256(pixels).hexdigest(), flush=True)
os._exit(0)
