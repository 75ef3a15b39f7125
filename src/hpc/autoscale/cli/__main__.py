"""`python -m hpc.autoscale.cli` is `azscale`."""

from hpc.autoscale.cli.console import console_main

if __name__ == "__main__":
    console_main()
