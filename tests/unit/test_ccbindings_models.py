"""The protocol's models: names, JSON in and out, validation; and node records."""

import copy
import json
import pickle
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc.autoscale.ccbindings import models
from hpc.autoscale.ccbindings.errors import InvalidModel
from hpc.autoscale.ccbindings.models import (
    ClusterStatus,
    ClusterUsageItemDetails,
    Model,
    NodearrayBucketStatus,
    NodeCreationRequest,
    NodeCreationRequestSet,
    NodeCreationRequestSetDefinition,
    NodeList,
    NodeManagementRequest,
    NodeManagementResult,
    NodeManagementResultNode,
    Record,
)
from hpc.autoscale.hpctypes import Memory

ALL = [
    value
    for value in vars(models).values()
    if isinstance(value, type) and issubclass(value, Model) and value is not Model
]
REQUEST = {
    "requestId": "r",
    "sets": [
        {
            "count": 2,
            "nodearray": "htc",
            "definition": {"machineType": "Standard_F4"},
            "nameFormat": "htc-%d",
            "nameOffset": 1,
            "nodeAttributes": {"Fixed": True},
            "placementGroupId": "pg0",
        }
    ],
}


@pytest.mark.parametrize("model", ALL)
def test_every_attribute_reads_as_none_until_it_is_set(model: type[Model]) -> None:
    """Also required ones, on the object and when made with unknown keywords."""
    empty = model(no_such_field=1)
    assert all(getattr(empty, name) is None for name in model._fields)
    assert empty.to_dict() == {}
    assert not hasattr(empty, "no_such_field")


@pytest.mark.parametrize("model", ALL)
def test_only_fields_have_count_in_their_name(model: type[Model]) -> None:
    """Callers walk `dir()` for names with "count" in them and set each."""
    named = [name for name in dir(model()) if "count" in name]
    assert set(named) <= set(model._fields)


def test_a_request_in_json() -> None:
    """camelCase keys, nested models, nothing that was not set."""
    wanted = NodeCreationRequestSet(
        count=2,
        nodearray="htc",
        definition=NodeCreationRequestSetDefinition(machine_type="Standard_F4"),
        name_format="htc-%d",
        name_offset=1,
        node_attributes={"Fixed": True},
        placement_group_id="pg0",
    )
    assert NodeCreationRequest(request_id="r", sets=[wanted]).to_dict() == REQUEST


def test_names_that_are_not_camel_case() -> None:
    """The address selector and the usage details keep snake case on the wire."""
    assert NodeManagementRequest(ip_addresses=["a"]).to_dict() == {"ip_addresses": ["a"]}
    details = ClusterUsageItemDetails(vm_size="s", core_count=1)
    assert details.to_dict() == {"vm_size": "s", "core_count": 1}


def test_keys_are_read_in_any_case_and_unknown_ones_ignored() -> None:
    """As servers of other versions send them."""
    result = NodeManagementResult.from_dict(
        {"OPERATIONID": "o", "nodes": [{"ID": "i", "Name": "n", "colour": "red"}], 7: 8}
    )
    assert result.operation_id == "o"
    assert result.nodes == [NodeManagementResultNode(id="i", name="n")]


def test_decoding_and_encoding_are_inverse() -> None:
    """from_dict, to_dict, json_encode, json_decode and deepcopy keep everything."""
    decoded = NodeCreationRequest.from_dict(REQUEST)
    decoded.validate()
    assert decoded.to_dict() == REQUEST
    assert NodeCreationRequest.json_decode(decoded.json_encode()) == decoded
    assert copy.deepcopy(decoded) == decoded
    assert decoded != NodeCreationRequest()


def test_null_means_absent_and_whole_floats_are_integers() -> None:
    """JSON does not tell 3 from 3.0."""
    status = ClusterStatus.from_dict({"maxCount": 3.0, "nodes": None})
    assert type(status.max_count) is int
    assert status.nodes is None


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ({"sets": [{"count": 1, "nodearray": "a"}]}, None),
        ({"sets": []}, "sets: expected at least one set, found none"),
        ({}, "sets: expected a list, found nothing"),
        ({"sets": {}}, "sets: expected a list, found {} (dict)"),
        ({"sets": [3]}, "sets[0]: expected an object, found 3 (int)"),
        ({"sets": [{"count": 1}]}, "sets[0].nodearray: expected a string, found nothing"),
        ({"sets": [{"count": True, "nodearray": "a"}]}, "sets[0].count: expected a whole number"),
        ({"sets": [{"count": 1.5, "nodearray": "a"}]}, "sets[0].count: expected a whole number"),
        ({"sets": [], "requestId": 1}, "requestId: expected a string, found 1 (int)"),
    ],
)
def test_validation_names_the_field(data: dict[str, Any], fault: str | None) -> None:
    """Each fault says where, what was expected and what was found."""
    request = NodeCreationRequest.from_dict(data)
    if fault is None:
        request.validate()
        return
    with pytest.raises(InvalidModel) as raised:
        request.validate()
    assert fault in str(raised.value)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), "1", True])
