"""The attacks on ids, messages, keys and the wire: what is tried on which recorded runs, and how it is scored."""

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from fenchel_common.algorithms.settings import Privacy
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.ids import ClientId
from fenchel_deploy.attacks import pseudonyms, tampering
from fenchel_deploy.attacks.federation import Bench, Recorded, Scenario
from fenchel_deploy.attacks.findings import EVERY_LEVEL, Attack, Claim, Verdict
from fenchel_deploy.attacks.outsider import blocks_by_size, calls_let_in, in_clear, listen_in
from fenchel_deploy.attacks.scoring import match_rate
from fenchel_deploy.attacks.tables import ALL_DENSE

DICTIONARY: Final = tuple(f"breast_cancer-{number:02d}" for number in range(100))
"""All ids that there may be, known to everyone."""


def _set_up_only(alignment: Literal["ecdh", "hmac"]) -> Scenario:
    return Scenario("sealed", h=1, alignment=alignment, rounds=0)


def _play_dictionary_alone(bench: Bench, _levels: Sequence[Privacy]) -> Iterator[Verdict]:
    for alignment in ("hmac", "ecdh"):
        recorded = bench.record(_set_up_only(alignment))
        victim = recorded.transcript.layout.clients[-1]
        guessed = pseudonyms.by_public_hashes(recorded.transcript, victim, DICTIONARY)
        yield _ids_found(recorded, victim, guessed, setting=alignment, claim="safe")


def _play_dictionary_colluding(bench: Bench, _levels: Sequence[Privacy]) -> Iterator[Verdict]:
    """The first party helps. It shares no sample with the last one, and all of them with the second."""
    recorded = bench.record(_set_up_only("hmac"))
    names = recorded.transcript.layout.clients
    helper = recorded.views[names[0]]
    found = pseudonyms.with_shared_secret(recorded.transcript, helper, names[-1], DICTIONARY)
    yield _ids_found(recorded, names[-1], found, setting="hmac, ids it does not hold", claim="leaks")
    recorded = bench.record(_set_up_only("ecdh"))
    helper = recorded.views[names[0]]
    found = pseudonyms.with_own_ids(recorded.transcript, helper, names[-1])
    yield _ids_found(recorded, names[-1], found, setting="ecdh, ids it does not hold", claim="safe")
    found = pseudonyms.with_own_ids(recorded.transcript, helper, names[1])
    yield _ids_found(recorded, names[1], found, setting="ecdh, ids it holds itself", claim="leaks")


def _play_slipped_list(bench: Bench, _levels: Sequence[Privacy]) -> Iterator[Verdict]:
    recorded = bench.record(_set_up_only("ecdh"))
    victim = recorded.transcript.layout.clients[-1]
    found = pseudonyms.by_a_list_slipped_in(recorded.transcript, recorded.ask, victim, DICTIONARY)
    yield _ids_found(recorded, victim, found, setting="ecdh", claim="leaks")


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
    yield Verdict.of_rate(rate, level=EVERY_LEVEL, setting="ecdh", claim="safe", note=note)


def _ids_found(
    recorded: Recorded, victim: ClientId, guessed: pseudonyms.Guesses, *, setting: str, claim: Claim
) -> Verdict:
    listed = recorded.views[victim].shard.ids
    rate = match_rate(guessed, listed)
    note = f"{len(listed)} ids of a party, {len(DICTIONARY)} in the dictionary"
    return Verdict.of_rate(rate, level=EVERY_LEVEL, setting=setting, claim=claim, note=note)


