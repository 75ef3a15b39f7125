#!/usr/bin/env bash
# Runs on the scheduler node: installs the queue and runs the loop as a service.
#
#   configuration.hpcq.password   password of the Redis of 10-redis.sh
#   configuration.hpcq.broker     broker URL, where it is another one
#
# User name and password of CycleCloud are not written anywhere: the loop asks jetpack for them.
set -euo pipefail

files="${CYCLECLOUD_SPEC_PATH:?set by CycleCloud}/files"
home=/opt/azurehpc/hpcq

install -d -m 0755 "${home}"
[[ -x "${home}/venv/bin/python" ]] || python3 -m venv "${home}/venv"
wheel="$(echo "${files}"/hpc_autoscale-*.whl)"
"${home}/venv/bin/pip" install --quiet "${wheel}" "celery[redis]>=5.6" "kombu>=5.7"
# what somebody changed on the node stays
[[ -f "${home}/autoscale.json" ]] || install -m 0644 "${files}/autoscale.json" "${home}/autoscale.json"

# root and the group may read it: who is to submit jobs gets into the group (usermod -aG hpcq NAME)
getent group hpcq >/dev/null || groupadd --system hpcq
install -m 0640 -g hpcq /dev/null "${home}/broker.json"
HPCQ_BROKER="$(jetpack config hpcq.broker "")" HPCQ_PASSWORD="$(jetpack config hpcq.password "")" \
    python3 - > "${home}/broker.json" <<'PYTHON'
import json, os, urllib.parse

# a password may have any characters
password = urllib.parse.quote(os.environ["HPCQ_PASSWORD"], safe="")
broker = os.environ["HPCQ_BROKER"] or f"redis://:{password}@127.0.0.1:6379/0"
print(json.dumps({"hpcq": {"broker": broker}}))
PYTHON

install -d -m 0755 /etc/hpcq
cat > /etc/hpcq/autoscaler.env <<EOF
CYCLECLOUD_URL=$(jetpack config cyclecloud.config.web_server)
AUTOSCALE_HOME=${home}
EOF

install -m 0644 "${files}/azhpcq.service" /etc/systemd/system/azhpcq.service
systemctl daemon-reload
systemctl enable azhpcq.service
systemctl restart azhpcq.service
