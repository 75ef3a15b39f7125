"""A password that is known is taken out of texts in whatever form somebody repeats it."""

import base64
import copy
import html
import json
import pickle
from collections.abc import Callable
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc.autoscale.redaction import Hiding

PASSWORD = 'p&ss "w/örd+<1>\\ %'


def _in_base64(before: str) -> Callable[[str], str]:
    return lambda password: base64.b64encode(f"{before}{password}:after".encode()).decode()


FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "repr": repr,
    "bytes": lambda password: repr(password.encode()),
    "JSON": json.dumps,
    "JSON as it is": lambda password: json.dumps(password, ensure_ascii=False),
    "JSON in JSON": lambda password: json.dumps({"Message": json.dumps({"said": password})}),
    "JSON with slashes": lambda password: json.dumps(password).replace("/", r"\/"),
    "HTML": html.escape,
    "URL": lambda password: f"https://u:{quote(password, safe='')}@server",
    "URL in lower case": lambda password: quote(password, safe="").lower(),
    "path": quote,
    "query": lambda password: urlencode({"password": password}),
    "form": quote_plus,
    "quoted twice": lambda password: quote(quote(password, safe=""), safe=""),
    "base64": lambda password: base64.b64encode(password.encode()).decode(),
    "base64 for URLs": lambda password: base64.urlsafe_b64encode(password.encode()).decode(),
    "login": _in_base64("user:"),
    "login, one more": _in_base64("users:"),
    "login, two more": _in_base64("a user:"),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_each_form_is_hidden(form: Callable[[str], str]) -> None:
    """And nothing of the password is left."""
    said = Hiding(PASSWORD)(f"You said {form(PASSWORD)}, which is wrong.")
    assert "***" in said and said.startswith("You said ") and said.endswith(", which is wrong.")
    for part in ("p&ss", "rd+", "ss%20", "cCZzc", "w/", "amp;"):
        assert part not in said


@given(st.text(min_size=5), st.sampled_from(sorted(FORMS)))
def test_whatever_the_password_is(password: str, form: str) -> None:
    """It is hidden, but for what cannot be encoded at all."""
    if form == "URL in lower case":
        password = password.lower()
    try:
        written = FORMS[form](password)
    except UnicodeEncodeError:
        return
    assert "***" in Hiding(password)(written)


def test_a_short_secret_is_hidden_where_it_stands_alone() -> None:
    """A text would be no text any more without each `p` in it, and a journal no journal."""
    hide = Hiding("p", "on")
    assert (hide("p"), hide("open port on p")) == ("***", "open port on p")
    assert hide("password 'p' is wrong") == "password '***' is wrong"
    assert hide(json.dumps({"said": 'not "p"'})) == json.dumps({"said": 'not "***"'})
    found = hide.throughout({"p": ["on", "upon"], "state": "on", "n": 1})
    assert found == {"p": ["***", "upon"], "state": "***", "n": 1}


@given(st.text())
def test_without_a_password_texts_stay(text: str) -> None:
    """An empty one is none."""
    assert Hiding("")(text) == Hiding()(text) == text


def test_it_does_not_show_what_it_hides() -> None:
    """Not even to a debugger."""
    assert "hunter2" not in repr(Hiding("hunter2")) + str(Hiding("hunter2"))
    assert b"hunter2" not in pickle.dumps(Hiding("hunter2"))
    assert copy.deepcopy(Hiding("hunter2"))("hunter2") == copy.copy(Hiding("a"))("a") == "***"
