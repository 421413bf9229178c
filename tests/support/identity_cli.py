"""The commands of identities, `provision`, `cert` and `preflight`, as a person runs them."""

import json

import typer
from typer.testing import CliRunner, Result

from fenchel_deploy.cli import cert, preflight, provision


def invoke(*arguments: object) -> Result:
    app = typer.Typer(pretty_exceptions_enable=False)
    for verb in (provision, cert, preflight):
        verb.register(app)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def findings(result: Result) -> dict[str, tuple[str, str]]:
    return {check["name"]: (check["status"], check["detail"]) for check in json.loads(result.stdout)["checks"]}
