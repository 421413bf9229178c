"""Counts how many tampered sums parties accept: none, unless the checks are broken.

One chosen tampering in ten, and one random tampering in a hundred, is made as a ciphertext and decrypted. The others
are made as the plaintexts to which such ciphertexts decrypt, and go through the same check, because decryption takes
nearly all of the time. Masked sums are all opened as the server would send them. One kind of message is one field, or
several, of one phase.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from multiprocessing import get_context
from random import Random
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.crypto.cipher import PaillierCipher
from fenchel_common.crypto.paillier import split
from fenchel_common.crypto.vectors import EncryptedVector, Vector
from fenchel_common.crypto.words import MaskedVector
from fenchel_common.errors import CryptoError
from fenchel_deploy.forgery.cases import CASES, Case, Recorded, recorded
from fenchel_deploy.forgery.openings import Opening
from fenchel_deploy.forgery.tampering import Mixture, Surroundings, chosen, drawn, with_ciphertext

Array = NDArray[np.float64]
Tamperings = Callable[[Opening, Surroundings, Random], Iterator[Mixture]]

RANDOM_DECRYPTED: Final = 100
CHOSEN_DECRYPTED: Final = 10
"""One tampering in so many is decrypted."""


@dataclass(frozen=True, slots=True)
class Count:
    """The tamperings of one kind of message, and how many of them were accepted.

    `honest` is how many sums as they were opened the same check accepts, of as many as were tampered with.
    """

    algorithm: str
    level: str
    cipher: str
    kind: str
    openings: int
    honest: int
    random: int
    random_accepted: int
    chosen: int
    chosen_accepted: int

    @property
    def sound(self) -> bool:
        return self.honest == self.openings and not self.random_accepted and not self.chosen_accepted


def campaign(*, random: int, chosen: int, seed: int, cases: Sequence[Case] = CASES) -> list[Count]:
    """Tampers so many times with each kind of message of each case; cases are spread over the processors."""
    work = partial(tampered, random=random, chosen_ones=chosen, seed=seed)
    if len(cases) == 1:
        return work(cases[0])
    with ProcessPoolExecutor(min(os.cpu_count() or 1, len(cases)), mp_context=get_context("spawn")) as pool:
        return [count for counts in pool.map(work, cases) for count in counts]


def tampered(case: Case, *, random: int, chosen_ones: int, seed: int) -> list[Count]:
    """The counts of all kinds of messages of one case."""
    return list(counts_of(case, recorded(case), random=random, chosen_ones=chosen_ones, seed=seed))


def counts_of(case: Case, run: Recorded, *, random: int, chosen_ones: int, seed: int) -> Iterator[Count]:
    """The counts of all kinds of messages in a recorded run."""
    kinds: dict[str, list[Opening]] = {}
    for opening in run.record.opened:
        kinds.setdefault(opening.kind, []).append(opening)
    for kind, openings in sorted(kinds.items()):
        generator = Random(f"{seed} {case.name} {case.level} {kind}")  # noqa: S311 - to be repeated; protects nothing
        targets = [Target(opening, run) for opening in openings]
        random_accepted = chosen_accepted = 0
        for number, (target, mixture) in enumerate(_spread(targets, drawn, generator, random)):
            random_accepted += target.accepts(mixture, decrypted=number % RANDOM_DECRYPTED == 0)
            if number % RANDOM_DECRYPTED == 0:
                random_accepted += target.accepts_damaged(generator)
        for number, (target, mixture) in enumerate(_spread(targets, chosen, generator, chosen_ones)):
            chosen_accepted += target.accepts(mixture, decrypted=number % CHOSEN_DECRYPTED == 0)
        yield Count(
            algorithm=case.name,
            level=case.level,
            cipher=case.cipher,
            kind=kind,
            openings=len(targets),
            honest=sum(target.accepts_honest() for target in targets),
            random=random,
            random_accepted=random_accepted,
            chosen=chosen_ones,
            chosen_accepted=chosen_accepted,
        )


def as_rows(counts: Sequence[Count]) -> list[dict[str, object]]:
    """For JSON."""
    return [{**asdict(count), "sound": count.sound} for count in counts]


class Target:
    """An opening that a server tampers with.

    A tampered sum is accepted if its check passes and the party gets other values than those of the true sum. A server
    can add q to the sum of several tags without changing a value, and is refused or not by the sum of the tags alone,
    which are uniform numbers and tell nothing of the values.
    """

    def __init__(self, opening: Opening, run: Recorded) -> None:
        self.opening = opening
        self.around = Surroundings.of(opening, run.record, run.other)
        self._honest = Mixture(tuple((1, block) for block in self.around.contributions))
        values = self._checked(self._honest)
        assert values is not None, "a party opened this sum"
        self._values = values

    def genuine(self, mixture: Mixture) -> bool:
        """Whether the mixture is the sum itself."""
        like = self.opening.block.vector
        if isinstance(like, MaskedVector):
            made = self._masked(mixture, like)
            return made is not None and np.array_equal(made.integers, like.integers) and made.tags == like.tags
        return bool(mixture.plaintext == self.opening.block.plaintext)

    def accepts_honest(self) -> bool:
        """Whether the sum of the contributions opens as the server would send it."""
        return self.genuine(self._honest) and self._decrypted(self._honest) is not None

    def accepts(self, mixture: Mixture, *, decrypted: bool) -> bool:
        """Whether the mixture is accepted: as the server would send it if `decrypted`, else by its plaintext alone."""
        return self._differs(self._decrypted(mixture) if decrypted else self._checked(mixture))

    def accepts_damaged(self, random: Random) -> bool:
        """Whether the sum is accepted with some bits of its ciphertext changed."""
        like = self.opening.block.vector
        if isinstance(like, MaskedVector):
            words = like.integers.copy()
            for bit in random.sample(range(8 * words.nbytes), random.randint(1, 8)):
                words.view(np.uint8)[bit // 8] ^= 1 << bit % 8
            return self._differs(self._opened(replace(like, integers=words)))
        if not isinstance(like, EncryptedVector):
            return False
        (number,) = split(like.ciphertexts, like.key.ciphertext_bytes)
        for bit in random.sample(range(2 * like.key.bits - 2), random.randint(1, 8)):
            number ^= 1 << bit
        return self._differs(self._opened(with_ciphertext(like, number)))

    def _differs(self, values: Array | None) -> bool:
        return values is not None and not np.array_equal(values, self._values)

    def _checked(self, mixture: Mixture) -> Array | None:
        like, cipher = self.opening.block.vector, self.opening.cipher
        if not isinstance(like, EncryptedVector):
            return self._decrypted(mixture)
        assert isinstance(cipher, PaillierCipher)
        assert self.opening.expected is not None, "a run with a Paillier key"
        try:
            return cipher.checked(like, [mixture.plaintext], [self.opening.expected])
        except CryptoError:
            return None

    def _decrypted(self, mixture: Mixture) -> Array | None:
        like = self.opening.block.vector
        if isinstance(like, EncryptedVector):
            return self._opened(mixture.ciphertext(like))
        if isinstance(like, MaskedVector):
            made = self._masked(mixture, like)
            return None if made is None else self._opened(made)
        try:
            return self._opened(mixture.in_clear(like))
        except CryptoError:
            return None

    def _masked(self, mixture: Mixture, like: MaskedVector) -> MaskedVector | None:
        try:
            return mixture.masked(like)
        except CryptoError:
            return None

    def _opened(self, vector: Vector) -> Array | None:
        try:
            opening = self.opening
            return opening.cipher.decrypt(
                vector,
                origins=[opening.origins],
                places=[opening.place],
                among=None if opening.among is None else [opening.among],
            )
        except CryptoError:
            return None


def _spread(
    targets: Sequence[Target], tamperings: Tamperings, random: Random, count: int
) -> Iterator[tuple[Target, Mixture]]:
    """So many tamperings, each in turn of another target; a mixture that is the sum itself is passed over."""
    endless = [(target, tamperings(target.opening, target.around, random)) for target in targets]

    def forgeries() -> Iterator[tuple[Target, Mixture]]:
        while True:
            for target, mixtures in endless:
                yield target, next(mixture for mixture in mixtures if not target.genuine(mixture))

    return islice(forgeries(), count)
