"""The attacks on ids, messages, keys and the wire: what is tried on which recorded runs, and how it is scored."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fenchel.v1.averaging_pb2 import AveragingResult
from fenchel_common.algorithms.averaging.rails import Measurement
from fenchel_common.identity.roster import BLINDERS
from fenchel_common.ids import ClientId
from fenchel_common.privacy import Privacy
from fenchel_common.runconfig import AlignmentWord
from fenchel_deploy.attacks import pseudonyms, tampering
from fenchel_deploy.attacks.federation import Bench
from fenchel_deploy.attacks.findings import (
    ENCRYPTED,
    EVERY_LEVEL,
    SAFE,
    SAFE_IF_ENCRYPTED,
    Attack,
    Claims,
    Verdict,
)
from fenchel_deploy.attacks.meddling import Played
from fenchel_deploy.attacks.opened_figures import (
    labels_opened,
    loss_of_averaging,
    row_of_corrective,
    row_of_hyfdca,
)
from fenchel_deploy.attacks.outsider import calls_let_in, in_clear, listen_in
from fenchel_deploy.attacks.recorded import Recorded, Scenario
from fenchel_deploy.attacks.rows import Estimate
from fenchel_deploy.attacks.scoring import majority_rate, match_rate, row_score
from fenchel_deploy.attacks.tables import ALL_DENSE
from fenchel_deploy.attacks.views import Array, KeyEyes

DICTIONARY: Final = tuple(f"breast_cancer-{number:02d}" for number in range(100))
"""All ids that there may be, known to everyone."""
LOSS_TOLERANCE: Final = 1e-6
CHOSEN_ROW: Final = 3
"""The attacked row; any other would do."""


def _set_up_only(alignment: AlignmentWord) -> Scenario:
    return Scenario(Privacy.SEALED, h=1, alignment=alignment, rounds=0)


def _play_dictionary_alone(bench: Bench, _levels: Sequence[Privacy]) -> Iterator[Verdict]:
    for alignment in _ALIGNMENTS:
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
    for alignment in _BLINDED:
        recorded = bench.record(_set_up_only(alignment))
        helper = recorded.views[names[0]]
        found = pseudonyms.with_own_ids(recorded.transcript, helper, names[-1])
        yield _ids_found(recorded, names[-1], found, setting=f"{alignment}, ids it does not hold")
        found = pseudonyms.with_own_ids(recorded.transcript, helper, names[1])
        yield _ids_found(recorded, names[1], found, setting=f"{alignment}, ids it holds itself")


def _play_dictionary_of_blinders(bench: Bench, _levels: Sequence[Privacy]) -> Iterator[Verdict]:
    """The last party is none of the blinding parties; one of them, the last on the way of its list, opens that list."""
    recorded = bench.record(_set_up_only("blinders"))
    victim = recorded.transcript.layout.clients[-1]
    views = [recorded.views[name] for name in recorded.transcript.layout.clients[:BLINDERS]]
    for setting, helpers in zip(_COLLUDING, (views[-1:], views[1:], views), strict=True):
        found = pseudonyms.with_blinders(recorded.transcript, helpers, victim, DICTIONARY)
        yield _ids_found(recorded, victim, found, setting=setting)


def _play_what_passes(bench: Bench, _levels: Sequence[Privacy]) -> Iterator[Verdict]:
    """The third party is the last blinding party on the way of the last party's list."""
    for alignment in _BLINDED:
        recorded = bench.record(_set_up_only(alignment))
        view = recorded.views[recorded.transcript.layout.clients[2]]
        guesses = [
            guess
            for passed in pseudonyms.by_what_passes(view, recorded.transcript, DICTIONARY).values()
            for guess in passed
        ]
        rate = sum(guess is not None for guess in guesses) / len(guesses)
        note = f"{len(guesses)} elements tried against {len(DICTIONARY)} ids"
        yield Verdict.of_rate(rate, level=EVERY_LEVEL, setting=alignment, note=note)


def _ids_found(recorded: Recorded, victim: ClientId, guessed: pseudonyms.Guesses, *, setting: str) -> Verdict:
    listed = recorded.views[victim].table.ids
    rate = match_rate(guessed, listed)
    note = f"{len(listed)} ids of a party, {len(DICTIONARY)} in the dictionary"
    return Verdict.of_rate(rate, level=EVERY_LEVEL, setting=setting, note=note)


