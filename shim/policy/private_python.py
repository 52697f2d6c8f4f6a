"""The private copy of CPython that the policy library links.

Why a copy. Extension modules do not say which libpython they need; they take its symbols from whatever is
in the process. Under the Vulkan loader, which opens layers RTLD_LOCAL, that is nothing, or the Python of the
program. Promoting libpython to RTLD_GLOBAL would make a Python that the program embeds later bind to ours.
Using the program's own interpreter fails too: ncnn's binding holds the GIL from vkCreateInstance to the last
pipeline, so a policy that needs this GIL could not answer one request (measured).

So the build copies libpython under another soname, and copies the standard library's extension modules and
the few packages that run in the program's process, each patched to need that soname. They bind to each other
whatever else is in the process, and hold a GIL that is nobody else's.

The standard library's Python modules come along too, compiled. A wheel is installed where the Python that built it is
not, and a container of Steam or Flatpak sees the package but has another /usr, or none of this Python in it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import py_compile
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

BUILD = Path("build/private_python")
VERSION = sysconfig.get_config_var("py_version_short")
SONAME = f"libpylayer-python{VERSION}.so.1.0"
PRIVATE_LIBRARY = BUILD / "lib" / SONAME

#: Functions and data of the C library that are the whole process's. In the copy they have other names, with pylayer_
#: before them, and isolation.c has what is called instead.
REPLACED = {
    **dict.fromkeys(("environ", "__environ"), "environ"),
    **dict.fromkeys(("setenv", "unsetenv", "clearenv", "tzset"), "nothing"),
    **dict.fromkeys(("gmtime_r", "localtime_r"), "utc"),
    **dict.fromkeys(("exit", "_exit"), "exit"),
    **{name: name for name in ("getenv", "sigaction", "dlopen", "mktime", "abort")},
}

# What runs in the program's process besides the standard library and this package.
PACKAGES = ["_cffi_backend", "xxhash", "yaml"]

#: The distributions that these come from, whose licences go with the copies.
DISTRIBUTIONS = ["cffi", "xxhash", "PyYAML"]

#: Of the standard library: tests, windows, games, installers, and what belongs to a Python that is installed.
STDLIB_LEFT_OUT = {
    *("__phello__", "ensurepip", "idlelib", "lib2to3", "lib-dynload", "pydoc_data", "site-packages", "dist-packages"),
    *("sitecustomize.py", "test", "tests", "tkinter", "turtle.py", "turtledemo", "venv", "__pycache__"),
}

# Extension modules that policy cannot want there: tests, terminals, window systems, old databases, readers of other
# processes. And OpenSSL: a wheel would keep an outdated one after OpenSSL is fixed; hashlib works without.
LEFT_OUT = re.compile(
    r"_?(test|xx|tkinter|curses|readline|dbm|gdbm|nis|ossaudiodev|crypt|spwd|remote_debugging|ctypes_test|ssl|hashlib)"
)


class EmbeddedPython(NamedTuple):
    """Where the Python that is copied lives: absolute paths of library, modules and prefix."""

    version: str
    library: str
    stdlib: str
    dynload: str
    prefix: str


def embedded_python() -> EmbeddedPython:
    """The shared libpython of the Python that runs the build.

    Raises SystemExit with one sentence where it has none.
    """
    directory = Path(sysconfig.get_config_var("LIBDIR") or "")
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    prefix = sysconfig.get_config_var("installed_base")
    # Debian's python3 is static; its shared library comes with the package libpython3.x.
    names = [sysconfig.get_config_var("INSTSONAME") or "", f"libpython{VERSION}.so.1.0", f"libpython{VERSION}.so"]
    for place in (directory, directory / multiarch, Path("/usr/lib") / multiarch):
        for name in names:
            if ".so" in name and (place / name).exists():
                return EmbeddedPython(
                    version=VERSION,
                    library=str((place / name).resolve()),
                    stdlib=sysconfig.get_path("stdlib", vars={"installed_base": prefix}),
                    dynload=sysconfig.get_config_var("DESTSHARED"),
                    prefix=prefix,
                )
    raise SystemExit(
        f"pylayer embeds Python, and no shared libpython{VERSION} was found for {directory}; "
        f"install libpython{VERSION} (Debian, Ubuntu) or a Python built with --enable-shared"
    )


def patch(path: Path, *options: str) -> None:
    # Debug information triples the size and is in the original.
    subprocess.run(["strip", "--strip-unneeded", str(path)], check=True)
    subprocess.run(["patchelf", *options, str(path)], check=True)


def search_only(path: Path, directory: str | None) -> None:
    """Strips ``path``. Makes it look for its libraries in ``directory``, which begins with $ORIGIN, before the system's
    places, and nowhere else: a Python that is not the system's has its own directory written into all that it builds.
    That is thirty failed calls at each start, and on another machine a directory that anybody may have made."""
    patch(path, *(["--set-rpath", directory] if directory else ["--remove-rpath"]))


def package_files(package: str) -> Iterator[tuple[Path, Path]]:
    """Files of an importable package or module, each with its path below a site directory."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"the build needs the package that provides {package}")
    origin = Path(spec.origin)
    if not spec.submodule_search_locations:
        # A module of a package comes without the package around it, and what that would import.
        yield origin, Path(*package.split(".")[:-1], origin.name)
        return
    for path in sorted(origin.parent.rglob("*")):
        if path.suffix in (".py", ".so"):
            yield path, path.relative_to(origin.parent.parent)


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    if target.suffix == ".so":
        patch(target, "--add-needed", SONAME)
        search_only(target, "$ORIGIN/" + os.path.relpath(PRIVATE_LIBRARY.parent, target.parent))


