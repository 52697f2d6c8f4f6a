"""A Qt Quick window that animates for some frames and quits.

    qt_quick.py [CACHE]

CACHE is a file of pipelines that Qt loads if it is there, and saves at the end (QSG_RHI_PIPELINE_CACHE_LOAD and
_SAVE).  Without it Qt keeps such a file by itself, below XDG_CACHE_HOME.  Prints one line and exits with 0.
"""

import os
import sys

# Qt reads these when it is loaded, so they come before its import.
os.environ.setdefault("QT_QPA_PLATFORM", "xcb")
os.environ.setdefault("QSG_RHI_BACKEND", "vulkan")
if len(sys.argv) > 1:
    os.environ["QSG_RHI_PIPELINE_CACHE_SAVE"] = sys.argv[1]
    if os.path.exists(sys.argv[1]):
        os.environ["QSG_RHI_PIPELINE_CACHE_LOAD"] = sys.argv[1]

from PySide6.QtCore import QTimer, QUrl
from PySide6.QtGui import QGuiApplication
from PySide6.QtQml import QQmlComponent, QQmlEngine
from PySide6.QtQuick import QSGRendererInterface

FRAMES = 30

# Each kind of item and each way of blending has a pipeline of its own.
SCENE = b"""
import QtQuick

Window {
    width: 320; height: 240; visible: true; color: "#203040"

    Rectangle {
        x: 10; y: 10; width: 80; height: 80; color: "tomato"; opacity: 0.8
        RotationAnimation on rotation { from: 0; to: 360; duration: 1000; loops: Animation.Infinite }
    }
    Rectangle {
        x: 110; y: 10; width: 80; height: 80; radius: 20; border { width: 3; color: "white" }
        antialiasing: true
        gradient: Gradient {
            GradientStop { position: 0; color: "gold" }
            GradientStop { position: 1; color: "purple" }
        }
    }
    Text {
        x: 10; y: 110; text: "pipelines"; color: "white"; font.pixelSize: 32
        style: Text.Outline; styleColor: "black"
    }
    Text { x: 10; y: 150; text: "more of them"; color: "white"; renderType: Text.NativeRendering }
    Item {
        x: 210; y: 10; width: 80; height: 80; clip: true; rotation: 20
        Rectangle { width: 120; height: 120; color: "seagreen" }
    }
    Canvas {
        x: 210; y: 110; width: 80; height: 80
        onPaint: {
            var painter = getContext("2d")
            painter.fillStyle = "orange"
            painter.arc(40, 40, 30, 0, 2 * Math.PI)
            painter.fill()
        }
    }
    Item {
        x: 110; y: 180; width: 80; height: 50
        opacity: 0.6
        layer.enabled: true
        Rectangle { width: 50; height: 50; color: "steelblue" }
        Rectangle { x: 25; width: 50; height: 50; color: "pink" }
    }
}
"""


def main():
    application = QGuiApplication(sys.argv[:1])
    engine = QQmlEngine()
    component = QQmlComponent(engine)
    component.setData(SCENE, QUrl())
    window = component.create()
    if window is None:
        sys.exit("qt_quick: " + component.errorString())

    frames = 0

    def count_frame():
        nonlocal frames
        frames += 1
        window.update()
        if frames == FRAMES:
            application.quit()

    window.frameSwapped.connect(count_frame)
    QTimer.singleShot(60_000, lambda: application.exit(1))
    if application.exec() != 0:
        sys.exit(f"qt_quick: only {frames} frames in a minute")
    api = window.rendererInterface().graphicsApi()
    if api != QSGRendererInterface.GraphicsApi.Vulkan:
        sys.exit(f"qt_quick: drawn with {api}")
    # Qt saves the pipelines when the window goes, which is after this, while the interpreter ends.
    print(f"qt_quick: {frames} frames")


main()
