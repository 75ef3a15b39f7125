#!/usr/bin/env bash
# Runs on every node of a nodearray that is to run jobs: installs the queue and starts one worker as a service.
#
#   configuration.hpcq.broker       broker URL                                    (required)
#   configuration.hpcq.definition   whose jobs it runs    (default: what the node was started for, or default)
#   configuration.hpcq.slots        jobs that it runs at once                     (default: one per core)
#   configuration.hpcq.region       name of the region, for metrics
set -euo pipefail

files="${CYCLECLOUD_SPEC_PATH:?set by CycleCloud}/files"
home=/opt/azurehpc/hpcq

setting() { jetpack config "$1" "${2:-}"; }

broker="$(setting hpcq.broker)"
if [[ -z "${broker}" ]]; then
    echo "configuration.hpcq.broker is not set on this nodearray" >&2
    exit 1
fi

id hpcq >/dev/null 2>&1 || useradd --system --home-dir "${home}" --shell /usr/sbin/nologin hpcq
install -d -o hpcq -g hpcq "${home}"
[[ -x "${home}/venv/bin/python" ]] || python3 -m venv "${home}/venv"
wheel="$(echo "${files}"/hpc_autoscale-*.whl)"
"${home}/venv/bin/pip" install --quiet "${wheel}" "celery[redis]>=5.6" "kombu>=5.7"
install -m 0644 "${files}/autoscale.json" "${home}/autoscale.json"
install -m 0640 -g hpcq /dev/null "${home}/broker.json"
HPCQ_BROKER="${broker}" python3 -c \
    'import json, os; print(json.dumps({"hpcq": {"broker": os.environ["HPCQ_BROKER"]}}))' > "${home}/broker.json"

install -d -m 0755 /etc/hpcq
cat > /etc/hpcq/worker.env <<EOF
CYCLECLOUD_NODE_ID=$(setting cyclecloud.node.id)
HPCQ_REGION=$(setting hpcq.region)
HPCQ_DEFINITION_OF_NODE=$(setting hpcq.definition "$(setting worker_definition default)")
HPCQ_SLOTS=$(setting hpcq.slots "$(nproc)")
EOF

install -m 0644 "${files}/hpcq-worker.service" /etc/systemd/system/hpcq-worker.service
systemctl daemon-reload
systemctl enable hpcq-worker.service
# restart, not start: this script runs again when the node is converged again, with settings that may have changed
systemctl restart hpcq-worker.service
