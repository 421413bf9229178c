"""The attacks on ids, messages, keys and the wire: what is tried on which recorded runs, and how it is scored."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, Literal

from fenchel_common.ids import ClientId
from fenchel_common.privacy import Privacy
from fenchel_deploy.attacks import pseudonyms, tampering
from fenchel_deploy.attacks.federation import Bench
from fenchel_deploy.attacks.findings import (
    ENCRYPTED,
    EVERY_LEVEL,
    LEAKS,
    SAFE,
    SAFE_IF_ENCRYPTED,
    Attack,
    Claims,
    Verdict,
)
from fenchel_deploy.attacks.opened_figures import OpenedFigures
from fenchel_deploy.attacks.outsider import calls_let_in, in_clear, listen_in
from fenchel_deploy.attacks.recorded import Recorded, Scenario
from fenchel_deploy.attacks.rows import Estimate
from fenchel_deploy.attacks.scoring import Score, majority_rate, match_rate, pooled, row_score
from fenchel_deploy.attacks.tables import ALL_DENSE

DICTIONARY: Final = tuple(f"breast_cancer-{number:02d}" for number in range(100))
"""All ids that there may be, known to everyone."""
CHOSEN_ROW: Final = 3
"""The attacked row; any other would do."""


def _set_up_only(alignment: Literal["ecdh", "hmac"]) -> Scenario:
    return Scenario(Privacy.SEALED, h=1, alignment=alignment, rounds=0)


def _play_dictionary_alone(bench: Bench, _levels: Sequence[Privacy]) -> Iterator[Verdict]:
    for alignment in ("hmac", "ecdh"):
        recorded = bench.record(_set_up_only(alignment))
        victim = recorded.transcript.layout.clients[-1]
        guessed = pseudonyms.by_public_hashes(recorded.transcript, victim, DICTIONARY)
        yield _ids_found(recorded, victim, guessed, setting=alignment)


def _play_dictionary_colluding(bench: Bench, _levels: Sequence[Privacy]) -> Iterator[Verdict]:
    """The first party helps. It has no sample in common with the last one, and all of them with the second."""
    recorded = bench.record(_set_up_only("hmac"))
    names = recorded.transcript.layout.clients
    helper = recorded.views[names[0]]
    found = pseudonyms.with_shared_secret(recorded.transcript, helper, names[-1], DICTIONARY)
    yield _ids_found(recorded, names[-1], found, setting="hmac, ids it does not hold")
    recorded = bench.record(_set_up_only("ecdh"))
    helper = recorded.views[names[0]]
    found = pseudonyms.with_own_ids(recorded.transcript, helper, names[-1])
    yield _ids_found(recorded, names[-1], found, setting="ecdh, ids it does not hold")
    found = pseudonyms.with_own_ids(recorded.transcript, helper, names[1])
    yield _ids_found(recorded, names[1], found, setting="ecdh, ids it holds itself")


def _play_ring(bench: Bench, _levels: Sequence[Privacy]) -> Iterator[Verdict]:
    recorded = bench.record(_set_up_only("ecdh"))
    view = recorded.views[recorded.transcript.layout.clients[0]]
    guesses = [
        guess
        for passed in pseudonyms.by_what_passes(view, recorded.transcript.run, DICTIONARY).values()
        for guess in passed
    ]
    rate = sum(guess is not None for guess in guesses) / len(guesses)
    note = f"{len(guesses)} elements tried against {len(DICTIONARY)} ids"
    yield Verdict.of_rate(rate, level=EVERY_LEVEL, setting="ecdh", note=note)


def _ids_found(recorded: Recorded, victim: ClientId, guessed: pseudonyms.Guesses, *, setting: str) -> Verdict:
    listed = recorded.views[victim].table.ids
    rate = match_rate(guessed, listed)
    note = f"{len(listed)} ids of a party, {len(DICTIONARY)} in the dictionary"
    return Verdict.of_rate(rate, level=EVERY_LEVEL, setting=setting, note=note)


def _play_foreign_tasks(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    for level in levels:
        recorded = bench.record(Scenario(level, h=1))
        outcomes = tampering.tasks_of_others(recorded.transcript, recorded.ask)
        yield Verdict.of_attempts(outcomes, level=level, setting="blocks of others")


def _play_foreign_results(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    for level in levels:
        recorded = bench.record(Scenario(level, h=1))
        outcomes = tampering.results_of_others(recorded.transcript, recorded.left_out)
        yield Verdict.of_attempts(outcomes, level=level, setting="blocks of others")


def _play_replay(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    for level in levels:
        recorded = bench.record(Scenario(level, h=1))
        client = recorded.transcript.layout.clients[0]
        outcomes = tampering.replayed_duals(recorded.transcript, recorded.ask, client)
        yield Verdict.of_attempts(outcomes, level=level, setting="between rounds")


def _play_mixed_runs(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    for level in levels:
        recorded = bench.record(Scenario(level, h=1))
        other = bench.record(Scenario(level, loss="logistic", h=ALL_DENSE)).transcript
        client = recorded.transcript.layout.clients[0]
        outcomes = tampering.foreign_duals(recorded.transcript, other, recorded.ask, client)
        yield Verdict.of_attempts(outcomes, level=level, setting="between runs")


def _play_opened_figures(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    for level in levels:
        recorded = bench.record(Scenario(level, h=1))
        labels, true = _labels_opened(recorded)
        chance = majority_rate(true)
        yield Verdict.of_rate(
            match_rate(labels, true),
            level=level,
            setting="labels of label holders",
            note=f"{len(true)} labels, two tasks each; chance {chance:.2f}",
            chance=chance,
        )
        scores, tasks = zip(*(_one_row_opened(recorded, name) for name in recorded.views), strict=True)
        verdict = Verdict.of_score(pooled(scores), level=level, setting="one row of each party", measure="cosine")
        yield replace(verdict, note=f"{verdict.note}; at most {max(tasks)} tasks a row")


def _labels_opened(recorded: Recorded) -> tuple[list[float], list[float]]:
    """All labels of the label holders: the guessed and the true ones."""
    guessed, true = [], []
    for name in sorted(recorded.transcript.layout.label_holders):
        opened = OpenedFigures(recorded.transcript, recorded.ask, name)
        for row, label in enumerate(recorded.truth.labels[name].tolist()):
            guessed.append(opened.label(row))
            true.append(label)
    return guessed, true


def _one_row_opened(recorded: Recorded, client: ClientId) -> tuple[Score, int]:
    """The score of the found row, and the number of tasks for it."""
    truth, chosen = recorded.truth, [CHOSEN_ROW]
    opened = OpenedFigures(recorded.transcript, recorded.ask, client)
    score = row_score(
        [Estimate(opened.row(CHOSEN_ROW), 0)], truth.rows[client][chosen], truth.strangers[client][chosen]
    )
    return score, opened.tasks


def _play_keys(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    for level in levels:
        if level not in ENCRYPTED:
            continue
        recorded = bench.record(Scenario(level, h=1))
        earlier = bench.record(Scenario(level, loss="logistic", h=ALL_DENSE))
        names = recorded.transcript.layout.clients
        server, kits = bench.server_kit(len(names)), bench.kits(len(names))
        outcomes = tampering.swapped_keys(
            recorded.transcript,
            earlier.transcript,
            recorded.ask,
            names[1],
            server=server,
            accomplice=kits[names[2]],
        )
        stranger = next(iter(bench.kits(2, "elsewhere").values()))
        outcomes |= tampering.extra_recipients(recorded.transcript, recorded.ask, server=server, stranger=stranger)
        yield Verdict.of_attempts(outcomes, level=level, setting="key ceremony")


def _play_outsider(bench: Bench, _levels: Sequence[Privacy]) -> Iterator[Verdict]:
    transcript = bench.record(Scenario(Privacy.PAPER, h=1)).transcript
    client = transcript.layout.clients[0]
    server, kits = bench.server_kit(len(transcript.layout.clients)), bench.kits(len(transcript.layout.clients))
    captured = listen_in(transcript, client, server=server, party=kits[client])
    without_tls = listen_in(transcript, client, server=server, party=kits[client], insecure=True)
    messages = [message for message in transcript.of(client) if message.round_id > 0]
    seen, said = in_clear(captured, messages), in_clear(without_tls, messages)
    assert said > 0, "without TLS the search finds what was said"
    yield Verdict.of_rate(
        seen / said,
        level=Privacy.PAPER,
        setting="eavesdropping",
        note=f"{seen} of {said} stretches of 16 bytes that are found without TLS",
    )
    strangers = [None, *bench.kits(2, "elsewhere").values()]
    let_in = calls_let_in(server, strangers, member=kits[client])
    yield Verdict.of_rate(
        let_in / len(strangers),
        level=EVERY_LEVEL,
        setting="calling",
        note=f"{len(strangers)} callers: no certificate, or one of another federation",
    )


_ROGUE = "server that leaves the protocol"
_AT_ANY_LEVEL_LEAKS: Final[Claims] = {EVERY_LEVEL: "leaks"}
_AT_ANY_LEVEL_SAFE: Final[Claims] = {EVERY_LEVEL: "safe"}

PROTOCOL_ATTACKS: Final = (
    Attack(
        "dictionary",
        "tries all ids on the pseudonyms, with all hashes that need no secret",
        "server",
        {"hmac": _AT_ANY_LEVEL_SAFE, "ecdh": _AT_ANY_LEVEL_SAFE},
        _play_dictionary_alone,
    ),
    Attack(
        "dictionary-with-a-party",
        "tries all ids with what one party knows",
        "server and a party",
        {
            "hmac, ids it does not hold": _AT_ANY_LEVEL_LEAKS,
            "ecdh, ids it does not hold": _AT_ANY_LEVEL_SAFE,
            "ecdh, ids it holds itself": _AT_ANY_LEVEL_LEAKS,
        },
        _play_dictionary_colluding,
    ),
    Attack(
        "dictionary-in-the-ring",
        "tries all ids on the lists that it raises",
        "party",
        {"ecdh": _AT_ANY_LEVEL_SAFE},
        _play_ring,
    ),
    Attack(
        "foreign-tasks",
        "hands a party blocks and features of others",
        _ROGUE,
        {"blocks of others": SAFE},
        _play_foreign_tasks,
    ),
    Attack(
        "foreign-results",
        "answers for blocks and features of others",
        "party",
        {"blocks of others": SAFE},
        _play_foreign_results,
    ),
    Attack("replay", "hands out an earlier round's ciphertext", _ROGUE, {"between rounds": LEAKS}, _play_replay),
    Attack(
        "mixed-runs",
        "hands out another run's ciphertext",
        _ROGUE,
        {"between runs": SAFE_IF_ENCRYPTED},
        _play_mixed_runs,
    ),
    Attack(
        "opened-figures",
        "hands a party inner products and models of its own making, and has their figures opened",
        _ROGUE,
        {"labels of label holders": LEAKS, "one row of each party": LEAKS},
        _play_opened_figures,
    ),
    Attack(
        "swapped-key",
        "puts other blobs, keys and certificates into the key ceremony",
        _ROGUE,
        {"key ceremony": dict.fromkeys(ENCRYPTED, "safe")},
        _play_keys,
    ),
    Attack(
        "outsider",
        "listens on the network, and calls without the federation's certificate",
        "outsider",
        {"eavesdropping": {Privacy.PAPER: "safe"}, "calling": _AT_ANY_LEVEL_SAFE},
        _play_outsider,
    ),
)
