"""What is accepted as a configuration, and the line about what is not."""

import pytest

from hpc.autoscale.config import check_config, config_schema
from hpc.autoscale.config.check import find_problems
from hpc.autoscale.errors import ConfigurationException

RESOURCE = {"select": {}, "name": "ncpus", "value": "node.vcpu_count"}


@pytest.mark.parametrize(
    "config, expected",
    [
        ({"idle_timout": 3}, "idle_timout: unknown key; did you mean 'idle_timeout'?"),
        (
            {"defualt_resources": []},
            "defualt_resources: unknown key; did you mean 'default_resources'?",
        ),
        ({"nodearray": {}}, "nodearray: unknown key; did you mean 'nodearrays'?"),
        ({"clusterName": "x"}, "clusterName: unknown key; did you mean 'cluster_name'?"),
        ({"lock-file": "x"}, "lock-file: unknown key; did you mean 'lock_file'?"),
        ({"Url": "x"}, "Url: unknown key; did you mean 'url'?"),
        ({"retrx": {}}, "retrx: unknown key; did you mean 'retry'?"),
        (
            {"autoscale": {"intervall": 3}},
            "autoscale.intervall: unknown key; did you mean 'interval'?",
        ),
        ({"cluster_name": 3}, "cluster_name: expected a text, found 3"),
        (
            {"default_resources": [{"select": {}, "name": "a", "value": float("inf")}]},
            "default_resources[0].value: expected a text, a number, true or false, found Infinity, "
            "which is no finite number",
        ),
        ({"lock_file": True}, "lock_file: expected a text, null or false, found true"),
        (
            {"verify_certificates": "false"},
            'verify_certificates: expected true or false, found "false"',
        ),
        (
            {"idle_timeout": -1},
            "idle_timeout: expected a number of seconds of 0 or more, or an object of such "
            "numbers by"
            " nodearray and default, found -1",
        ),
        (
            {"boot_timeout": {"htc": "5 min"}},
            'boot_timeout.htc: expected a number of seconds, 0 or more, found "5 min"',
        ),
        (
            {"packing": {"order": "declare"}},
            'packing.order: expected one of "existing-first", "declared", found "declare"; did '
            "you mean"
            " 'declared'?",
        ),
        (
            {"timeout": {"conect": 1}},
            "timeout.conect: unknown key, expected one of connect, read; did you mean 'connect'?",
        ),
        (
            {"output-columns": {"bucket": ["name"]}},
            "output-columns.bucket: unknown key; did you mean 'buckets'?",
        ),
        (
            {"vm_sizes": {"prices": {"westus2": {"Standard_F4": "0.2"}}}},
            "vm_sizes.prices.westus2.Standard_F4: expected dollars per hour above 0, or an object "
            "with"
            ' ondemand and spot, found "0.2"',
        ),
        (
            {"vm_sizes": {"prices": {"westus2": {"Standard_F4": {"onDemand": 1}}}}},
            "vm_sizes.prices.westus2.Standard_F4.onDemand: unknown key, expected one of ondemand, "
            "spot;"
            " did you mean 'ondemand'?",
        ),
        (
            {"vm_sizes": {"prices": {"westus2": {"Standard_F4": {"spot": -1}}}}},
            "vm_sizes.prices.westus2.Standard_F4.spot: expected dollars per hour above 0 (leave "
            "out what"
            " is unknown), found -1",
        ),
        (
            {"vm_sizes": {"prices": {"Standard_F4": 0.2}}},
            "vm_sizes.prices.Standard_F4: expected prices by VM size, an object, found 0.2",
        ),
        (
            {"vm_sizes": {"prices": 3}},
            "vm_sizes.prices: expected the path of a file, prices by location and VM size, or "
            "items of"
            " Azure's Retail Prices API, found 3",
        ),
        ({"retry": {"attempts": 0}}, "retry.attempts: expected a whole number, 1 or more, found 0"),
        (
            {"valid_hostnames": ["("]},
            'valid_hostnames[0]: expected a regular expression, found "("',
        ),
        (
            {"backoff": {"capacity": 0}},
            "backoff.capacity: expected a number of seconds from 1 to 86400, found 0",
        ),
        (
            {"backoff": {"ceiling": 86401}},
            "backoff.ceiling: expected a number of seconds from 1 to 86400, found 86401",
        ),
        (
            {"autoscale": {"interval": 1e300}},
            "autoscale.interval: expected a number of seconds from above 0 to 1e9, found 1e+300",
        ),
        (
            {"autoscale": {"interval": "1000000000"}},
            "autoscale.interval: expected a number of seconds from above 0 to 1e9, found"
            ' "1000000000"',
        ),
        (
            {"autoscale": {"gang_deadline": 10**400}},
            f"autoscale.gang_deadline: expected a number of seconds above 0, found 1{76 * '0'}..."
            ", which is no finite number",
        ),
        (
            {"idle_timeout": 400 * "9"},
            "idle_timeout: expected a number of seconds of 0 or more, or an object of such numbers"
            f' by nodearray and default, found "{76 * "9"}...',
        ),
        ({"nodearrays": []}, "nodearrays: expected an object, found []"),
        (
            {"nodearrays": {"htc": {"max_placement_groups": 1.5}}},
            "nodearrays.htc.max_placement_groups: expected a whole number, 0 or more, found 1.5",
        ),
        (
            {"default_resources": [RESOURCE, RESOURCE | {"name": ""}]},
            'default_resources[1].name: expected the name of the resource, a text, found ""',
        ),
        (
            {"default_resources": [RESOURCE | {"value": None}]},
            "default_resources[0].value: expected a text, a number, true or false, found null",
        ),
        (
            {"default_resources": [{"select": {}, "value": 1}]},
            "default_resources[0]: expected the key 'name', found select, value",
        ),
        (
            {"default_resources": [{}]},
            "default_resources[0]: expected the key 'select', found no keys",
        ),
        (
            {"default_resources": [{"select": {}, "nmae": "x", "value": 1}]},
            "default_resources[0].nmae: unknown key, expected one of select, name, value, add, "
            "subtract,"
            " multiply, divide, divide_floor; did you mean 'name'?",
        ),
        (
            {"default_resources": [RESOURCE | {"add": 1, "subtract": 1}]},
            "default_resources[0]: expected at most one of add, subtract, multiply, divide, "
            "divide_floor,"
            " found add and subtract",
        ),
        (
            {"output-columns": {"nodes": "name"}},
            'output-columns.nodes: expected a list, found "name"',
        ),
        (
            {"output-columns": {"nodes": ["name"]}, "nodearrays": {"0.": None}},
            "nodearrays.0.: expected an object, found null",
        ),
        (
            {"idle_timeout": {"a": 1, "a.b[0]": "soon"}},
            'idle_timeout.a.b[0]: expected a number of seconds, 0 or more, found "soon"',
        ),
        (
            {"password": 12345},
            "password: expected a text, found something else (not shown, being a secret)",
        ),
    ],
)
def test_one_clear_line(config, expected):
    """The line says where, what was expected, what was found and what was probably meant."""
    with pytest.raises(ConfigurationException) as e:
        check_config(config)
    assert str(e.value) == expected


