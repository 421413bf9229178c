"""A run's configuration: defaults, TOML, and one clear error for whatever is wrong."""

from pathlib import Path

import pytest

from fenchel_common.errors import InvalidConfig
from fenchel_common.runconfig import RunConfig

WHOLE = """
name = "breast cancer, 2x2"
algorithm = "hyfdca"
privacy = "paper"
alignment = "hmac"
overlap = "first"
seed = 7

[settings]
loss = "logistic"
local = "paper"
lambda = 0.01

[key]
bits = 2048
kind = "subgroup"

[round]
deadline_s = 30
quorum = 0.75
attempts = 5
wait_s = 60

[stop]
gap = 1e-4
rounds = 200
seconds = 600
"""


def test_values_that_are_added_up_are_not_prepared() -> None:
    assert RunConfig.from_mapping({"name": "parts", "overlap": "sum"}).overlap == "sum"
    with pytest.raises(InvalidConfig, match=r"overlap = 'sum' .* leave out \[features\]"):
        RunConfig.from_mapping({"name": "parts", "overlap": "sum", "features": {}})


def test_a_whole_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(WHOLE)
    config = RunConfig.from_toml(path)
    assert (config.name, config.alignment, config.overlap, config.seed) == ("breast cancer, 2x2", "hmac", "first", 7)
    assert (config.key.bits, config.key.kind) == (2048, "subgroup")
    assert (config.round.deadline_s, config.round.quorum, config.round.attempts) == (30.0, 0.75, 5)
    assert (config.stop.gap, config.stop.rounds, config.stop.seconds) == (1e-4, 200, 600.0)


def test_the_algorithms_settings_take_seed_and_stopping_rules_from_the_run(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(WHOLE)
    settings = RunConfig.from_toml(path).algorithm_settings()
    assert (settings.loss, settings.lambda_, settings.seed) == ("logistic", 0.01, 7)
    assert (settings.stop.gap, settings.stop.rounds, settings.stop.seconds) == (1e-4, 200, 600.0)


def test_defaults_are_the_safe_ones() -> None:
    config = RunConfig.from_mapping({"name": "trial"})
    assert (config.privacy, config.cipher, config.key.bits, config.key.kind) == ("sealed", "paillier", 3072, "standard")
    assert (config.alignment, config.overlap, config.benchmark) == ("blinders", "error", False)


def test_json_round_trips() -> None:
    config = RunConfig.from_mapping({"name": "trial", "settings": {"lambda": 0.1}, "seed": 3})
    assert RunConfig.from_json(config.to_json()) == config


NOISE = {"epsilon": 1.0, "delta": 1e-5, "row_bound": 1.0}
RELEASED: dict[str, object] = {
    "name": "noisy",
    "settings": {"local": "corrective"},
    "round": {"quorum": 1.0},
    "release": NOISE,
}


def test_noise_on_the_released_model_depends_on_nothing_but_the_configuration_and_the_number_of_samples() -> None:
    config = RunConfig.from_mapping(RELEASED)
    noise = RunConfig.from_json(config.to_json()).release_noise(1000)
    assert noise is not None
    assert noise == config.release_noise(1000)
    assert (noise.epsilon, noise.delta, noise.gap) == (1.0, 1e-5, 1e-3)
    assert RunConfig.from_mapping({"name": "exact"}).release_noise(1000) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"privacy": "paper", "acknowledge_row_leak": True}, "release: use privacy = 'sealed'"),
        ({"settings": {"local": "paper"}}, "release: needs algorithm = 'hyfdca' with settings.local = 'corrective'"),
        ({"algorithm": "fedavg", "settings": {}}, "release: needs algorithm = 'hyfdca'"),
        ({"round": {}}, "release: needs round.quorum = 1.0"),
        ({"stop": {"gap": None}}, "release: needs stop.gap"),
        (
            {"settings": {"local": "corrective", "loss": "squared"}},
            "release: the slope of the loss squared has no bound.*use one of hinge, smoothed_hinge, logistic, huber",
        ),
        ({"release": NOISE | {"delta": 0.0}}, "release.delta"),
        ({"release": {"epsilon": 1.0, "delta": 1e-5}}, "release.row_bound is missing"),
        ({"release": {**NOISE, "row_bond": 1.0}}, "did you mean row_bound"),
    ],
    ids=[
        "not sealed",
        "uncertified steps",
        "no certificate",
        "quorum",
        "no gap",
        "slope",
        "no delta",
        "no bound",
        "misspelt",
    ],
)
def test_a_release_whose_noise_nobody_can_vouch_for_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        RunConfig.from_mapping(RELEASED | changes)


