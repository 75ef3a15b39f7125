#!/usr/bin/env bash
# Installs azscale for everybody on a machine: a virtual environment with this library, and a launcher with completion.
#
#   util/install_azscale.sh [--prefix DIR] [--source WHAT] [--python PYTHON] [--link FILE]
#
# --prefix   where to install              (/opt/azurehpc/azscale)
# --source   what pip is to install        (the directory or sdist that this script is in)
# --python   interpreter, 3.11 or newer    (python3)
# --link     where the launcher is linked  (/usr/local/bin/azscale; empty: nowhere)
set -euo pipefail

prefix=/opt/azurehpc/azscale
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=python3
link=/usr/local/bin/azscale

while [ $# -gt 0 ]; do
    case $1 in
        --prefix | --source | --python | --link)
            [ $# -gt 1 ] || { echo "$0: $1 needs a value" >&2; exit 2; }
            printf -v "${1#--}" '%s' "$2"
            shift 2
            ;;
        -h | --help) sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
        *) echo "$0: unknown option $1 (see --help)" >&2; exit 2 ;;
    esac
done

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    { echo "$0: expected Python 3.11 or newer, found $("$python" --version 2>&1)" >&2; exit 1; }

mkdir -p "$prefix"
"$python" -m venv "$prefix/venv"
"$prefix/venv/bin/python" -m pip install --quiet "$source"

cat > "$prefix/azscale" <<LAUNCHER
#!$prefix/venv/bin/python
# PYTHON_ARGCOMPLETE_OK
import sys

from hpc.autoscale.cli import main

main(sys.argv[1:], default_config="$prefix/autoscale.json")
LAUNCHER
chmod 755 "$prefix/azscale"

"$prefix/azscale" completion bash > "$prefix/azscale.completion"
if [ -n "$link" ]; then
    ln -sf "$prefix/azscale" "$link"
    if [ -d /etc/bash_completion.d ] && [ -w /etc/bash_completion.d ]; then
        cp "$prefix/azscale.completion" /etc/bash_completion.d/azscale
    fi
    for place in zsh:/usr/share/zsh/vendor-completions/_azscale fish:/usr/share/fish/vendor_completions.d/azscale.fish; do
        if [ -w "$(dirname "${place#*:}")" ]; then
            "$prefix/azscale" completion "${place%%:*}" > "${place#*:}"
        fi
    done
fi
echo "azscale is installed: ${link:-$prefix/azscale}; its configuration is $prefix/autoscale.json"
