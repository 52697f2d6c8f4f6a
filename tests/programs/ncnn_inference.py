"""An image classifier whose weights are zeros, run once on the GPU: tens of compute pipelines.

Prints one line and exits with 0.  On a driver that does not execute anything the result is meaningless.

ncnn opens a driver by itself, past the Vulkan loader, where VK_DRIVER_FILES or VK_ICD_FILENAMES names one.  Layers
are used only when both are unset and the loader finds the driver by its usual search, for example in
XDG_DATA_DIRS.
"""

import sys

import ncnn
import numpy

INPUT_SIZE = 32


class Network:
    """The text of a model: its layers in their order."""

    def __init__(self):
        self.lines = []
        self.blobs = 0

    def layer(self, kind, name, inputs, outputs, **parameters):
        text = " ".join(f"{key[1:]}={value}" for key, value in parameters.items())
        self.lines.append(f"{kind:24} {name:16} {len(inputs)} {len(outputs)} {' '.join(inputs + outputs)} {text}")
        self.blobs += len(outputs)
        return outputs[0]

    def split(self, blob, name):
        self.layer("Split", name, [blob], [f"{name}_0", f"{name}_1"])
        return f"{name}_0", f"{name}_1"

    def convolution(self, name, blob, channels_in, channels_out, kernel, stride=1, relu=True, groups=1):
        count = channels_in * channels_out * kernel * kernel // groups
        return self.layer(
            "ConvolutionDepthWise" if groups > 1 else "Convolution", name, [blob], [name],
            _0=channels_out, _1=kernel, _3=stride, _4=kernel // 2, _5=1, _6=count, _7=groups, _9=int(relu),
        )  # fmt: skip

    def inner_product(self, name, blob, size_in, size_out):
        return self.layer("InnerProduct", name, [blob], [name], _0=size_out, _1=1, _2=size_in * size_out)

    def text(self):
        return "\n".join(["7767517", f"{len(self.lines)} {self.blobs}", *self.lines, ""])


def classifier():
    net = Network()
    blob = net.layer("Input", "data", [], ["data"], _0=INPUT_SIZE, _1=INPUT_SIZE, _2=3)
    blob = net.convolution("stem", blob, 3, 16, 3)
    channels = 16
    for block, (out, stride) in enumerate([(24, 2), (24, 1), (36, 2), (40, 1), (64, 2)]):
        name = f"block{block}"
        skip = None
        if stride == 1 and out == channels:
            blob, skip = net.split(blob, f"{name}_split")
        wide = channels * 3
        blob = net.convolution(f"{name}_expand", blob, channels, wide, 1)
        blob = net.convolution(f"{name}_depth", blob, wide, wide, 3, stride, groups=wide)
        blob = net.convolution(f"{name}_project", blob, wide, out, 1, relu=False)
        if skip:
            blob = net.layer("BinaryOp", f"{name}_add", [blob, skip], [f"{name}_add"], _0=0)
        channels = out
    # One layer each of several other kinds, every one of which brings shaders of its own.
    blob = net.layer("HardSwish", "swish", [blob], ["swish"])
    blob = net.layer("Pooling", "pool", [blob], ["pool"], _0=0, _1=3, _2=1, _3=1)
    left, right = net.split(blob, "fork")
    left = net.layer("Sigmoid", "gate", [left], ["gate"])
    right = net.layer("TanH", "tanh", [right], ["tanh"])
    blob = net.layer("BinaryOp", "product", [left, right], ["product"], _0=2)
    left, right = net.split(blob, "branch")
    left = net.convolution("left", left, 64, 32, 3)
    right = net.layer("Interp", "resize", [right], ["resize"], _0=2, _3=4, _4=4)
    blob = net.layer("Concat", "concat", [left, right], ["concat"], _0=0)
    blob = net.layer("ShuffleChannel", "shuffle", [blob], ["shuffle"], _0=2)
    blob = net.layer("Pooling", "average", [blob], ["average"], _0=1, _4=1)
    blob = net.inner_product("hidden", blob, 96, 48)
    blob = net.layer("ReLU", "relu", [blob], ["relu"], _0=0.1)
    blob = net.inner_product("logits", blob, 48, 10)
    net.layer("Softmax", "output", [blob], ["output"], _0=0)
    return net


def infer(text):
    net = ncnn.Net()
    net.opt.use_vulkan_compute = True
    if net.load_param_mem(text) != 0 or net.load_model(ncnn.DataReaderFromEmpty()) != 0:
        sys.exit("ncnn_inference: the model does not load")
    pixels = numpy.random.default_rng(1).random((3, INPUT_SIZE, INPUT_SIZE), dtype=numpy.float32)
    with net.create_extractor() as extractor:
        extractor.input("data", ncnn.Mat(pixels))
        status, output = extractor.extract("output")
        if status != 0:
            sys.exit(f"ncnn_inference: the inference gave {status}")
        result = numpy.array(output)
    net.clear()
    return result


def main():
    if ncnn.get_gpu_count() == 0:
        sys.exit("ncnn_inference: no Vulkan device")
    name = ncnn.get_gpu_info(ncnn.get_default_gpu_index()).device_name()
    result = infer(classifier().text())
    ncnn.destroy_gpu_instance()
    print(f"ncnn_inference: {len(result)} classes on {name}")


main()
