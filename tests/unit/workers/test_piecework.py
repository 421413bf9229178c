"""Pieces of work for workers: sealed under the node secret, bound to their results, each block with a fresh nonce."""

from pathlib import Path

import pytest
from gmpy2 import mpz

from fenchel_client.workers.nodesecret import VARIABLE, NodeSecret
from fenchel_client.workers.piecework import Piece, Work, do, seal_key
from fenchel_client.workers.rayworkers import RayCluster
from fenchel_common.errors import InvalidInput, WrongKey
from support.keys import private_key

KEY = private_key(2048)
PLAINTEXTS = [mpz(number) for number in (0, 1, -1, 12345, -(10**300))]


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NodeSecret:
    return placed(bytes(range(32)), tmp_path / "secret", monkeypatch)


def placed(content: bytes, path: Path, monkeypatch: pytest.MonkeyPatch, *, mode: int = 0o600) -> NodeSecret:
    path.write_bytes(content)
    path.chmod(mode)
    monkeypatch.setenv(VARIABLE, str(path))
    return NodeSecret.here()


def done(work: Work, blocks: list[mpz], secret: NodeSecret) -> list[mpz]:
    piece = Piece.of(work, blocks, KEY, secret)
    return piece.result(do(seal_key(KEY, secret), piece), KEY, secret)


def test_what_a_worker_encrypts_a_worker_decrypts_and_so_does_the_key(secret: NodeSecret) -> None:
    ciphertexts = done(Work.ENCRYPT, PLAINTEXTS, secret)
    assert KEY.raw_decrypt(ciphertexts) == PLAINTEXTS
    assert done(Work.DECRYPT, ciphertexts, secret) == PLAINTEXTS


def test_a_piece_that_is_done_again_has_fresh_nonces(secret: NodeSecret) -> None:
    piece, key = Piece.of(Work.ENCRYPT, [mpz(7)] * 3, KEY, secret), seal_key(KEY, secret)
    first, again = (piece.result(do(key, piece), KEY, secret) for _ in range(2))
    assert len({*first, *again}) == 6


def test_neither_key_nor_plaintext_is_in_clear_on_the_way(secret: NodeSecret) -> None:
    number = mpz(2) ** 500 + 12345
    piece = Piece.of(Work.ENCRYPT, [number], KEY, secret)
    assert bytes(number.to_bytes(63, "little")) not in piece.sealed
    sealed = seal_key(KEY, secret)
    assert not any(f"{prime.value:x}".encode() in sealed for prime in KEY.secret_primes())


def test_a_node_with_another_secret_cannot_open_the_work(
    secret: NodeSecret, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    piece, key = Piece.of(Work.ENCRYPT, PLAINTEXTS, KEY, secret), seal_key(KEY, secret)
    placed(bytes(32), tmp_path / "other", monkeypatch)
    with pytest.raises(WrongKey, match="secret"):
        do(key, piece)


def test_the_result_of_one_piece_is_not_taken_for_that_of_another(secret: NodeSecret) -> None:
    first, second = (Piece.of(Work.ENCRYPT, PLAINTEXTS, KEY, secret) for _ in range(2))
    with pytest.raises(WrongKey):
        second.result(do(seal_key(KEY, secret), first), KEY, secret)


@pytest.mark.parametrize(("content", "mode"), [(bytes(31), 0o600), (bytes(32), 0o640)])
def test_a_secret_that_is_short_or_that_others_can_read_is_refused(
    content: bytes, mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidInput, match="node secret"):
        placed(content, tmp_path / "secret", monkeypatch, mode=mode)


def test_off_loopback_ray_needs_tls(secret: NodeSecret, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_USE_TLS", raising=False)
    with pytest.raises(InvalidInput, match="RAY_USE_TLS=1"):
        RayCluster("ray.example.org:6379")