def test_what_is_no_number(number: Any) -> None:
    """Numbers are finite, and neither texts nor booleans."""
    bucket = NodearrayBucketStatus(last_capacity_failure=number)
    assert any("lastCapacityFailure" in fault for fault in bucket.faults(""))


@pytest.mark.parametrize("data", [None, [], "text", 3])
def test_what_is_no_object(data: Any) -> None:
    """Only an object can be decoded."""
    with pytest.raises(InvalidModel, match="expected an object"):
        NodeList.from_dict(data)
    with pytest.raises(InvalidModel):
        NodeList.json_decode(json.dumps(data))


def test_what_is_no_json() -> None:
    """Neither is a text that is not JSON."""
    with pytest.raises(InvalidModel, match="not JSON"):
        NodeList.json_decode("{")


def test_models_of_another_library_are_taken_over() -> None:
    """Anything with `to_dict` will do; anything else stays what it is."""

    class Foreign:
        def to_dict(self) -> dict[str, Any]:
            return {"nodes": [{"Name": "n"}]}

    assert NodeList.adopt(Foreign()).nodes[0]["name"] == "n"
    stranger = object()
    assert NodeList.adopt(stranger) is stranger


def test_objects_with_the_attributes_of_a_model_are_taken_over() -> None:
    """Also those within; a method is no attribute, so no text is a set of nodes."""
    machine = SimpleNamespace(vcpu_count=4, memory=8.0)
    bucket = SimpleNamespace(bucket_id="b", virtual_machine=machine, valid=None)
    adopted = NodearrayBucketStatus.adopt(bucket)
    assert (adopted.bucket_id, adopted.virtual_machine.vcpu_count) == ("b", 4)
    assert adopted.to_dict() == {
        "bucketId": "b",
        "virtualMachine": {"vcpuCount": 4, "memory": 8.0},
    }
    assert NodeCreationRequestSet.adopt("text") == "text"


def test_sizes_and_frozen_mappings_can_be_sent() -> None:
    """Node attributes may hold what resources hold."""
    attributes = {"Configuration": {"memory": Memory(8, "g"), "tags": {"b", "a"}}}
    wanted = NodeCreationRequestSet(node_attributes=attributes)
    sent = json.loads(wanted.json_encode())["nodeAttributes"]["Configuration"]
    assert sent == {"memory": Memory(8, "g").to_json(), "tags": ["a", "b"]}


def test_what_json_cannot_hold_is_named() -> None:
    """Instead of a TypeError of the JSON library."""
    with pytest.raises(InvalidModel, match="expected a value that JSON can hold"):
        NodeCreationRequestSet(node_attributes={"x": object()}).json_encode()


KEYS = st.sampled_from(["Name", "name", "NAME", "NodeId", "nodeid", "x"])


@given(st.lists(st.tuples(st.sampled_from(["set", "del", "pop", "default"]), KEYS, st.integers())))
def test_a_record_is_a_dict_that_ignores_case(steps: list[tuple[str, str, int]]) -> None:
    """After any writes it answers as a dict of lower-cased keys would."""
    record, plain = Record(), {}
    for step, key, value in steps:
        folded = key.lower()
        if step == "set":
            record[key] = plain[folded] = value
        elif step == "default":
            assert record.setdefault(key, value) == plain.setdefault(folded, value)
        elif step == "pop":
            assert record.pop(key, None) == plain.pop(folded, None)
        elif key in record:
            del record[key], plain[folded]
        assert {k.lower(): v for k, v in record.items()} == plain
        assert record.get(key.swapcase()) == plain.get(folded)
        assert (key.upper() in record) == (folded in plain)


@given(st.lists(st.tuples(KEYS, st.integers())), st.lists(st.tuples(KEYS, st.integers())))
def test_a_record_is_made_and_merged_without_regard_to_case(
    first: list[tuple[str, int]], then: list[tuple[str, int]]
) -> None:
    """As if written one by one: the first case of each key stays, and the last value."""
    record, written = Record(dict(first)), Record()
    record.update(dict(then))
    for key, value in (*dict(first).items(), *dict(then).items()):
        written[key] = value
    assert list(record.items()) == list(written.items())


def test_a_record_of_very_many_keys() -> None:
    """More than is remembered, and as many again that differ in case: looked up and merged all the
    same."""
    many = {f"key{i}": i for i in range(20_000)}
    record = Record({**many, **{key.upper(): -i for key, i in many.items()}})
    assert len(record) == len(many)
    assert (record["Key7"], "KEY19999" in record, record.get("key20000")) == (-7, True, None)
    with pytest.raises(KeyError, match="key20000"):
        record["key20000"]


def test_a_record_survives_copies() -> None:
    """Copying, pickling, merging and JSON treat it as the dict that it is."""
    record = Record({"Name": "n"}, Nested={"a": 1})
    twin = copy.deepcopy(record)
    twin["nested"]["a"] = 2
    assert record["Nested"] == {"a": 1}
    assert pickle.loads(pickle.dumps(record)) == record.copy() == record
    record |= {"NAME": "m"}
    assert json.loads(json.dumps(record)) == {"Name": "m", "Nested": {"a": 1}}
    with pytest.raises(KeyError):
        record["missing"]
