"""`fenchel provision`: makes the authority, the signed roster and the kits of a federation."""

from pathlib import Path
from typing import Annotated

import typer

from fenchel_deploy.cli.manual import epilog
from fenchel_deploy.cli.options import FormatOption
from fenchel_deploy.cli.output import Format, print_json
from fenchel_deploy.federation_file import Federation
from fenchel_deploy.provision import AUTHORITY_DIRECTORY, KitReport, KitState, Provisioned
from fenchel_deploy.provision import provision as bring_in_line


def provision(
    federation: Annotated[Path, typer.Argument(help="The description of the federation.", metavar="FEDERATION.TOML")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the authority and the kits; kept between runs.")],
    renew_within: Annotated[
        int, typer.Option(min=0, max=3650, help="Renew certificates that expire within so many days.", metavar="DAYS")
    ] = 0,
    replace: Annotated[
        list[str] | None,
        typer.Option(
            help="A party or the server: its key and certificate are replaced, or revoked if the party makes its own"
            " key; repeatable.",
            metavar="NAME",
        ),
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Make the certificate authority, the signed roster, and one kit per party and for the server.

    Run it on the operator's machine, never on the server: whoever has OUT/ca/key.pem can add a party.

    Running it again adds new parties and renews expired certificates, with new keys; the authority is made once. A
    changed roster gets the next version. Hand it out to the server and to every party: whoever has it refuses replaced
    certificates, and running processes read it from their kits by themselves.

    Given a file that does not exist, it prints an example of one.
    """
    outcome = bring_in_line(
        Federation.load(federation), out, renew_within_days=renew_within, replace=frozenset(replace or ())
    )
    if output is Format.JSON:
        print_json(_as_json(outcome))
    else:
        typer.echo(_as_text(outcome))
    for line in _advice(outcome, out):
        typer.echo(line, err=True)


def register(app: typer.Typer) -> None:
    app.command(epilog=epilog("provision"))(provision)


def _as_json(outcome: Provisioned) -> dict[str, object]:
    return {
        "federation": outcome.federation,
        "authority_fingerprint": outcome.authority_fingerprint,
        "authority_made": outcome.authority_made,
        "roster_version": outcome.roster.version,
        "roster_fingerprint": outcome.roster.fingerprint(),
        "roster_not_after": outcome.roster.not_after.isoformat(),
        "roster_made": outcome.roster_made,
        "release_model_to_server": outcome.roster.release_model_to_server,
        "kits": [
            {
                "name": kit.name,
                "role": kit.role.value,
                "directory": str(kit.directory),
                "state": kit.state.value,
                "not_after": kit.certificate.not_after.isoformat() if kit.certificate else None,
                "key_fingerprint": kit.certificate.key_fingerprint() if kit.certificate else None,
            }
            for kit in outcome.kits
        ],
        "removed": list(outcome.removed),
    }


def _as_text(outcome: Provisioned) -> str:
    roster = outcome.roster
    version = f"{roster.version} ({'made now' if outcome.roster_made else 'kept'})"
    lines = [
        f"federation  {outcome.federation}",
        f"authority   {outcome.authority_fingerprint} ({'made now' if outcome.authority_made else 'kept'})",
        f"roster      {roster.fingerprint()}",
        f"version     {version}, valid until {roster.not_after:%Y-%m-%d}",
        f"model       {'goes to the server too' if roster.release_model_to_server else 'stays with the parties'}",
        "",
    ]
    width = max(len(kit.name) for kit in outcome.kits)
    return "\n".join([*lines, *(_kit_line(kit, width) for kit in outcome.kits)])


def _kit_line(kit: KitReport, width: int) -> str:
    end = f"valid until {kit.certificate.not_after:%Y-%m-%d}" if kit.certificate else "no certificate yet"
    return f"{kit.role.value:6}  {kit.name:{width}}  {kit.state.value:7}  {end}  {kit.directory}"


def _advice(outcome: Provisioned, out: Path) -> list[str]:
    approve = "fenchel cert approve {0}.csr --party {0} --out {1}"
    advice = [
        f"{kit.name} makes its own key, and no run can start before its request is approved: "
        f"{approve.format(kit.name, out)}"
        for kit in outcome.kits
        if kit.state is KitState.WAITING
    ]
    advice += [
        f"{name} is off the roster; whoever has roster version {outcome.roster.version} refuses it"
        for name in outcome.removed
    ]
    if outcome.roster_made and not outcome.authority_made:
        advice.append(
            f"hand out roster version {outcome.roster.version} to the server and every party: roster.json and"
            " roster.sig, or the whole kit where it was made or renewed; the key holder's operator approves its"
            " fingerprint"
        )
    if outcome.authority_made:
        advice.append(f"keep {out / AUTHORITY_DIRECTORY} safe and off the server: whoever has its key can add a party")
    return advice