def test_what_is_wrong_is_not_missing_too():
    """Each line is about something of its own, and nothing beside it is lost."""
    resources = [
        {"name": 5, "select": 5, "value": [1]},
        {"name": 6},
        RESOURCE | {"name": 7, "x": 1},
    ]
    assert [line.partition(",")[0] for line in find_problems({"default_resources": resources})] == [
        "default_resources[0].select: expected a constraint as an object",
        "default_resources[0].name: expected the name of the resource",
        "default_resources[0].value: expected a text",
        "default_resources[1]: expected the key 'select'",
        "default_resources[2].name: expected the name of the resource",
        "default_resources[2].x: unknown key",
    ]


def test_secrets_inside_of_what_was_found_are_not_shown():
    """Also when something around them is wrong."""
    with pytest.raises(ConfigurationException) as e:
        check_config({"url": {"password": "hunter2"}})
    assert "hunter2" not in str(e.value) and "***" in str(e.value)


def test_what_was_found_is_shortened():
    """A line stays a line."""
    with pytest.raises(ConfigurationException) as e:
        check_config({"url": ["x\n" * 1000]})
    assert len(str(e.value)) < 200 and "\n" not in str(e.value)


GOOD = {
    "nothing": {},
    "all of it": {
        "cluster_name": "c",
        "url": "https://localhost",
        "username": "u",
        "password": "p",
        "credentials_file": None,
        "verify_certificates": False,
        "ca_file": "/etc/ca.pem",
        "timeout": {"connect": 5, "read": "60"},
        "retry": {"attempts": 3, "max_retry_after": 10},
        "read_only": True,
        "lock_file": None,
        "nodehistorydb": "h.db",
        "idle_timeout": {"default": 300, "htc": "60", "hpc": None},
        "boot_timeout": "1800",
        "default_resources": [RESOURCE | {"subtract": "memory::1g", "_why": "the system's"}],
        "disable_default_resources": True,
        "nodearrays": {
            "default": {"placement_groups": ["a"]},
            "htc": {"generated_placement_group_buffer": 0, "max_placement_groups": 1},
        },
        "packing": {"order": "declared", "objective": "cost"},
        "vm_sizes": {"override": "f.json", "prices": {}, "gpu_count": "reported"},
        "autoscale": {"interval": 60, "max_new_nodes_per_pass": 5, "max_deletes_per_pass": None},
        "assume_standalone_hostnames": True,
        "valid_hostnames": ["^ip-"],
        "logging": {"config_file": "logging.conf"},
        "include": ["more.json"],
        "output-columns": {"default": ["name"], "nodes": ["name", "state"]},
        "cost": {"cache_root": "/tmp"},
    },
    "no lock, as upstream takes it": {"lock_file": False},
    "other integrations": {
        "pbspro": {"ignore_queues": []},
        "pbs": {"driver": "x"},
        "output_columns": ["name"],
        "valid_hostnames": ".+",
        "gridengine": {"relevant_complexes": ["slots"]},
        "output_format": "table",
        "azslurmd": {"sleep_time": 15},
        "config_dir": "/sched",
        "accounting": {"subscription_id": "1"},
        "return-to-idle": {"terminate-zombie-nodes": False},
        "autoscale": {"start_enabled": True},
        "symphony": {},
        "lock_path": "x",
        "timeout": 60,
    },
    "internals": {"_mock_bindings": object(), "_mimic_on_prem": ["a"], "_node-overrides": {}},
}