def _play_foreign_tasks(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    for level in levels:
        recorded = bench.record(Scenario(level, h=1))
        outcomes = tampering.tasks_of_others(recorded)
        yield Verdict.of_attempts(outcomes, level=level, setting="blocks of others")


def _play_foreign_results(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    for level in levels:
        recorded = bench.record(Scenario(level, h=1))
        outcomes = tampering.results_of_others(recorded.transcript, recorded.left_out)
        yield Verdict.of_attempts(outcomes, level=level, setting="blocks of others")


def _play_opened_figures(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    for level in levels:
        recorded = bench.record(Scenario(level, h=3, rounds=0, every=1))
        played = Played(recorded)
        victim = played.layout.clients[2]
        played.round()
        labels = labels_opened(played)
        guessed, true = _labels_of_holders(recorded, labels)
        chance = majority_rate(true)
        yield Verdict.of_rate(
            match_rate(guessed, true),
            level=level,
            setting="HyFDCA, labels",
            note=f"{len(true)} labels in one round; chance {chance:.2f}",
            chance=chance,
        )
        row = None if labels is None else row_of_hyfdca(played, victim, CHOSEN_ROW, labels)
        yield _row_verdict(recorded, victim, row, level=level, setting="HyFDCA, one row")
        recorded = bench.record(Scenario(level, "labelled", "corrective", rounds=0))
        played = Played(recorded)
        played.round()
        row = row_of_corrective(played, victim, CHOSEN_ROW)
        yield _row_verdict(recorded, victim, row, level=level, setting="corrective, one row")
        yield _one_partys_loss(bench.record(Scenario(level, algorithm="fedavg", rounds=0, every=1)), level)


def _labels_of_holders(recorded: Recorded, found: Mapping[ClientId, Array] | None) -> tuple[list[object], list[object]]:
    """The guessed and the true labels of all label holders; None for a label that was not found."""
    guessed: list[object] = []
    true: list[object] = []
    for name in sorted(recorded.transcript.layout.label_holders):
        labels = recorded.truth.labels[name].tolist()
        true += labels
        guessed += [None] * len(labels) if found is None else found[name].tolist()
    return guessed, true


def _row_verdict(recorded: Recorded, victim: ClientId, row: Array | None, *, level: Privacy, setting: str) -> Verdict:
    truth, chosen = recorded.truth, [CHOSEN_ROW]
    estimates = [] if row is None else [Estimate(row, 0)]
    score = row_score(estimates, truth.rows[victim][chosen], truth.strangers[victim][chosen])
    return Verdict.of_score(score, level=level, setting=setting, measure="cosine")


def _one_partys_loss(recorded: Recorded, level: Privacy) -> Verdict:
    """The loss at a model of zeros, which the hinge loss counts as 1 for each sample, is the same for everybody."""
    played = Played(recorded)
    victim = played.layout.clients[2]
    played.round()
    found = loss_of_averaging(played, victim)
    figures = [
        body.figures
        for (_, number, _, client), body in played.results.items()
        if number == 2 and client == victim and isinstance(body, AveragingResult) and body.HasField("figures")
    ]
    eyes = KeyEyes.of(recorded.views[victim].secrets)
    true = Measurement.from_figures(eyes.read(figures[-1]), played.layout.sample_count).loss_sum
    right = found is not None and abs(found - true) < LOSS_TOLERANCE
    note = "the sum of one party's losses"
    return Verdict.of_rate(float(right), level=level, setting="FedAvg, one party's loss", note=note)


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


_BLINDED: Final[tuple[AlignmentWord, ...]] = ("blinders", "ring")
_ALIGNMENTS: Final[tuple[AlignmentWord, ...]] = ("hmac", *_BLINDED)
_COLLUDING: Final = ("one of three", "two of three", "all three")

_ROGUE = "server that leaves the protocol"
_AT_ANY_LEVEL_LEAKS: Final[Claims] = {EVERY_LEVEL: "leaks"}
_AT_ANY_LEVEL_SAFE: Final[Claims] = {EVERY_LEVEL: "safe"}

_OPENED: Final = ("HyFDCA, labels", "HyFDCA, one row", "corrective, one row", "FedAvg, one party's loss")

PROTOCOL_ATTACKS: Final = (
    Attack(
        "dictionary",
        "tries all ids on the pseudonyms, with all hashes that need no secret",
        "server",
        dict.fromkeys(_ALIGNMENTS, _AT_ANY_LEVEL_SAFE),
        _play_dictionary_alone,
    ),
    Attack(
        "dictionary-with-a-party",
        "tries all ids with what one party knows",
        "server and a party",
        {
            "hmac, ids it does not hold": _AT_ANY_LEVEL_LEAKS,
            **{f"{alignment}, ids it does not hold": _AT_ANY_LEVEL_SAFE for alignment in _BLINDED},
            **{f"{alignment}, ids it holds itself": _AT_ANY_LEVEL_LEAKS for alignment in _BLINDED},
        },
        _play_dictionary_colluding,
    ),
    Attack(
        "dictionary-with-blinders",
        "tries all ids with the exponents of blinding parties, and on what is sealed for them",
        "server and blinding parties",
        {
            "one of three": _AT_ANY_LEVEL_SAFE,
            "two of three": _AT_ANY_LEVEL_SAFE,
            "all three": _AT_ANY_LEVEL_LEAKS,
        },
        _play_dictionary_of_blinders,
    ),
    Attack(
        "dictionary-in-passing",
        "tries all ids on the lists that it raises",
        "party",
        dict.fromkeys(_BLINDED, _AT_ANY_LEVEL_SAFE),
        _play_what_passes,
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
    Attack(
        "opened-figures",
        "hands a party inner products and models of its own making, and has their figures opened",
        _ROGUE,
        dict.fromkeys(_OPENED, SAFE_IF_ENCRYPTED),
        _play_opened_figures,
        unchecked=_OPENED,
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
