"""One source for each number: stats, top, report and metrics say the same of a real program."""

from __future__ import annotations

import pytest
from cli.test_metrics import parsed
from cli.user import User

from pylayer.report.totals import SHOWN

#: Policy files by what is special about them, and the demo's arguments.
POLICIES = {
    "default": "",
    "observe": "settings: {carrier: observe}\n",
    "observe without timeline": "settings: {carrier: observe, timeline_mib: 0}\n",
    "off": "settings: {carrier: 'off'}\n",
    "snapshot": "settings: {carrier: snapshot}\n",
    "without timeline": "settings: {timeline_mib: 0}\n",
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("api", ["1.1", "1.3"])
def test_commands_agree(user: User, policy: str, api: str) -> None:
    """What was created, found, compiled and refused, and how long that took, is the same in stats, top, report and
    metrics, in their JSON and in their text. Where each pipeline is probed, it was either found or compiled. What
    nobody knows is a question mark and null."""
    user.policy_file.write_text(policy)
    cache = user.directory / "cache"
    for run in range(2):
        cache.write_bytes(b"nonsense" * 100)
        user.demo(10, "--api", api, "--feedback", "--cache", cache)
        (stats,) = user.json("stats", "--last")["programs"]
        top = user.json("top")["programs"][0]
        (report,) = user.json("report")["runs"]
        for key in SHOWN:
            assert stats[key] == top[key] == report[key], (run, key)
        if "carrier" not in policy:  # other carriers do not probe
            assert stats["pipelines"] == 10 == stats["hits"] + stats["compiled"]
        row = user.pylayer("stats", "--last").stdout.splitlines()[3].split()
        numbers = [stats[key] for key in ("pipelines", "hits", "compiled", "refused_caches")]
        assert row[2:6] == ["?" if number is None else str(number) for number in numbers]
        assert stats["saved_estimate_ns"] == report["saved_estimate_ns"]
    (total,) = user.json("stats")["programs"]
    found = parsed(user.pylayer("metrics").stdout)
    summed = {name: sum(samples.values()) for name, samples in found.items()}
    assert summed["pylayer_pipelines_total"] == total["pipelines"] == 20
    assert summed.get("pylayer_pipeline_hits_total", 0) == total["hits"]
    assert summed["pylayer_pipelines_unknown_total"] == total["unknown_pipelines"]
    assert (total["compiled"] is None) == (total["compile_ns"] is None) == (total["unknown_pipelines"] > 0)
    assert summed.get("pylayer_pipeline_compiles_total", 0) == (total["compiled"] or 0)
    assert round(summed.get("pylayer_pipeline_compile_seconds_total", 0) * 1e9) == (total["compile_ns"] or 0)
    verdicts = found.get("pylayer_cache_data_total", {})
    assert sum(count for key, count in verdicts.items() if ("verdict", "refused") in key) == total["refused_caches"]
