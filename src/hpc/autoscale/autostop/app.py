"""The service as a WSGI application for a server of one's own, such as gunicorn.

    gunicorn "hpc.autoscale.autostop.app:make_app('/opt/autoscale/autoscale.json')"

`azscale serve_autostop` runs the same application.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from hpc.autoscale.autostop.web import Application
from hpc.autoscale.cli.autostop import new_application
from hpc.autoscale.cli.drivers import driver_for, keep_files_beside
from hpc.autoscale.config import check_config
from hpc.autoscale.util import load_config


def make_app(config: str | Mapping[str, Any]) -> Application:
    """The application for an autoscale.json, given by its path or by its content.

    Files are kept where `azscale` with the same configuration keeps them. ConfigurationException
    when the configuration cannot be used, LedgerError when the file of stops cannot be.
    """
    loaded = load_config(config if isinstance(config, str) else dict(config))
    check_config(loaded)
    directory = os.path.dirname(os.path.abspath(config)) if isinstance(config, str) else ""
    home = keep_files_beside(loaded, driver_for(loaded, directory).autoscale_home, directory)
    return new_application(loaded, home, directory)
