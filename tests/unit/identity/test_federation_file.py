"""What `federation.toml` may say, and how it complains."""

from pathlib import Path

import pytest

from fenchel_common.errors import InvalidInput
from fenchel_deploy.federation_file import EXAMPLE, Federation


def test_the_example_is_a_valid_federation() -> None:
    federation = Federation.parse(EXAMPLE)
    assert [(party.name, party.key_holder, party.labels) for party in federation.parties()] == [
        ("north", True, True),
        ("south", False, False),
    ]
    assert not federation.release_model_to_server
    assert federation.listen is None


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("key_holder", "key_hodler", r"unknown key party\[1\]\.key_hodler; did you mean 'key_holder'\?"),
        ("address", "adress", r"unknown key server\.adress; did you mean 'address'\?"),
        (
            'name = "hospitals"',
            'name = "h"\ncolour = 1',
            "unknown key colour; remove it, or use one of: .*validity_days",
        ),
        ('name = "hospitals"', "", "name is missing; add it"),
        ('address = "fenchel.example.org:9092"', "", r"server\.address is missing"),
        ("key_holder = true", "key_holder = 1", r"party\[1\]\.key_holder: .*boolean"),
        ("key_holder = true", "", "no party is the key holder; set `key_holder = true` on one party"),
        ('"south"', '"north"', "'north' has the same name as party 'north'; names must be unique"),
        ('"south"', '"server"', "'server' has the same name as the server"),
        ('"south"', '"../south"', r"'\.\./south' is not usable as a name: take 1 to 63 letters"),
        ('"south"', '"sou/th"', "not usable as a name"),
        ('"south"', '"ca"', "'ca' is reserved"),
        ('"hospitals"', '"ho spitals"', "federation 'ho spitals' is not usable as a name"),
        ("fenchel.example.org:9092", "fenchel.example.org", r"server\.address: .*must be HOST:PORT"),
        ("fenchel.example.org:9092", "fenchel.example.org:0", r"server\.address: port 0 is for this machine only"),
        ('name = "hospitals"', 'name = "h"\nvalidity_days = 0', "validity_days: .*greater than or equal to 1"),
        ("[server]", '[server]\nalternative_names = ["a b"]', r"server\.alternative_names\[1\]: 'a b' is neither"),
        ("[server]", "[server", "not valid TOML"),
        ("[server]", '[server]\nlisten = "10.0.0.5"', r"server\.listen: .*must be HOST:PORT"),
        ("[server]", '[server]\nlisten = "10.0.0.5:0"', r"server\.listen: port 0 is for this machine only"),
    ],
)
def test_a_wrong_federation_is_refused_with_the_key_and_the_cure(old: str, new: str, complaint: str) -> None:
    assert old in EXAMPLE
    with pytest.raises(InvalidInput, match=complaint):
        Federation.parse(EXAMPLE.replace(old, new, 1))


def test_a_federation_without_parties_is_refused() -> None:
    with pytest.raises(InvalidInput, match="party"):
        Federation.parse('name = "h"\nparty = []\n[server]\naddress = "h:1"\n')


def test_every_complaint_is_made_at_once() -> None:
    with pytest.raises(InvalidInput, match=r"adress.*label") as refusal:
        Federation.parse(EXAMPLE.replace("address", "adress").replace("labels", "label"))
    assert "server.address is missing" in str(refusal.value)


def test_a_missing_file_comes_with_an_example(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"does not exist; write one such as:\n\nname ="):
        Federation.load(tmp_path / "federation.toml")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "federation.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="not a UTF-8 text file"):
        Federation.load(path)


@pytest.mark.parametrize(
    ("address", "hosts"),
    [
        ("localhost:9092", ("localhost", "127.0.0.1", "::1", "extra.org")),
        ("127.0.0.1:0", ("127.0.0.1", "localhost", "::1", "extra.org")),
        ("example.org:9092", ("example.org", "extra.org")),
    ],
)
def test_the_server_is_certified_for_its_hosts(address: str, hosts: tuple[str, ...]) -> None:
    text = EXAMPLE.replace("fenchel.example.org:9092", address).replace(
        "[server]", '[server]\nalternative_names = ["extra.org"]'
    )
    assert Federation.parse(text).server_hosts() == hosts
