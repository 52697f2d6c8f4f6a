"""Makes the pictures in docs/images: before-after.svg, and those of the report's page."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from playwright.sync_api import sync_playwright
from report.browser import launch, ready
from report.made_up import write_page
from world import ROOT

IMAGES = ROOT / "docs" / "images"
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


def of_reports() -> None:
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        file = Path(name) / "report.html"
        write_page(file, 250, 60, 5900)
        browser = launch(playwright)
        page = browser.new_page(viewport={"width": 1200, "height": 960})
        page.goto(file.as_uri())
        ready(page)
        page.screenshot(path=IMAGES / "report.png")
        page = browser.new_page(viewport={"width": 1200, "height": 980}, color_scheme="dark")
        page.goto(file.as_uri())
        ready(page)
        # The longest frame, then the pipeline that held it up.
        page.locator("[id$=-late] + .scroll [data-show]").first.click()
        page.locator(".panel li button").first.click()
        page.wait_for_timeout(500)
        page.evaluate("document.activeElement.blur(); document.querySelector('.tools').scrollIntoView()")
        page.screenshot(path=IMAGES / "report-stall.png")
        page = browser.new_page(**PHONE)
        page.goto(file.as_uri())
        ready(page)
        page.screenshot(path=IMAGES / "report-phone.png")
        page.evaluate("document.querySelector('.tools').scrollIntoView()")
        page.screenshot(path=IMAGES / "report-phone-timeline.png")
        browser.close()


COMMAND = str(Path(sys.executable).with_name("pylayer"))
PIPELINES, FRAMES, FRAME_MS, LIMIT_MS = 120, 300, 10.0, 16.7
WIDTH, STEP, SCALE, PANEL = 720, 2.24, 2.6, 118


def measured() -> tuple[list[float], float]:
    """Returns how many milliseconds each pipeline took in the first run, and the median in the second."""
    with tempfile.TemporaryDirectory() as directory:
        environment = {**os.environ, "PYLAYER_STORE": f"{directory}/store", "MESA_SHADER_CACHE_DISABLE": "1"}
        run = [COMMAND, "run", "--", str(ROOT / "build" / "demo" / "pipelines"), "--count", str(PIPELINES)]
        subprocess.run(run, env=environment, check=True, capture_output=True)
        report = [COMMAND, "report", "--trace", "-"]
        trace = subprocess.run(report, env=environment, check=True, capture_output=True, text=True).stdout
        second = subprocess.run(run, env=environment, check=True, capture_output=True, text=True).stdout
    found = [event["dur"] / 1000 for event in json.loads(trace)["traceEvents"] if "pipeline" in event.get("cat", "")]
    median = re.search(r"median ([\d.]+) us", second)
    assert len(found) == PIPELINES and median is not None
    return found, float(median[1]) / 1000


def panel(top: int, title: str, times: list[float]) -> str:
    """Returns one run: a bar for each frame, and red where it was late."""
    frames = [FRAME_MS] * FRAMES
    for number, took in enumerate(times):
        frames[number // 2 * 5] += took
    bottom = top + PANEL
    bars = {"#9aa5b1": "", "#c62828": ""}
    for number, took in enumerate(frames):
        color = "#c62828" if took > LIMIT_MS else "#9aa5b1"
        bars[color] += f"M{24 + number * STEP:.1f} {bottom}v-{took * SCALE:.0f}"
    limit = bottom - LIMIT_MS * SCALE
    late = sum(took > LIMIT_MS for took in frames)
    return "\n".join(
        [
            f'<text x="24" y="{top + 4}" font-weight="bold">{title}</text>',
            f'<text x="{WIDTH - 24}" y="{top + 4}" text-anchor="end">{late} frames over {LIMIT_MS} ms</text>',
            *(f'<path d="{path}" stroke="{color}" stroke-width="1.6"/>' for color, path in bars.items() if path),
            f'<path d="M24 {limit:.0f}H{WIDTH - 24}" stroke="#444" stroke-dasharray="4 3"/>',
        ]
    )


def before_and_after() -> None:
    """The pipelines are the demo's, timed by the layer in a first and a second run. The frames are made up: 10 ms each,
    and every fifth one needs two pipelines that the program has not created yet."""
    compiled, found = measured()
    (IMAGES / "before-after.svg").write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} 290" font-family="sans-serif" font-size="14" '
        f'fill="#222">\n<rect width="{WIDTH}" height="290" fill="#fff"/>\n'
        f"{panel(20, 'Without pylayer, or in its first run', compiled)}\n"
        f"{panel(160, 'From the second run on', [found] * PIPELINES)}\n</svg>\n"
    )


if __name__ == "__main__":
    before_and_after()
    of_reports()
