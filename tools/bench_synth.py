"""How fast checked texts are made from templates: samples a second of one core, for each kind.

    python tools/bench_synth.py [--rooms 40] [--number 32] [--json]

A sample counts once the filter has let it through. The facts of a room are worked out once and serve all kinds, as in
``grand3d annotate``; ``all`` is the rate over the eight kinds together, their facts included. Processor time, not wall time.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from grand3d.annotate.facts import Facts
from grand3d.annotate.hierarchy import with_regions
from grand3d.annotate.kinds import ALL_KINDS, KINDS
from grand3d.annotate.make import make_texts
from grand3d.files import Rejects
from grand3d.synth import make_room


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rooms", type=int, default=40)
    parser.add_argument("--number", type=int, default=32, help="texts of each kind about a room")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    rooms = [with_regions(make_room(900 + k)) for k in range(options.rooms)]
    make_texts(Facts(rooms[0]), "existence", 1)  # tables that are built once a process
    seconds, counts, rejected = defaultdict(float), defaultdict(int), defaultdict(int)
    for room in rooms:
        start = time.process_time()
        facts = Facts(room)
        seconds["facts"] += time.process_time() - start
        for kind in ALL_KINDS:
            rejects = Rejects(skip_bad=True)
            start = time.process_time()
            counts[kind] += len(make_texts(facts, kind, options.number, 0, rejects))
            seconds[kind] += time.process_time() - start
            rejected[kind] += len(rejects.rows)
    rows = [
        {
            "kind": kind,
            "samples": counts[kind],
            "rejected": rejected[kind],
            "samples_per_s": round(counts[kind] / max(seconds[kind], 1e-9)),
        }
        for kind in ALL_KINDS
    ]
    eight = sum(counts[kind] for kind in KINDS) / max(1e-9, seconds["facts"] + sum(seconds[kind] for kind in KINDS))
    found = {"all": round(eight), "rooms": options.rooms, "number": options.number, "kinds": rows, "machine": platform.machine()}
    if options.json:
        print(json.dumps(found, indent=1))
        return
    for row in rows:
        print(f"{row['kind']:18}{row['samples']:7} samples{row['samples_per_s']:8} a second{row['rejected']:6} rejected")
    print(f"{'the eight kinds':18}{'':15}{found['all']:8} a second")


if __name__ == "__main__":
    main()
