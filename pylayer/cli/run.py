"""``pylayer run``: starts one program under the layer. Nothing needs to be installed."""

from __future__ import annotations

import os

import click

from ..common.files import unique_name
from ..common.paths import config_files, make_private, require_own, store_root
from .environment import LOG_LEVELS, obstacles, with_layer
from .output import Failure, WrongUse, fail, files
from .policy_in_force import read_policies
from .process import program_argument, replace_by, wait_for
from .summary import print_summary


def _check_policy(path: str) -> None:
    """Raises WrongUse if the layer would not accept a policy file, or a policy class beside it."""
    from ..common.config import read  # imports PyYAML, which is needed only here

    try:
        if read(path).get("policy"):
            require_own(os.path.dirname(os.path.abspath(path)))
    except (OSError, ValueError) as error:
        raise WrongUse(f"{error}; nothing was started") from error


def _environment(root: str | None) -> tuple[dict[str, str], bool]:
    """Returns the program's environment, and whether the program runs under the layer. If the layer cannot be used, the
    program still starts, and one line says why."""
    environment = dict(os.environ)
    try:
        status = os.fstat(2)
        environment["PYLAYER_STDERR"] = f"{status.st_dev}:{status.st_ino}"  # for what people must know: inhost/learning
    except OSError:
        pass
    is_on = False
    try:
        if root is None:
            raise Failure("neither HOME, XDG_CACHE_HOME nor PYLAYER_STORE is set; set one")
        make_private(root)
        changed = with_layer(environment)
        for found, advice in obstacles(changed):
            raise Failure(f"{found}. {advice}")
        environment, is_on = changed, True
    except Failure as failure:
        fail(f"the program runs without the layer: {failure.message}")
    except OSError as error:
        problem = f"{root} cannot be used as store ({error.strerror or error}); set PYLAYER_STORE to another"
        fail(f"the program runs without the layer: {problem}")
    return environment, is_on


@click.command(
    context_settings={"allow_interspersed_args": False},
    epilog="Exit status: the program's own; 127 if it is not found, 126 if it cannot be executed, "
    "128 + n with --summary if signal n ended it, 2 usage error.",
)
@click.option("--policy", metavar="FILE", shell_complete=files, help="Policy file for this run (PYLAYER_CONFIG).")
@click.option(
    "--preset",
    metavar="NAME",
    help="A preset instead of a policy file; docs/policy.md lists them.",
)
@click.option("--log", type=click.Choice(LOG_LEVELS), help="What the layer writes to standard error (PYLAYER_LOG).")
@click.option("--summary", is_flag=True, help="Wait for the program, then print its statistics to standard error.")
@program_argument
def run(
    policy: str | None,
    preset: str | None,
    log: str | None,
    summary: bool,
    command: tuple[str, ...],
) -> None:
    """Run a program under the layer, without installing anything.

    \b
    Example:
      pylayer run --log warn -- vkcube --c 100
    As a Steam launch option:
      pylayer run -- %command%
    """
    if policy and preset:
        raise WrongUse(f"--policy and --preset are both given; write 'preset: {preset}' into {policy} to have both")
    if preset:
        from ..common.config import preset_names, preset_path

        if preset not in preset_names():
            raise WrongUse(f"there is no preset {preset}; the presets are {', '.join(preset_names())}")
        policy = preset_path(preset)
    policy = os.path.abspath(policy) if policy else None
    if policy:
        _check_policy(policy)
    given = {"PYLAYER_CONFIG": policy, "PYLAYER_LOG": log}
    os.environ.update({variable: value for variable, value in given.items() if value})
    in_force, root = config_files()[1], store_root()
    environment, is_on = _environment(root)
    _, problems = read_policies(config_files()[0], in_force, root if is_on else None)
    for problem in problems:
        fail(problem)
    if not summary:
        replace_by(list(command), environment)
    session = environment["PYLAYER_SESSION"] = unique_name()  # other programs may begin meanwhile
    status = wait_for(list(command), environment)
    print_summary(root, session, command[0], environment)
    raise click.exceptions.Exit(status)
