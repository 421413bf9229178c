"""The alignment by blinding parties: what crosses the server, what a party refuses, what the server refuses."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from fenchel_client.alignment.blinders import Blinding
from fenchel_client.alignment.ring import NOT_DUE
from fenchel_common.blinding import BlindingWays
from fenchel_common.crypto import curvecores
from fenchel_common.crypto.curve import fresh_exponent, hash_to_curve, is_exponent, multiplied, quotient
from fenchel_common.crypto.curvecores import CurveCores, Raising
from fenchel_common.errors import InvalidInput, Refusal, ResultRejected
from fenchel_common.ids import ClientId
from fenchel_common.wire import pieces as wire
from fenchel_common.wire.alignment import NO_LIST, AlignmentMethod, Listing, listing_from_bytes, split_elements
from fenchel_common.wire.pieces import Piece, work_from_bytes, worked_from_bytes
from fenchel_server.blinding import BlindedLists
from fenchel_server.contract import PhaseRequest
from support.alignment import RUN, align, make_blinding, make_shard

NAMES = tuple(ClientId(name) for name in ("anna", "bert", "carl", "dora", "emil"))
IDS = tuple(f"patient-{number:03d}" for number in range(9))
FEATURE = bytes(16)


def listing_of(blinding: Blinding, samples: int) -> Listing:
    return Listing(FEATURE, True, NO_LIST, samples=samples, pieces=blinding.first_pieces())


class Federation:
    """Five parties with all ids, three of them blinding parties, after their first lists."""

    def __init__(self) -> None:
        self.parties = {name: make_blinding(IDS, NAMES, name) for name in NAMES}
        self.ways = BlindingWays(NAMES, NAMES[:3])
        self.server = BlindedLists(self.ways, {name: listing_of(one, len(IDS)) for name, one in self.parties.items()})

    def work(self, client: ClientId, *pieces: Piece) -> tuple[Piece, ...]:
        return worked_from_bytes(self.parties[client].answer(pieces))[0]

    def on_its_way(self, origin: ClientId, steps: int) -> Piece:
        """The first piece of a list after so many steps."""
        piece = self.parties[origin].first_pieces()[0]
        for step in range(1, steps):
            (piece,) = self.work(self.ways.way(origin)[step], piece)
        return piece

    def refused(self, client: ClientId, piece: Piece) -> str:
        with pytest.raises(Refusal) as caught:
            self.work(client, piece)
        assert caught.value.public_reason == NOT_DUE
        return str(caught.value)


@pytest.fixture
def federation() -> Federation:
    return Federation()


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 100])
def test_every_list_goes_past_all_blinding_parties_and_ends_at_another_party(count: int) -> None:
    clients = tuple(ClientId(f"p{number}") for number in range(count))
    ways = BlindingWays(clients, clients[:3])
    for origin in clients:
        way = ways.way(origin)
        assert way[0] == origin
        assert sorted(set(way)) == sorted({origin, *clients[:3]})
        assert len(way) == (min(3, count) if origin in clients[:3] else 5)
        assert count == 1 or way[-1] != origin
        neighbours = pairwise(way)
        assert all(next_one in ways.neighbours(one) for one, next_one in neighbours)
    load = [sum(ways.way(origin)[-1] == blinder for origin in clients) for blinder in clients[:3]]
    assert max(load) - min(load) <= 1


def test_one_blinding_party_among_several_parties_is_refused() -> None:
    for blinders in (NAMES[:1], (), (*NAMES[:2], ClientId("nobody"))):
        with pytest.raises(InvalidInput, match="at least two parties"):
            BlindingWays(NAMES, blinders)


def test_nothing_on_its_way_can_be_compared_and_nobody_sees_its_pseudonyms() -> None:
    shards = {name: make_shard(IDS, [name]) for name in NAMES}
    plain = {hash_to_curve(sample, RUN) for sample in IDS}
    transcript = align(shards, method=AlignmentMethod.BLINDERS).transcript
    lists: dict[tuple[int, int], set[bytes]] = {}
    given: dict[ClientId, set[bytes]] = {name: set() for name in NAMES}
    for phase, client, task, result in transcript:
        if phase == "align_0":
            made = listing_from_bytes(result).pieces
        else:
            made = worked_from_bytes(result)[0]
            given[client] |= {one for piece in work_from_bytes(task) for one in split_elements(piece.elements)}
        for piece in made:
            lists[piece.origin, piece.step] = set(split_elements(piece.elements))
    assert sum(not elements for elements in lists.values()) == 2, "the two owners have sealed their lists"
    ways = BlindingWays(NAMES, NAMES[:3])
    final = {key: one for key, one in lists.items() if key[1] == len(ways.way(NAMES[key[0]])) - 1}
    assert len({frozenset(final[key]) for key in final if key[0] < 3}) == 1, "equal ids end as equal pseudonyms"
    compared = [one for key, one in lists.items() if key not in final or key[0] >= 3]
    for number, one in enumerate(compared):
        assert one.isdisjoint(plain)
        assert all(one.isdisjoint(other) for other in compared[:number])
        assert all(one.isdisjoint(other) for other in final.values() if other is not one)
    assert all(given[name].isdisjoint(final[0, 2]) for name in NAMES)


def test_lists_of_several_pieces_come_out_as_whole_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    shards = {name: make_shard(IDS[number:], [name]) for number, name in enumerate(NAMES)}
    whole = align(shards, method=AlignmentMethod.BLINDERS)
    for module in ("fenchel_common.wire.pieces", "fenchel_client.alignment.blinders"):
        monkeypatch.setattr(f"{module}.PIECE_ELEMENTS", 2)
        monkeypatch.setattr(f"{module}.WORK_ELEMENTS", 6)
    monkeypatch.setattr("fenchel_server.blinding.WORK_ELEMENTS", 6)
    in_pieces = align(shards, method=AlignmentMethod.BLINDERS)
    assert in_pieces.unsalted() == whole.unsalted()
    assert len({phase for phase, *_ in in_pieces.transcript}) > len({phase for phase, *_ in whole.transcript})
    tasks = [work_from_bytes(task) for phase, _, task, _ in in_pieces.transcript if phase != "align_0"]
    assert max(sum(piece.count for piece in task) for task in tasks) <= 6


ALTERATIONS: dict[str, Callable[[Piece], Piece]] = {
    "another list": lambda piece: replace(piece, origin=4),
    "another step": lambda piece: replace(piece, step=0),
    "another number": lambda piece: replace(piece, number=1),
    "cut": lambda piece: replace(piece, elements=piece.elements[32:]),
    "no tag": lambda piece: replace(piece, tag=bytes(32)),
    "sealed instead": lambda piece: replace(piece, elements=b"", tag=b"", sealed=bytes(28) + piece.elements),
    "no party": lambda piece: replace(piece, origin=5),
}


@pytest.mark.parametrize("altered", ALTERATIONS.values(), ids=ALTERATIONS)
def test_a_piece_that_is_not_the_one_due_is_refused(federation: Federation, altered: Callable[[Piece], Piece]) -> None:
    due = federation.on_its_way(NAMES[3], 2)
    worker = federation.ways.way(NAMES[3])[2]
    federation.refused(worker, altered(due))
    assert len(federation.work(worker, due)) == 1


def test_a_piece_is_refused_by_all_but_the_party_next_on_its_way(federation: Federation) -> None:
    for origin in NAMES:
        for steps in range(1, len(federation.ways.way(origin))):
            piece = federation.on_its_way(origin, steps)
            for other in set(NAMES) - {federation.ways.way(origin)[steps]}:
                federation.refused(other, piece)


def test_an_owner_takes_nothing_off_that_has_not_passed_the_blinding_parties(federation: Federation) -> None:
    """Its own first list without its exponent would be plain hashes."""
    owner, first = NAMES[3], federation.on_its_way(NAMES[3], 1)
    assert "not as 'bert' gave it" in federation.refused(owner, replace(first, step=2))


def test_a_repeated_piece_gets_the_same_answer_and_another_in_its_place_is_refused(federation: Federation) -> None:
    owner, worker = NAMES[0], NAMES[1]
    piece = federation.on_its_way(owner, 1)
    assert federation.work(worker, piece) == federation.work(worker, piece)
    other = make_blinding(IDS, NAMES, owner).first_pieces()[0]
    assert "other elements in its place" in federation.refused(worker, other)


def test_a_party_lists_no_more_than_it_has(federation: Federation) -> None:
    assert "no such piece" in federation.refused(NAMES[0], Piece(0, 0, 1))
    federation.refused(NAMES[0], Piece(1, 0, 0))


def results(federation: Federation, request: PhaseRequest, change: Callable[[Piece], Piece]) -> dict[ClientId, bytes]:
    """The answers to a phase; the pieces of `dora` are changed."""
    made = {}
    for client, body in request.tasks.items():
        worked, finisher = worked_from_bytes(federation.parties[client].answer(work_from_bytes(body)))
        made[client] = wire.worked_to_bytes(map(change, worked) if client == NAMES[3] else worked, finisher)
    return made


BAD: dict[str, Callable[[Piece], Piece]] = {
    "not those that it was asked for": lambda piece: replace(piece, number=3),
    "8 elements where 9 are due": lambda piece: replace(piece, sealed=piece.sealed[32:]),
    "sealed where it must not be": lambda piece: replace(piece, sealed=b"", elements=piece.sealed[28:], tag=bytes(32)),
}


def at_the_owners_turn(federation: Federation) -> PhaseRequest:
    """The phase in which owners seal their lists; the phases before it are over."""

    def following(request: PhaseRequest | None) -> PhaseRequest | None:
        assert request is not None
        return federation.server.advance(request.phase, results(federation, request, lambda piece: piece))

    request = following(following(federation.server.request()))
    assert request is not None
    return request


@pytest.mark.parametrize("message", BAD)
def test_the_server_refuses_a_bad_answer_and_names_the_party(federation: Federation, message: str) -> None:
    request = at_the_owners_turn(federation)
    with pytest.raises(ResultRejected, match=message) as caught:
        federation.server.advance(request.phase, results(federation, request, BAD[message]))
    assert caught.value.client == NAMES[3]


@pytest.mark.parametrize("finisher", [b"", bytes(32)])
def test_the_server_refuses_an_exponent_that_is_none(federation: Federation, finisher: bytes) -> None:
    request = at_the_owners_turn(federation)
    answers = results(federation, request, lambda piece: piece)
    answers[NAMES[3]] = wire.worked_to_bytes(worked_from_bytes(answers[NAMES[3]])[0], finisher)
    with pytest.raises(ResultRejected, match="the exponent that finishes its list is none"):
        federation.server.advance(request.phase, answers)


def test_the_server_refuses_a_listing_without_its_first_pieces(federation: Federation) -> None:
    listings = {name: listing_of(one, len(IDS)) for name, one in federation.parties.items()}
    for given in (replace(listings[NAMES[1]].pieces[0], origin=0), replace(listings[NAMES[1]].pieces[0], step=1)):
        with pytest.raises(ResultRejected):
            BlindedLists(federation.ways, listings | {NAMES[1]: replace(listings[NAMES[1]], pieces=(given,))})


def test_taking_an_exponent_off_gives_the_points_of_before() -> None:
    points = [hash_to_curve(sample, RUN) for sample in IDS]
    hidden, rest = fresh_exponent(), fresh_exponent()
    raised = split_elements(multiplied(split_elements(multiplied(points, hidden)), quotient(rest, hidden)))
    cleared = multiplied(split_elements(multiplied(raised, quotient(None, rest))), hidden)
    assert cleared == multiplied(points, hidden)
    assert all(is_exponent(one) for one in (hidden, quotient(rest, hidden), quotient(None, rest)))
    assert not is_exponent(bytes(32))
    assert not is_exponent(hidden[:-1])


def test_all_cores_give_what_one_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curvecores, "LONG", 1)
    monkeypatch.setattr(curvecores, "core_count", lambda: 2)
    exponent, cores = fresh_exponent(), CurveCores()
    listed = Raising(exponent, ids=IDS, run=RUN)
    work = [listed, Raising(fresh_exponent(), listed.done()), Raising(exponent, listed.done()[:64])]
    try:
        assert cores.raised(work) == [one.done() for one in work]
        with pytest.raises(InvalidInput, match="not on the curve"):
            cores.raised([listed, Raising(exponent, (2).to_bytes(32, "little"))])
        assert cores.raised([listed, listed])[1] == listed.done()
    finally:
        cores.close()
