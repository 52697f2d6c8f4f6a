"""Chromium without a window, and pages of it that may neither fail nor ask for anything."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, Playwright

#: The system's; where it has none, the one that `make test-all` had playwright bring.
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")

PHONE = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True}
DESKTOP = {"viewport": {"width": 1280, "height": 900}}


def launch(playwright: Playwright) -> Browser:
    """Chromium; root may not have its sandbox."""
    path = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    return playwright.chromium.launch(executable_path=path, args=arguments)


@contextmanager
def opened(browser: Browser, file: Path, **options: Any) -> Iterator[Page]:
    """A report in a page of its own, which afterwards has logged nothing, thrown nothing, opened no dialog and made no
    request but for the file."""
    context = browser.new_context(**{**DESKTOP, **options})
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (said.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: said.append(f"request: {request.url}"))
    uri = file.as_uri()
    page.goto(uri)
    if options.get("java_script_enabled", True):
        ready(page)
    yield page
    context.close()
    assert said == [f"request: {uri}"]


def until(page: Page, holds: Callable[[], bool], seconds: float = 60) -> None:
    """Returns when something holds that the browser does in its own time."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds} s"
        page.wait_for_timeout(20)


def overflow(page: Page) -> int:
    """CSS pixels by which the page is wider than its window."""
    wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert isinstance(wider, int)
    return wider


def ready(page: Page) -> None:
    """Returns when the page has drawn its timelines."""
    page.wait_for_function("[...document.querySelectorAll('.timeline')].every((own) => 'ready' in own.dataset)")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def pixels(page: Page, timeline: str, colour: str) -> int:
    """Pixels of a timeline (a CSS selector) that have one of the style sheet's colours. Waits, because the chart
    draws in a later frame than the event."""
    count = page.evaluate(
        """async ([timeline, colour]) => {
            for (let frame = 0; frame < 3; frame++)
                await new Promise(requestAnimationFrame);
            const probe = document.createElement("span");
            probe.style.forcedColorAdjust = "none";
            probe.style.color = `var(--${colour})`;
            document.body.append(probe);
            const [red, green, blue] = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
            probe.remove();
            let count = 0;
            for (const canvas of document.querySelectorAll(`${timeline} canvas`)) {
                const { width, height } = canvas, copy = new OffscreenCanvas(width, height);
                const context = copy.getContext("2d", { willReadFrequently: true });
                context.drawImage(canvas, 0, 0);
                const { data } = context.getImageData(0, 0, width, height);
                for (let at = 0; at < data.length; at += 4)
                    count += data[at] === red && data[at + 1] === green && data[at + 2] === blue;
            }
            return count;
        }""",
        [timeline, colour],
    )
    assert isinstance(count, int)
    return count
