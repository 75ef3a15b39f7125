"""Where `azscale` looks for autoscale.json when the user names none with -c.

The first of these that there is: the file that AUTOSCALE_CONFIG names, `./autoscale.json`, that of
AUTOSCALE_HOME, and the default of the installation. A file that AUTOSCALE_CONFIG names is used or
nothing is: another one may be about another cluster. Integrations have a place of their own, see
`parsing.default_config_path`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from hpc.autoscale.hpclogging import is_trusted

NAME = "autoscale.json"


@dataclass(frozen=True)
class FoundConfig:
    """`path`: of the configuration, or None. `looked`: where it was looked for, in words. `doubt`:
    what the user should know about the choice, or empty."""

    path: str | None
    looked: str
    doubt: str = ""

    def __str__(self) -> str:
        """Why there is none, and what to do."""
        return (
            f"no configuration: looked for {self.looked}; name one with -c, or make one with"
            " `azscale initconfig`"
        )


def find_config(installed: str) -> FoundConfig:
    """Where the configuration is. `installed`: the default of the installation."""
    named = os.getenv("AUTOSCALE_CONFIG")
    if named:
        if os.path.exists(named):
            return FoundConfig(named, "")
        return FoundConfig(None, f"{named}, which AUTOSCALE_CONFIG names and which is not there")
    here = os.path.join(os.curdir, NAME)
    home = os.getenv("AUTOSCALE_HOME")
    others = [*([os.path.join(home, NAME)] if home else []), installed]
    elsewhere = next((path for path in others if os.path.exists(path)), None)
    looked = ", ".join(["$AUTOSCALE_CONFIG (not set)", *dict.fromkeys([here, *others])])
    doubt = ""
    if os.path.exists(here):
        if is_trusted(here):
            if elsewhere and not os.path.samefile(here, elsewhere):
                doubt = f"{here} is used, and not {elsewhere} (-c to say which)"
            return FoundConfig(here, looked, doubt)
        doubt = (
            f"{here} is not used, as it belongs to another user or everybody can write to it"
            f" (-c {here} uses it)"
        )
    return FoundConfig(elsewhere, looked, doubt)
