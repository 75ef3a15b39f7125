"""What a configuration has that its schema does not allow is held against the reference
implementation of JSON Schema."""

import json

from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from hpc.autoscale.config import config_schema
from hpc.autoscale.config.violations import KEYWORDS, find_violations

SCHEMA = config_schema()
REFERENCE = Draft202012Validator(SCHEMA, format_checker=Draft202012Validator.FORMAT_CHECKER)
ANNOTATIONS = {"$schema", "$defs", "title", "description", "default", "expected"}
NAMES = st.sampled_from(["name", "select", "value", "htc", "_note", "connect", "Items", "regions"])
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-2, 70)
    | st.floats(-2, 70)
    | st.sampled_from(["", "x", "60", "a b", "(", "auto", "declared", "own"])
)
ANYTHING = st.recursive(
    PLAIN,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES, below, max_size=3),
    max_leaves=6,
)


def parts_of(schema):
    """All schemas within a schema, itself among them."""
    yield schema
    for key in ("properties", "patternProperties", "$defs"):
        for part in schema.get(key, {}).values():
            yield from parts_of(part)
    for key in ("items", "additionalProperties", "if", "then", "else", "not"):
        if isinstance(schema.get(key), dict):
            yield from parts_of(schema[key])
    for part in schema.get("anyOf", ()):
        yield from parts_of(part)


@st.composite
def near(draw, schema, depth=0):
    """A value that a schema may allow, with something else here and there."""
    if "$ref" in schema:
        return draw(near(SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], depth))
    if depth > 3 or draw(st.integers(0, 5)) == 0:
        return draw(ANYTHING)
    for choice in ("anyOf", "enum"):
        if choice in schema:
            one = draw(st.sampled_from(schema[choice]))
            return draw(near(one, depth + 1)) if choice == "anyOf" else one
    if "if" in schema:
        return draw(near(schema[draw(st.sampled_from(["then", "else"]))], depth + 1))
    if "items" in schema:
        return draw(st.lists(near(schema["items"], depth + 1), max_size=3))
    others = schema.get("additionalProperties", schema.get("type") == "object")
    known = schema.get("properties", {})
    if known or isinstance(others, dict):
        keys = draw(st.lists(st.sampled_from([*known, "other", "_own"]), max_size=4, unique=True))
        some = {*keys, *(k for k in schema.get("required", ()) if draw(st.booleans()))}
        further = others if isinstance(others, dict) else {}
        return {key: draw(near(known.get(key, further), depth + 1)) for key in sorted(some)}
    return draw(ANYTHING)


def test_the_schema_is_json_schema():
    """And can be published as it is."""
    schema = json.loads(json.dumps(SCHEMA))
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    Draft202012Validator.check_schema(schema)


def test_every_keyword_of_the_schema_is_understood():
    """A rule in a word that nobody reads would be none."""
    assert {key for part in parts_of(SCHEMA) for key in part} <= KEYWORDS | ANNOTATIONS


@given(near(SCHEMA))
def test_a_configuration_is_refused_where_the_reference_refuses_it(config):
    """And allowed where that allows it."""
    assert (next(find_violations(SCHEMA, config), None) is None) == REFERENCE.is_valid(config)


@given(near(SCHEMA))
def test_each_violation_leads_to_what_is_wrong(config):
    """There is a value at its place, and nothing else is said of that."""
    found = list(find_violations(SCHEMA, config))
    for place, value, _, _ in found:
        *above, last = place or [None]
        whole = config
        for step in above:
            whole = whole[step]
        assert not place or whole[last] is value
    assert len({each.place for each in found}) == len(found)
