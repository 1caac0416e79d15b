"""``segue account``: the accounts in the configuration."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from segue.cli.account_switch import audit, switch
from segue.cli.caller import open_here
from segue.cli.options import complete_accounts, complete_agents
from segue.cli.render.output import say, say_json, width_of
from segue.core.errors import Misuse

if TYPE_CHECKING:
    from segue.app.account_shapes import AccountDetails, AccountShown
    from segue.app.workspace import Workspace
    from segue.core.usage import LimitShown

NAME = click.argument("name", shell_complete=complete_accounts)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
REFRESH = click.option(
    "--refresh",
    is_flag=True,
    help="First ask the CLI for its limits, if it can tell them without a model.",
)


@click.group("account", short_help="Manage accounts.")
def command() -> None:
    """Add, show, bind or remove accounts, and log in to them.

    An account is a named identity of an agent: the home in which its CLI keeps its login and its sessions,
    and variables. Accounts are in config.toml; the rest of that file is not changed. Credentials are never
    copied or changed; only who is logged in is read.

    \b
      segue account add work --agent claude --home ~/.claude-work
      segue account login work
      segue account bind work ~/work
    """


@command.command("ls", short_help="List the accounts.")
@REFRESH
@JSON
def ls(refresh: bool, as_json: bool) -> None:
    """List the accounts: their agents, homes, defaults, directories, and how much of their limits is used."""
    from segue.app.segue_accounts import listed

    with open_here() as workspace:
        if refresh:
            _refresh(workspace, sorted(workspace.config.accounts))
        found = listed(workspace)
    if as_json:
        say_json(found)
    elif not found:
        say("No accounts. Each agent uses its own login. See: segue account add --help", err=True)
    else:
        _table(found)


@command.command("show", short_help="Show an account, and who it is.")
@NAME
@REFRESH
@JSON
def show(name: str, refresh: bool, as_json: bool) -> None:
    """Show the account NAME, and a fingerprint of who it is: hashes and names only, no secrets."""
    from segue.app import accounts

    with open_here() as workspace:
        if refresh:
            _refresh(workspace, [name])
        details = accounts.with_limits(workspace, accounts.show(workspace.env, workspace.cwd, name))
    _say_details(details, as_json)


@command.command("add", short_help="Add an account.")
@click.argument("name")
@click.option("--agent", required=True, metavar="A", shell_complete=complete_agents, help="Its agent.")
@click.option(
    "--home",
    metavar="DIR",
    type=click.Path(),
    help="Where its CLI keeps login and sessions. Default: as usual.",
)
@click.option(
    "--env", "variables", multiple=True, metavar="N=V", help="Set a variable for the agent. Repeatable."
)
@click.option(
    "--pass-env", multiple=True, metavar="N", help="Pass this variable of yours on to the agent. Repeatable."
)
@JSON
def add(
    name: str,
    agent: str,
    home: str | None,
    variables: tuple[str, ...],
    pass_env: tuple[str, ...],
    as_json: bool,
) -> None:
    """Add the account NAME to config.toml.

    The values of --env are written to config.toml as they are. For a key, use --pass-env: it names a variable
    of yours, whose value is written nowhere.
    """
    from segue.app import accounts
    from segue.core.environment import looks_secret

    given = dict(_pair(each) for each in variables)
    details = accounts.add(
        os.environ, Path.cwd(), name, agent=agent, home=home, variables=given, pass_env=pass_env
    )
    for secret in filter(looks_secret, given):
        say(
            f"segue: {secret} is in config.toml now, in plain text; --pass-env {secret} would not store it",
            err=True,
        )
    _say_details(details, as_json)


@command.command("rm", short_help="Remove an account.")
@NAME
@JSON
def rm(name: str, as_json: bool) -> None:
    """Remove the account NAME from config.toml. Its home, its login and its sessions stay.

    If it has carry_out = "never", its name is written to [carry] closed: what was said under it is still
    never carried over.
    """
    from segue.app import accounts

    accounts.rm(os.environ, name)
    if as_json:
        say_json({"removed": name})
    else:
        say(f"Removed {name}. Its home and its login are still there.", err=True)


@command.command("login", short_help="Log in with the agent's own command.")
@NAME
@JSON
def login(name: str, as_json: bool) -> None:
    """Run the login command of the agent's CLI, in the home of the account NAME and in this terminal."""
    import subprocess

    from segue.app import accounts

    process = accounts.login(os.environ, Path.cwd(), name)
    process.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    say(f"segue: {process.shell}", err=True)
    sys.stdout.flush()
    code = subprocess.call(process.argv, env=process.env, stdout=sys.stderr if as_json else None)
    if code != 0:
        raise click.exceptions.Exit(_failed(process.argv, code))
    details = accounts.show(os.environ, Path.cwd(), name)
    if details.problem is not None:
        raise Misuse(details.problem)
    _say_details(details, as_json)


