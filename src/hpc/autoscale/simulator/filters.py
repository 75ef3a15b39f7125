"""The expressions with which management requests select nodes, such as `State === "Started" &&
KeepAlive =!= true`.

A small part of CycleCloud's expression language: attributes (`Name`, `Azure.MaxScalesetSize`),
double-quoted strings, numbers, true, false, undefined; `===` and `=!=` compare exactly, `==` and
`!=` without regard to case, `<`, `<=`, `>`, `>=` order; `&&`, `||`, `!` and parentheses combine. An
attribute that a node lacks is undefined: the exact comparisons can ask for that, every other
comparison with it is false.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from hpc.autoscale.simulator.errors import Conflict

Predicate = Callable[[Mapping[str, Any]], Any]

_LONGEST = 10_000
_DEEPEST = 50
_TOKEN = re.compile(
    r'\s*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<number>-?\d+(?:\.\d+)?)'
    r"|(?P<name>[A-Za-z_]\w*(?:\.\w+)*)|(?P<op>===|=!=|==|!=|<=|>=|&&|\|\||[<>!()]))"
)
_WORDS = {"true": True, "false": False, "undefined": None, "null": None}


def _exactly(left: Any, right: Any) -> bool:
    return type(left) is type(right) and bool(left == right)


def _numeric(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _loosely(left: Any, right: Any) -> bool:
    if isinstance(left, str) and isinstance(right, str):
        return left.lower() == right.lower()
    return (_numeric(left) and _numeric(right) and left == right) or _exactly(left, right)


def _ordered(left: Any, right: Any) -> int | None:
    """-1, 0 or 1 as the left value is less, equal or greater; None for values without an order."""
    if isinstance(left, str) and isinstance(right, str):
        left, right = left.lower(), right.lower()
    elif not (_numeric(left) and _numeric(right)):
        return None
    return int(left > right) - int(left < right)


_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "===": lambda left, right: (
        left == right if _numeric(left) and _numeric(right) else _exactly(left, right)
    ),
    "=!=": lambda left, right: not _COMPARE["==="](left, right),
    "==": lambda left, right: left is not None and right is not None and _loosely(left, right),
    "!=": lambda left, right: left is not None and right is not None and not _loosely(left, right),
    "<": lambda left, right: _ordered(left, right) == -1,
    ">": lambda left, right: _ordered(left, right) == 1,
    "<=": lambda left, right: _ordered(left, right) in (-1, 0),
    ">=": lambda left, right: _ordered(left, right) in (1, 0),
}


def compile_filter(text: str) -> Callable[[Mapping[str, Any]], bool]:
    """The predicate that an expression means, over node records. Raises Conflict with what is wrong
    and where."""
    if len(text) > _LONGEST:
        raise Conflict(f"filter: expected at most {_LONGEST} characters, found {len(text)}")
    predicate = _Parser(text).parse()
    return lambda record: predicate(record) is True


class _Parser:
    """A recursive-descent parser.

    Each method reads one level of precedence and returns a function that evaluates it.
    """

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._next = 0
        self._depth = 0

    def parse(self) -> Predicate:
        whole = self._either()
        kind, word, at = self._tokens[self._next]
        if kind != "end":
            raise Conflict(f"filter: expected an operator at character {at}, found {word!r}")
        return whole

    def _take(self, *operators: str) -> str | None:
        kind, word, _ = self._tokens[self._next]
        if kind != "op" or word not in operators:
            return None
        self._next += 1
        return word

    def _either(self) -> Predicate:
        terms = [self._both()]
        while self._take("||"):
            terms.append(self._both())
        return terms[0] if len(terms) == 1 else lambda r: any(t(r) is True for t in terms)

    def _both(self) -> Predicate:
        terms = [self._comparison()]
        while self._take("&&"):
            terms.append(self._comparison())
        return terms[0] if len(terms) == 1 else lambda r: all(t(r) is True for t in terms)

    def _comparison(self) -> Predicate:
        left = self._negation()
        operator = self._take(*_COMPARE)
        if operator is None:
            return left
        right, compare = self._negation(), _COMPARE[operator]
        return lambda record: compare(left(record), right(record))

    def _negation(self) -> Predicate:
        negations = 0
        while self._take("!"):
            negations += 1
        inner = self._operand()
        if not negations:
            return inner
        return lambda record: (inner(record) is True) is (negations % 2 == 0)

    def _operand(self) -> Predicate:
        kind, word, at = self._tokens[self._next]
        if self._take("("):
            return self._parenthesis()
        if kind in ("end", "op"):
            found = "the end" if kind == "end" else repr(word)
            raise Conflict(f"filter: expected a value at character {at}, found {found}")
        self._next += 1
        return _value(kind, word)

    def _parenthesis(self) -> Predicate:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Conflict(f"filter: expected parentheses at most {_DEEPEST} deep")
        inner = self._either()
        self._depth -= 1
        if self._take(")") is None:
            _, word, at = self._tokens[self._next]
            raise Conflict(f"filter: expected ')' at character {at}, found {word or 'the end'!r}")
        return inner


def _tokens(text: str) -> list[tuple[str, str, int]]:
    found: list[tuple[str, str, int]] = []
    at = 0
    end = len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise Conflict(f"filter: cannot read {text[at:at + 20].strip()!r} at character {at}")
        found.append((match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
        at = match.end()
    return [*found, ("end", "", len(text))]


def _value(kind: str, word: str) -> Predicate:
    constant: Any
    if kind == "string":
        constant = re.sub(r"\\(.)", r"\1", word[1:-1], flags=re.DOTALL)
    elif kind == "number":
        constant = float(word) if "." in word or len(word) > 15 else int(word)
    elif word.lower() in _WORDS:
        constant = _WORDS[word.lower()]
    else:
        path = word.lower().split(".")
        return lambda record: _attribute(record, path)
    return lambda record: constant


def _attribute(record: Mapping[str, Any], path: list[str]) -> Any:
    value: Any = record
    for part in path:
        if not isinstance(value, Mapping):
            return None
        value = next((item for key, item in value.items() if str(key).lower() == part), None)
    return value
