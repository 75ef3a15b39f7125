#!/usr/bin/env bash
# Runs on the scheduler node: a Redis broker that the nodes of the cluster can reach. Leave this spec's script out when
# you have a broker already.
#
#   configuration.celery.password   password of the broker   (required)
set -euo pipefail

password="$(jetpack config celery.password "")"
if [[ -z "${password}" ]]; then
    echo "configuration.celery.password is not set on the scheduler node" >&2
    exit 1
fi

if ! command -v redis-server >/dev/null; then
    if command -v apt-get >/dev/null; then
        apt-get -qq update
        DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes redis-server
    else
        dnf --quiet --assumeyes install redis
    fi
fi

# a file of our own beside the package's, included once
settings=/etc/redis/celery.conf
install -d /etc/redis
install -m 0640 /dev/null "${settings}"
PASSWORD="${password}" python3 - > "${settings}" <<'PYTHON'
import os

# a password may have any characters: each is written as its bytes
quoted = "".join(f"\\x{byte:02x}" for byte in os.environ["PASSWORD"].encode())
print("bind 0.0.0.0")
print(f'requirepass "{quoted}"')
print("appendonly yes")
PYTHON
chown redis "${settings}"
main=/etc/redis/redis.conf
[[ -f "${main}" ]] || main=/etc/redis.conf
grep -qxF "include ${settings}" "${main}" || echo "include ${settings}" >> "${main}"

service=redis-server
systemctl cat "${service}.service" >/dev/null 2>&1 || service=redis
systemctl enable "${service}"
systemctl restart "${service}"
