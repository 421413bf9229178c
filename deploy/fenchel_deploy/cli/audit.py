"""`fenchel audit`: who saw which values of a run, how the privacy levels differ, and what attacks find out."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from fenchel_common import defaults
from fenchel_common.data.heterogeneous import Split
from fenchel_common.errors import InvalidInput
from fenchel_common.leakage import Visibility
from fenchel_deploy.audit import CLASS_WORDS, SERVER, Account, Audit, Classes, Fields, audit_of, words_for
from fenchel_deploy.cli.choices import parse_choice, parse_grid, parse_local, usual_grid
from fenchel_deploy.cli.console import terminal
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.cli.manual import epilog
from fenchel_deploy.cli.output import print_json, printable

ALL_ATTACKS = "all"
TOP_FIELDS = 3
"""How many fields the table names for each class; JSON has all."""
ATTACK_COLUMNS = ("attack", "who", "level", "setting", "succeeds", "score", "measure", "claim", "note")
FORGERY_COLUMNS = (
    "algorithm",
    "level",
    "cipher",
    "kind",
    "random",
    "random_accepted",
    "chosen",
    "chosen_accepted",
    "sound",
)
FORGERIES = 100_000
CHOSEN_FORGERIES = 1_000
"""The usual number of random tamperings of each kind of message, and the most chosen ones."""
LEAKS = "leaks"
"""The claim that an attack succeeds; the other claim, safe, is that it fails."""


class Format(StrEnum):
    """The forms in which an audit can be printed."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


