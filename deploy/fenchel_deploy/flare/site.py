"""What a site decides for itself, in `local/fenchel.toml` of its FLARE workspace; no job can change it."""

import logging
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from fenchel_client.concessions import Concession
from fenchel_client.consent import Consent
from fenchel_common.errors import InvalidInput

FILE: Final = "fenchel.toml"
LOG_FILE: Final = "fenchel.log"
OWN_LOGGERS: Final = ("fenchel_common", "fenchel_server", "fenchel_client", "fenchel_deploy")


class Site(BaseModel):
    """The folders of a site; relative ones are relative to the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kit: Path
    state: Path
    results: Path | None = None
    """Of a server: where the figures of runs and released models go."""
    data: Path | None = None
    """Of a party: its table."""
    accept: tuple[Concession, ...] = ()
    """Of a party: as `--accept` of `fenchel client`."""
    approve_roster: str | None = None
    """Of a party: as `--approve-roster` of `fenchel client`."""

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The site's file; `InvalidInput` if there is none or it cannot be used."""
        path = folder / FILE
        try:
            content = tomllib.loads(path.read_text())
            site = cls.model_validate(content)
        except FileNotFoundError:
            raise InvalidInput(
                f"{path} is missing; it names the kit, the state folder and, of a party, its data"
            ) from None
        except tomllib.TOMLDecodeError as error:
            raise InvalidInput(f"{path}: {error}") from None
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
            raise InvalidInput(f"{path}: {wrong}") from None
        folders = {
            name: folder / place for name in ("kit", "state", "results", "data") if (place := getattr(site, name))
        }
        return site.model_copy(update=folders)

    def consent(self) -> Consent:
        return Consent(approved_roster=self.approve_roster, accepts=frozenset(self.accept))

    @contextmanager
    def own_log(self) -> Iterator[None]:
        """Fenchel's log goes to a file in the state folder, and not to FLARE's log, which FLARE can send to its server.

        A party's log names its own columns and ids.
        """
        self.state.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(self.state / LOG_FILE)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        loggers = [logging.getLogger(name) for name in OWN_LOGGERS]
        for logger in loggers:
            logger.addHandler(handler)
            logger.propagate = False
            logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            for logger in loggers:
                logger.removeHandler(handler)
            handler.close()