def _play_foreign_tasks(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    for level in levels:
        recorded = bench.record(Scenario(level, h=1))
        outcomes = tampering.tasks_of_others(recorded.transcript, recorded.ask)
        yield Verdict.of_attempts(outcomes, level=level, setting="blocks of others", claim="safe")
    recorded = bench.record(_set_up_only("ecdh"))
    outcomes = tampering.lists_of_others(recorded.transcript, recorded.ask)
    yield Verdict.of_attempts(outcomes, level=EVERY_LEVEL, setting="lists of others", claim="safe")


def _play_foreign_results(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    for level in levels:
        recorded = bench.record(Scenario(level, h=1))
        outcomes = tampering.results_of_others(recorded.transcript, recorded.left_out)
        yield Verdict.of_attempts(outcomes, level=level, setting="blocks of others", claim="safe")


def _play_replay(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    for level in levels:
        recorded = bench.record(Scenario(level, h=1))
        client = recorded.transcript.layout.clients[0]
        outcomes = tampering.replayed_duals(recorded.transcript, recorded.ask, client)
        yield Verdict.of_attempts(outcomes, level=level, setting="between rounds", claim="leaks")


def _play_mixed_runs(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    for level in levels:
        recorded = bench.record(Scenario(level, h=1))
        other = bench.record(Scenario(level, loss="logistic", h=ALL_DENSE)).transcript
        client = recorded.transcript.layout.clients[0]
        outcomes = tampering.foreign_duals(recorded.transcript, other, recorded.ask, client)
        claim: Claim = "leaks" if level == "plain" else "safe"
        yield Verdict.of_attempts(outcomes, level=level, setting="between runs", claim=claim)


def _play_keys(bench: Bench, _levels: Sequence[Privacy]) -> Iterator[Verdict]:
    recorded, earlier = bench.record(_set_up_only("ecdh")), bench.record(_set_up_only("hmac"))
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
    yield Verdict.of_attempts(outcomes, level=EVERY_LEVEL, setting="key ceremony", claim="safe")


def _play_outsider(bench: Bench, _levels: Sequence[Privacy]) -> Iterator[Verdict]:
    recorded = bench.record(Scenario("paper", h=1))
    transcript = recorded.transcript
    client = transcript.layout.clients[0]
    server, kits = bench.server_kit(len(transcript.layout.clients)), bench.kits(len(transcript.layout.clients))
    upward, downward = listen_in(transcript, client, server=server, party=kits[client])
    messages = [message for message in transcript.of(client) if message.round_id > 0]
    seen = in_clear(upward + downward, messages)
    said = in_clear(b"".join(message.task + message.result for message in messages), messages)
    yield Verdict.of_rate(
        seen / said,
        level="paper",
        setting="eavesdropping",
        claim="safe",
        note=f"{seen} of {said} stretches of 16 bytes found in {len(upward) + len(downward)} captured",
    )
    strangers = [None, *bench.kits(2, "elsewhere").values()]
    let_in = calls_let_in(server, strangers)
    yield Verdict.of_rate(
        let_in / len(strangers),
        level=EVERY_LEVEL,
        setting="calling",
        claim="safe",
        note=f"{len(strangers)} callers: no certificate, or one of another federation",
    )
    assert isinstance(transcript.key, PublicKey)
    width = transcript.key.ciphertext_bytes
    true = sum(len(message.result) for message in messages) / len(messages) / width
    estimate = blocks_by_size(upward, answers=len(messages), ciphertext_bytes=width)
    yield Verdict(
        level="paper",
        setting="sizes",
        score=min(estimate, true) / max(estimate, true),
        measure="ratio to true size",
        claim="leaks",
        succeeds=min(estimate, true) / max(estimate, true) >= 0.5,
        note=f"ciphertexts an answer: {estimate:.1f} guessed, {true:.1f} true",
    )


_ROGUE = "server that leaves the protocol"

PROTOCOL_ATTACKS: Final = (
    Attack(
        "dictionary",
        "tries all ids on the pseudonyms, with all hashes that need no secret",
        "server",
        _play_dictionary_alone,
    ),
    Attack(
        "dictionary-with-a-party",
        "tries all ids with what one party knows",
        "server and a party",
        _play_dictionary_colluding,
    ),
    Attack("dictionary-slipped-in", "sends a list of all ids round the ring", _ROGUE, _play_slipped_list),
    Attack("dictionary-in-the-ring", "tries all ids on the lists that it raises", "party", _play_ring),
    Attack("foreign-tasks", "hands a party blocks, features and lists of others", _ROGUE, _play_foreign_tasks),
    Attack("foreign-results", "answers for blocks and features of others", "party", _play_foreign_results),
    Attack("replay", "hands out an earlier round's ciphertext", _ROGUE, _play_replay),
    Attack("mixed-runs", "hands out another run's ciphertext", _ROGUE, _play_mixed_runs),
    Attack("swapped-key", "puts other blobs, keys and certificates into the key ceremony", _ROGUE, _play_keys),
    Attack(
        "outsider", "listens on the network, and calls without the federation's certificate", "outsider", _play_outsider
    ),
)