@dataclass(frozen=True, slots=True)
class Section:
    """A table with its title."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def register(app: typer.Typer) -> None:
    app.command("audit", epilog=epilog("audit"))(audit)


def audit(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN|LEVEL", help="A run's id, or its name at its server; privacy levels with --compare."
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The state folder of a server, or of a party."),
    ] = None,
    levels: Annotated[
        bool, typer.Option("--compare", help="Run a small federation at each LEVEL and put the ledgers side by side.")
    ] = False,
    attacks: Annotated[
        list[str] | None,
        typer.Option("--attack", metavar="NAME", help="Try an attack, or all of them: 'all'. Repeatable."),
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="List the attacks.")] = False,
    forgery: Annotated[
        bool,
        typer.Option("--forgery", help="Tamper with sums of every kind of message; count those accepted."),
    ] = False,
    count: Annotated[
        int, typer.Option(min=1, help="With --forgery: random tamperings of each kind, and up to 1000 chosen ones.")
    ] = FORGERIES,
    seed: Annotated[int, typer.Option(help="With --forgery: the seed of the tamperings.")] = 0,
    output: Annotated[Format, typer.Option("--format", help="For people, programs, or a page.")] = Format.TABLE,
    algorithm: Annotated[str, typer.Option(help="With --compare: the algorithm.")] = defaults.ALGORITHM,
    local: Annotated[str, typer.Option(help="With --compare: HyFDCA's corrective, paper or theory.")] = defaults.LOCAL,
    grid: Annotated[str | None, typer.Option(help="With --compare: KxQ as in 'fenchel demo'.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="With --compare: how many rounds.")] = defaults.COMPARED_ROUNDS,
) -> None:
    """Show who saw what: how many values, in clear or encrypted, in which messages.

    Every field of every message declares what its values are; a run counts the values by this declaration. The counts
    are in the state folders: the server's folder has the counts of all roles, a party's folder those of the party.
    Vectors count in whole blocks, empty slots included. A campaign of forgeries, with both ciphers, takes a quarter of
    an hour on two processors, and a minute or two with --count 1000.
    """
    if listing or attacks:
        _only_one_thing(words or state or levels)
        _list_attacks(output) if listing else _attack(attacks or [], output)
    elif forgery:
        _only_one_thing(words or state or levels)
        _forge(output, count=count, seed=seed)
    elif levels:
        _only_one_thing(state)
        _compare(words or [], output, algorithm=algorithm, local=local, grid=grid, rounds=rounds)
    else:
        if state is None:
            raise InvalidInput("--state: name the state folder of a server or of a party (or see --help)")
        if len(words or []) > 1:
            raise InvalidInput("RUN: one run at a time")
        _show(audit_of(state, words[0] if words else None), output)


def _only_one_thing(rest: object) -> None:
    if rest:
        raise InvalidInput("a run, --compare, --attack and --forgery are four commands; give one of them")


def _show(audited: Audit, output: Format) -> None:
    if output is Format.JSON:
        print_json({"run": audited.run, **audited.about, "roles": _roles(audited)})
        return
    facts = ", ".join(f"{name} {value}" for name, value in audited.about.items())
    _print(f"Run {audited.run} ({facts})", [_account_section(account, audited) for account in audited.accounts], output)


def _account_section(account: Account, audited: Audit) -> Section:
    if account.role == SERVER:
        title = f"What the server saw. {_verdict(account.seen(Visibility.INDIVIDUAL))}"
    elif len(audited.accounts) == 1:
        title = f"Sent: what the data of {account.role} became on the wire. Received: what {account.role} could read."
    else:
        title = f"Sent: in which form it left {account.role}. Received: what {account.role} could read."
    rows = [
        (CLASS_WORDS[kind], _total(account.received, kind), _total(account.sent, kind), _most(account, kind))
        for kind in Visibility
        if account.seen(kind)
    ]
    return Section(title, ("what", "received", "sent", "mostly"), rows)


def _verdict(individual: int) -> str:
    if not individual:
        return "No value of a single party or sample was readable to it."
    return f"{individual} values of single parties or samples were readable to it."


def _total(classes: Classes, kind: Visibility) -> str:
    return str(classes[kind].total()) if kind in classes else "–"


def _most(account: Account, kind: Visibility) -> str:
    """The fields with most values, in words; fields that came encrypted and that the role can open are marked."""
    if kind in (Visibility.PUBLIC, Visibility.TRANSPORT):
        return ""
    fields = Fields()
    for classes in (account.received, account.sent):
        fields.update(classes.get(kind, Fields()))
    opened = account.opened.get(kind, Fields())
    return "; ".join(
        f"{words_for(field)}: {count}{' (came encrypted)' if opened[field] else ''}"
        for field, count in fields.most_common(TOP_FIELDS)
    )


def _compare(
    levels: Sequence[str], output: Format, *, algorithm: str, local: str, grid: str | None, rounds: int
) -> None:
    # These modules take a second to load, and an audit of a run does not need them.
    from fenchel_common.algorithms import SETTINGS
    from fenchel_deploy.demonstration import DemonstrationOptions
    from fenchel_deploy.levels import compare

    profile = SETTINGS[parse_choice("--algorithm", algorithm, *SETTINGS)].profile
    options = DemonstrationOptions(
        algorithm=algorithm,
        local=parse_local(local),
        grid=parse_grid(grid or usual_grid(profile, Split())),
        rounds=rounds,
    )
    if len(levels) < 2:
        raise InvalidInput("--compare: name at least two levels, such as: fenchel audit --compare plain paper sealed")
    with tempfile.TemporaryDirectory(prefix="fenchel-audit-") as scratch:
        audits = compare(
            levels, options, directory=Path(scratch), tell=lambda level: typer.echo(f"running {level} …", err=True)
        )
    if output is Format.JSON:
        roles = {level: _roles(audited) for level, audited in audits.items()}
        print_json({"algorithm": algorithm, "rounds": rounds, "levels": roles})
        return
    what = f"{algorithm}, {rounds} rounds, {options.dataset}, {options.grid[0]}x{options.grid[1]} parties"
    sections = [
        _side_by_side("Values that the server saw, received and sent", audits, _server_saw),
        _side_by_side("Values that the parties together could read of what they received", audits, _parties_read),
        _readable_to_server(audits),
    ]
    _print(what, sections, output)


def _server_saw(audited: Audit, kind: Visibility) -> int:
    return audited.account(SERVER).seen(kind)


def _parties_read(audited: Audit, kind: Visibility) -> int:
    parties = [account for account in audited.accounts if account.role != SERVER]
    return sum(account.received.get(kind, Fields()).total() for account in parties)


def _side_by_side(title: str, audits: Mapping[str, Audit], count: Callable[[Audit, Visibility], int]) -> Section:
    rows = [
        (CLASS_WORDS[kind], *(str(count(audited, kind)) for audited in audits.values()))
        for kind in Visibility
        if any(count(audited, kind) for audited in audits.values())
    ]
    return Section(title, ("what", *audits), rows)


def _readable_to_server(audits: Mapping[str, Audit]) -> Section:
    """The values of a single party or sample that the server could read, by meaning and level."""
    counts = {level: _individual(audited.account(SERVER)) for level, audited in audits.items()}
    names = list(dict.fromkeys(words for fields in counts.values() for words, _ in fields.most_common()))
    rows = [(words, *(str(fields[words]) for fields in counts.values())) for words in names]
    return Section("Of these, readable to the server and of one party or one sample", ("what", *audits), rows)


def _individual(account: Account) -> Fields:
    fields = Fields()
    for classes in (account.received, account.sent):
        for field, count in classes.get(Visibility.INDIVIDUAL, Fields()).items():
            fields[words_for(field)] += count
    return fields


def _attack(names: Sequence[str], output: Format) -> None:
    from fenchel_deploy.attacks import ATTACKS, markdown, run_attacks

    if unknown := [name for name in names if name not in (ALL_ATTACKS, *ATTACKS)]:
        raise InvalidInput(f"--attack: {unknown[0]!r} is not one of: {ALL_ATTACKS}, {', '.join(ATTACKS)}")
    chosen = None if ALL_ATTACKS in names else list(names)
    found = run_attacks(chosen, tell=lambda name: typer.echo(f"trying {name} …", err=True))
    if output is Format.JSON:
        print_json(found)
    elif output is Format.MARKDOWN:
        typer.echo(markdown(found), nl=False)
    else:
        rows = [tuple(_cell(row[column]) for column in ATTACK_COLUMNS) for row in found]
        _print("Attacks", [Section("", ATTACK_COLUMNS, rows)], output)
    if any((row["claim"] == LEAKS) != row["succeeds"] for row in found):
        typer.echo("an attack did not end as the documentation claims", err=True)
        raise typer.Exit(ExitCode.MISSED)


def _forge(output: Format, *, count: int, seed: int) -> None:
    from fenchel_deploy.forgery.campaign import as_rows, campaign

    counts = campaign(random=count, chosen=min(count, CHOSEN_FORGERIES), seed=seed)
    rows = as_rows(counts)
    if output is Format.JSON:
        print_json(rows)
    else:
        cells = [tuple(_cell(row[column]) for column in FORGERY_COLUMNS) for row in rows]
        section = Section("", FORGERY_COLUMNS, cells)
        _print("Tampered sums, by kind of message, and how many of them a party accepted", [section], output)
    if not all(found.sound for found in counts):
        typer.echo("a party accepted a forgery, or refused an honest sum", err=True)
        raise typer.Exit(ExitCode.MISSED)


def _list_attacks(output: Format) -> None:
    from fenchel_deploy.attacks import ATTACKS

    summaries = {name: attack.summary for name, attack in ATTACKS.items()}
    if output is Format.JSON:
        print_json(summaries)
        return
    _print("Attacks", [Section("", ("attack", "what it tries"), list(summaries.items()))], output)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3g}" if isinstance(value, float) else "–" if value is None else str(value)


def _roles(audited: Audit) -> dict[str, Any]:
    return {
        account.role: {
            name: {
                kind.value: {"values": fields.total(), "fields": dict(fields.most_common())} for kind, fields in classes
            }
            for name, classes in (
                ("received", account.received.items()),
                ("sent", account.sent.items()),
                ("opened", account.opened.items()),
            )
        }
        for account in audited.accounts
    }


def _print(heading: str, sections: Sequence[Section], output: Format) -> None:
    if output is Format.MARKDOWN:
        typer.echo("\n\n".join([printable(heading), *(_markdown(section) for section in sections)]))
        return
    console = terminal()
    console.print(heading)
    for section in sections:
        table = Table(*section.columns, title=section.title or None, title_justify="left", title_style="bold")
        for row in section.rows:
            table.add_row(*row)
        console.print(table)


def _markdown(section: Section) -> str:
    lines = [section.columns, tuple("---" for _ in section.columns), *section.rows]
    table = "\n".join("| " + " | ".join(printable(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)
    return f"{printable(section.title)}\n\n{table}" if section.title else table
