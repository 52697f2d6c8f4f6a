"""The pictures of the report's page in docs/images: python pictures.py"""

from __future__ import annotations

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


def main() -> None:
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


if __name__ == "__main__":
    main()
