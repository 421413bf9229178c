"""The events of a run as lines of text, for whoever follows it without a terminal, and for the output of a server."""

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from fenchel_common.identity import Address
from fenchel_common.metrics import RoundMetrics
from fenchel_deploy.keys import key_in_words
from fenchel_deploy.times import clock_time

ALL_INTERFACES = "0.0.0.0"  # noqa: S104 - a server listens


class Line(NamedTuple):
    """A line of text, and its level as in a log."""

    text: str
    level: int = logging.INFO


def line_of(event: Mapping[str, Any]) -> Line | None:
    """What an event says, in one line; None if it is not worth one, such as each phase."""
    match event["event"]:
        case "listening":
            return Line(_listening(event))
        case "stage":
            return Line(event["stage"])
        case "dashboard":
            return Line(page_in_words(event))
        case "centralized":
            return Line(f"the centralized optimum is P(w) = {event['primal']:.9f}; starting the server and the parties")
        case "begins":
            return Line(_begins(event))
        case "ready":
            return Line(f"run {event['run']}: the set-up is over; encryption: {_key(event)}")
        case "status":
            return Line(f"run {event['run']}: {event['status']}" + (f": {event['reason']}" if event["reason"] else ""))
        case "waiting":
            return Line(f"run {event['run']}: waiting for {', '.join(_missing(event))}")
        case "warning":
            return Line(f"run {event['run']}: {event['warning']}", logging.WARNING)
        case "round":
            return Line(_round(event))
        case "ended":
            return Line(f"run {event['run']} ({event['name']}) {event['status']}: {event['reason']}")
        case "leaving":
            who = ", ".join(event["for"])
            return Line(f"all runs are over; waiting up to {event['within_s']:g} s for {who} to hear so")
    return None


def page_in_words(event: Mapping[str, Any]) -> str:
    """Where the page is, and the token that it asks for if it asks for one."""
    return f"dashboard at {event['address']}" + (f", token {event['token']}" if "token" in event else "")


def round_in_words(event: Mapping[str, Any]) -> str:
    """The figures of a round that measured its model; empty if it did not."""
    metrics = RoundMetrics.from_mapping(event)
    if not metrics.measured:
        return ""
    known = f"P(w) {metrics.primal:.6f}" if metrics.gap is None else f"gap {metrics.gap:.3e}"
    return f"{known}, {metrics.fit}"


def _listening(event: Mapping[str, Any]) -> str:
    host = Address.parse(event["address"]).host
    where = "all interfaces" if host in (ALL_INTERFACES, "::") else f"{host} only"
    return f"listening on {where}, port {event['port']}, for {', '.join(event['parties'])}"


def _begins(event: Mapping[str, Any]) -> str:
    goal = "" if event["gap_target"] is None else f", to a gap of {event['gap_target']:.3g}"
    after = f", after round {event['round']}" if event["round"] else ""
    run = f"run {event['run']} ({event['name']}) begins{after}: {event['algorithm']}, {event['privacy']}"
    return f"{run}; encryption: {_key(event)}; at most {event['rounds_limit']} rounds{goal}"


def _key(event: Mapping[str, Any]) -> str:
    return key_in_words(event["key_bits"], cipher=event["cipher"], fingerprint=event["key_fingerprint"])


def _missing(event: Mapping[str, Any]) -> list[str]:
    """The parties that are waited for, each with the time since which it is not connected."""
    since = {name: f" (not connected since {clock_time(at)})" for name, at in event["since"].items()}
    return [f"{name}{since.get(name, '')}" for name in event["for"]]


def _round(event: Mapping[str, Any]) -> str:
    number = "closing round" if event["closing"] else f"round {event['round']}"
    parts = [f"run {event['run']}: {number}", f"{event['seconds']:.2f} s", round_in_words(event)]
    if event["absences"]:
        parts.append("without " + "; ".join(f"{name} ({reason})" for name, reason in event["absences"].items()))
    return ", ".join(filter(None, parts))
