"""`fenchel bench tables`: a small sample."""

from fenchel_deploy.bench import tables


def test_a_reading_is_measured_beside_arrow_s() -> None:
    told: list[str] = []
    report = tables.run(rows=2000, columns=6, repeats=1, tell=told.append)
    assert (report["rows"], report["columns"]) == (2000, 6)
    assert report["arrow"]["seconds"] > 0.0
    assert report["fenchel"]["seconds"] > 0.0
    assert set(report["ratio"]) == {"seconds", "bytes"}
    assert told[-1] == "reading by fenchel, 1 of 1"
