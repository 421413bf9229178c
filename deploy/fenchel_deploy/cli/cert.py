"""`fenchel cert`: makes certificates for parties that make their own key, and shows the content of a certificate."""

from pathlib import Path
from typing import Annotated

import typer

from fenchel_common.errors import InvalidInput
from fenchel_common.identity.certificates import Certificate
from fenchel_common.identity.kit import CERTIFICATE_FILE
from fenchel_deploy import enrolment
from fenchel_deploy.cli.manual import epilog
from fenchel_deploy.cli.options import FormatOption
from fenchel_deploy.cli.output import Format, print_json, printable

cert_app = typer.Typer(
    name="cert",
    help="Make certificates for parties that make their own key; show the content of a certificate.",
    no_args_is_help=True,
)


@cert_app.command(epilog=epilog("cert request"))
def request(
    party: Annotated[str, typer.Argument(help="This party's name, as the operator has it in federation.toml.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the key and the request; it becomes the kit.")],
    output: FormatOption = Format.TABLE,
) -> None:
    """Make a key (or take the one in OUT) and a request for a certificate. Run by the party.

    Send request.csr to the operator and tell them the fingerprint by another way, such as the telephone.

    The key stays here. Put the files that the operator sends back into the same folder: it is then the whole kit.
    """
    made = enrolment.request(party, out)
    _print(
        {
            "party": made.name,
            "request": str(made.path),
            "key_fingerprint": made.key_fingerprint,
            "key_made": made.key_made,
        },
        output,
    )
    typer.echo(f"send {made.path} to the operator; key.pem beside it never leaves this machine", err=True)


@cert_app.command(epilog=epilog("cert approve"))
def approve(
    request_file: Annotated[Path, typer.Argument(help="The party's request.", metavar="REQUEST.CSR")],
    party: Annotated[str, typer.Option("--party", help="The party that has sent it; it must be on the roster.")],
    out: Annotated[Path, typer.Option("--out", help="The folder that `fenchel provision` has written.")],
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Replace another key that the party has a certificate for."),
    ] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Issue a certificate for a party's own key, put the key on the roster, and make a kit without a key. Run by the
    operator.

    Before you send the kit, compare the fingerprint with the one that the party tells you: nothing else proves that
    the key is theirs.

    A certificate for an earlier key of the party is refused by whoever has the new roster.
    """
    approval = enrolment.approve(request_file, party=party, out=out, replace=replace)
    _print(
        {
            "party": approval.name,
            "kit": str(approval.directory),
            "key_fingerprint": approval.certificate.key_fingerprint(),
            "not_after": approval.certificate.not_after.isoformat(),
            "roster_version": approval.roster.version,
            "roster_fingerprint": approval.roster.fingerprint(),
        },
        output,
    )
    typer.echo(f"send {approval.directory} to {party}, who puts its files beside its key.pem", err=True)
    typer.echo(
        f"roster version {approval.roster.version} is in every kit of {out}; the server and every party need it",
        err=True,
    )


@cert_app.command(epilog=epilog("cert show"))
def show(
    path: Annotated[Path, typer.Argument(help="A certificate file, or a kit.", metavar="CERT.PEM|KIT")],
    output: FormatOption = Format.TABLE,
) -> None:
    """Show whose certificate it is, its role, and how long it is valid; it is not checked against an authority."""
    certificate = _read(path / CERTIFICATE_FILE if path.is_dir() else path)
    _print(
        {
            "name": certificate.common_name,
            "role": certificate.role.value,
            "federation": certificate.federation,
            "not_before": certificate.not_before.isoformat(),
            "not_after": certificate.not_after.isoformat(),
            "days_left": round(certificate.days_left(), 1),
            "fingerprint": certificate.fingerprint(),
            "key_fingerprint": certificate.key_fingerprint(),
        },
        output,
    )


def register(app: typer.Typer) -> None:
    app.add_typer(cert_app)


def _read(path: Path) -> Certificate:
    try:
        return Certificate.from_pem(path.read_bytes())
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error


def _print(facts: dict[str, str | float | bool], output: Format) -> None:
    if output is Format.JSON:
        print_json(facts)
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        text = {True: "yes", False: "no"}[value] if isinstance(value, bool) else value
        typer.echo(printable(f"{name.replace('_', ' '):{width}}  {text}"))
