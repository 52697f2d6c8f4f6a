"""How smoothly the report's page pans in Chromium, with 20,000 pipelines and 100,000 frames: `make page-speed`.

python speed.py [FILE]      FILE: where the page stays
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from playwright.sync_api import Page, sync_playwright
from report.browser import DESKTOP, launch, ready
from report.made_up import write_page

#: Pans by a few pixels in each frame that the browser gives, there and back, and returns the milliseconds between
#: frames.
PAN = """async (count) => {
    const place = document.querySelector(".timeline"), box = place.getBoundingClientRect();
    const send = (type, x) => place.dispatchEvent(new PointerEvent(type, {
        pointerId: 1, pointerType: "touch", clientX: x, clientY: box.top + 60, bubbles: true, button: 0, buttons: 1 }));
    place.setPointerCapture = () => {};
    const next = () => new Promise(requestAnimationFrame), middle = box.left + box.width / 2;
    const between = [];
    send("pointerdown", middle);
    let last = await next();
    for (let frame = 0; frame < count; frame++) {
        send("pointermove", middle + 300 * Math.sin(frame / 20));
        const now = await next();
        between.push(now - last);
        last = now;
    }
    send("pointerup", middle);
    return between;
}"""


def measured(page: Page, share: float, count: int = 300) -> str:
    """A line about panning while this share of the run is shown."""
    page.evaluate("location.hash = ''")
    length = page.evaluate("document.querySelector('.shown').textContent").split(": ")[1].split()[0]
    end = float(length) * (0.3 + share)
    page.evaluate(f"location.hash = '#t={float(length) * 0.3},{end}'")
    page.wait_for_timeout(500)
    before = processor_ms()
    times = page.evaluate(PAN, count)
    work = processor_ms() - before
    late = sum(own > 17.5 for own in times)
    return (
        f"{share:6.1%} of the run shown: {1000 * count / sum(times):5.1f} frames a second, median "
        f"{statistics.median(times):.1f} ms, 99th percentile {sorted(times)[int(0.99 * count)]:.1f} ms, {late} of "
        f"{count} above 17.5 ms; {work / count:.1f} ms of processor time for each, in all of the browser's threads"
    )


def processor_ms() -> float:
    """Processor time of all processes below this one. Unlike the times between frames it means something on a machine
    that does other work."""
    parents: dict[int, int] = {}
    spent: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            values = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(path.parent.name)] = int(values[1])
        spent[int(path.parent.name)] = int(values[11]) + int(values[12])

    def is_below(process: int) -> bool:
        while process in parents and process != os.getpid():
            process = parents[process]
        return process == os.getpid()

    own = sum(ticks for process, ticks in spent.items() if is_below(process) and process != os.getpid())
    return 1000 * own / os.sysconf("SC_CLK_TCK")


def main() -> None:
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        file = Path(sys.argv[1] if len(sys.argv) > 1 else f"{name}/report.html").resolve()
        write_page(file, 20_000, 1000, 100_000)
        print(f"20,000 pipelines, 100,000 frames: a page of {file.stat().st_size:,} bytes")
        browser = launch(playwright)
        page = browser.new_page(**DESKTOP)
        page.goto(file.as_uri())
        ready(page)
        opened = page.evaluate("performance.now()")
        print(f"ready {opened:.0f} ms after it was opened")
        measured(page, 0.05, 60)  # after which its scripts are compiled
        for share in (0.9, 0.3, 0.05, 0.001):
            print(measured(page, share), flush=True)
        browser.close()


if __name__ == "__main__":
    main()
