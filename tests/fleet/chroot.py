"""A machine with nothing but the wheel, a driver and the URL: ``make fleet-chroot``, as root.

In a chroot of its own, with an empty home, the installed wheel of dist/ pulls from nginx what a builder outside
published, and runs a program that compiles nothing. Of the machine outside it has the system's libraries and driver,
and the Python that the wheel is for, all read-only. It has no CA certificates.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from cli.user import DEMO, User
from fleet.fleets import nginx
from world import ROOT, driver_environment

COUNT = 200
#: In a mount namespace of its own: what is mounted, then the command, with nothing of this process's environment.
INSIDE = """
set -eu
root=$1; shift
for place in /usr /etc/vulkan "$PYTHON_AT" "$PROGRAM_AT"; do
    [ -d "$place" ] || continue
    mkdir -p "$root$place"
    mount --bind "$place" "$root$place"
    mount -o remount,bind,ro "$root$place"
done
mount -t proc proc "$root/proc"
exec chroot "$root" /usr/bin/env -i "$@"
"""


def make_root(directory: Path, wheel: Path) -> Path:
    """Returns a root directory with the wheel installed in /opt/pylayer."""
    root = directory / "root"
    for name in ("proc", "tmp", "home", "opt", "dev", "etc"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64", "sbin"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "dev" / "null").touch(0o666)
    subprocess.run([sys.executable, "-m", "venv", root / "opt" / "pylayer"], check=True)
    pip = [root / "opt" / "pylayer" / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    subprocess.run([*pip, f"{wheel}[fleet]"], check=True)
    return root


def run_inside(root: Path, *command: str) -> str:
    """Runs a command in the chroot; returns its output."""
    outside = {
        **os.environ,
        "PYTHON_AT": sysconfig.get_config_var("prefix"),
        "PROGRAM_AT": str(DEMO.parent),
    }
    variables = {**driver_environment("radv"), "HOME": "/home", "PATH": "/usr/bin"}
    words = [f"{name}={value}" for name, value in variables.items()]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", INSIDE, "sh", root, *words, *command],
        env=outside, cwd="/", capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"fleet-chroot: {' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    """Publishes outside, pulls and runs inside."""
    wheels = sorted((ROOT / "dist").glob("*.whl"))
    if not wheels or os.geteuid():
        sys.exit("fleet-chroot: needs a wheel in dist/ (make wheel), and root for the chroot")
    pylayer = ("/opt/pylayer/bin/python", "-P", "-m", "pylayer")
    with tempfile.TemporaryDirectory(prefix="pylayer-fleet-chroot-") as name:
        directory = Path(name)
        builder, www = User(directory), directory / "www"
        builder.demo(COUNT)
        public = builder.public_key("key", "--new")
        builder.policy_file.write_text(f"fleet: {{url: 'file://{www}'}}\n")
        builder.pylayer("export", "all", "--app", "*", "--sign", "key")
        builder.pylayer("fleet", "publish", "all", "--key", "key")
        root = make_root(directory, wheels[-1])
        with nginx(directory / "nginx", www) as url:
            policy = root / "home" / ".config" / "pylayer" / "policy.yaml"
            policy.parent.mkdir(parents=True)
            keys = [{"name": "builder", "key": public}]
            policy.write_text(json.dumps({"fleet": {"url": url, "keys": keys}}))
            print(run_inside(root, *pylayer, "fleet", "pull"), end="")
        run_inside(root, *pylayer, "run", "--", str(DEMO), "--count", str(COUNT))
        (total,) = json.loads(run_inside(root, *pylayer, "stats", "--json"))["programs"]
    print(f"In the chroot: {total['pipelines']} pipelines, {total['hits']} hits, {total['compiled']} compiled")
    sys.exit(1 if total["compiled"] or total["hits"] != COUNT else 0)


if __name__ == "__main__":
    main()
