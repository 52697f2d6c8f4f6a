"""The page of ``pylayer report --html`` in Chromium."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import recorded_runs
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright
from recorded_runs import MONOTONIC, MS, Event, cache, hits, pipeline
from report.browser import DESKTOP, PHONE, launch, marks, opened, overflow, until
from world import LAYER_NAME, NULL_HARDWARE, ROOT, World

from pylayer.report import compare, figures, page, recorded

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & 'quoted' \"twice\""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests."""
    with sync_playwright() as playwright:
        chromium = launch(playwright)
        yield chromium
        chromium.close()


def write_page(store: Path, file: Path) -> Path:
    """The page of all runs of a store, each compared with the one before it."""
    found = recorded.read(str(store))
    numbers: list[tuple[recorded.Recorded, dict[str, Any]]] = []
    for run in found:
        own = figures.of_run(str(store), found, run)
        before = recorded.earlier(found, run)
        if before is not None:
            own["against"] = compare.against(str(store), run, before, figures.FRAME_NS)
        numbers.append((run, own))
    file.write_text(page.render(str(store), numbers, figures.FRAME_NS))
    return file


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of two runs in which all there is happened, with names that do their worst."""
    tmp_path = tmp_path_factory.mktemp("report")
    names = {"program": HOSTILE, "executable": "x", "device": HOSTILE, "reason": HOSTILE, "carrier": "cells"}
    first = [
        Event("wait", MONOTONIC + 2 * MS, 3 * MS, thread=101),
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
    common: dict[str, Any] = {"kinds": kinds}
    common |= {"counters": counters, "stored_bytes": 40_000, "loaded_records": 40, "mean_compile_ns": 3.0 * MS}
    recorded_runs.write(
        tmp_path / "store", first, started=1000.0, ended=1002.0, refused={HOSTILE: 1}, **names, **common
    )
    recorded_runs.write(
        tmp_path / "store", [pipeline(10, 2, fingerprint=99), pipeline(20, 3, fingerprint=77), hits(0, 40)],
        started=2000.0, ended=2001.5, start_ticks=2, **names, **common,
    )  # fmt: skip
    return write_page(tmp_path / "store", tmp_path / "report.html")


TIMELINE = ".chart.timeline"


@pytest.mark.parametrize(
    "look", [{**DESKTOP, "color_scheme": "light"}, {**PHONE, "color_scheme": "dark"}], ids=["desktop", "phone"]
)
def test_page(browser: Browser, report: Path, look: dict[str, Any]) -> None:
    """On a light desktop and a dark phone: charts have their marks, nothing is wider than the window, no column is
    clipped, each value is below its column's name or beside it, a row has a few lines, and axe-core's rules (contrast,
    names, landmarks, headings) find nothing."""
    with opened(browser, report, **look) as page:
        assert overflow(page) == 0
        assert marks(page, TIMELINE, "k1") == 6 + 2  # graphics, of both runs
        assert marks(page, TIMELINE, "k0") == 4  # compute
        assert marks(page, TIMELINE, "stall") == 2 * 2  # a line and a triangle each
        assert marks(page, TIMELINE, "bar") >= 8 and marks(page, TIMELINE, "found") == 2
        assert marks(page, "[id$=-kinds] ~ .chart", "found") == 2 * 2
        assert marks(page, "[id$=-history] ~ .chart", "found") == 2 * 2
        script = "[...document.querySelectorAll('.scroll')].map((own) => own.scrollWidth - own.clientWidth)"
        hidden = page.evaluate(script)
        assert len(hidden) > 8 and set(hidden) == {0}
        row = page.locator("#run-2-slow ~ .scroll tbody tr").first
        said = row.locator("td").first.evaluate("(cell) => getComputedStyle(cell, '::before').content")
        phone = "is_mobile" in look
        assert ("Took" in said) == phone
        box = row.bounding_box()
        assert box and box["height"] < (100 if phone else 40)
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()


def test_texts_of_programs_are_shown_as_they_are(browser: Browser, report: Path) -> None:
    """Markup in names is text on the page, in the charts, and in what is said of a bar."""
    with opened(browser, report) as page:
        assert page.title() == f"{HOSTILE} - pylayer report"
        assert HOSTILE in page.locator("h1").inner_text()
        assert page.locator("img").count() == 0
        # The bar of 30 ms at 950 ms has the hostile entry point.
        page.locator("#run-1-stalls + .scroll [data-show]").first.click()
        boxes = [bar.bounding_box() for bar in page.locator(f"{TIMELINE} .subplot.xy .barlayer path").all()]
        box = max((box for box in boxes if box and box["height"] > 10), key=lambda box: box["width"])
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        said = page.locator(f"{TIMELINE} .hoverlayer text").first
        said.wait_for()
        assert f"entry point {HOSTILE[:64]}" in said.text_content() and "30.0 ms" in said.text_content()


FOCUSABLE = "a[href], button:enabled, select, input, [tabindex='0']"


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
    return page.locator(".shown").first.inner_text()


def press(page: Page, name: str) -> str:
    page.locator(f"[data-move={name}]").first.focus()
    page.keyboard.press("Enter")
    return shown(page)


def test_controls(browser: Browser, report: Path) -> None:
    """By keyboard: buttons and a row's time change the part of the run that is shown, which stays within the run and is
    said; a kind can be switched off and on; a column's head sorts by it, numbers by their size, the other way when it
    is used again, and says so."""
    with opened(browser, report) as page:
        assert shown(page) == "The whole run: 2 s."
        assert press(page, "in") == "Shown: 500 ms to 1.5 s of 2 s."
        assert press(page, "later") == "Shown: 1 s to 2 s of 2 s."
        assert press(page, "later") == "Shown: 1 s to 2 s of 2 s."
        assert press(page, "in") == "Shown: 1.25 s to 1.75 s of 2 s."
        assert press(page, "earlier") == "Shown: 1 s to 1.5 s of 2 s."
        assert press(page, "out") == "Shown: 750 ms to 1.75 s of 2 s."
        assert press(page, "all") == "The whole run: 2 s."

        page.locator("#run-1-stalls + .scroll [data-show]").first.focus()
        page.keyboard.press("Enter")
        assert shown(page) == "Shown: 935 ms to 995 ms of 2 s."
        assert page.locator(TIMELINE).first.is_visible()
        assert press(page, "all") == "The whole run: 2 s."

        first = page.locator(".legend").first
        assert first.locator("label").all_inner_texts() == [
            "compute",
            "graphics",
            "waiting for the store",
            "cache data judged",
        ]
        before = marks(page, TIMELINE, "k0")
        first.get_by_label("compute").focus()
        page.keyboard.press("Space")
        until(page, lambda: marks(page, TIMELINE, "k0") == 0)
        page.keyboard.press("Space")
        until(page, lambda: marks(page, TIMELINE, "k0") == before > 0)

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
        page.locator(".legend").first.get_by_label("compute").uncheck()
        page.emulate_media(color_scheme="dark")
        # The browser tells the page of it in its own time.
        until(page, lambda: marks(page, TIMELINE, "k1") == 8)
        assert background(page) != light and marks(page, TIMELINE, "k0") == 0
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
        assert page.locator("table").count() > 8 and page.locator("button:visible, select:visible").count() == 0
        assert page.locator(".no-js", has_text="0.950 s").first.is_visible()


def test_real_programs(browser: Browser, world: World, tmp_path: Path) -> None:
    """The page of real runs has a bar for each pipeline that was compiled, and no errors."""
    world.demo("--count", 10)
    world.demo("--count", 15)
    script = str(ROOT / "tests" / "programs" / "wgpu_render.py")
    world.run([sys.executable, script], VK_INSTANCE_LAYERS=f"{LAYER_NAME}:{NULL_HARDWARE}")
    with opened(browser, write_page(world.store, tmp_path / "real.html")) as page:
        titles = page.locator("article h2").all_inner_texts()
        assert len(titles) == 3 and [title.startswith("pipelines, ") for title in titles] == [True, True, False]
        rows = [page.locator(f"#run-{number}-slow ~ .scroll").first.locator("tbody tr").count() for number in (1, 2, 3)]
        assert rows == [run["counters"]["compiled"] for run in world.runs()] and rows[:2] == [10, 5]
        assert marks(page, TIMELINE, "k0") + marks(page, TIMELINE, "k1") >= 15
        assert page.locator("#run-2-against").is_visible()
