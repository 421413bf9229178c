"""Beside a server that stays (`fenchel server --stay`): queues a run, follows its rounds, and prints its certificate.

python submit_and_follow.py STATE RUN.toml
"""

import sys

from fenchel import Federation

state, file = sys.argv[1:]
run = Federation(state).submit(file)
for one in run.rounds():
    print(f"round {one.number}: gap {one.gap}, accuracy {one.accuracy}")
result = run.result()
print(f"{run.id} {result.status}: {result.reason}")
if result.outcome is not None:
    print(f"certified gap: {result.outcome['certificate']['gap']:.2e}")
