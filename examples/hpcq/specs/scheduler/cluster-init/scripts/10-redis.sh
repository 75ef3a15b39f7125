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
cat > "${settings}" <<EOF
bind 0.0.0.0
requirepass ${password}
appendonly yes
maxmemory-policy noeviction
EOF
chown redis "${settings}"
main=/etc/redis/redis.conf
[[ -f "${main}" ]] || main=/etc/redis.conf
grep -qxF "include ${settings}" "${main}" || echo "include ${settings}" >> "${main}"

service=redis-server
systemctl cat "${service}.service" >/dev/null 2>&1 || service=redis
systemctl enable "${service}"
systemctl restart "${service}"
