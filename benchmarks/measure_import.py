"""Measure how long one module takes to import: `measure_import.py MODULE [TURNS]`, in a process
that has imported little.

Prints the same JSON as `measure`, which starts no import of its own before the clock runs; that is
why it is by itself.
"""

import sys
import time

from calibration import TURNS, loop_seconds


def main() -> None:
    """Import, and print what it took."""
    module = sys.argv[1]
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else TURNS
    before = loop_seconds(turns)
    start = time.process_time()
    __import__(module)
    seconds = time.process_time() - start
    after = loop_seconds(turns)
    loops = f'"loop": {(before + after) / 2}, "loops": [{before}, {after}]'
    counts = f'{{"modules": {len(sys.modules)}}}'
    print(f'{{"cpu": {{"total": {seconds}}}, {loops}, "counts": {counts}}}')


if __name__ == "__main__":
    main()
