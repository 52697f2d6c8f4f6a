"""One source for each number: stats, top, report and metrics say the same of a real program."""

from __future__ import annotations

import pytest
from cli.test_metrics import parsed
from cli.user import User

from pylayer.report.recorded import SHOWN

#: Pipelines that the program creates in each run. It compiles all of them, and then those that the layer does not find.
COUNT = 10
#: Policy files by what is special about them, and hits and compiles of the first and the second run.
Made = tuple[int, int | None]
COLD, WARM = (0, COUNT), (COUNT, 0)
POLICIES: dict[str, tuple[str, Made, Made]] = {
    "default": ("", COLD, WARM),
    "observe": ("settings: {carrier: observe}\n", COLD, COLD),
    "off": ("settings: {carrier: 'off'}\n", (0, None), (0, None)),
}


@pytest.mark.parametrize(("policy", "first", "second"), POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("api", ["1.1", "1.3"])
def test_commands_agree(user: User, policy: str, first: Made, second: Made, api: str) -> None:
    """What was created, found, compiled and refused is what the program did, and the same in stats, top, report and
    metrics, in their JSON and in their text, as is how long that took. What nobody knows is a question mark and
    null."""
    user.policy_file.write_text(policy)
    cache = user.directory / "cache"
    for run in (first, second):
        cache.write_bytes(b"nonsense" * 100)
        user.demo(COUNT, "--api", api, "--feedback", "--cache", cache)
        (stats,) = user.json("stats", "--last")["programs"]
        top = user.json("stats", "--watch")["programs"][0]
        (report,) = user.json("report")["runs"]
        for key in SHOWN:
            assert stats[key] == top[key] == report[key], (run, key)
        assert (stats["pipelines"], stats["hits"], stats["compiled"]) == (COUNT, *run)
        assert stats["refused_caches"] == 1
        row = user.pylayer("stats", "--last").stdout.splitlines()[3].split()
        numbers = [stats[key] for key in ("pipelines", "hits", "compiled", "refused_caches")]
        assert row[2:6] == ["?" if number is None else str(number) for number in numbers]
        assert stats["saved_estimate_ns"] == report["saved_estimate_ns"]
    (total,) = user.json("stats")["programs"]
    found = parsed(user.pylayer("stats", "--prometheus").stdout)
    summed = {name: sum(samples.values()) for name, samples in found.items()}
    assert summed["pylayer_pipelines_total"] == total["pipelines"] == 2 * COUNT
    assert summed.get("pylayer_pipeline_hits_total", 0) == total["hits"]
    assert summed["pylayer_pipelines_unknown_total"] == total["unknown_pipelines"]
    assert (total["compiled"] is None) == (total["compile_ns"] is None) == (total["unknown_pipelines"] > 0)
    assert summed.get("pylayer_pipeline_compiles_total", 0) == (total["compiled"] or 0)
    assert round(summed.get("pylayer_pipeline_compile_seconds_total", 0) * 1e9) == (total["compile_ns"] or 0)
    verdicts = found.get("pylayer_cache_data_total", {})
    assert sum(count for key, count in verdicts.items() if ("verdict", "refused") in key) == total["refused_caches"]
