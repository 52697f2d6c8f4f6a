"""The page of ``pylayer report --html`` in Chromium."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import recorded_runs
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright
from recorded_runs import MS, cache, hits, pipeline
from report import made_up
from report.browser import DESKTOP, PHONE, launch, opened, overflow, pixels, ready, until
from world import World

from pylayer.report import page, recorded, rows

pytestmark = pytest.mark.foreign

#: How the page shows one.
FINGERPRINT = re.compile("^[0-9a-f]{16}$")
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & 'quoted' \"twice\""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests."""
    with sync_playwright() as playwright:
        chromium = launch(playwright)
        yield chromium
        chromium.close()


def write_page(store: Path, file: Path) -> Path:
    """The page of all runs of a store."""
    found = recorded.read(str(store))
    file.write_text(page.render([(run, rows.of_run(found, run)) for run in found], rows.FRAME_NS))
    return file


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of two runs in which all there is happened, with names that do their worst."""
    tmp_path = tmp_path_factory.mktemp("report")
    names = {"program": HOSTILE, "executable": "x", "device": HOSTILE, "reason": HOSTILE, "mode": "cells"}
    first = [
        cache(1, "emptied", "wrong-uuid"),
        *(
            pipeline(100 * number, 10, thread=101 + number % 3, fingerprint=number, kind=number % 2)
            for number in range(1, 9)
        ),
        pipeline(950, 30, fingerprint=99, text=HOSTILE, number=2),
        pipeline(1000, 20, thread=102, fingerprint=98),
        hits(0, 40),
    ]
    counters = {"pipelines": 50, "hits": 40, "compiled": 10, "compile_ns": 130 * MS, "hit_ns": MS, "events_dropped": 3}
    kinds = {
        "graphics": {"hits": 40, "compiled": 6, "compile_ns": 90 * MS},
        "compute": {"hits": 0, "compiled": 4, "compile_ns": 40 * MS},
    }
    common: dict[str, Any] = {"counters": counters, "kinds": kinds, "stored_bytes": 40_000}
    recorded_runs.write(
        tmp_path / "store", first, started=1000.0, ended=1002.0, refused={HOSTILE: 1}, **names, **common
    )
    recorded_runs.write(
        tmp_path / "store", [pipeline(10, 2, fingerprint=99), pipeline(20, 3, fingerprint=77), hits(0, 40)],
        started=2000.0, ended=2001.5, start_ticks=2, **names, **common,
    )  # fmt: skip
    return write_page(tmp_path / "store", tmp_path / "report.html")


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of a run with 125 pipelines and 5,000 frames, of which some came late."""
    file = tmp_path_factory.mktemp("frames") / "report.html"
    made_up.write_page(file, 125, 60, 5000)
    return file


TIMELINE = ".timeline"


@pytest.mark.parametrize(
    "look", [{**DESKTOP, "color_scheme": "light"}, {**PHONE, "color_scheme": "dark"}], ids=["desktop", "phone"]
)
def test_page(browser: Browser, report: Path, look: dict[str, Any]) -> None:
    """On a light desktop and a dark phone: pipelines have the colours of what they took, nothing is wider than the
    window, no column is clipped, each value is below its column's name or beside it, a row has a few lines, and
    axe-core's rules (contrast, names, landmarks, headings) find nothing. Markup in names is text."""
    with opened(browser, report, **look) as page:
        assert overflow(page) == 0 and HOSTILE in page.locator("h1").inner_text()
        assert pixels(page, "#run-1 .timeline", "c1") and pixels(page, "#run-1 .timeline", "c2")  # 10 ms, 30 ms
        assert pixels(page, "#run-2 .timeline", "c0") and not pixels(page, "#run-2 .timeline", "c2")  # 2 ms
        assert pixels(page, "#run-1 .timeline", "found") and not pixels(page, TIMELINE, "late")
        assert page.locator("#run-1 .timeline").bounding_box() and page.get_by_text("No frames: this run").count() == 2
        script = "[...document.querySelectorAll('.scroll')].map((own) => own.scrollWidth - own.clientWidth)"
        hidden = page.evaluate(script)
        assert len(hidden) == 5 and set(hidden) == {0}
        row = page.locator("#run-2-slow ~ .scroll tbody tr").first
        said = row.locator("td").first.evaluate("(cell) => getComputedStyle(cell, '::before').content")
        phone = "is_mobile" in look
        assert ("Took" in said) == phone
        box = row.bounding_box()
        assert box and box["height"] < (100 if phone else 40)
        page.locator("#run-1-slow ~ .scroll [data-show]").first.click()
        said = page.locator("#run-1 .panel").inner_text()
        assert f"Entry point\n{HOSTILE[:64]}" in said and "30 ms" in said and "2 pipelines" in said
        assert overflow(page) == 0 and page.locator("img").count() == 0
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()