@pytest.mark.parametrize("name", GOOD)
def test_accepted(name):
    """Everything that is documented, and what others put beside it."""
    check_config(GOOD[name])


@pytest.mark.parametrize("key", ["cost", "host", "uri", "logs", "pack", "output_format"])
def test_short_and_foreign_keys_are_no_typos(key):
    """What merely resembles one of our short keys is somebody else's section."""
    check_config({key: {}})


def test_defaults_are_not_written_into_the_configuration():
    """Checking does not change what it checks."""
    config = {"retry": {}}
    check_config(config)
    assert config == {"retry": {}}


def test_every_key_says_what_it_is_for():
    """Each property of ours has a description, or is one of a documented group."""
    undescribed = [k for k, v in config_schema()["properties"].items() if not v.get("description")]
    assert undescribed == []


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"autoscale": {"min_lifetime": float("nan")}}, "autoscale.min_lifetime: expected "),
        (
            {"autoscale": {"max_delete_share": float("nan")}},
            "autoscale.max_delete_share: expected ",
        ),
        ({"boot_timeout": 0}, "boot_timeout: expected at least as many seconds as"),
        ({"boot_timeout": "0"}, "found 0: every node"),
        ({"boot_timeout": 0.5}, "found 0: every node"),
        (
            {"autoscale": {"min_idle_passes": 21}},
            "autoscale.min_idle_passes: expected a whole number from 0 to 20, found 21",
        ),
        (
            {"boot_timeout": {"hpc": 30, "default": 1800}, "autoscale": {"interval": 60}},
            "found 30 with autoscale.interval 60",
        ),
        (
            {"idle_timeout": 0, "autoscale": {"min_idle_passes": 1}},
            "idle_timeout: expected more than 0 seconds",
        ),
    ],
)
def test_timeouts_that_contradict_each_other(config, said):
    """Nodes would be created and deleted for ever; the line says by what."""
    with pytest.raises(ConfigurationException) as refused:
        check_config(config)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "config",
    [
        {"idle_timeout": 0},
        {"boot_timeout": {"hpc": 0, "default": None}},
        {"boot_timeout": 60, "autoscale": {"interval": "60"}},
        {"idle_timeout": 0, "autoscale": {"min_idle_passes": 1, "min_lifetime": 1}},
        {"idle_timeout": {"hpc": 0}, "autoscale": {"min_idle_passes": 0}},
    ],
)
def test_timeouts_that_go_together(config):
    """Short ones are a matter of taste; 0 by nodearray means the default."""
    check_config(config)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            {"metrics": {"file": "/a/m", "health_file": "/a/./m"}},
            "metrics.health_file: expected a file of its own, found that of metrics.file: /a/./m",
        ),
        (
            {"lock_file": "/a/x", "nodehistorydb": "/a/x"},
            "nodehistorydb: expected a file of its own, found that of lock_file: /a/x",
        ),
    ],
)
def test_two_keys_that_name_one_file(config, said):
    """What one writes, the other would overwrite or take for damaged, in each pass."""
    assert list(find_problems(config)) == [said]


def test_files_that_are_none_may_be_named_twice():
    check_config({"nodehistorydb": ":memory:", "requests_file": ":memory:", "lock_file": None})
    check_config({"metrics": {"file": "/dev/null", "health_file": "/dev/null"}})


def test_a_line_break_behind_a_pattern_is_no_end():
    """As in JSON Schema, and not as in Python."""
    with pytest.raises(ConfigurationException, match="idle_timeout: expected a number of seconds"):
        check_config({"idle_timeout": "60\n"})


@pytest.mark.parametrize("text", ["", "false", "ture"])
def test_a_text_where_only_a_boolean_is_a_choice(text):
    """Is a violation like others; there is no text to guess."""
    with pytest.raises(ConfigurationException, match=r"journal: expected .*, found"):
        check_config({"journal": text})
