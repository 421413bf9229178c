"""What the administrator of a FLARE deployment does, as a program: submits a job when all sites are there, and waits.

python flare_admin.py STARTUP_KIT USER SITES JOB prints the status of the job in the end, and shuts the deployment down.
"""

import sys
import time
from contextlib import suppress
from typing import Any

from nvflare.fuel.flare_api.flare_api import new_secure_session

UP_S, JOB_S, LOOK_S = 90.0, 120.0, 0.5


def session_with(kit: str, user: str, sites: int) -> Any:
    """A session with the server, once all sites are there."""
    latest_s = time.monotonic() + UP_S
    session = None
    while session is None or len(session.get_system_info().client_info) < sites:
        if time.monotonic() > latest_s:
            sys.exit("FLARE did not come up")
        if session is None:
            with suppress(Exception):
                session = new_secure_session(user, kit, timeout=UP_S)
        time.sleep(LOOK_S)
    return session


def main(kit: str, user: str, sites: str, job: str) -> None:
    session = session_with(kit, user, int(sites))
    submitted = session.submit_job(job)
    session.monitor_job(submitted, timeout=JOB_S, poll_interval=LOOK_S)
    sys.stdout.write(f"\n{session.get_job_status(submitted)}\n")
    with suppress(Exception):
        session.shutdown("all", wait=False)
    session.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