FOCUSABLE = "a[href], button:enabled, select, input, summary, [tabindex='0']"


def test_keyboard_reaches_everything(browser: Browser, report: Path) -> None:
    """Tab goes through every control that is seen, in the order of the page, and each shows that it has the focus."""
    with opened(browser, report) as page:
        wanted = page.evaluate(
            f"(window.wanted = [...document.querySelectorAll({FOCUSABLE!r})].filter((own) => own.checkVisibility()))"
            ".length"
        )
        reached = []
        for _ in range(wanted):
            page.keyboard.press("Tab")
            number, outline = page.evaluate(
                "[window.wanted.indexOf(document.activeElement), getComputedStyle(document.activeElement).outlineStyle]"
            )
            assert outline != "none"
            reached.append(number)
        assert reached == list(range(wanted)) and wanted > 50


def shown(page: Page) -> str:
    """What the page says that it shows, once it says it."""
    page.wait_for_timeout(250)
    return page.locator(".shown").first.inner_text().split(" In it ")[0]


def press(page: Page, name: str) -> str:
    page.locator(f"[data-move={name}]").first.focus()
    page.keyboard.press("Enter")
    return shown(page)


def test_controls(browser: Browser, report: Path) -> None:
    """By keyboard: buttons and a row's time change the part of the run that is shown, which stays within the run and is
    said; a column's head sorts by it, numbers by their size, the other way when it is used again, and says so."""
    with opened(browser, report) as page:
        assert shown(page) == "The whole run: 2 s."
        assert page.locator(".shown").first.inner_text().endswith(" In it 10 pipelines in 130 ms.")
        assert press(page, "in") == "Shown: 500 ms to 1.5 s of 2 s."
        assert press(page, "later") == "Shown: 1 s to 2 s of 2 s."
        assert press(page, "later") == "Shown: 1 s to 2 s of 2 s."
        assert press(page, "in") == "Shown: 1.25 s to 1.75 s of 2 s."
        assert press(page, "earlier") == "Shown: 1 s to 1.5 s of 2 s."
        assert press(page, "out") == "Shown: 750 ms to 1.75 s of 2 s."
        assert press(page, "all") == "The whole run: 2 s."

        page.locator("#run-1-slow ~ .scroll [data-show]").first.focus()
        page.keyboard.press("Enter")
        assert shown(page) == "Shown: 935 ms to 995 ms of 2 s."
        assert page.locator(TIMELINE).first.is_visible()
        assert press(page, "all") == "The whole run: 2 s."

        table = page.locator("#run-1-slow ~ .scroll table").first

        def column(number: int) -> list[str]:
            return table.locator(f"tbody tr > :nth-child({number})").all_inner_texts()

        table.get_by_role("button", name="At").focus()
        page.keyboard.press("Enter")
        assert table.locator("th").nth(2).get_attribute("aria-sort") == "descending"
        assert column(3)[:2] == ["1.000 s", "0.950 s"] and column(3)[-1] == "0.100 s"
        page.keyboard.press("Enter")
        assert table.locator("th").nth(2).get_attribute("aria-sort") == "ascending" and column(3)[0] == "0.100 s"
        table.get_by_role("button", name="Kind").click()
        assert table.locator("th[aria-sort]").count() == 1 and column(4) == sorted(column(4))


