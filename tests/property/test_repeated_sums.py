"""Whatever a server repeats with whom: few sums of the same values over different parties, across restarts."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import example, given, settings
from hypothesis import strategies as st

from fenchel_client.runrecords import MAX_CHANGES_OF_COMPANY, MAX_COMPANIES_OF_A_STATE, OTHER_COMPANY
from fenchel_common.algorithms.averaging.rails import LOCAL
from support.ceremony import config
from support.repeats import Repeats

TERMS = config(algorithm="fedavg", settings={"lambda": 0.1, "measure_every": 0}, cipher="masks", seed=3)
PARTIES = range(4)

Tries = list[tuple[set[int], bool, bool]]
"""For each try the parties that take part, whether the server commits it, and whether all parties restart after it."""


@example([({0, 1, 2, 3} - {out}, False, restart) for restart in (False, True) for out in PARTIES])
@example([({0, 1, 2, 3} - {number % 4} if number % 2 else set(PARTIES), number % 2 == 1, True) for number in range(12)])
@given(st.lists(st.tuples(st.sets(st.sampled_from(PARTIES), min_size=1), st.booleans(), st.booleans()), max_size=14))
@settings(max_examples=8, deadline=None, derandomize=True)
def test_a_party_gives_the_same_values_in_few_companies(tries: Tries) -> None:
    with TemporaryDirectory() as directory:
        run = Repeats(Path(directory), TERMS, phase=LOCAL)
        names = sorted(run.everybody)
        for numbers, commit, restart in tries:
            asked_before = {client: len(run.companies[client, run.committed]) for client in names}
            state = run.committed
            run.attempted({names[number] for number in numbers}, commit=commit)
            assert set(run.refusals.values()) <= {OTHER_COMPANY}
            first_time = {client for client in run.refusals if not asked_before[client]}
            assert not first_time, "from a new state every company is as good as any other"
            assert all(len(run.companies[client, state]) <= MAX_COMPANIES_OF_A_STATE for client in names)
            if restart:
                run.restart(names)
        for client in names:
            seen = [companies for (party, _), companies in run.companies.items() if party == client]
            assert sum(len(companies) > 1 for companies in seen) <= MAX_CHANGES_OF_COMPANY
