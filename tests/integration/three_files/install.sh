#!/usr/bin/env bash
# Installs the integration below a directory: install.sh PYTHON DIRECTORY. No registry is reached.
set -euo pipefail
cd "$(dirname "$0")"

python=$1
home=$2
mkdir -p "$home"
"$python" -m venv "$home/venv"
"$home/venv/bin/pip" install --no-index --no-deps packages/*
cp acme.py "$home/acme.py"

cat > "$home/azacme" <<LAUNCHER
#!$home/venv/bin/python
import sys

sys.path.insert(0, "$home")
from acme import main

main()
LAUNCHER
chmod 755 "$home/azacme"

# where the library keeps the file with which it logs
scalelib=$("$home/venv/bin/python" -c 'import os, hpc.autoscale as h; print(os.path.dirname(h.__file__))')
cp "$scalelib/logging.conf" "$home/logging.conf"