def keys(page: Page, *pressed: str) -> None:
    page.locator(TIMELINE).first.focus()
    for key in pressed:
        page.keyboard.press(key)


@pytest.mark.parametrize("look", [{}, {"forced_colors": "active"}], ids=["", "contrast theme"])
def test_keys(browser: Browser, frames: Path, look: dict[str, Any]) -> None:
    """In the timeline, W, A, S and D zoom and move, arrows go from pipeline to pipeline and to the frame above, N goes
    to the next late frame, from which a button leads to the pipeline that held it, and Escape takes the panel away. A
    contrast theme, which replaces the colours of a page by a few, leaves the charts theirs."""
    with opened(browser, frames, **look) as page:
        keys(page, "w", "d")
        assert shown(page) == "Shown: 30 s to 60 s of 60 s."
        keys(page, "s", "a")
        assert shown(page) == "The whole run: 60 s."
        assert all(pixels(page, TIMELINE, colour) for colour in ("frame", "late", "late-other", "text"))
        keys(page, "n")
        title = page.locator(".panel h4")
        assert title.inner_text().startswith("Frame ")
        assert "late because of pipelines" in page.locator(".panel").inner_text()
        assert pixels(page, TIMELINE, "late-column") > 1000
        page.locator(".panel li button").first.click()
        pipeline = title.inner_text()
        said = page.locator(".panel").inner_text()
        for name in ("Took", "Thread\nrender (101)", "Stages", "Shaders", "Held up\nFrame "):
            assert name in said
        fingerprint = page.locator(".panel code").filter(has_text=FINGERPRINT).last.inner_text()
        assert len(fingerprint) == 16
        keys(page, "ArrowRight")
        assert page.locator(".panel code").filter(has_text=FINGERPRINT).last.inner_text() != fingerprint
        keys(page, "ArrowLeft")
        assert title.inner_text() == pipeline
        keys(page, "ArrowUp")
        assert title.inner_text().startswith("Frame ")
        keys(page, "ArrowDown")
        assert title.inner_text() == pipeline
        keys(page, "Escape")
        assert page.locator(".panel").is_hidden()


def test_search(browser: Browser, frames: Path) -> None:
    """A search for a name, a thread or the beginning of a fingerprint fades everything else, and goes through what it
    found."""
    with opened(browser, frames) as page:
        ready(page)
        search = page.locator("input[type=search]")
        keys(page, "/")
        page.keyboard.type("LOADER")
        assert pixels(page, TIMELINE, "faint") and page.locator(".result").inner_text().endswith(" found")
        search.press("Enter")
        assert "Thread\nloader (105)" in page.locator(".panel").inner_text()
        assert page.locator(".result").inner_text().startswith("1 of ")
        fingerprint = page.locator(".panel code").filter(has_text=FINGERPRINT).last.inner_text()
        search.fill(fingerprint[:10])
        assert page.locator(".result").inner_text() == "1 found"
        search.fill("no such thing")
        assert page.locator(".result").inner_text() == "Nothing found"
        search.press("Escape")
        ready(page)
        assert search.input_value() == "" and not pixels(page, TIMELINE, "faint")


def test_link_to_a_view(browser: Browser, frames: Path) -> None:
    """The address has the part of the run that is shown and the selected pipeline. Opened again it shows both."""
    with opened(browser, frames) as page:
        ready(page)
        keys(page, "n")
        page.locator(".panel li button").first.click()
        view, title = shown(page), page.locator(".panel h4").inner_text()
        link = page.evaluate("location.hash")
        assert link.startswith("#t=") and "&p=" in link
    context = browser.new_context(**DESKTOP)
    page = context.new_page()
    page.goto(frames.as_uri() + link)
    ready(page)
    assert shown(page) == view and page.locator(".panel h4").inner_text() == title
    context.close()