@command.command("default", short_help="Make an account its agent's default.")
@NAME
@click.option("--remove", is_flag=True, help="It is no longer the default.")
@JSON
def default(name: str, remove: bool, as_json: bool) -> None:
    """Use the account NAME whenever its agent is used and no account is named."""
    from segue.app import accounts

    details = accounts.default(os.environ, Path.cwd(), name, remove=remove)
    if as_json:
        say_json(details)
    else:
        say(f"{name} is {'no longer ' if remove else ''}the default account of {details.agent}.", err=True)


@command.command("bind", short_help="Use an account in a directory.")
@click.argument("name", required=False, shell_complete=complete_accounts)
@click.argument("directory", required=False, type=click.Path())
@click.option(
    "--remove", is_flag=True, help="Use no account there any longer: segue account bind --remove [DIR]."
)
@JSON
def bind(name: str | None, directory: str | None, remove: bool, as_json: bool) -> None:
    """Use the account NAME in DIRECTORY (default: here) and below it.

    It is used if neither an option nor the conversation names an account. The nearest bound directory counts.
    """
    from segue.app import accounts

    if remove:
        if directory is not None:
            raise Misuse("with --remove, name only the directory: segue account bind --remove [DIR]")
        name, directory = None, name
    elif name is None:
        raise Misuse("name the account: segue account bind NAME [DIR]")
    found = accounts.bind(os.environ, Path.cwd(), name, directory)
    if as_json:
        say_json(found)
        return
    place = os.path.realpath(directory or ".")
    say(f"{place} is no longer bound." if name is None else f"{place} uses {name}.", err=True)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise Misuse(f'--env needs NAME=VALUE, not "{text}"; to pass on a variable of yours, use --pass-env')
    return name, value


def _refresh(workspace: Workspace, names: list[str]) -> None:
    """Where a CLI does not tell, what was seen before is shown."""
    from segue.app import accounts
    from segue.core.errors import SegueError

    for name in names:
        try:
            why_not = accounts.refresh(workspace, name).why_not
        except SegueError as error:
            if len(names) == 1:
                raise
            why_not = error.message
        if why_not is not None:
            say(f"segue: {name}: {why_not}", err=True)


def _failed(argv: tuple[str, ...], code: int) -> int:
    say(f"segue: {Path(argv[0]).name} did not log in (exit code {code})", err=True)
    return 130 if code in (130, -2) else 1


def _table(found: list[AccountShown]) -> None:
    from segue.cli.render.table import table_lines
    from segue.cli.render.words import below_home

    rows = [("account", "agent", "", "limits", "home and directories")]
    for each in found:
        places = [below_home(each.home)] if each.home else ["usual home"]
        places += [f"in {below_home(one)}" for one in each.directories]
        used = ", ".join(f"{one.window} {one.used:.0%}" for one in each.limits or () if one.used is not None)
        chosen = "default" if each.default else ""
        rows.append((each.name, each.agent, chosen, used or "–", ", ".join(places)))
    for line in table_lines(rows, width_of(sys.stdout), least=(2,)):
        say(line)


def _limit(limit: LimitShown) -> str:
    from segue.cli.render.words import moment

    until = f", resets {moment(limit.resets_at)}" if limit.resets_at is not None else ""
    used = "unknown" if limit.used is None else f"{limit.used:.0%} used"
    return f"{limit.window} {used}{until}"


def _say_details(shown: AccountDetails, as_json: bool) -> None:
    from segue.cli.render.words import below_home, money, one_line
    from segue.core.limits import PAYER

    if as_json:
        say_json(shown)
        return
    print_ = shown.fingerprint
    rows = {
        "account": shown.name + (f" (default of {shown.agent})" if shown.default else ""),
        "agent": shown.agent,
        "home": below_home(shown.home) if shown.home else "usual home",
        "sets": ", ".join(shown.env),
        "passes on": ", ".join(shown.pass_env),
        "budget": "" if shown.budget is None else f"{money(shown.budget)} a day",
        "limits": ", ".join(_limit(each) for each in shown.limits or ()),
        "paid by": "" if shown.pays == "unknown" else PAYER[shown.pays],
        "carries": f"out: {shown.carry_out}, in: {shown.carry_in}",
        "never": f"to or from {', '.join(shown.never)}" if shown.never else "",
        "at a limit": shown.on_limit,
        "used in": ", ".join(map(below_home, shown.directories)),
        "login": "" if print_ is None else f"{print_.login[:8]} ({print_.method})",
        "route": "" if print_ is None else ", ".join(print_.route),
        "log in": f"segue account login {shown.name}" if shown.login_command else "",
        "problem": one_line(shown.problem or ""),
    }
    for title, text in rows.items():
        if text:
            say(f"{title:<10} {one_line(text)}")


command.add_command(switch)
command.add_command(audit)
