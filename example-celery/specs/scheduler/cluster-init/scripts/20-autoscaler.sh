#!/usr/bin/env bash
# Runs on the scheduler node: installs the integration and runs its loop as a service.
#
#   configuration.celery.password   password of the broker of 10-broker.sh
#   configuration.celery.broker     broker URL, where it is another one
#   configuration.celery.results    result backend URL   (default: the broker)
#
# User name and password of CycleCloud are not written anywhere: the loop asks jetpack for them.
set -euo pipefail

files="${CYCLECLOUD_SPEC_PATH:?set by CycleCloud}/files"
home=/opt/azurehpc/celery
export AUTOSCALE_HOME="${home}"

install -d -m 0755 "${home}"
[[ -x "${home}/venv/bin/python" ]] || python3 -m venv "${home}/venv"
"${home}/venv/bin/pip" install --quiet "${files}"/hpc_autoscale-*.whl "celery[redis]>=5.6" "kombu>=5.7"
install -m 0644 "${files}"/{driver,workers,messages,tasks,celeryconfig,census}.py "${home}/"
# what somebody changed on the node stays
[[ -f "${home}/autoscale.json" ]] || install -m 0644 "${files}/autoscale.json" "${home}/autoscale.json"

install -d -m 0755 /etc/celery
install -m 0600 /dev/null /etc/celery/autoscaler.env
BROKER="$(jetpack config celery.broker "")" RESULTS="$(jetpack config celery.results "")" \
    PASSWORD="$(jetpack config celery.password "")" python3 - > /etc/celery/autoscaler.env <<'PYTHON'
import os, urllib.parse

# a password may have any characters
password = urllib.parse.quote(os.environ["PASSWORD"], safe="")
broker = os.environ["BROKER"] or f"redis://:{password}@127.0.0.1:6379/0"
# results go to the broker, too; RabbitMQ is called rpc where it takes results
takes_results = not broker.startswith(("amqp", "pyamqp"))
results = os.environ["RESULTS"] or (broker if takes_results else "rpc://")
print(f"CELERY_BROKER_URL={broker}")
print(f"CELERY_RESULT_BACKEND={results}")
PYTHON
cat >> /etc/celery/autoscaler.env <<EOF
CYCLECLOUD_URL=$(jetpack config cyclecloud.config.web_server)
AUTOSCALE_HOME=${home}
EOF

install -m 0644 "${files}/azcelery.service" /etc/systemd/system/azcelery.service
systemctl daemon-reload
systemctl enable azcelery.service
systemctl restart azcelery.service
