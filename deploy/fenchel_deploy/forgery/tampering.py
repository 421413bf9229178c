"""What a server can make of the vectors of a run: sums of blocks with whole coefficients, and of known numbers.

Multiplying ciphertexts adds plaintexts, raising a ciphertext to a power multiplies its plaintext, and anybody can make
a ciphertext of a known number. So every ciphertext that a server can make on purpose decrypts to a `Mixture`. Whatever
else it sends, such as a ciphertext with some bits changed, decrypts to a number that it does not know. Masked words and
their tags can be added and multiplied too, word by word.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final

import gmpy2
import numpy as np
from gmpy2 import mpz

from fenchel_common.crypto.paillier import concatenate, split
from fenchel_common.crypto.tags import TAG_PRIME
from fenchel_common.crypto.vectors import EncryptedVector
from fenchel_common.crypto.words import MaskedVector, PlainVector
from fenchel_deploy.forgery.openings import Block, Opening, Record

SHIFTS: Final = (1, -1, 1 << 32, -(1 << 32), 1 << 53, -(1 << 53), 1 << 62, 1 << 63, 1 << 64, -(1 << 64))
"""What a server could add to a slot: a unit of the resolution, 1.0, the most of a default format, a carry."""
FACTORS: Final = (-1, 0, 2, 3, -2, TAG_PRIME, TAG_PRIME + 1)
REPLAYS: Final = 4


@dataclass(frozen=True, slots=True)
class Mixture:
    """The sum of blocks with coefficients, and of a known number."""

    parts: tuple[tuple[int, Block], ...]
    added: int = 0

    @property
    def plaintext(self) -> mpz:
        total = mpz(self.added)
        for factor, block in self.parts:
            assert block.plaintext is not None, "masked vectors are mixed word by word"
            total += factor * block.plaintext
        return total

    def ciphertext(self, like: EncryptedVector) -> EncryptedVector:
        """The mixture as a server makes it, in the shape of a vector of one block under the same key."""
        key = like.key
        product = mpz(1) + self.added * key.n % key.n_squared
        for factor, block in self.parts:
            assert isinstance(block.vector, EncryptedVector)
            (number,) = split(block.vector.ciphertexts, key.ciphertext_bytes)
            product = product * gmpy2.powmod(number, factor, key.n_squared) % key.n_squared
        return with_ciphertext(like, product)

    def in_clear(self, like: PlainVector) -> PlainVector:
        """The mixture of vectors in clear; raises a `CryptoError` if no vector has such values."""
        grid, tags = like.layout.unpack([self.plaintext])
        return PlainVector(like.key_bits, like.format, like.terms, grid[0, : like.length], tuple(tags))

    def masked(self, like: MaskedVector) -> MaskedVector:
        """The mixture of masked vectors, modulo the width of a word; raises a `CryptoError` if no vector has its tag.

        The known number stands for a change of each word and of the tag.
        """
        changes, (tag,) = like.layout.unpack([mpz(self.added)])
        words = changes[0, : like.length].view(np.uint64).astype(like.integers.dtype)
        modulus = 1 << 8 * words.dtype.itemsize
        for factor, block in self.parts:
            assert isinstance(block.vector, MaskedVector)
            common = min(like.length, block.vector.length)
            words[:common] += block.vector.integers[:common] * words.dtype.type(factor % modulus)
            tag += factor * block.vector.tags[0]
        return replace(like, integers=words, tags=(tag,))


def with_ciphertext(like: EncryptedVector, number: mpz) -> EncryptedVector:
    """The vector of one block with another ciphertext."""
    ciphertexts = concatenate([number % like.key.n_squared], like.key.ciphertext_bytes)
    return replace(like, ciphertexts=ciphertexts)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The blocks that a server has at hand beside those of an opening.

    Attributes
    ----------
    contributions
        Those of which the opening's sum consists, in the order of its origins.
    replays
        Blocks that were sealed under the same name and field at other times or by other parties.
    exchanged
        Other blocks, and other fields, of the same messages.
    foreign
        Sums that were opened elsewhere, and blocks of another run.
    """

    contributions: tuple[Block, ...]
    replays: tuple[Block, ...]
    exchanged: tuple[Block, ...]
    foreign: tuple[Block, ...]

    @property
    def everything(self) -> tuple[Block, ...]:
        return self.contributions + self.replays + self.exchanged + self.foreign

    @classmethod
    def of(cls, opening: Opening, record: Record, other: Record) -> "Surroundings":
        """The surroundings of an opening, from the record of its run and of another; blocks of its own kind only."""
        alike = type(opening.block.vector)
        own, stamps = set(opening.origins), {origin.stamp for origin in opening.origins}
        fields = {origin.field for origin in opening.origins}
        near = [entry for entry in record.sealed.items() if isinstance(entry[1].vector, alike)]
        return cls(
            contributions=tuple(record.sealed[origin, opening.place.token] for origin in opening.origins),
            replays=tuple(
                block
                for (origin, token), block in near
                if token == opening.place.token and origin.field in fields and origin not in own
            ),
            exchanged=tuple(
                block
                for (origin, token), block in near
                if origin.stamp in stamps and not (token == opening.place.token and origin in own)
            ),
            foreign=tuple(
                block
                for block in (
                    *(one.block for one in record.opened if one is not opening),
                    *(block for (origin, _), block in other.sealed.items() if origin.field in fields),
                )
                if isinstance(block.vector, alike)
            ),
        )