def test_pointer(browser: Browser, frames: Path) -> None:
    """The wheel zooms where the pointer is and, in the whole run, scrolls the page; a drag moves; a click selects; two
    fingers zoom."""
    with opened(browser, frames) as page:
        ready(page)
        box = page.locator(TIMELINE).bounding_box()
        assert box
        left, wide, y = box["x"] + 46, box["width"] - 70, box["y"] + 100
        page.mouse.move(left + wide / 2, y)
        page.mouse.wheel(0, 100)
        until(page, lambda: page.evaluate("scrollY") == 100)
        page.mouse.wheel(0, -100)
        until(page, lambda: "Shown:" in shown(page))
        before = page.evaluate("location.hash")
        page.evaluate("scrollTo(0, 0)")
        page.mouse.move(left + wide / 2, y)
        page.mouse.down()
        page.mouse.move(left + wide / 2 - 200, y, steps=4)
        page.mouse.up()
        shown(page)
        moved = page.evaluate("location.hash")
        start, end = ([float(number) for number in link.removeprefix("#t=").split(",")] for link in (before, moved))
        assert end[0] > start[0] and end[1] - end[0] == pytest.approx(start[1] - start[0], rel=0.01)
        assert page.locator(".panel").is_hidden()
        page.mouse.click(left + wide / 2, box["y"] + 140)
        assert page.locator(".panel h4").inner_text().startswith("Frame ")
        page.evaluate(
            """([x, y]) => {
                const place = document.querySelector(".timeline");
                place.setPointerCapture = () => {};
                const send = (type, pointerId, clientX) => place.dispatchEvent(new PointerEvent(type, {
                    pointerId, clientX, clientY: y, pointerType: "touch", bubbles: true, buttons: 1 }));
                for (const [type, apart] of [["pointerdown", 50], ["pointermove", 100], ["pointerup", 100]])
                    for (const [finger, side] of [[5, -1], [6, 1]]) send(type, finger, x + side * apart);
            }""",
            [left + wide / 2, y],
        )
        shown(page)
        closer = [float(number) for number in page.evaluate("location.hash").removeprefix("#t=").split(",")]
        assert (closer[1] - closer[0]) / (end[1] - end[0]) == pytest.approx(0.5, rel=0.05)


def test_colours_follow_the_system(browser: Browser, report: Path) -> None:
    """Where the system changes between light and dark, the page and its charts do, and show what they showed. Printed,
    tables are whole and the paper is white."""

    def background(page: Page) -> str:
        found = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert isinstance(found, str)
        return found

    with opened(browser, report, color_scheme="light") as page:
        light = background(page)
        page.locator("[data-move=in]").first.click()
        page.emulate_media(color_scheme="dark")
        # The browser tells the page of it in its own time.
        until(page, lambda: pixels(page, "#run-1 .timeline", "c1") > 0)
        assert background(page) != light
        page.locator("[data-move=later]").first.click()
        assert shown(page) == "Shown: 1 s to 2 s of 2 s."
        page.emulate_media(media="print", color_scheme="dark")
        assert background(page) == "rgb(255, 255, 255)"
        assert page.evaluate(
            "[...document.querySelectorAll('.scroll')].every((own) => own.scrollHeight <= own.clientHeight + 1)"
        )
        assert page.locator(".tools").first.is_hidden()


def test_without_javascript(browser: Browser, report: Path) -> None:
    """The tables are there, a line says what is not, and no control that would do nothing."""
    with opened(browser, report, java_script_enabled=False) as page:
        assert page.get_by_text("draws its charts with JavaScript").is_visible()
        assert page.locator("table").count() == 5 and page.locator("button:visible, select:visible").count() == 0
        assert page.locator(".no-js", has_text="0.950 s").first.is_visible()


def test_real_programs(browser: Browser, quick: World, tmp_path: Path) -> None:
    """The page of real runs has a bar for each pipeline that was compiled, and no errors."""
    for count in (10, 15):
        quick.demo("--count", count)
    with opened(browser, write_page(quick.store, tmp_path / "real.html")) as page:
        for run, compiled in ((1, 10), (2, 5)):
            assert page.locator(f"#run-{run}-slow ~ .scroll").first.locator("tbody tr").count() == compiled
            assert sum(pixels(page, f"#run-{run} .timeline", f"c{level}") for level in range(4))
