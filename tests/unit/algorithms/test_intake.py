"""Answers are added as they come: in any order, by several threads, whole or not at all, and none is kept."""

import random
import threading
import weakref
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from fenchel_client.crypto.plain import PlainCipher
from fenchel_common.blocks import BlockVector
from fenchel_common.crypto.words import PlainVector
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.wire.parsing import Body
from fenchel_common.wire.vectors import vector_to_bytes
from fenchel_server.algorithms.intake import NO_RESULT, Answers, Intake, PhaseSums
from support.keys import SMALL_BITS, cipher, tags
from support.tagged import encrypted

PLAIN = PlainCipher(SMALL_BITS, tags(SMALL_BITS))
CIPHERS = {"plain": PLAIN, "small": cipher(SMALL_BITS)}
EACH_CIPHER = pytest.mark.parametrize("cipher", CIPHERS.values(), ids=CIPHERS)
CLIENTS = tuple(ClientId(f"party-{number:02}") for number in range(16))
BLOCKS = 8
WAIT_S = 20


def vectors_of(cipher: Any, number: int) -> PhaseSums:
    """The vectors of one client: its blocks are some of those of the client before and of the client after."""
    blocks = tuple(sorted({(number + step) % BLOCKS for step in range(4)}))
    values = np.full(len(blocks) * cipher.slots, number / 64.0)
    return PhaseSums.of(
        {"point": BlockVector(blocks, encrypted(cipher, values)), "vertex": None},
        {"figures": encrypted(cipher, np.array([0.25, number / 64.0]))},
    )


def read(client: ClientId, body: Body) -> tuple[int, PhaseSums]:
    if body == b"bad":
        raise InvalidInput("the second vector has the wrong blocks")
    number = CLIENTS.index(client)
    return number, MADE[bytes(body).decode()][number]


MADE = {name: [vectors_of(cipher, number) for number in range(len(CLIENTS))] for name, cipher in CIPHERS.items()}


def name_of(cipher: Any) -> bytes:
    return next(name for name, known in CIPHERS.items() if known is cipher).encode()


def taken(order: Iterable[ClientId], body: bytes, *, bad: frozenset[ClientId] = frozenset()) -> Answers[int]:
    intake = Intake(CLIENTS, read)
    for client in order:
        intake.take(client, b"bad" if client in bad else body)
    return intake.answers()


def content(answers: Answers[int]) -> tuple[dict[int, bytes], bytes]:
    figures = answers.sums.total("figures")
    assert figures is not None
    parts = answers.sums.by_block("point").parts()
    return {block: vector_to_bytes(part) for block, part in parts.items()}, vector_to_bytes(figures)


@EACH_CIPHER
def test_the_sums_do_not_depend_on_the_order_of_arrival(cipher: Any) -> None:
    body = name_of(cipher)
    first = taken(CLIENTS, body)
    for seed in range(5):
        other = taken(random.Random(seed).sample(CLIENTS, len(CLIENTS)), body)
        assert content(other) == content(first)
        assert list(other.good) == list(CLIENTS), "answers are in the order in which clients were asked"


@EACH_CIPHER
def test_answers_that_come_at_once_are_all_added(cipher: Any) -> None:
    together, body = threading.Barrier(len(CLIENTS)), name_of(cipher)

    def read_together(client: ClientId, data: Body) -> tuple[int, PhaseSums]:
        together.wait(WAIT_S)
        return read(client, data)

    intake = Intake(CLIENTS, read_together)
    with ThreadPoolExecutor(len(CLIENTS)) as pool:
        for done in [pool.submit(intake.take, client, body) for client in CLIENTS]:
            done.result(WAIT_S)
    assert content(intake.answers()) == content(taken(CLIENTS, body))


def test_a_malformed_answer_leaves_the_sums_as_they_were() -> None:
    bad = frozenset({CLIENTS[3], CLIENTS[9]})
    with_bad = taken(CLIENTS, b"small", bad=bad)
    without = taken([client for client in CLIENTS if client not in bad], b"small")
    assert content(with_bad) == content(without)
    assert with_bad.good == without.good
    assert with_bad.failed == dict.fromkeys(sorted(bad), "rejected: the second vector has the wrong blocks")
    assert without.failed == dict.fromkeys(sorted(bad), NO_RESULT)


def test_the_answer_of_a_client_that_was_not_asked_does_not_count() -> None:
    intake = Intake(CLIENTS[:2], read)
    for client in CLIENTS[:3]:
        intake.take(client, b"plain")
    answers = intake.answers()
    assert (list(answers.good), answers.failed) == (list(CLIENTS[:2]), {})
    assert content(answers) == content(taken(CLIENTS[:2], b"plain"))


def test_clients_whose_numbers_cannot_be_added_contradict_each_other() -> None:
    def of_any_length(client: ClientId, body: Body) -> tuple[ClientId, PhaseSums]:
        return client, PhaseSums.of({}, {"gram": encrypted(PLAIN, np.zeros(len(body)))})

    intake = Intake(CLIENTS, of_any_length)
    intake.take(CLIENTS[0], b"12")
    intake.take(CLIENTS[1], b"123")
    with pytest.raises(InvalidInput, match="gram: clients disagree"):
        intake.answers().sums.total("gram")


def test_no_vector_of_an_answer_is_in_memory_once_it_was_added() -> None:
    """Only the sums are: at no time more than the sums so far, and the first answer, which was their beginning."""
    alive: list[weakref.ref[Any]] = []
    most = 0

    def fresh(client: ClientId, body: Body) -> tuple[int, PhaseSums]:
        vector = encrypted(PLAIN, np.zeros(BLOCKS * PLAIN.slots))
        assert isinstance(vector, PlainVector)
        alive.append(weakref.ref(vector.integers))
        return 0, PhaseSums.of({"point": BlockVector(tuple(range(BLOCKS)), vector)}, {})

    intake = Intake(CLIENTS, fresh)
    for client in CLIENTS:
        intake.take(client, b"")
        most = max(most, sum(reference() is not None for reference in alive))
    assert len(alive) == len(CLIENTS)
    assert most == 1
