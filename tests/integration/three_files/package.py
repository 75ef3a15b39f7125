"""Packs the integration: `python package.py DIRECTORY` makes acme-pkg.tar.gz there, of the module,
the script that installs it, and the source distribution of the library that `--scalelib` names. No
registry is asked for anything.
"""

import argparse
import glob
import os
import tarfile

SCALELIB = "cyclecloud-scalelib-*.tar.gz"


def main():
    """Make the archive, and print its path."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory")
    parser.add_argument("--scalelib", required=True, help=f"the directory in which {SCALELIB} is")
    args = parser.parse_args()
    (scalelib,) = glob.glob(os.path.join(args.scalelib, SCALELIB))
    here = os.path.dirname(os.path.abspath(__file__))
    target = os.path.join(args.directory, "acme-pkg.tar.gz")
    with tarfile.open(target, "w:gz") as archive:
        archive.add(scalelib, f"acme/packages/{os.path.basename(scalelib)}")
        for name in ("acme.py", "install.sh"):
            archive.add(os.path.join(here, name), f"acme/{name}")
    print(target)


if __name__ == "__main__":
    main()
