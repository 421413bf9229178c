"""How `preflight` and `doctor` print checks."""

from fenchel_deploy.check import Check
from fenchel_deploy.cli.output import printable


def check_as_lines(check: Check) -> str:
    """The check for people: one line, and further ones for its facts and its cure."""
    cure = [f"cure: {check.cure}"] if check.cure else []
    lines = [*(f"{name}: {fact}" for name, fact in check.facts.items()), *cure]
    further = "".join(f"\n      {printable(line)}" for line in lines)
    return f"{check.status.value:4}  {check.name}: {printable(check.detail)}{further}"


def check_as_json(check: Check) -> dict[str, object]:
    """The check for programs."""
    return {
        "name": check.name,
        "status": check.status.value,
        "detail": check.detail,
        "cure": check.cure,
        "facts": dict(check.facts),
    }
