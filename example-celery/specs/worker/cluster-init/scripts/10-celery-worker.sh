#!/usr/bin/env bash
# Runs on every node of a nodearray that is to run tasks: installs Celery and starts one worker as a service.
#
# What differs between nodearrays comes from the cluster template:
#   configuration.celery.queues   queues of the worker, comma separated     (default: default)
#   configuration.celery.slots    tasks that it runs at once                (default: one per core)
#   configuration.celery.broker   broker URL                                (required)
#   configuration.celery.results  result backend URL                        (default: the broker)
# Slots must be what autoscale.json says for the nodearray.
set -euo pipefail

files="${CYCLECLOUD_SPEC_PATH:?set by CycleCloud}/files"
home=/opt/celery

setting() { jetpack config "$1" "${2:-}"; }

broker="$(setting celery.broker)"
if [[ -z "${broker}" ]]; then
    echo "configuration.celery.broker is not set on this nodearray" >&2
    exit 1
fi

id celery >/dev/null 2>&1 || useradd --system --home-dir "${home}" --shell /usr/sbin/nologin celery
install -d -o celery -g celery "${home}"
[[ -x "${home}/venv/bin/python" ]] || python3 -m venv "${home}/venv"
"${home}/venv/bin/pip" install --quiet "celery[redis]>=5.6" "kombu>=5.7"
install -m 0644 "${files}"/{tasks,celeryconfig,census}.py "${home}/"

install -d -m 0755 /etc/celery
install -m 0640 -g celery /dev/null /etc/celery/worker.env
BROKER="${broker}" RESULTS="$(setting celery.results)" python3 - > /etc/celery/worker.env <<'PYTHON'
import os

broker = os.environ["BROKER"]
# results go to the broker, too; RabbitMQ is called rpc where it takes results
takes_results = not broker.startswith(("amqp", "pyamqp"))
results = os.environ["RESULTS"] or (broker if takes_results else "rpc://")
print(f"CELERY_BROKER_URL={broker}")
print(f"CELERY_RESULT_BACKEND={results}")
PYTHON
cat >> /etc/celery/worker.env <<EOF
CYCLECLOUD_NODE_ID=$(setting cyclecloud.node.id)
CELERY_HOSTNAME=$(hostname -s)
CELERY_QUEUES=$(setting celery.queues default)
CELERY_SLOTS=$(setting celery.slots "$(nproc)")
EOF

install -m 0644 "${files}/celery-worker.service" /etc/systemd/system/celery-worker.service
systemctl daemon-reload
systemctl enable celery-worker.service
# restart, not start: this script runs again when the node is converged again, with settings that may have changed
systemctl restart celery-worker.service
