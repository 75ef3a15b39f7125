#!/usr/bin/env bash
# Runs on the scheduler node: a Redis that the nodes of the cluster can reach. Leave this script out when you have one.
#
#   configuration.hpcq.password   password of the Redis   (required)
set -euo pipefail

password="$(jetpack config hpcq.password "")"
if [[ -z "${password}" ]]; then
    echo "configuration.hpcq.password is not set on the scheduler node" >&2
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

settings=/etc/redis/hpcq.conf
install -d /etc/redis
install -m 0640 /dev/null "${settings}"
HPCQ_PASSWORD="${password}" python3 - > "${settings}" <<'PYTHON'
import os

# a password may have any characters: each is written as its bytes
quoted = "".join(f"\\x{byte:02x}" for byte in os.environ["HPCQ_PASSWORD"].encode())
print("bind 0.0.0.0")
print(f'requirepass "{quoted}"')
print("appendonly yes")
print("maxmemory-policy noeviction")
PYTHON
chown redis "${settings}"
main=/etc/redis/redis.conf
[[ -f "${main}" ]] || main=/etc/redis.conf
grep -qxF "include ${settings}" "${main}" || echo "include ${settings}" >> "${main}"

service=redis-server
systemctl cat "${service}.service" >/dev/null 2>&1 || service=redis
systemctl enable "${service}"
systemctl restart "${service}"