def chosen(opening: Opening, around: Surroundings, random: Random) -> Iterator[Mixture]:
    """Tamperings that could be hoped to pass, without end; those with guesses come with new ones each time."""
    whole, given = (1, opening.block), around.contributions
    layout = opening.block.vector.layout
    slots, width = layout.slots, layout.format.slot_bits
    tag = 1 << layout.slots_width
    everybody = tuple((1, block) for block in given)
    others = [around.replays, around.exchanged, around.foreign]
    while True:
        slot = random.randrange(slots)
        unit = 1 << width * slot
        yield from (Mixture((whole,), shift * unit) for shift in SHIFTS)
        yield from (Mixture((whole,), shift * tag) for shift in (1, -1, TAG_PRIME, -TAG_PRIME, len(given) * TAG_PRIME))
        for _ in range(REPLAYS):
            yield Mixture((whole,), unit + random.randrange(TAG_PRIME) * tag)
            yield Mixture((whole,), random.choice(SHIFTS) * unit - random.randrange(TAG_PRIME) * tag)
            yield Mixture((), random.randrange(1 << 53) * unit + random.randrange(TAG_PRIME) * tag)
        yield from (Mixture(((factor, opening.block),)) for factor in FACTORS)
        for position, block in enumerate(given):
            rest = everybody[:position] + everybody[position + 1 :]
            yield Mixture(rest)
            yield Mixture((*everybody, (1, block)))
            yield Mixture(((1, block),) if rest else ((2, block),))
            yield Mixture((*rest, (-1, block)))
            for blocks in others:
                for instead in random.sample(blocks, min(REPLAYS, len(blocks))):
                    yield Mixture((*rest, (1, instead)))
        for blocks in others:
            for block in random.sample(blocks, min(REPLAYS, len(blocks))):
                yield Mixture(((1, block),))
                yield Mixture((whole, (1, block)))
                yield Mixture((whole, (1, block), (-1, random.choice(blocks))))


def drawn(opening: Opening, around: Surroundings, random: Random) -> Iterator[Mixture]:
    """Tamperings at random, without end, of all kinds in equal parts."""
    layout = opening.block.vector.layout
    whole, everything = (1, opening.block), around.everything
    slots, width, tag = layout.slots, layout.format.slot_bits, 1 << layout.slots_width

    def moved() -> int:
        """A change of some slots, of a random size."""
        places = random.sample(range(slots), random.randint(1, slots))
        sizes = [random.choice((-1, 1)) * random.getrandbits(random.randint(1, width - 1)) for _ in places]
        return sum(size << width * place for place, size in zip(places, sizes, strict=True))

    def mixed() -> tuple[tuple[int, Block], ...]:
        blocks = random.sample(everything, random.randint(1, min(4, len(everything))))
        return tuple((random.choice((-2, -1, 1, 1, 2)), block) for block in blocks)

    makers: Sequence[Callable[[], Mixture]] = (
        lambda: Mixture((whole,), moved()),
        lambda: Mixture((whole,), moved() + random.randrange(-TAG_PRIME, TAG_PRIME) * tag),
        lambda: Mixture(mixed()),
        lambda: Mixture((whole, *mixed())),
        lambda: Mixture(mixed(), moved() + random.randrange(-TAG_PRIME, TAG_PRIME) * tag),
        lambda: Mixture((), random.getrandbits(layout.key_bits - 3)),
    )
    while True:
        for make in makers:
            yield make()
