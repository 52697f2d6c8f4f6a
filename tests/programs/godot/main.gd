# Prints the twentieth frame's digest and quits.
extends Spatial

var frames = 0

func _process(_delta):
	frames += 1
	if frames == 20:
		print("picture ", hash(Array(get_viewport().get_texture().get_data().get_data())))
		get_tree().quit()
