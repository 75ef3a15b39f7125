"""Every parser of the library as a function of one value, with the errors that it documents.

The value is what JSON can hold; some take only texts. Hypothesis and atheris both call them.
"""

import io
import json
import sqlite3
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

from hpc.autoscale.autostop.decision import Answer, Code
from hpc.autoscale.autostop.web import Application
from hpc.autoscale.ccbindings import errors, models, replies
from hpc.autoscale.ccbindings.pacing import retry_after
from hpc.autoscale.ccbindings.settings import pacing, timeouts
from hpc.autoscale.config import load_config
from hpc.autoscale.config.check import check_config, find_problems
from hpc.autoscale.config.secrets import resolve_secrets
from hpc.autoscale.errors import AutoscaleError, ConfigurationException, ConstraintError
from hpc.autoscale.hpctypes import Memory, Size
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.constraints import get_constraints
from hpc.autoscale.node.nodehistory import NodeHistoryError, SQLiteNodeHistory
from hpc.autoscale.node.requests import RequestLog, RequestLogError
from hpc.autoscale.requestsets.definitions import read_arrays
from hpc.autoscale.requestsets.store import RequestStore, RequestStoreError

MODELS = [models.ClusterStatus, models.NodeList, models.NodeCreationResult,
          models.NodeManagementResult, models.ClusterUsage]  # fmt: skip


@contextmanager
def _a_file(value: Any, name: str = "file") -> Iterator[Path]:
    """A file with this text, or with this value as JSON."""
    with tempfile.TemporaryDirectory() as home:
        path = Path(home, name)
        text = value if isinstance(value, str) else json.dumps(value)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        path.chmod(0o600)
        yield path


def constraints(value: Any) -> None:
    """ConstraintError, whatever the constraints of a job are."""
    with suppress(ConstraintError):
        for constraint in get_constraints([value]):
            str(constraint)
            constraint.to_dict()
    if isinstance(value, dict):
        with suppress(ConstraintError):
            str(Job("1", value))


def sizes(value: Any) -> None:
    """ValueError, or TypeError for what is neither a text nor a number."""
    for kind in (Size, Memory):
        try:
            size = kind.value_of(value)
        except ValueError:
            continue
        except TypeError:
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                raise
            continue
        str(size)


def configuration(value: Any) -> None:
    """ConfigurationException, from loading, checking and connecting."""
    with _a_file(value, "autoscale.json") as path, suppress(ConfigurationException):
        load_config(str(path))
    if not isinstance(value, dict):
        return
    for check in (check_config, timeouts, pacing, resolve_secrets):
        with suppress(ConfigurationException):
            check(value)
    for problem in find_problems(value):
        if not isinstance(problem, str) or len(problem) > 5000:
            raise ValueError(f"expected a short sentence, found {problem!r}")


def rest_replies(value: Any) -> None:
    """CycleCloudError, whatever the body, the status and the headers are."""
    text = value if isinstance(value, str) else json.dumps(value)
    body = text.encode("utf-8", "surrogatepass")
    headers = {"Retry-After": text[:40], "Date": text[:40], "Location": text[:40]}
    for status in (200, 302, 401, 404, 409, 429, 500):
        reply = replies.Reply("https://cc/x", status, headers, body, lambda said: said)
        str(replies.error_for(reply))
        retry_after(headers, lambda: 0.0)
    good = replies.Reply("https://cc/x", 200, headers, body, lambda said: said)
    for model in MODELS:
        with suppress(errors.CycleCloudError):
            replies.decode_model(good, model).json_encode()


def request_ids(value: Any) -> None:
    """RequestLogError."""
    with _a_file(value, "requests.json") as path, suppress(RequestLogError):
        log = RequestLog(path)
        log.settle(log.begin())


def request_sets(value: Any) -> None:
    """ConfigurationException for definitions, RequestStoreError for a file."""
    with suppress(AutoscaleError):
        read_arrays(value)
    with _a_file(value, "sets.db") as path, suppress(RequestStoreError):
        RequestStore(str(path)).sets()


def history_rows(value: Any) -> None:
    """NodeHistoryError, for files that are none and for rows with anything in them."""
    with _a_file(value, "history.db") as path, suppress(NodeHistoryError):
        SQLiteNodeHistory(str(path), read_only=True).read()
    with tempfile.TemporaryDirectory() as home:
        file = f"{home}/history.db"
        with SQLiteNodeHistory(file) as history:
            history.read()
        cell = value if value is None or isinstance(value, str | float | bool) else repr(value)
        if isinstance(value, int) and abs(value) < 2**63:
            cell = value
        cells = cell.encode("utf-8", "surrogatepass") if isinstance(cell, str) else cell
        with closing(sqlite3.connect(file)) as conn, suppress(sqlite3.Error):
            names = list(conn.execute("SELECT name FROM pragma_table_info('nodes')"))
            marks = ", ".join("?" * len(names))
            conn.execute(f"INSERT INTO nodes VALUES ({marks})", [cells] * len(names))
            conn.commit()
        with suppress(NodeHistoryError), SQLiteNodeHistory(file) as history:
            history.read()
            history.find_unmatched(1)
            history.find_booting(1)
            history.find_ignored()
            history.retire_records(1)


class _Yes:
    """Lets every node stop."""

    cluster_name = "c"
    cluster_names: Collection[str] = ("c",)

    def ask(self, instance: str, reason: str = "") -> Answer:
        return Answer(Code.UNKNOWN_CLUSTER, "no")


def autostop_requests(value: Any) -> None:
    """A status that is not 500 and a JSON body, for any request."""
    parts = value if isinstance(value, list) else [value]
    texts = [part if isinstance(part, str) else json.dumps(part) for part in parts]
    path, query, login, method, *_ = [*texts, *texts, *texts, *texts, "", "", "", ""]
    told: list[str] = []
    good = "Basic dTpw"
    for authorization in (good, login, f"Basic {login}"):
        for where in (path, "/cloud/actions/autoscale/c/stop"):
            environ: dict[str, Any] = {"HTTP_AUTHORIZATION": authorization, "PATH_INFO": where}
            environ |= {"QUERY_STRING": query, "REQUEST_METHOD": method or "GET"}
            setup_testing_defaults(environ)
            environ["wsgi.input"] = io.BytesIO(login.encode("utf-8", "surrogatepass"))

            def start(status: str, headers: Any, exc_info: Any = None) -> Any:
                told.append(status)

            body = b"".join(Application(_Yes(), "u", "p")(environ, start))
            if body:
                json.loads(body)
    if any(status.startswith("500") for status in told):
        raise ValueError(f"expected an answer, found {told}")


PARSERS: dict[str, Callable[[Any], None]] = {
    parse.__name__: parse
    for parse in (
        constraints,
        sizes,
        configuration,
        rest_replies,
        request_ids,
        request_sets,
        history_rows,
        autostop_requests,
    )
}
