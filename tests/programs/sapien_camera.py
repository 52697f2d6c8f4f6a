"""A box before SAPIEN's camera. Prints the picture's digest."""

import hashlib

import numpy as np
import sapien

scene = sapien.Scene()
scene.add_ground(0)
builder = scene.create_actor_builder()
builder.add_box_visual(half_size=[0.5, 0.5, 0.5], material=[1, 0, 0])
builder.build_kinematic("box").set_pose(sapien.Pose([0, 0, 0.5]))
scene.set_ambient_light([0.5, 0.5, 0.5])
scene.add_directional_light([0, 1, -1], [0.5, 0.5, 0.5])
camera = scene.add_camera("camera", 64, 48, 1.0, 0.1, 100)
camera.entity.set_pose(sapien.Pose([-3, 0, 1]))
scene.step()
scene.update_render()
camera.take_picture()
print("picture", hashlib.sha256(np.asarray(camera.get_picture("Color")).tobytes()).hexdigest())