def compile_stdlib(stdlib: Path, target: Path) -> None:
    """The modules as code alone. Whether it is still the source's is not asked at each start, because there is none;
    and no path of this machine is in it."""
    for source in sorted(stdlib.rglob("*.py")):
        relative = source.relative_to(stdlib)
        if not STDLIB_LEFT_OUT.isdisjoint(relative.parts) or relative.parts[0].startswith("config-"):
            continue
        compiled = target / relative.with_suffix(".pyc")
        compiled.parent.mkdir(parents=True, exist_ok=True)
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        # Level 0: policy classes may look at docstrings, and rely on asserts.
        py_compile.compile(
            str(source), str(compiled), f"stdlib/{relative}", doraise=True, optimize=0, invalidation_mode=mode
        )


def copy_licences(target: Path) -> None:
    """What the licences of the copied Python and packages ask for: their text beside the copies."""
    target.mkdir(parents=True)
    places = (
        Path(embedded_python().stdlib, "LICENSE.txt"),
        Path(f"/usr/share/doc/libpython{VERSION}/copyright"),
        Path(f"/usr/share/doc/python{VERSION}/copyright"),
    )
    python = next((path for path in places if path.is_file()), None)
    if python:
        shutil.copyfile(python, target / "Python.txt")
    for name in DISTRIBUTIONS:
        for file in importlib.metadata.files(name) or ():
            if ".dist-info" in str(file) and re.match(r"(LICEN[CS]E|COPYING)", file.name):
                shutil.copyfile(str(file.locate()), target / f"{name}-{file.name}")


def make() -> Path:
    """Makes build/private_python and returns it. Does nothing when it is there and complete."""
    done = BUILD / "complete"
    python = embedded_python()
    stamp = f"{python!r} {PACKAGES!r} {REPLACED!r} {Path(__file__).read_text()!r}"
    if done.exists() and done.read_text() == stamp:
        return BUILD
    shutil.rmtree(BUILD, ignore_errors=True)
    PRIVATE_LIBRARY.parent.mkdir(parents=True)
    shutil.copyfile(python.library, PRIVATE_LIBRARY)
    patch(PRIVATE_LIBRARY, "--set-soname", SONAME, "--remove-rpath")
    names = BUILD / "names"
    names.write_text("".join(f"{name} pylayer_{ours}\n" for name, ours in REPLACED.items()))
    patch(PRIVATE_LIBRARY, "--rename-dynamic-symbols", str(names))
    names.unlink()
    for module in sorted(Path(python.dynload).glob("*.so")):
        if not LEFT_OUT.match(module.name):
            copy(module, BUILD / "dynload" / module.name)
    for package in PACKAGES:
        for source, relative in package_files(package):
            copy(source, BUILD / "site" / relative)
    compile_stdlib(Path(python.stdlib), BUILD / "stdlib")
    copy_licences(BUILD / "licences")
    done.write_text(stamp)
    return BUILD