def test_the_cipher_says_how_vectors_are_hidden_at_every_level_but_plain() -> None:
    for cipher in ("paillier", "masks"):
        for values in ({}, {"privacy": "plain", "benchmark": True}):
            config = RunConfig.from_mapping({"name": "trial", "cipher": cipher, **values})
            hidden = not values
            assert (config.has_paillier_key, config.has_masks) == (
                hidden and cipher == "paillier",
                hidden and cipher == "masks",
            )
    digests = {RunConfig.from_mapping({"name": "trial", "cipher": cipher}).digest() for cipher in ("paillier", "masks")}
    assert len(digests) == 2, "parties agree on the cipher by the digest of the terms"


def test_a_run_in_clear_must_be_marked_as_a_benchmark() -> None:
    assert RunConfig.from_mapping({"name": "trial", "privacy": "plain", "benchmark": True}).privacy == "plain"
    with pytest.raises(InvalidConfig, match="benchmark = true"):
        RunConfig.from_mapping({"name": "trial", "privacy": "plain"})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, r"name is missing; add it"),
        ({"name": ""}, r"name = '': must have at least 1 character"),
        ({"algorithm": "sgd"}, r"algorithm = 'sgd': not installed here; .* use one of .*hyfdca"),
        ({"cipher": "rot13"}, r"cipher = 'rot13': must be 'paillier' or 'masks'"),
        ({"sede": 1}, r"unknown key sede; did you mean seed\? known here: name, algorithm"),
        (
            {"round": {"dedline_s": 3}},
            r"unknown key round.dedline_s; did you mean deadline_s\? known here: deadline_s,",
        ),
        ({"round": {"deadline_s": 0}}, r"round.deadline_s = 0: must be greater than 0"),
        ({"round": {"quorum": 1.5}}, r"round.quorum = 1.5: must be less than or equal to 1"),
        ({"round": {"attempts": 0, "quorum": 2}}, r"round.quorum = 2: .* \(1 more after this one\)"),
        ({"round": 3}, r"round = 3: must be"),
        ({"key": {"bits": 1024}}, r"key.bits = 1024: must be 2048 or 3072"),
        ({"key": {"kind": "fast"}}, r"key.kind = 'fast': must be 'standard' or 'subgroup'"),
        ({"privacy": "none"}, r"privacy = 'none': must be 'plain', 'paper' or 'sealed'"),
        ({"alignment": "sha"}, r"alignment = 'sha': must be 'blinders', 'ring' or 'hmac'"),
        ({"stop": {"gap": -1.0}}, r"stop.gap = -1.0: must be greater than 0"),
        ({"stop": {"gap": float("nan")}}, r"stop.gap = nan: must be"),
        ({"stop": {"rounds": 0}}, r"stop.rounds = 0: must be greater than or equal to 1"),
        ({"seed": -1}, r"seed = -1: must be greater than or equal to 0"),
        ({"seed": "7"}, r"seed = '7': must be a valid integer"),
        ({"seed": True}, r"seed = True: must be a valid integer"),
        ({"settings": {"lamda": 1.0}}, r"settings.lamda: unknown key"),
        ({"settings": {"lambda": -1.0}}, r"settings.lambda: "),
        ({"settings": {"seed": 1}}, r"settings.seed: the whole run has one; set seed beside settings"),
        ({"settings": {"stop": {}}}, r"settings.stop: the whole run has one; set stop beside settings"),
    ],
)
def test_what_is_wrong_is_named_with_its_cure(values: dict[str, object], message: str) -> None:
    named = values if not values or "name" in values else {"name": "trial", **values}
    with pytest.raises(InvalidConfig, match=message) as caught:
        RunConfig.from_mapping(named, source="run.toml")
    assert str(caught.value).startswith("run.toml: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"name = ", "not valid TOML"), (b"\xff\xfe", "not valid TOML"), (b"#" * (1 << 21), "more than 1048576 bytes")],
)
def test_a_file_that_is_no_configuration_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(content)
    with pytest.raises(InvalidConfig, match=message):
        RunConfig.from_toml(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="No such file"):
        RunConfig.from_toml(tmp_path / "run.toml")


def test_a_configuration_cannot_be_changed() -> None:
    config = RunConfig.from_mapping({"name": "trial"})
    with pytest.raises(ValueError, match="frozen"):
        config.seed = 3
